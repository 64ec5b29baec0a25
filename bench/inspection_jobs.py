"""Promises about a whole partition: verify, idempotent appends, readers in other processes.

Verify reads the log of the recovery benchmarks, half a gibibyte that Kafka wrote in segments of 64 MiB, and has to find nothing. Its peer
is our own recovery scan of the same files in the same run; headers alone are compared with Kafka's walk over the input file.

Reproduce: `.venv/bin/python -m bench --only 3-`
"""

import struct
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from crc32c import crc32c

from bench import log_data
from bench.data import Inputs
from bench.jobs import Job, require_equal
from bench.jvm import around
from bench.log_append_jobs import PASS_BATCHES, Ours, append_each
from bench.log_open_jobs import MANY_SEGMENTS, RECOVERED, many_segments
from bench.log_timing import Timed, no_collection, rates_in_turn
from bench.timing import Measurement, Pace
from tidelog import __version__
from tidelog.config import LogConfig
from tidelog.disk.file_pool import FilePool
from tidelog.inspection import verify
from tidelog.log.log import Log
from tidelog.log.recovery import scan_segment
from tidelog.log.segment_files import find_segments, list_files

_NO_FLUSH = {"flush.messages": str((1 << 63) - 1)}
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_POSITION, _COUNT_POSITION, _CRC_POSITION, _CRC_START = 43, 57, 17, 21


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("3-verify-everything", ">= 0.6", "bytes/s", _everything, needs_jvm=True),
        Job("3-verify-headers-jvm", ">= 1", "batches/s", _headers, needs_jvm=True),
        Job("3-append-idempotent", ">= 0.9", "batches/s", _idempotent),
        Job("3-open-read-only-1000-segments", "<= 1.5", "ms", _open_read_only, needs_jvm=True),
    ]


def _everything(inputs: Inputs, pace: Pace) -> Measurement:
    with log_data.two_logs("log-64m", inputs, batches=log_data.BATCHES, settings=RECOVERED) as (folder, _):
        size_bytes = sum(path.stat().st_size for path in folder.glob("*.log"))

        def ours() -> Timed:
            with no_collection():
                start = time.perf_counter()
                found = [finding for finding in verify(folder) if finding.severity != "note"]
                seconds = time.perf_counter() - start
            require_equal("findings", found, [])
            return Timed(size_bytes, seconds)

        return rates_in_turn(ours, partial(_scan, folder, size_bytes), pace, f"tidelog {__version__}, recovery scan")


def _scan(folder: Path, size_bytes: int) -> Timed:
    pool = FilePool()
    interval = LogConfig().index_interval_bytes
    with no_collection():
        start = time.perf_counter()
        segments = find_segments(pool, str(folder), list_files(pool.disk, str(folder)), [])
        scanned = [scan_segment(segment, index_interval_bytes=interval) for segment in segments]
        seconds = time.perf_counter() - start
    require_equal("scanned bytes", sum(segment.valid_bytes for segment in scanned), size_bytes)
    return Timed(size_bytes, seconds)


def _headers(inputs: Inputs, pace: Pace) -> Measurement:
    path = log_data.log_path(inputs)
    with log_data.scratch("verify") as folder:
        directory = folder / log_data.PARTITION
        directory.mkdir()
        (directory / "00000000000000000000.log").hardlink_to(path)

        def ours() -> int:
            wrong = [finding for finding in verify(directory, level="headers") if finding.severity == "error"]
            require_equal("errors", wrong, [])
            return log_data.BATCHES

        return around(ours, "walk-file", path, pace, records=log_data.BATCHES, size_bytes=path.stat().st_size)


def _idempotent(inputs: Inputs, pace: Pace) -> Measurement:
    batches = log_data.leader_batches(log_data.log_path(inputs), PASS_BATCHES)
    with log_data.scratch("append") as folder:

        def side(name: str, calls: list[bytes]) -> Ours:
            return Ours(folder / name / log_data.PARTITION, _NO_FLUSH, calls, len(calls), append_each)

        # Both are made anew, in turn: where batches lie in memory makes a difference of five percent and more.
        pairs = [(with_sequence, bytes(bytearray(batch))) for with_sequence, batch in zip(_of_one_producer(batches), batches, strict=True)]
        idempotent, plain = side("idempotent", [pair[0] for pair in pairs]), side("plain", [pair[1] for pair in pairs])
        require_equal("end offset and bytes", idempotent.check(), plain.check())
        idempotent.remove()
        plain.remove()
        return rates_in_turn(idempotent.run, plain.run, pace, f"tidelog {__version__}, without producer ids")


def _of_one_producer(batches: list[bytes]) -> Iterator[bytes]:
    """The same batches with sequence numbers."""
    sequence = 0
    for batch in batches:
        changed = bytearray(batch)
        _PRODUCER.pack_into(changed, _PRODUCER_POSITION, 7, 0, sequence)
        struct.pack_into(">I", changed, _CRC_POSITION, crc32c(memoryview(changed)[_CRC_START:]))
        yield bytes(changed)
        sequence += int.from_bytes(batch[_COUNT_POSITION : _COUNT_POSITION + 4], "big")


def _open_read_only(inputs: Inputs, pace: Pace) -> Measurement:
    with many_segments(inputs, 1000) as (folder, _):

        def ours() -> Timed:
            with no_collection():
                start = time.perf_counter()
                log = Log.open(folder, mode="r", config=MANY_SEGMENTS)
                seconds = time.perf_counter() - start
            with log:
                require_equal("segments", len(log.segments), 1000)
            return Timed(1, seconds)

        def owner() -> Timed:
            with no_collection():
                start = time.perf_counter()
                log = Log.open(folder, config=MANY_SEGMENTS, last_shutdown_clean=True)
                seconds = time.perf_counter() - start
            with log:
                require_equal("segments", len(log.segments), 1000)
            return Timed(1, seconds)

        ours_ms, owner_ms = [], []
        for number in range(pace.samples + 1):
            pair = 1000 * ours().seconds, 1000 * owner().seconds
            if number:  # the first warms up
                ours_ms.append(pair[0])
                owner_ms.append(pair[1])
        return Measurement(ours_ms, owner_ms, f"tidelog {__version__}, the owner")

"""What is measured while a log grows: each job in a process of its own, which prints seconds and peak memory as JSON.

    append            the batches of all topics by `Log.append_run`, 64 a call, no fsync; the clock runs during the calls. Segments of
                      256 MiB, of which old ones are deleted between two calls
    scan-crc          all headers walked and every CRC checked, four mebibytes at a time
    scan-arrow        all records as Arrow columns, every CRC checked
    recovery          each partition opened after an unclean stop, with nothing known to be flushed
    compact-local     `Store.compact` of each topic, one thread, 16 MiB for keys
    compact-spark     `jobs.compact` of the directory, `local[2]`
    verify            `verify_log_directory`, one thread
    verify-spark      `jobs.verify`, `local[2]`

The first directory warms up and is not counted: what is imported late, and Spark's own start, belong to no size. Every other one is a
sample. Whoever changes a directory gets copies.

Reproduce: `.venv/bin/python -m bench.growth_jobs scan-crc DIRECTORY DIRECTORY`
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.compaction_data import NO_FLUSH, SETTINGS
from bench.log_data import PARTITION, SCRATCH
from bench.log_timing import Timed, no_collection
from bench.passes import COLUMNS, READ_BYTES, FileReader
from bench.process_memory import MemoryWatch
from tidelog.inspection import verify_log_directory
from tidelog.log.log import Log
from tidelog.record import BatchHeaders, ColumnDecoder, verify_checksums, walk_headers
from tidelog.store.store import Store

RUN = 64
UNWRITTEN_SEGMENTS = 3
APPENDING = NO_FLUSH | {"segment.bytes": str(256 << 20), "file.delete.delay.ms": "0"}
"""From a tenth of the memory on, Linux writes out what nobody has synced, and slows a loop of plain `write` calls down as much."""
DEDUPE_BUFFER = {"log.cleaner.dedupe.buffer.size": str(16 << 20)}
"""Room for all keys, and full use of it from 256 MiB on, so that it is the same for all sizes that are compared."""
CHANGING = ("recovery", "compact-local", "compact-spark")
"""They need a copy for each sample."""
ON_SPARK = ("compact-spark", "verify-spark")
MASTER = "local[2]"


def append(source: Path) -> Timed:
    """Into a log of its own, dropped before anything of it has to reach the disk: old segments while it grows, the rest at the end."""
    folder = SCRATCH / f"growth-append-{os.getpid()}"
    done, dropped, seconds = 0, 0, 0.0
    log = Log.open(folder / PARTITION, config=APPENDING)
    try:
        for run in _runs(source):
            start = time.perf_counter()
            log.append_run(run)
            seconds += time.perf_counter() - start
            done += sum(map(len, run))
            if len(log.segments) > UNWRITTEN_SEGMENTS:
                dropped += log.segments[0].size_bytes
                assert log.delete_segments(1, "it is not to reach the disk") == 1
        assert log.size_bytes + dropped == done
    finally:
        for segment in log.segments:
            os.truncate(segment.file.path, 0)
        log.close()
        shutil.rmtree(folder)
    return Timed(done, seconds)


def scan_crc(source: Path) -> Timed:
    done = 0
    start = time.perf_counter()
    for path in _logs(source):
        for data, headers in _batches(path):
            verify_checksums(data, headers)
            done += headers.end_position
    return Timed(done, time.perf_counter() - start)


def scan_arrow(source: Path) -> Timed:
    done = 0
    decoder = ColumnDecoder(COLUMNS, check_crcs=True)
    start = time.perf_counter()
    for path in _logs(source):
        with FileReader(path, decoder) as reader:
            assert reader.read() > 0
        done += path.stat().st_size
    return Timed(done, time.perf_counter() - start)


def recovery(source: Path) -> Timed:
    done, seconds = 0, 0.0
    for folder in sorted({path.parent for path in _logs(source)}):
        start = time.perf_counter()
        log = Log.open(folder, config=SETTINGS, last_shutdown_clean=False, recovery_point=0)
        seconds += time.perf_counter() - start
        with log:
            assert log.load_report.recovered_bytes == log.size_bytes
            done += log.size_bytes
    return Timed(done, seconds)


def compact_local(source: Path) -> Timed:
    with Store.open(source, background=False, config=DEDUPE_BUFFER) as store:
        start = time.perf_counter()
        results = [store.compact(topic.name) for topic in store.topics()]
        seconds = time.perf_counter() - start
    assert not any(result.failures for result in results)
    return Timed(sum(one.stats[0].bytes_read for result in results for one in result.compacted), seconds)


def compact_spark(source: Path) -> Timed:
    from tidelog.spark import jobs

    session = _session()
    start = time.perf_counter()
    result = jobs.compact(session, source)
    seconds = time.perf_counter() - start
    assert not result.failures
    return Timed(sum(one.stats[0].bytes_read for one in result.compacted), seconds)


def verify(source: Path) -> Timed:
    start = time.perf_counter()
    wrong = [finding for finding in verify_log_directory(source) if finding.severity != "note"]
    seconds = time.perf_counter() - start
    assert not wrong
    return Timed(sum(path.stat().st_size for path in _logs(source)), seconds)


def verify_spark(source: Path) -> Timed:
    from tidelog.spark import jobs

    session = _session()
    start = time.perf_counter()
    sound = jobs.verify(session, source).is_sound
    seconds = time.perf_counter() - start
    assert sound
    return Timed(sum(path.stat().st_size for path in _logs(source)), seconds)


JOBS: dict[str, Callable[[Path], Timed]] = {
    "append": append,
    "scan-crc": scan_crc,
    "scan-arrow": scan_arrow,
    "recovery": recovery,
    "compact-local": compact_local,
    "compact-spark": compact_spark,
    "verify": verify,
    "verify-spark": verify_spark,
}


def measure(job: str, warm_up: Path, samples: list[Path]) -> dict[str, Any]:
    """In this process: bytes, seconds of each sample, and the peaks of memory since the process began."""
    run = JOBS[job]
    with MemoryWatch(looks_again=job in ON_SPARK) as watch:
        run(warm_up)
        with no_collection():
            timed = [run(sample) for sample in samples]
    assert len({one.done for one in timed}) == 1
    return {"bytes": timed[0].done, "seconds": [round(one.seconds, 4) for one in timed], **asdict(watch.peaks)}


def _logs(source: Path) -> list[Path]:
    return sorted(path for path in source.glob("*/*.log") if path.stat().st_size)


def _batches(path: Path) -> Iterator[tuple[memoryview, BatchHeaders]]:
    """All whole batches of what is in a buffer that is used again, with their headers; what was cut off comes with the next."""
    buffer = memoryview(bytearray(READ_BYTES))
    filled = 0
    with path.open("rb", buffering=0) as file:
        while got := file.readinto(buffer[filled:]):
            filled += got
            headers = walk_headers(buffer[:filled])
            yield buffer[: headers.end_position], headers
            left = filled - headers.end_position
            buffer[:left] = buffer[headers.end_position : filled]
            filled = left


def _runs(source: Path) -> Iterator[list[bytes]]:
    """The batches as a client sends them, base offset 0, so many a call."""
    run: list[bytes] = []
    for path in _logs(source):
        for data, headers in _batches(path):
            for position, size in zip(headers.position.tolist(), headers.size_bytes.tolist(), strict=True):
                run.append(bytes(8) + bytes(data[position + 8 : position + size]))
                if len(run) == RUN:
                    yield run
                    run = []
    if run:
        yield run


def _session() -> Any:
    """Spark's, started when it is first asked for: the warm-up does."""
    from tidelog.spark import session

    return session("tidelog growth", MASTER)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]])))

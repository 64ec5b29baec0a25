"""Promises about opening a log: recovery after an unclean stop, a clean log of many segments, and what that takes in memory and files.

The clock runs while the log is opened, not while it is closed. Recovery reads half a gibibyte in segments of 64 MiB from the page cache,
from offset 0 on, and checks every CRC; without indexes they are deleted before each pass. Clean logs have segments of two 16 KiB batches.

Reproduce: `.venv/bin/python -m bench --only 2-open`
"""

import json
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench import log_data
from bench.data import Inputs
from bench.jobs import Job, require_equal
from bench.jvm import ROOT, CannotRunError
from bench.log_footprint import Footprint
from bench.log_jvm import LogJvm
from bench.log_timing import Timed, no_collection, rates, rates_in_turn, times
from bench.timing import Measurement, Pace
from tidelog import __version__
from tidelog.disk.file_pool import DEFAULT_MAX_OPEN
from tidelog.log.log import Log

MEMORY_BOUND_BYTES = 200e6
FILES_BESIDE_THE_POOL = 64
_BATCHES_PER_SEGMENT = 2
RECOVERED = {"segment.bytes": str(64 << 20)}
MANY_SEGMENTS = {"internal.segment.bytes": "33000"}
_FEW_SAMPLES = 3
_INDEXES = (".index", ".timeindex")


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("2-recovery-with-indexes", ">= 1.3", "bytes/s", partial(_recovery, without_indexes=False), needs_jvm=True),
        Job("2-recovery-without-indexes", ">= 2.5", "bytes/s", partial(_recovery, without_indexes=True), needs_jvm=True),
        Job("2-recovery-two-workers", ">= 1.4", "bytes/s", _two_workers, needs_jvm=True),
        Job("2-open-1000-segments", "<= 3", "ms", partial(_open, segments=1000), needs_jvm=True),
        Job("2-open-10000-segments", "<= 3", "ms", partial(_open, segments=10_000), needs_jvm=True),
        Job("2-open-10000-memory", "<= 1", "bytes", _memory, needs_jvm=True),
        Job("2-open-10000-files", "<= 1", "files", _files, needs_jvm=True),
    ]


def _recovery(inputs: Inputs, pace: Pace, *, without_indexes: bool) -> Measurement:
    with log_data.two_logs("log-64m", inputs, batches=log_data.BATCHES, settings=RECOVERED) as (ours, peer):
        options = {"clean": "false", "without_indexes": str(without_indexes).lower()}
        with LogJvm("open", folder=peer, settings=RECOVERED, **options) as jvm:
            opened = jvm.check()
            recover = partial(_recover, ours, without_indexes=without_indexes, end_offset=opened["end_offset"])
            require_equal("bytes", recover().done, opened["size_bytes"])
            return rates(recover, jvm, pace)


def _two_workers(inputs: Inputs, pace: Pace) -> Measurement:
    with log_data.two_logs("log-64m", inputs, batches=log_data.BATCHES, settings=RECOVERED) as (ours, _):
        recover = partial(_recover, ours, without_indexes=False, end_offset=None)
        return rates_in_turn(partial(recover, workers=2), recover, pace, f"tidelog {__version__}, one worker")


def _recover(folder: Path, *, without_indexes: bool, end_offset: int | None, workers: int = 1) -> Timed:
    if without_indexes:
        for path in folder.iterdir():
            if path.suffix in _INDEXES:
                path.unlink()
    with no_collection():
        start = time.perf_counter()
        log = Log.open(folder, config=RECOVERED, last_shutdown_clean=False, recovery_point=0, workers=workers)
        seconds = time.perf_counter() - start
    with log:
        require_equal("recovered bytes", log.load_report.recovered_bytes, log.size_bytes)
        if end_offset is not None:
            require_equal("end offset", log.log_end_offset, end_offset)
        return Timed(log.size_bytes, seconds)


def _open(inputs: Inputs, pace: Pace, *, segments: int) -> Measurement:
    if segments > 1000:
        pace = replace(pace, samples=_FEW_SAMPLES)
    with many_segments(inputs, segments) as (ours, peer), LogJvm("open", folder=peer, clean="true", settings=MANY_SEGMENTS) as jvm:
        opened = jvm.check()

        def open_ours() -> Timed:
            with no_collection():
                start = time.perf_counter()
                log = Log.open(ours, config=MANY_SEGMENTS, last_shutdown_clean=True)
                seconds = time.perf_counter() - start
            with log:
                found = (len(log.segments), log.log_end_offset, log.size_bytes)
                require_equal("segments, end, bytes", found, (opened["segments"], opened["end_offset"], opened["size_bytes"]))
            return Timed(1, seconds)

        return times(open_ours, jvm, pace)


def _memory(inputs: Inputs, pace: Pace) -> Measurement:
    growths = [float(found["memory_growth_bytes"]) for found in _footprints(inputs, pace)]
    return Measurement(growths, [MEMORY_BOUND_BYTES], "200 MB")


def _files(inputs: Inputs, pace: Pace) -> Measurement:
    """Descriptors or maps, whichever are more, after opening or after a fetch from every segment, whenever there are more."""
    found = _footprints(inputs, pace)
    most = [float(max(*footprint["descriptors"], *footprint["maps"])) for footprint in found]
    bound = DEFAULT_MAX_OPEN + FILES_BESIDE_THE_POOL
    opened_descriptors, read_descriptors = found[-1]["descriptors"]
    opened_maps, read_maps = found[-1]["maps"]
    extra: dict[str, float] = {
        "descriptors_open": opened_descriptors,
        "maps_open": opened_maps,
        "descriptors_read": read_descriptors,
        "maps_read": read_maps,
    }
    return Measurement(most, [float(bound)], f"the pool's {DEFAULT_MAX_OPEN} and {FILES_BESIDE_THE_POOL} more", extra)


def _footprints(inputs: Inputs, pace: Pace) -> list[Footprint]:
    with many_segments(inputs, 10_000) as (ours, _):
        return [_footprint(ours) for _ in range(min(_FEW_SAMPLES, pace.samples))]


def many_segments(inputs: Inputs, segments: int) -> AbstractContextManager[tuple[Path, Path]]:
    return log_data.two_logs(f"log-{segments}", inputs, batches=_BATCHES_PER_SEGMENT * segments, settings=MANY_SEGMENTS)


def _footprint(folder: Path) -> Footprint:
    command = [sys.executable, "-m", "bench.log_footprint", str(folder), json.dumps(MANY_SEGMENTS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotRunError(f"the process that measures memory and files failed:\n{done.stderr.strip()}")
    found: Footprint = json.loads(done.stdout)
    return found

"""Promises about log compaction: one round over half a gibibyte, the offset map, two cleaners at a time, memory, and what others notice.

The peer is Kafka's own `Cleaner` with its `SkimpyOffsetMap` in a warm JVM, one thread, the same memory for the map, a broker's I/O buffers.
Both clean fresh copies of the same directory, made while no clock runs; a round reads, writes, syncs and swaps as each side does it. Before
anything is timed both clean it once, and the files have to be equal.

Reproduce: `.venv/bin/python -m bench --only 6-compact-s-100k`, `--only 6-offset-map`
"""

import filecmp
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench import compaction_data, compaction_memory
from bench.compaction_data import SETTINGS
from bench.data import KEY_BYTES, Inputs
from bench.jobs import Job, require_equal
from bench.log_data import PARTITION, scratch
from bench.log_jvm import LogJvm
from bench.log_timing import Timed, no_collection, rates, rates_in_turn
from bench.timing import Measurement, Pace
from tidelog.compaction.cleaning import CleanedLog, clean_log
from tidelog.compaction.offset_map import OffsetMap
from tidelog.compaction.plan import plan_cleaning
from tidelog.log.log import Log
from tidelog.record.kernel.clock import wall_clock

MAP_BYTES = 128 << 20
MAP_KEYS = 4_000_000
COLUMN_KEYS = 65_536
CLEANERS = 2
ROUND_SAMPLES = 5
"""Kafka takes seconds for a round."""
MEMORY_BESIDE_MAP_BYTES = 64_000_000

S_100K = partial(compaction_data.source, "clean-s-100k", keys=100_000, value_bytes=100)
S_4M = partial(compaction_data.source, "clean-s-4m", keys=4_000_000, value_bytes=100)
L_100K = partial(compaction_data.source, "clean-l-100k", keys=100_000, value_bytes=1024)


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("6-compact-s-100k", ">= 5", "bytes/s", partial(_round, source=S_100K), needs_jvm=True),
        Job("6-compact-l-100k", ">= 1.7", "bytes/s", partial(_round, source=L_100K), needs_jvm=True),
        Job("6-compact-s-4m", ">= 4", "bytes/s", partial(_round, source=S_4M), needs_jvm=True),
        Job("6-offset-map-put", ">= 5", "keys/s", partial(_offset_map, job="put"), needs_jvm=True),
        Job("6-offset-map-hit", ">= 5", "keys/s", partial(_offset_map, job="hit"), needs_jvm=True),
        Job("6-offset-map-miss", ">= 3", "keys/s", partial(_offset_map, job="miss"), needs_jvm=True),
        Job("6-two-cleaners", ">= 1.5", "bytes/s", _two_cleaners),
        Job("6-compact-memory", "<= 1", "bytes", _memory),
    ]


# One round


def _round(inputs: Inputs, pace: Pace, *, source: Callable[[], Path]) -> Measurement:
    of = source()
    pace = replace(pace, samples=min(pace.samples, ROUND_SAMPLES))
    with scratch("compact") as folder:
        ours = Cleaning(of, folder / "ours" / PARTITION)
        peer_folder = folder / "kafka" / PARTITION
        with LogJvm("clean", folder=peer_folder, source=of, memory=MAP_BYTES, settings=SETTINGS) as jvm:
            checked, cleaned = jvm.check(), ours.check()
            for name in ("messages_read", "messages_written"):
                require_equal(name, getattr(cleaned.stats, name), checked[name])
            require_equal("next dirty offset", cleaned.next_dirty_offset, checked["next_dirty_offset"])
            _require_equal_files(ours.folder, peer_folder)
            ours.remove()
            return rates(ours.run, jvm, pace)


def _require_equal_files(ours: Path, peer: Path) -> None:
    kinds = (".log", ".index", ".timeindex")
    names = sorted(path.name for path in peer.iterdir() if path.suffix in kinds)
    require_equal("files", sorted(path.name for path in ours.iterdir() if path.suffix in kinds), names)
    equal, _, _ = filecmp.cmpfiles(ours, peer, names, shallow=False)
    require_equal("the same bytes in files", equal, names)


class Cleaning:
    """Our side: rounds over fresh copies of a directory, with one map for all of them."""

    def __init__(self, source: Path, folder: Path, map_bytes: int = MAP_BYTES) -> None:
        self.source = source
        self.folder = folder
        self.map = OffsetMap(map_bytes)

    def run(self) -> Timed:
        """One round."""
        with self.opened() as log, no_collection():
            start = time.perf_counter()
            cleaned = self.clean(log)
            seconds = time.perf_counter() - start
        self.remove()
        return Timed(cleaned.stats.bytes_read, seconds)

    def check(self) -> CleanedLog:
        """A round that leaves its files, closed."""
        with self.opened() as log:
            return self.clean(log)

    def opened(self) -> Log:
        """A fresh copy."""
        compaction_data.fresh_copy(self.source, self.folder)
        return Log.open(self.folder, config=SETTINGS, last_shutdown_clean=True)

    def clean(self, log: Log) -> CleanedLog:
        """The round itself."""
        now_ms = wall_clock()
        return clean_log(log, plan_cleaning(log, log.config, None, now_ms), self.map, now_ms)

    def remove(self) -> None:
        """Remove what a round left."""
        shutil.rmtree(self.folder.parent)


# The offset map


def _offset_map(inputs: Inputs, pace: Pace, *, job: str) -> Measurement:
    keys_path, others_path = compaction_data.two_columns_of_keys(MAP_KEYS)
    keys = memoryview(keys_path.read_bytes())
    asked = memoryview(others_path.read_bytes()) if job == "miss" else keys
    offset_map = OffsetMap(MAP_BYTES)
    starts = np.arange(0, COLUMN_KEYS * KEY_BYTES, KEY_BYTES, dtype=np.int32)
    lengths = np.full(COLUMN_KEYS, KEY_BYTES, np.int32)
    calls = [(first, min(COLUMN_KEYS, MAP_KEYS - first)) for first in range(0, MAP_KEYS, COLUMN_KEYS)]
    offsets = np.arange(MAP_KEYS, dtype=np.int64)

    def put() -> None:
        for first, count in calls:
            data = keys[first * KEY_BYTES : (first + count) * KEY_BYTES]
            offset_map.put(data, starts[:count], lengths[:count], offsets[first : first + count])

    def get() -> int:
        total = 0
        for first, count in calls:
            data = asked[first * KEY_BYTES : (first + count) * KEY_BYTES]
            total += int(offset_map.get(data, starts[:count], lengths[:count]).sum())
        return total

    work: Callable[[], object] = put if job == "put" else get

    def ours() -> Timed:
        if job == "put":
            offset_map.clear()
        with no_collection():
            start = time.perf_counter()
            work()
            return Timed(MAP_KEYS, time.perf_counter() - start)

    put()
    options: dict[str, Any] = {"keys": keys_path, "others": others_path, "key_bytes": KEY_BYTES, "memory": MAP_BYTES}
    pace = replace(pace, samples=min(pace.samples, ROUND_SAMPLES))
    with scratch("offset-map") as folder, LogJvm(job, folder=folder, **options) as jvm:
        checked = jvm.check()
        require_equal("entries", offset_map.entries, checked["entries"])
        if job != "put":
            require_equal("sum of offsets", get(), checked["sum"])
        return rates(ours, jvm, pace)


# Threads and memory


def _two_cleaners(inputs: Inputs, pace: Pace) -> Measurement:
    """Two partitions by two cleaners that share the memory, against one after the other by one of them."""
    of = S_100K()
    pace = replace(pace, samples=min(pace.samples, ROUND_SAMPLES))
    with scratch("compact") as folder:
        sides = [Cleaning(of, folder / str(number) / PARTITION, MAP_BYTES // CLEANERS) for number in range(CLEANERS)]
        return rates_in_turn(partial(_together, sides), partial(_one_by_one, sides), pace, "one cleaner")


def _together(sides: list[Cleaning]) -> Timed:
    logs = [side.opened() for side in sides]
    barrier = threading.Barrier(len(sides) + 1)
    done: list[CleanedLog] = []

    def work(side: Cleaning, log: Log) -> None:
        barrier.wait()
        done.append(side.clean(log))

    workers = [threading.Thread(target=work, args=pair) for pair in zip(sides, logs, strict=True)]
    for worker in workers:
        worker.start()
    with no_collection():
        barrier.wait()
        start = time.perf_counter()
        for worker in workers:
            worker.join()
        seconds = time.perf_counter() - start
    for log, side in zip(logs, sides, strict=True):
        log.close()
        side.remove()
    require_equal("rounds", len(done), len(sides))
    return Timed(sum(cleaned.stats.bytes_read for cleaned in done), seconds)


def _one_by_one(sides: list[Cleaning]) -> Timed:
    rounds = [side.run() for side in sides]
    return Timed(sum(one.done for one in rounds), sum(one.seconds for one in rounds))


def _memory(inputs: Inputs, pace: Pace) -> Measurement:
    """Peaks of processes that clean; against the memory of the map and what is promised beside it."""
    with scratch("compact") as folder:
        peaks = [
            float(compaction_memory.peak_growth_bytes(compaction_data.fresh_copy(S_4M(), folder / "memory" / PARTITION), MAP_BYTES))
            for _ in range(min(pace.samples, 3))
        ]
    return Measurement(peaks, [float(MAP_BYTES + MEMORY_BESIDE_MAP_BYTES)], "dedupe buffer + 64 MB")

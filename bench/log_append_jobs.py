"""Promises about appending: as leader one batch at a time and in runs, as follower, and with an fsync before each acknowledgement.

Both sides append the same ready batches to a fresh log with Kafka's default settings, but for `flush.messages`, which is the same on both.
Kafka's leader takes one batch a call from a client, so runs are compared with that. Before anything is timed both write the log once, and
the files have to be equal. What was written is dropped, not flushed, between two passes, and not while the clock runs. A pass is 128 MiB:
with more, a virtual machine that gives free pages back to its host measures how it gets them again, which hits either side at random.

Reproduce: `.venv/bin/python -m bench --only 2-append`
"""

import filecmp
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import log_data
from bench.data import Inputs
from bench.jobs import Job, require_equal
from bench.log_jvm import LogJvm
from bench.log_timing import Timed, no_collection, rates
from bench.one_core import on_one_core
from bench.timing import Measurement, Pace
from tidelog.log.log import Log

PASS_BATCHES = 8192
RUN = 64
FOLLOWER_PEER_RUN = 1  # as the promise has it: Kafka one batch a call, we in runs; docs/benchmarks.md tells what 64 on both sides gives
THREADS = 16
DURABLE_BATCHES = {1: 2048, THREADS: 4096}
_UNIT = "batches/s"
_NO_FLUSH = {"flush.messages": str((1 << 63) - 1)}
_DURABLE = {"flush.messages": "1"}

Appender = Callable[[Log, Sequence[Any]], object]


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("2-append-leader-single", ">= 0.9", _UNIT, partial(_leader, run=1), needs_jvm=True),
        Job("2-append-leader-runs", ">= 2", _UNIT, partial(_leader, run=RUN), needs_jvm=True),
        Job("2-append-follower-runs", ">= 1.5", _UNIT, _follower, needs_jvm=True),
        Job("2-append-durable-1", ">= 1.5", _UNIT, on_one_core(partial(_durable, threads=1)), needs_jvm=True),
        Job("2-append-durable-16", ">= 5", _UNIT, on_one_core(partial(_durable, threads=THREADS)), needs_jvm=True),
    ]


def _leader(inputs: Inputs, pace: Pace, *, run: int) -> Measurement:
    path = log_data.log_path(inputs)
    batches = log_data.leader_batches(path, PASS_BATCHES)
    calls: list[Any] = batches if run == 1 else [batches[first : first + run] for first in range(0, len(batches), run)]
    side = partial(Ours, settings=_NO_FLUSH, calls=calls, count=len(batches), append=append_each if run == 1 else append_runs)
    return _against_kafka(side, pace, role="leader", threads=1, batches=len(batches), input=path, settings=_NO_FLUSH)


def _follower(inputs: Inputs, pace: Pace) -> Measurement:
    path = log_data.log_path(inputs)
    calls = log_data.follower_calls(path, PASS_BATCHES, RUN)
    side = partial(Ours, settings=_NO_FLUSH, calls=calls, count=PASS_BATCHES, append=_append_as_follower)
    return _against_kafka(side, pace, role="follower", run=FOLLOWER_PEER_RUN, batches=PASS_BATCHES, input=path, settings=_NO_FLUSH)


def _durable(inputs: Inputs, pace: Pace, *, threads: int) -> Measurement:
    path = log_data.log_path(inputs)
    batches = log_data.leader_batches(path, DURABLE_BATCHES[threads])
    side = partial(Ours, settings=_DURABLE, calls=batches, count=len(batches), append=append_each, threads=threads)
    return _against_kafka(side, pace, role="leader", threads=threads, batches=len(batches), input=path, settings=_DURABLE)


def _against_kafka(side: Callable[[Path], "Ours"], pace: Pace, **options: Any) -> Measurement:
    with log_data.scratch("append") as folder:
        ours = side(folder / "ours" / log_data.PARTITION)
        peer_folder = folder / "kafka" / log_data.PARTITION
        with LogJvm("append", folder=peer_folder, **options) as jvm:
            checked = jvm.check()
            require_equal("end offset and bytes", ours.check(), (checked["end_offset"], checked["size_bytes"]))
            if ours.threads == 1:  # otherwise the order of the batches is a matter of luck
                names = sorted(path.name for path in ours.folder.iterdir() if path.suffix in (".log", ".index", ".timeindex"))
                equal, _, _ = filecmp.cmpfiles(ours.folder, peer_folder, names, shallow=False)
                require_equal("the same bytes in files", equal, names)
            ours.remove()
            return rates(ours.run, jvm, pace)


@dataclass(frozen=True, slots=True)
class Ours:
    """Our side: a fresh log for each pass."""

    folder: Path
    settings: dict[str, str]
    calls: Sequence[Any]
    count: int
    append: Appender
    threads: int = 1

    def run(self) -> Timed:
        """One pass."""
        log = Log.open(self.folder, config=self.settings)
        with no_collection():
            seconds = self._append(log)
        # Closing would bring half a gibibyte to the disk. Of a file that was emptied there is nothing to bring.
        for segment in log.segments:
            os.truncate(segment.file.path, 0)
        log.close()
        self.remove()
        return Timed(self.count, seconds)

    def check(self) -> tuple[int, int]:
        """A pass that leaves its log: end offset and bytes."""
        with Log.open(self.folder, config=self.settings) as log:
            self._append(log)
            return log.log_end_offset, log.size_bytes

    def remove(self) -> None:
        """Remove what a check left."""
        shutil.rmtree(self.folder.parent)

    def _append(self, log: Log) -> float:
        if self.threads > 1:
            return self._append_in_threads(log)
        start = time.perf_counter()
        self.append(log, self.calls)
        return time.perf_counter() - start

    def _append_in_threads(self, log: Log) -> float:
        barrier = threading.Barrier(self.threads + 1)
        failures: list[BaseException] = []

        def work(calls: Sequence[Any]) -> None:
            barrier.wait()
            try:
                self.append(log, calls)
            except BaseException as error:
                failures.append(error)

        workers = [threading.Thread(target=work, args=(self.calls[first :: self.threads],)) for first in range(self.threads)]
        for worker in workers:
            worker.start()
        barrier.wait()
        start = time.perf_counter()
        for worker in workers:
            worker.join()
        seconds = time.perf_counter() - start
        if failures:
            raise failures[0]
        return seconds


def append_each(log: Log, batches: Sequence[bytes]) -> None:
    for batch in batches:
        log.append(batch)


def append_runs(log: Log, runs: Sequence[list[bytes]]) -> None:
    for run in runs:
        log.append_run(run)


def _append_as_follower(log: Log, runs: Sequence[memoryview]) -> None:
    for run in runs:
        log.append_as_follower(run)

"""Promises about what others notice of a cleaner: appends and reads keep their throughput while a throttled one works beside them.

A cleaner thread of this process goes over half a gibibyte of another partition again and again, at `log.cleaner.io.max.bytes.per.second` of
32 MiB. While the peer's samples are taken it stands still; ours are taken while it runs. Both are the same calls on the same kind of log.

Reproduce: `.venv/bin/python -m bench --only beside-cleaner`
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench import log_data
from bench.compaction_jobs import MAP_BYTES, S_100K, Cleaning
from bench.data import Inputs
from bench.jobs import Job
from bench.log_append_jobs import RUN, Ours, append_runs
from bench.log_data import PARTITION, scratch
from bench.log_timing import Timed, TimedPass, no_collection, rates_in_turn
from bench.timing import Measurement, Pace
from tidelog.compaction.cleaning import Hooks, clean_log
from tidelog.compaction.plan import plan_cleaning
from tidelog.compaction.throttler import Throttler
from tidelog.errors import CleaningAbortedError
from tidelog.log.log import Log
from tidelog.record.kernel.clock import wall_clock

CLEANER_BYTES_PER_S = 32 << 20
PASS_BATCHES = 4096
FETCH_BYTES = 1 << 20
_NO_FLUSH = {"flush.messages": str((1 << 63) - 1)}


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("6-append-beside-cleaner", ">= 0.8", "batches/s", _append),
        Job("6-read-beside-cleaner", ">= 0.8", "bytes/s", _read),
    ]


def _append(inputs: Inputs, pace: Pace) -> Measurement:
    batches = log_data.leader_batches(log_data.log_path(inputs), PASS_BATCHES)
    calls = [batches[first : first + RUN] for first in range(0, len(batches), RUN)]
    with scratch("beside") as folder:
        side = Ours(folder / "ours" / PARTITION, _NO_FLUSH, calls, len(batches), append_runs)
        return _beside(side.run, folder, pace)


def _read(inputs: Inputs, pace: Pace) -> Measurement:
    with (
        log_data.two_logs("log-1", inputs, batches=log_data.BATCHES, settings={}) as (ours, _),
        Log.open(ours, last_shutdown_clean=True) as log,
        scratch("beside") as folder,
    ):
        return _beside(partial(_read_all, log), folder, pace)


def _read_all(log: Log) -> Timed:
    with no_collection():
        offset, size_bytes = 0, 0
        start = time.perf_counter()
        while offset < log.log_end_offset:
            fetched = log.fetch(offset, FETCH_BYTES, isolation="log_end")
            offset, size_bytes = fetched.next_offset, size_bytes + len(fetched.data)
        return Timed(size_bytes, time.perf_counter() - start)


def _beside(work: TimedPass, folder: Path, pace: Pace) -> Measurement:
    """The work while the cleaner runs, and while it does not."""
    pace = replace(pace, sample_seconds=max(pace.sample_seconds, 1.0))  # several turns of the throttle
    cleaned_bytes, seconds = 0, 0.0
    with BusyCleaner.running(folder) as cleaner:

        def beside() -> Timed:
            nonlocal cleaned_bytes, seconds
            before, start = cleaner.throttler.total_bytes, time.perf_counter()
            cleaner.is_allowed.set()
            try:
                return work()
            finally:
                cleaner.is_allowed.clear()
                seconds += time.perf_counter() - start
                cleaned_bytes += cleaner.throttler.total_bytes - before

        measured = rates_in_turn(beside, work, pace, "without a cleaner")
    return replace(measured, extra={"cleaner_bytes_per_second": cleaned_bytes / seconds})


class BusyCleaner:
    """A thread that cleans one copy of a log after the other, at a limited pace, as long as it is allowed to."""

    def __init__(self, folder: Path) -> None:
        self.is_allowed = threading.Event()
        self.is_over = False
        self.throttler = Throttler(CLEANER_BYTES_PER_S)
        self.failures: list[Exception] = []
        self._cleaning = Cleaning(S_100K(), folder / "cleaned" / PARTITION, MAP_BYTES)

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator["BusyCleaner"]:
        """It ends with the block."""
        cleaner = cls(folder)
        thread = threading.Thread(target=cleaner._work)
        thread.start()
        try:
            yield cleaner
        finally:
            cleaner.is_over = True
            cleaner.is_allowed.set()
            thread.join()
        if cleaner.failures:
            raise cleaner.failures[0]

    def _work(self) -> None:
        hooks = Hooks(throttle=self.throttler.throttle, check_done=self._check_done)
        while not self.is_over:
            with self._cleaning.opened() as log:
                now_ms = wall_clock()
                try:
                    clean_log(log, plan_cleaning(log, log.config, None, now_ms), self._cleaning.map, now_ms, hooks=hooks)
                except CleaningAbortedError:
                    pass
                except Exception as error:
                    self.failures.append(error)
                    return

    def _check_done(self) -> None:
        while not (self.is_allowed.wait(0.1) or self.is_over):
            pass
        if self.is_over:
            raise CleaningAbortedError("the measurement is over")

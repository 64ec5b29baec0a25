"""Crash images and kills in large numbers: `python -m tests.crash.long_run --images 270000 --kills 1000 --jobs 2 --seed 0`.

First everything on the fixed list, whatever its size: all workloads with more kinds of damage than `make test` has, each once more as a
crash while a crash is recovered from; the same with flushing weakened; repairs and salvages that are cut off; compaction; transactions.
Then workloads drawn by lot until there were enough images; then the kills: every tenth of a process that compacts, every tenth of one that
does transactions, and a fifth as many again, in one directory, of one that consumes, transforms and produces exactly once. Of the images
some are also read by a reader, verified and salvaged (`crash_looks`).

Each process takes every n-th workload. The first violation ends all of them with exit code 1: the seed, and the directory as it was before
it was opened, are named.
"""

import argparse
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from multiprocessing.connection import wait
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.support import crash_transaction_check as transactions
from tests.support.compacted import LARGE_MAP, SMALL_MAP, TINY_MAP
from tests.support.compaction_kill import Compactors, compaction_kill_round
from tests.support.crash_check import CrashViolationError, Tally
from tests.support.crash_compaction import check_story
from tests.support.crash_images import FEW, FEWER, Bounds, materialise, scratch_directory
from tests.support.crash_kill import Writers, kill_round
from tests.support.crash_repair import MORE_REPAIRS, MORE_SALVAGES, REPAIRS, SALVAGES, check_repair, check_salvage
from tests.support.crash_transactions import STORIES
from tests.support.crash_workloads import (
    FAULTY,
    LONG_MAX,
    PLAIN,
    PRODUCERS,
    THREADED,
    Workload,
    check_second_crash,
    check_workload,
    random_producers,
    random_workload,
    weak,
)
from tests.support.transaction_kill import Transactors, exactly_once, transaction_kill_round

MORE = Bounds(tears=6, zeroed=4, data_prefixes=3, name_prefixes=8, samples=40)
COMPACTING_EVERY = TRANSACTING_EVERY = 10
TRANSFORMING_EVERY = 5
RECORDS_A_KILL = 300
TRANSACTIONS_ONE_OF = 4
"""So many of the images are looked at: a store of many logs takes its time to open."""
SECOND_CRASHES = 2
"""So many images of a workload are opened while the power may go again; one where flushing was weakened."""


class Task(NamedTuple):
    """Something whose images are looked at."""

    name: str
    run: Callable[..., object]
    """Takes a directory to work in, and a `tally`."""


def images_of(workload: Workload, bounds: Bounds, second_crashes: int) -> Task:
    """All images of a workload, and of some recoveries of them."""

    def run(scratch: Path, tally: Tally) -> None:
        check_workload(workload, scratch, bounds, tally)
        if second_crashes and not workload.is_threaded:
            with scratch_directory() as another:
                check_second_crash(workload, another, FEWER, count=second_crashes, tally=tally)

    return Task(workload.name, run)


def fixed_tasks() -> Iterator[Task]:
    """All that there are."""
    for workload in (*PLAIN, *FAULTY, *PRODUCERS, *THREADED):
        yield images_of(workload, MORE, 0 if workload.has_faults else SECOND_CRASHES)
        if not workload.has_faults and not workload.is_threaded:
            yield images_of(weak(workload, 5), FEWER, 1)
            yield images_of(weak(workload, LONG_MAX), FEWER, 1)
    for case in (*REPAIRS, *MORE_REPAIRS):
        yield Task(f"repair: {case.name}", partial(check_repair, case, bounds=MORE))
    for case in (*SALVAGES, *MORE_SALVAGES):
        yield Task(f"salvage: {case.name}", partial(check_salvage, case, bounds=MORE))
    for memory in (TINY_MAP, SMALL_MAP, LARGE_MAP):
        for delay_ms in (0, 60_000):
            yield Task(f"compaction: {memory} bytes for keys, {delay_ms} ms", partial(check_story, memory, delay_ms, bounds=FEWER))
    for story in STORIES:
        yield Task(f"transactions: {story.name}", partial(transactions.check_story, story, bounds=FEWER, every=TRANSACTIONS_ONE_OF))
        again = partial(transactions.check_second_crash, story, bounds=FEWER, count=SECOND_CRASHES, every=TRANSACTIONS_ONE_OF)
        yield Task(f"transactions, a second crash: {story.name}", again)


def drawn_tasks(seed: int) -> Iterator[Task]:
    """Any number by lot."""
    for number in count(seed):
        drawn = random_workload(number)
        yield images_of(drawn, FEW, 0)
        yield images_of(random_producers(number), FEW, 1)
        yield images_of(weak(drawn, Random(number).choice([2, 5, LONG_MAX])), FEWER, 0)


@dataclass(frozen=True, slots=True)
class Job:
    """One of several processes, and what all of them have done so far."""

    number: int
    count: int
    images: int
    kills: int
    seed: int
    opened: "Synchronized[int]"
    began: float

    def run(self) -> int:
        """1 if there is a violation."""
        return self.run_images() or self.run_kills()

    def run_images(self) -> int:
        """The fixed tasks that are this job's, then some by lot."""
        for task in list(fixed_tasks())[self.number :: self.count]:
            if not self.is_in_order(task):
                return 1
        for place, task in enumerate(drawn_tasks(self.seed)):
            if self.opened.value >= self.images:
                return 0
            if place % self.count == self.number and not self.is_in_order(task):
                return 1
        raise AssertionError("there is no end of them")

    def is_in_order(self, task: Task) -> bool:
        """Whether all images are as promised."""
        tally = Tally()
        with scratch_directory() as scratch:
            try:
                task.run(scratch, tally=tally)
            except CrashViolationError as violation:
                kept = tempfile.mkdtemp(prefix="tidelog-violation-")
                materialise(violation.image, f"{kept}/log")
                say(f"VIOLATION in {task.name!r}, seed {self.seed}, the directory before it was opened: {kept}/log\n{violation}")
                return False
            except Exception:
                say(f"VIOLATION in {task.name!r}, seed {self.seed}, before there was anything to open:\n{traceback.format_exc()}")
                return False
        with self.opened.get_lock():
            self.opened.value += tally.opened
        took = time.monotonic() - self.began
        say(f"{self.opened.value:9,} images, {took:5.0f} s: {tally.opened:6,} different ones of {tally.images:,} in {task.name}")
        return True

    def run_kills(self) -> int:
        """This job's rounds."""
        rounds = len(range(self.number, self.kills, self.count))
        compacting, transacting = rounds // COMPACTING_EVERY, rounds // TRANSACTING_EVERY
        with Writers() as writers:
            failed = self._kill(rounds - compacting - transacting, partial(kill_round, writers), "kills")
        if not failed and compacting:
            with Compactors() as compactors:
                failed = self._kill(compacting, partial(compaction_kill_round, compactors), "kills while it compacts")
        if not failed and transacting:
            with Transactors() as transactors:
                failed = self._kill(transacting, partial(transaction_kill_round, transactors), "kills in transactions")
        transforming = self.kills // TRANSFORMING_EVERY
        if not failed and transforming and self.number == 0:
            with Transactors() as transactors:
                once = partial(exactly_once, transactors, kills=transforming, records=transforming * RECORDS_A_KILL)
                failed = self._kill(1, once, f"directory with {transforming} kills of one that consumes and produces")
        return failed

    def _kill(self, rounds: int, kill: Callable[[Path, Random], list[str]], what: str) -> int:
        """Some rounds of one kind: 1 if there is a violation."""
        draw = Random(f"{self.seed} {self.number}")
        if not rounds:
            return 0
        with scratch_directory() as scratch:
            for number in range(rounds):
                root = scratch / str(number)
                faults = kill(root, draw)
                if faults:
                    kept = tempfile.mkdtemp(prefix="tidelog-violation-")
                    shutil.copytree(root, f"{kept}/log")
                    say(f"VIOLATION in round {number} of the {what}, seed {self.seed}, the directory: {kept}/log\n" + "\n".join(faults))
                    return 1
                shutil.rmtree(root)
        say(f"{rounds:9,} {what}, {time.monotonic() - self.began:5.0f} s: nothing acknowledged is missing")
        return 0


def say(line: str) -> None:
    """Print at once, and whole though several processes do."""
    os.write(1, line.encode() + b"\n")


def run_jobs(jobs: list[Job]) -> int:
    """All of them, until they are done or one fails: 1 then."""
    processes = [multiprocessing.get_context("fork").Process(target=partial(_exit_with, job)) for job in jobs]
    for process in processes:
        process.start()
    try:
        running = list(processes)
        while running:
            wait([process.sentinel for process in running])
            if any(process.exitcode for process in processes):
                return 1
            running = [process for process in running if process.exitcode is None]
        return int(any(process.exitcode for process in processes))  # the last one may have ended between the two looks above
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _exit_with(job: Job) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what is under way takes its directories away
    sys.exit(job.run())


def main(arguments: list[str] | None = None) -> int:
    """As the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--images", type=int, default=270_000, help="how many different images to open, at least; all of the fixed list are"
    )
    parser.add_argument("--kills", type=int, default=1_000, help="how many writers to kill")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn by lot")
    given = parser.parse_args(arguments)
    opened = multiprocessing.get_context("fork").Value("q", 0)
    began = time.monotonic()
    jobs = [Job(number, given.jobs, given.images, given.kills, given.seed, opened, began) for number in range(given.jobs)]
    failed = run_jobs(jobs)
    if not failed:
        say(f"{opened.value:,} different images opened, {given.kills:,} kills, {time.monotonic() - began:.0f} s, no violation")
    return failed


if __name__ == "__main__":
    sys.exit(main())

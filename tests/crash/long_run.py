"""Crash images and kills in large numbers: `python -m tests.crash.long_run --images 200000 --kills 1000 --seed 0`.

First every workload with many kinds of damage, then workloads drawn by lot until there were enough images, every third as a crash while a
crash is recovered from; then the kills. The first violation ends it with exit code 1: the seed, and the directory as it was before it was
opened, are named.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from random import Random

from tests.support.crash_check import CrashViolationError, Tally
from tests.support.crash_images import DEFAULT, MANY, Bounds, materialise, scratch_directory
from tests.support.crash_kill import Writers, kill_round
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


def workloads(seed: int) -> Iterator[tuple[Workload, Bounds]]:
    """All that there are, then any number by lot."""
    for workload in (*PLAIN, *FAULTY, *PRODUCERS, *THREADED):
        yield workload, MANY
    for workload in (*PLAIN, *PRODUCERS):
        if not workload.has_faults:
            yield weak(workload, 5), MANY
            yield weak(workload, LONG_MAX), MANY
    while True:
        drawn = random_workload(seed)
        yield drawn, DEFAULT
        yield random_producers(seed), DEFAULT
        yield weak(drawn, Random(seed).choice([2, 5, LONG_MAX])), DEFAULT
        seed += 1


def run_images(wanted: int, seed: int) -> int:
    """So many different images: 1 if one is wrong."""
    tally, began = Tally(), time.monotonic()
    for number, (workload, bounds) in enumerate(workloads(seed)):
        if tally.opened >= wanted:
            break
        with scratch_directory() as scratch:
            try:
                if number % 3 == 2 and not workload.is_threaded:
                    check_second_crash(workload, scratch, DEFAULT, count=5, tally=tally)
                else:
                    check_workload(workload, scratch, bounds, tally)
            except CrashViolationError as violation:
                kept = tempfile.mkdtemp(prefix="tidelog-violation-")
                materialise(violation.image, f"{kept}/log")
                say(f"VIOLATION in {workload.name!r}, seed {seed}, the directory before it was opened: {kept}/log\n{violation}")
                return 1
        say(f"{tally.opened:9,} of {wanted:,} images, {time.monotonic() - began:6.0f} s: {workload.name}")
    say(f"images: {tally.opened:,} different ones opened, {tally.images:,} moments checked, no violation")
    return 0


def run_kills(wanted: int, seed: int) -> int:
    """So many rounds: 1 if something is missing."""
    began = time.monotonic()
    draw = Random(seed)
    with scratch_directory() as scratch, Writers() as writers:
        for number in range(wanted):
            root = scratch / str(number)
            faults = kill_round(writers, root, draw)
            if faults:
                kept = tempfile.mkdtemp(prefix="tidelog-violation-")
                shutil.copytree(root, f"{kept}/log")
                say(f"VIOLATION in round {number} of the kills, seed {seed}, the directory: {kept}/log\n" + "\n".join(faults))
                return 1
            shutil.rmtree(root)
            if (number + 1) % 100 == 0:
                say(f"{number + 1:9,} of {wanted:,} kills, {time.monotonic() - began:6.0f} s")
    say(f"kills: {wanted:,}, nothing acknowledged is missing")
    return 0


def say(line: str) -> None:
    """Print at once."""
    print(line, flush=True)  # noqa: T201


def main() -> int:
    """As the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=200_000, help="how many different images to open")
    parser.add_argument("--kills", type=int, default=1_000, help="how many writers to kill")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn by lot")
    arguments = parser.parse_args()
    return run_images(arguments.images, arguments.seed) or run_kills(arguments.kills, arguments.seed)


if __name__ == "__main__":
    sys.exit(main())

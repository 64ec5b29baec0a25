"""The command: `python -m bench.growth [--max-size 4GiB] [--only JOB] [--samples 3]`: time and memory of each job as the log grows.

The log is four topics of one partition, each a quarter of the size: 16-byte keys out of 100 thousand, 100-byte values, 16 KiB batches. It
is made once, and is in the page cache. Each job at each size is a process of its own. What was measured is kept in
`bench/results/growth.json`, with the facts of the machine; a run of some jobs or sizes replaces these and leaves the others.

Reproduce: `.venv/bin/python -m bench.growth --max-size 256MiB`
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from bench import machine
from bench.growth_fit import growths, size_text
from bench.growth_jobs import CHANGING, JOBS
from bench.jvm import ROOT, CannotRunError
from bench.log_data import SCRATCH
from bench.results import FOLDER
from bench.timing import Pace
from tidelog import kernel_mode

SIZES = (64 << 20, 256 << 20, 1 << 30, 4 << 30)
KEYS = 100_000
SAMPLES = 3
PATH = FOLDER / "growth.json"
_SIZE = re.compile(r"(\d+)(KiB|MiB|GiB)")
_UNITS = {"KiB": 10, "MiB": 20, "GiB": 30}


def main() -> int:
    """Measure, print, keep."""
    options = _parser().parse_args()
    jobs = [job for job in JOBS if options.only is None or fnmatch.fnmatch(job, options.only)]
    sizes = [size for size in SIZES if size <= options.max_size]
    try:
        if not jobs or not sizes:
            raise CannotRunError(f"no job or no size to measure; jobs are {', '.join(JOBS)}, sizes {', '.join(map(size_text, SIZES))}")
        if kernel_mode() != "compiled":
            raise CannotRunError("tidelog's kernel runs interpreted here: `make setup` compiles it")
        facts = machine.facts(Pace(samples=options.samples, sample_seconds=0))
        for job in jobs:
            for size in sizes:
                print(f"{job} {size_text(size)} ", end="", file=sys.stderr, flush=True)
                found = measured(job, size, options.samples)
                print(f"{min(found['seconds']):.3f} s, {found['python_bytes'] / 1e6:.0f} MB", file=sys.stderr, flush=True)
                _keep(found, facts)
    except CannotRunError as error:
        print(f"bench.growth: {error}", file=sys.stderr)
        return 2
    for growth in growths(json.loads(PATH.read_text())["measurements"]):
        linear, flat = "linear" if growth.is_linear else "NOT linear", "flat" if growth.is_flat else "NOT flat"
        print(f"{growth.job:14} time {growth.time_ratio:.2f} {linear}, memory {growth.memory_ratio:.2f} {flat}")
    return 0


@cache
def measured(job: str, size_bytes: int, samples: int) -> dict[str, Any]:
    """One job at one size: an entry of the JSON."""
    from bench.spark_job_rows import topics_with

    small, source = topics_with(KEYS, SIZES[0] // 4), topics_with(KEYS, size_bytes // 4)
    return {"job": job, "size_bytes": size_bytes, **in_its_process(job, small, [source] * samples)}


def in_its_process(job: str, warm_up: Path, samples: Sequence[Path]) -> dict[str, Any]:
    """What `growth_jobs` says about these directories, which stay as they are: who changes them gets copies."""
    from bench.spark_job_rows import fresh_copy

    scratch = SCRATCH / "growth"
    directories = [warm_up, *samples]
    try:
        if job in CHANGING:
            directories = [fresh_copy(source, scratch / str(number)) for number, source in enumerate(directories)]
            os.sync()  # small files are copied, and are not to be written out while the clock runs
        command = [sys.executable, "-m", "bench.growth_jobs", job, *map(str, directories)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if done.returncode != 0:
        raise CannotRunError(f"the process that measures {job} failed:\n{done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _keep(found: dict[str, Any], facts: dict[str, Any]) -> None:
    """Put one measurement into the file, with its commit, as others may be of an earlier one; the machine is that of the last."""
    found = {**found, "commit": facts["commit"]}
    kept = json.loads(PATH.read_text())["measurements"] if PATH.exists() else []
    place = (found["job"], found["size_bytes"])
    others = [one for one in kept if (one["job"], one["size_bytes"]) != place]
    order = list(JOBS)
    entries = sorted([*others, found], key=lambda one: (order.index(one["job"]), one["size_bytes"]))
    partial = PATH.with_suffix(".partial")
    partial.write_text(json.dumps({"machine": facts, "keys": KEYS, "measurements": entries}, indent=2) + "\n")
    partial.rename(PATH)


def size_of(text: str) -> int:
    """Bytes of `256MiB`."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; expected something like 256MiB or 4GiB")
    return int(match[1]) << _UNITS[match[2]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description="Time and memory of each job as the log grows.")
    parser.add_argument("--max-size", type=size_of, default=SIZES[-1], metavar="SIZE", help="nothing larger; 4GiB unless said")
    parser.add_argument("--only", metavar="JOB", help=f"one of {', '.join(JOBS)}; * and ? are wildcards")
    parser.add_argument("--samples", type=int, default=SAMPLES, help=f"of each; {SAMPLES} unless said")
    return parser


if __name__ == "__main__":
    sys.exit(main())

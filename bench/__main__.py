"""The command: `python -m bench [--only PATTERN] [--quick]`.

Exit code 0: every promise measured is kept. 1: one is broken, or the two sides disagree about the work. 2: it cannot be measured here.

Reproduce: `make bench`
"""

import argparse
import fnmatch
import sys
import time
import traceback

from bench import (
    aiokafka_peer,
    beside_cleaner_jobs,
    compaction_jobs,
    decode_jobs,
    dump_jobs,
    inspection_jobs,
    log_append_jobs,
    log_open_jobs,
    log_read_jobs,
    machine,
    other_jobs,
    results,
    spark_data_job_rows,
    spark_growth_rows,
    spark_job_rows,
    spark_jobs,
    store_read_jobs,
    store_write_jobs,
    transaction_jobs,
)
from bench.data import Inputs
from bench.jobs import Job
from bench.jvm import ROOT, CannotRunError, require_java
from bench.timing import FULL, QUICK, Pace
from tidelog import kernel_mode

QUIET_SCALING = 1.7

JOBS = [
    *decode_jobs.jobs(),
    *other_jobs.jobs(),
    *log_append_jobs.jobs(),
    *log_read_jobs.jobs(),
    *log_open_jobs.jobs(),
    *inspection_jobs.jobs(),
    *store_write_jobs.jobs(),
    *store_read_jobs.jobs(),
    *compaction_jobs.jobs(),
    *beside_cleaner_jobs.jobs(),
    *transaction_jobs.jobs(),
    *spark_jobs.jobs(),
    *spark_job_rows.jobs(),
    *spark_growth_rows.jobs(),
    *spark_data_job_rows.jobs(),
    *dump_jobs.jobs(),
]


def main() -> int:
    """Measure, print, keep."""
    options = _parser().parse_args()
    jobs = chosen(options.only)
    if options.list:
        print("\n".join(f"{job.name}  {job.promise}" for job in jobs))
        return 0
    try:
        if not jobs:
            raise CannotRunError(f"no promise matches {options.only!r}: --list shows them")
        if options.anew and options.only is None:
            raise CannotRunError("--anew is for the rows that --only names; all of them anew are a whole run")
        _require_fair_sides(jobs)
        if options.again:
            return _measure_again(jobs)
        if options.anew:
            return _measure_anew(jobs)
        return _run(jobs, quick=options.quick, is_part=options.only is not None)
    except CannotRunError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


def chosen(only: str | None) -> list[Job]:
    """The promise of this name, or all that a pattern matches."""
    exact = [job for job in JOBS if job.name == only]
    return exact or [job for job in JOBS if only is None or fnmatch.fnmatch(job.name, f"*{only}*")]


def _require_fair_sides(jobs: list[Job]) -> None:
    """Neither side may run with less than it has, however few rows are measured."""
    if kernel_mode() != "compiled":
        raise CannotRunError("tidelog's kernel runs interpreted here, which is not what is promised: `make setup` compiles it")
    aiokafka_peer.require_compiled()
    if any(job.needs_jvm for job in jobs):
        require_java()


def _run(jobs: list[Job], *, quick: bool, is_part: bool) -> int:
    pace = QUICK if quick else FULL
    inputs = Inputs()
    measured: list[results.Result] = []
    facts = machine.facts(pace)
    if facts["two_threads_of_sha256"] < QUIET_SCALING:
        print(
            f"bench: the machine is not quiet: two threads hash {facts['two_threads_of_sha256']} times as fast as one, not about twice. "
            "The figures below are worth little, the one of two threads least",
            file=sys.stderr,
        )
    begin = time.perf_counter()
    for number, job in enumerate(jobs, 1):
        print(f"[{number:2}/{len(jobs)}] {job.name} ", end="", file=sys.stderr, flush=True)
        result = _measured(job, inputs, pace)
        figure = result.get("error") or f"{result['ratio']:.2f}"
        print(f"{figure} ({time.perf_counter() - begin:.0f} s)", file=sys.stderr, flush=True)
        measured.append(result)
        results.write("running", measured, facts)  # an hour's figures are not lost with the last row
    # Short or partial runs never replace the figures of a whole one.
    path = results.write("quick" if quick else "part" if is_part else "latest", measured, facts)
    results.remove("running")
    print(results.table(measured))
    broken = [result["name"] for result in measured if not result["kept"]]
    print(f"{len(measured) - len(broken)} of {len(measured)} promises kept; samples in {path.relative_to(ROOT)}")
    return 1 if broken else 0


def _measure_again(chosen_jobs: list[Job]) -> int:
    """Rows of the last whole run that are near their promise, kept or not, get as many samples again. It has to be of this commit."""
    rows, facts = results.latest()
    if facts["commit"].removesuffix("-dirty") != machine.commit().removesuffix("-dirty"):
        raise CannotRunError(f"the last whole run is of commit {facts['commit']}: samples of another one cannot be put with these")
    jobs, inputs = {job.name: job for job in chosen_jobs}, Inputs()
    near = [place for place, row in enumerate(rows) if row["name"] in jobs and results.is_narrow(row)]
    narrow = [place for place in near if rows[place].get("extra", {}).get("times", 1) < 2]
    for number, place in enumerate(narrow, 1):
        row = rows[place]
        print(f"[{number:2}/{len(narrow)}] {row['name']} {row['ratio']:.2f}, ", end="", file=sys.stderr, flush=True)
        job = jobs[row["name"]]
        try:
            rows[place] = results.pooled(job, row, job.measure(inputs, FULL))
        except Exception as error:
            traceback.print_exc()
            rows[place] = results.failed(job, error)
        said = rows[place].get("error") or f"with twice the samples {rows[place]['ratio']:.2f}"
        print(said, file=sys.stderr, flush=True)
        results.write("latest", rows, facts)
    print(results.table([rows[place] for place in narrow]))
    return 0 if all(row["kept"] for row in rows) else 1


def _measure_anew(chosen_jobs: list[Job]) -> int:
    """For rows whose benchmark was mended after the last whole run: what they said is void. The facts name them, with their commits."""
    rows, facts = results.latest()
    for job in chosen_jobs:
        found = _measured(job, Inputs(), FULL)
        rows = [found if row["name"] == job.name else row for row in rows]
        facts["measured_anew"] = {**facts.get("measured_anew", {}), job.name: machine.commit()}
        results.write("latest", rows, facts)
        print(results.table([found]))
    return 0 if all(row["kept"] for row in rows) else 1


def _measured(job: Job, inputs: Inputs, pace: Pace) -> results.Result:
    """One row. Where a side does not run, or the two have not done the same work, that is told, and the other rows go on."""
    try:
        return results.result_of(job, job.measure(inputs, pace))
    except Exception as error:
        traceback.print_exc()
        return results.failed(job, error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Every speed promise, as a ratio against its peer.")
    parser.add_argument(
        "--only", metavar="PATTERN", help="the promise of this name, or those whose name has this in it; * and ? are wildcards"
    )
    parser.add_argument("--quick", action="store_true", help="few short samples, for a look; kept in quick.json")
    parser.add_argument(
        "--again", action="store_true", help="rows of the last whole run that are within a tenth of their promise: as many samples again"
    )
    parser.add_argument(
        "--anew", action="store_true", help="with --only: rows whose benchmark was mended since the last whole run, into its results"
    )
    parser.add_argument("--list", action="store_true", help="name the promises and stop")
    return parser


if __name__ == "__main__":
    sys.exit(main())

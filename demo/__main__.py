"""`make demo`: seven steps on real data, each with one line of result, and every figure checked. A wrong one fails it.

It leaves demo/data, demo/exported, demo/report.html and demo/summary.json.
"""

import json
import sys
import time
import warnings

from demo.changes import Changes
from demo.steps import (
    ROOT,
    Demo,
    WrongFigureError,
    broker_directory,
    compaction,
    follow_verify_export,
    ingest,
    killed_writer,
    report,
    time_travel,
)
from tidelog import TidelogError, __version__, kernel_mode

STEPS = (broker_directory, ingest, killed_writer, time_travel, compaction, follow_verify_export, report)
TO_TRY = (
    "tidelog ls demo/data",
    "tidelog cat demo/data emails --last 5 --json",
    "tidelog find demo/data emails --key user-000042",
    "tidelog explain demo/data emails",
    "tidelog what-if demo/data emails --config cleanup.policy=delete --config retention.ms=86400000",
)


def main() -> int:
    """Run all steps."""
    print(f"Tidelog {__version__}, kernel {kernel_mode()}\n")
    started = time.perf_counter()
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    demo = Demo(Changes.of_two_days())
    for number, step in enumerate(STEPS, 1):
        assert step.__doc__ is not None
        print(f"{number}. {step.__doc__.splitlines()[0]}", flush=True)
        try:
            line, figures = step(demo)
        except (WrongFigureError, TidelogError) as error:
            print(f"   failed: {error}")
            return 1
        print(f"   {line}", flush=True)
        demo.summary[step.__name__] = figures
    if demo.spark is not None:
        demo.spark.stop()
    seconds = round(time.perf_counter() - started, 1)
    summary = {"version": __version__, "kernel": kernel_mode(), "seconds": seconds, **demo.summary}
    (ROOT / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    print(f"\nall figures are right ({seconds} s); they are in demo/summary.json. Try, with .venv/bin on your PATH:")
    for command in TO_TRY:
        print(f"  {command}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

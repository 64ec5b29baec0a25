"""Apache Kafka's own classes on the JVM, through the programs in interop/ (their README describes the jobs).

Each measurement is a process of its own with its own warm-up. It runs once before our samples and once after them: a machine that speeds
up or slows down meanwhile moves both sides.

Reproduce: `interop/run-java Bench decode-memory bench/data/s-none.log`
"""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.timing import Measurement, Pace, Pass, alone

ROOT = Path(__file__).resolve().parent.parent
RUN_JAVA = ROOT / "interop" / "run-java"


class CannotRunError(Exception):
    """Something the benchmarks need is missing, or a peer is not what it has to be."""


@dataclass(frozen=True, slots=True)
class JvmRun:
    """What one process said: records and bytes of a pass, records per second of each sample."""

    records: int
    size_bytes: int
    samples: list[float]
    version: str


def require_java() -> None:
    """Say what is missing before anything is measured."""
    missing = [f"`{tool}` ({purpose})" for tool, purpose in _TOOLS.items() if shutil.which(tool) is None]
    if missing:
        raise CannotRunError(f"not found: {', '.join(missing)}. Promises against the JVM need a JDK, 17 or newer")
    run_java("Bench", expect_usage=True)


def run_java(program: str, *arguments: str, expect_usage: bool = False) -> str:
    """Run one of interop's programs and give back what it printed. `expect_usage`: it is only to be fetched and compiled."""
    done = subprocess.run([str(RUN_JAVA), program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if expect_usage and done.returncode == 2 and "usage" in done.stderr:
        return ""
    if done.returncode != 0:
        raise CannotRunError(f"interop/run-java {program} failed with exit code {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout


def measure(job: str, file: Path, pace: Pace) -> JvmRun:
    """Samples of one job in one process."""
    options = {"--warmup-seconds": pace.jvm_warmup_seconds, "--samples": pace.jvm_samples, "--sample-seconds": pace.sample_seconds}
    arguments = [str(word) for pair in options.items() for word in pair]
    answer = json.loads(run_java("Bench", job, str(file.relative_to(ROOT)), *arguments))
    return JvmRun(
        records=int(answer["records"]),
        size_bytes=int(answer["bytes"]),
        samples=[float(rate) for rate in answer["samples"]],
        version=f"Apache Kafka {answer['kafka_version']}, Java {answer['java_version']}",
    )


def around(ours: Pass, job: str, file: Path, pace: Pace, *, records: int, size_bytes: int | None) -> Measurement:
    """The JVM, our samples, the JVM again. Both have to have seen the same records, and bytes where they read the same file."""
    before = measure(job, file, pace)
    if before.records != records or (size_bytes is not None and before.size_bytes != size_bytes):
        raise CannotRunError(
            f"{job} of {file.name}: the JVM saw {before.records} records in {before.size_bytes} bytes, we {records} in {size_bytes}"
        )
    ours_samples = alone(ours, pace)
    after = measure(job, file, pace)
    return Measurement(ours_samples, before.samples + after.samples, before.version)


_TOOLS = {"java": "runs Kafka's classes", "javac": "compiles interop/java"}  # Maven is asked for by interop/resolve-jars, if it has to be

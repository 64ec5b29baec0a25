"""Promises about `tidelog dump`: batches, records as text, and records as JSON of 128 MiB of S, against Kafka's own dump tool.

Both are processes from start to end, the start of the interpreter and of the JVM included, one after the other in turn. Of the batches and
of the records as text both have to print the same, byte for byte; of JSON ours has a line for each record and each batch. Kafka's tool
has no JSON: its text with keys and values is the nearest it has.

Reproduce: `.venv/bin/python -m bench --only 10-dump`
"""

import json
import os
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from bench import log_data
from bench.data import FOLDER, Inputs
from bench.jobs import Job, require_equal
from bench.jvm import ROOT, CannotRunError
from bench.timing import Measurement, Pace
from tidelog.record import walk_headers

SIZE_BYTES = 128 << 20
_TOOL = "kafka.tools.DumpLogSegments"
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")}
"""As after an installation: modules that were loaded once are not compiled again, as the classes of the JVM are not."""


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("10-dump-batches", ">= 2", "bytes/s", partial(_text, [], []), needs_jvm=True),
        Job("10-dump-records-text", ">= 2", "bytes/s", partial(_text, ["--deep"], ["--deep-iteration"]), needs_jvm=True),
        Job("10-dump-records-json", ">= 1.5", "bytes/s", _json, needs_jvm=True),
        Job("10-help", "<= 1", "ms", _help),
    ]


def _help(inputs: Inputs, pace: Pace) -> Measurement:
    """Milliseconds of `tidelog --help`, from start to end, against the 300 that are promised."""
    times = []
    for _ in range(pace.samples):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tidelog", "--help"], capture_output=True, check=True, env=_ENVIRONMENT)
        times.append(1000 * (time.perf_counter() - start))
    return Measurement(times, [300.0], "300 ms")


def dump_path(inputs: Inputs) -> Path:
    """A segment of S, whole batches of it, in the directory of a partition."""
    path = FOLDER / "dump-s" / log_data.PARTITION / f"{0:020}.log"
    if not path.exists():
        with log_data.log_path(inputs).open("rb") as file:
            data = file.read(SIZE_BYTES)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial_path = path.with_suffix(".partial")
        partial_path.write_bytes(data[: walk_headers(data).end_position])
        partial_path.rename(path)
    return path


def _text(ours: list[str], theirs: list[str], inputs: Inputs, pace: Pace) -> Measurement:
    path = dump_path(inputs)
    require_equal("lines", _output(_tidelog(path, ours)), _output(_kafka(path, theirs)))
    return _in_turn(_tidelog(path, ours), _kafka(path, theirs), path, pace)


def _json(inputs: Inputs, pace: Pace) -> Measurement:
    path = dump_path(inputs)
    lines = _output(_tidelog(path, ["--records", "--json"])).splitlines()
    headers = walk_headers(path.read_bytes())
    require_equal("lines", len(lines), 1 + len(headers) + int(headers.count.sum()))
    record = json.loads(lines[-1])
    require_equal("the last offset", record["offset"], int(headers.last_offset[-1]))
    require_equal("what a record has", {"key", "value", "headers"} <= record.keys(), True)
    return _in_turn(_tidelog(path, ["--records", "--json"]), _kafka(path, ["--print-data-log"]), path, pace)


def _tidelog(path: Path, options: list[str]) -> list[str]:
    return [str(Path(sys.executable).with_name("tidelog")), "dump", str(path), *options]


def _kafka(path: Path, options: list[str]) -> list[str]:
    """The tool as its script starts it, without what the shell takes."""
    jars = ROOT / "interop" / ".jars" / _kafka_version()
    flags = ["-XX:+UseSerialGC", "-Xmx2g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    return ["java", *flags, "-cp", f"{jars}/*", _TOOL, *options, "--files", str(path)]


def _kafka_version() -> str:
    found = re.search(r"<kafka\.version>(.*)</kafka\.version>", (ROOT / "interop" / "pom.xml").read_text())
    if found is None:
        raise CannotRunError("interop/pom.xml does not say which Kafka it is about")
    return found[1]


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, env=_ENVIRONMENT).stdout


def _in_turn(ours: list[str], theirs: list[str], path: Path, pace: Pace) -> Measurement:
    size_bytes = path.stat().st_size
    ours_samples: list[float] = []
    peer_samples: list[float] = []
    for _ in range(pace.jvm_samples):
        for command, samples in ((theirs, peer_samples), (ours, ours_samples)):
            start = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, env=_ENVIRONMENT)
            samples.append(size_bytes / (time.perf_counter() - start))
    return Measurement(ours_samples, peer_samples, f"Apache Kafka {_kafka_version()}, DumpLogSegments")

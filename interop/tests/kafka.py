"""Run Kafka's own classes, through the Java programs of this folder."""

import json
import subprocess
from pathlib import Path
from typing import Any

RUN_JAVA = Path(__file__).parents[1] / "run-java"


def run_java(program: str, *arguments: str | Path) -> str:
    """What a program of ours printed; a failure shows what it said."""
    done = subprocess.run([RUN_JAVA, program, *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{program} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def describe(*files: Path) -> list[dict[str, Any]]:
    """What Kafka reads from files of batches."""
    return [json.loads(line) for line in run_java("Describe", *files).splitlines() if line.startswith("{")]

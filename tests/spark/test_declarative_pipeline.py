"""The Spark Declarative Pipeline of the examples runs as a user runs it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark" / "declarative"
SPARK_PIPELINES = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"


def run(folder: Path) -> str:
    """`spark-pipelines run`, with the interpreter of this test: a user has activated an environment instead."""
    environment = os.environ | {
        "SPARK_HOME": str(SPARK_PIPELINES.parents[1]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment.pop("SPARK_REMOTE", None)
    command = [str(SPARK_PIPELINES), "run", "--spec", "spark-pipeline.yml"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("connect_port")
def test_pipeline_runs(tmp_path: Path) -> None:
    folder = tmp_path / "declarative"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/tides", str(tmp_path)))  # noqa: S108 (what the example says)
    subprocess.run([sys.executable, folder / "make_data.py", tmp_path / "data"], check=True)
    run(folder)
    landed = _table(folder, "landed")
    assert sorted(landed["value"]) == sorted(b"%d@tide.example" % n for n in range(1000))
    emails = _table(folder, "latest_emails")
    assert dict(zip(emails["key"], emails["email"], strict=True)) == {str(n): f"{950 + n}@tide.example" for n in range(50)}
    assert _table(folder, "records_per_day")["count"] == [1000]


def _table(folder: Path, name: str) -> dict[str, list[Any]]:
    """What Spark has written for a table."""
    found: dict[str, list[Any]] = pq.read_table(next(folder.rglob(f"spark-warehouse/{name}"))).to_pydict()
    return found

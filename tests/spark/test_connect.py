"""Spark Connect: the example reads, writes and streams; in a process of its own, since one cannot have sessions of both kinds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tidelog

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark" / "connect.py"


@pytest.mark.slow
@pytest.mark.usefixtures("connect_port")
def test_read_write_and_stream(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, EXAMPLE, tmp_path / "data"], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"emails": 5000, "latest": "4907@tide.example", "copies": 5000, "client": "pyspark.sql.connect.session"}
    with tidelog.open(tmp_path / "data", mode="r") as store:
        rows = {topic: sorted((r.key, r.value) for r in store.topic(topic).read()) for topic in ("emails", "copies")}
    assert rows["emails"] == rows["copies"] == sorted((b"%d" % (n % 100), b"%d@tide.example" % n) for n in range(5000))

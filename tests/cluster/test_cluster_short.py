"""The short run on a real cluster: in a process of its own, since a process has one session of Spark, and tests around it have theirs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.standalone import ClusterError, StandaloneCluster

ROOT = Path(__file__).parents[2]


def test_short_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster", "--short"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert "3 passed" in done.stdout


def test_cluster_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves nobody behind."""
    script = tmp_path / "spark-class"
    script.write_text("#!/bin/sh\necho no such master\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr("tests.cluster.standalone.SPARK_CLASS", script)
    cluster = StandaloneCluster(tmp_path / "cluster")
    with pytest.raises(ClusterError, match="no such master"), cluster:
        pass
    assert cluster.processes == []

"""The suites of source, sink and jobs on a real standalone cluster: `python -m tests.cluster`, which is `make cluster`.

Starts a master and two workers, a session on them, and pytest in this process. The tests of `tests/spark` ask `tidelog.spark.session` for a
local session; it gives them the one that runs, which is this one. Then come the tests that need a cluster: processes that are killed by
SIGKILL while they read and write, tasks that run twice.

    python -m tests.cluster             everything
    python -m tests.cluster --short     a read, a write and a stream, as `make test` has it
    python -m tests.cluster --own       only what needs a cluster
    python -m tests.cluster --only X    what pytest's -k takes

The exit code is pytest's.
"""

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.standalone import HOSTS, StandaloneCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
MEMORY = Path("/dev/shm")  # noqa: S108
SHORT = [HERE / "basics.py"]
LONG = [HERE / "kills.py", HERE / "speculation.py", HERE / "jobs_there.py", HERE / "job_kills.py", HERE / "driver_kills.py"]
SUITES = HERE.parent / "spark"
ALONE = ("test_session", "test_connect", "test_pipeline", "test_declarative", "test_killed", "test_command_line", "test_worker_daemon")
"""Modules of tests/spark that start drivers of their own, or ask about a local session."""
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "2",
    "spark.speculation.minTaskRuntime": "2s",
}
"""Eager enough to happen in a test, not so eager that half of all tasks run twice."""
SETTINGS = SPECULATION | {"spark.task.maxFailures": "8", "spark.sql.shuffle.partitions": "2", "spark.deploy.maxExecutorRetries": "-1"}


class OnCluster:
    """A plugin of pytest: what is running, as fixtures."""

    def __init__(self, cluster: StandaloneCluster, spark: "SparkSession") -> None:
        self._cluster = cluster
        self._spark = spark

    @pytest.fixture
    def cluster(self) -> StandaloneCluster:
        """Master and workers."""
        return self._cluster

    @pytest.fixture
    def spark(self) -> "SparkSession":
        """The session on them."""
        assert self._spark.sparkContext.master == self._cluster.url
        return self._spark


def main() -> int:
    """Run what was asked for."""
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the cluster ends with us
    place = MEMORY if MEMORY.is_dir() else None
    os.environ.setdefault("SPARK_LOCAL_IP", HOSTS[0])
    # The last daemons of Spark may still write there when it is removed.
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-cluster-", dir=place, ignore_cleanup_errors=True) as folder,
        StandaloneCluster(Path(folder) / "cluster", applications=2) as cluster,
    ):
        return _run(cluster, Path(folder), options)


def _run(cluster: StandaloneCluster, folder: Path, options: argparse.Namespace) -> int:
    from tidelog.spark import session

    spark = session("tidelog cluster tests", cluster.url, cluster.settings | SETTINGS, memory="1g")
    arguments = ["-p", "no:cacheprovider", "-p", "no:randomly", "--basetemp", str(folder / "tests"), "--durations", "8"]
    paths = SHORT if options.short else [*SHORT, *LONG, *([] if options.own else _suites())]
    if options.only:
        arguments += ["-k", options.only]
    try:
        return int(pytest.main([*arguments, "-m", "not slow", *map(str, paths)], plugins=[OnCluster(cluster, spark)]))
    finally:
        spark.stop()


def _suites() -> list[Path]:
    return [path for path in sorted([*SUITES.glob("test_*.py"), *SUITES.glob("jobs/test_*.py")]) if not path.stem.startswith(ALONE)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description="Source and sink on a real standalone cluster.")
    parser.add_argument("--short", action="store_true", help="only a read, a write and a stream")
    parser.add_argument("--own", action="store_true", help="without the suites of tests/spark")
    parser.add_argument("--only", metavar="EXPRESSION", help="tests whose name fits, as with pytest -k")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The session helper: what a session is started with, one that runs already, and what is said where something is missing."""

import logging
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tidelog
import tidelog.spark
from tidelog.errors import InvalidConfigError, MissingPackageError
from tidelog.spark import session, sessions
from tidelog.spark.sessions import ARROW_JAVA_OPTIONS, RECOMMENDED, UNIX_SOCKETS, check_java, settings


def test_a_session_suits_the_source(spark: SparkSession) -> None:
    assert {name: spark.conf.get(name) for name in RECOMMENDED} == RECOMMENDED
    assert spark.conf.get("spark.pyspark.python") == sys.executable
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"  # what was asked for counts
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).first() == sys.executable


def test_a_session_that_runs_is_taken_as_it_is(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        with caplog.at_level(logging.WARNING, "tidelog.spark"):
            again = session(master="local[1]", config={"spark.sql.shuffle.partitions": 3, "spark.driver.memory": "9g"})
        assert again is spark
        assert again.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        assert again.conf.get("spark.sql.shuffle.partitions") == "3"
        assert [record.getMessage() for record in caplog.records] == [
            "tidelog: a session runs already, and these settings are fixed when one starts: spark.master=local[1], spark.driver.memory",
            "tidelog: a session runs already and is taken as it is; it lacks spark.sql.session.timeZone=UTC",
        ]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
        spark.conf.set("spark.sql.shuffle.partitions", "2")


def test_a_session_of_another_thread_is_taken_as_it_is(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """It is active only there. Spark would give it all the same, with settings of ours put over its own."""
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        with caplog.at_level(logging.WARNING, "tidelog.spark"), ThreadPoolExecutor(1) as other:
            assert other.submit(session).result() is spark
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        assert "it lacks spark.sql.session.timeZone=UTC" in caplog.text
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_in_another_thread_the_sink_is_found_once_it_has_the_session(spark: SparkSession, tmp_path: Path) -> None:
    """Spark looks for a source in Python in the session that is active in the thread."""
    with tidelog.open(tmp_path / "s") as store:
        store.create_topic("t")
    rows = spark.range(10).selectExpr("cast(id as string) as value")

    def write() -> None:
        session()
        rows.write.format("tidelog").mode("append").option("topic", "t").save(str(tmp_path / "s"))

    with ThreadPoolExecutor(1) as other:
        other.submit(write).result()
    with tidelog.open(tmp_path / "s", mode="r") as reading:
        assert sum(1 for _ in reading.topic("t").read()) == 10


def test_what_is_fixed_in_a_session_that_runs_is_told_and_no_error(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """A cell of a notebook that is run again: Spark refuses to set what it knows as fixed, also to what it is."""
    fixed = {"spark.task.maxFailures": 7, "spark.speculation": True, "spark.sql.extensions": "a.b", "spark.master": "local[9]"}
    same = {name: spark.conf.get(name) for name in ("spark.python.daemon.module", "spark.driver.memory")}
    with caplog.at_level(logging.WARNING, "tidelog.spark"):
        assert session(config=same) is spark
        assert not caplog.records
        assert session(config=fixed) is spark
    assert [record.getMessage().partition("starts: ")[2] for record in caplog.records] == [", ".join(fixed)]
    assert spark.conf.get("spark.master") == "local[2]"
    with pytest.raises(PySparkException, match="shuffle"):
        session(config={"spark.sql.shuffle.partitions": "many"})


class Running:
    """A session that runs, as far as it is asked."""

    def __init__(self) -> None:
        self.conf = self.dataSource = self

    def get(self, name: str, _: object) -> str | None:
        return {"spark.master": "local[2]", "spark.driver.memory": "1g", **RECOMMENDED}.get(name)

    def register(self, _: type) -> None:
        pass


class RunningConnect(Running):
    """The same as a client."""

    __module__ = "pyspark.sql.connect.session"


def test_what_a_session_that_runs_cannot_be(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def told(**asked: str) -> list[str]:
        caplog.clear()
        session(**asked)  # type: ignore[arg-type]
        return [record.getMessage().partition("starts: ")[2] for record in caplog.records]

    for running in (Running(), RunningConnect()):
        monkeypatch.setattr(SparkSession, "getActiveSession", lambda running=running: running)
        assert told() == told(master="local[2]", memory="1g") == [], "what it is, or nothing, is asked for"
        assert told(master="spark://host:7077", memory="8g") == ["spark.master=spark://host:7077, spark.driver.memory=8g"]
        assert told(memory="8g") == ["spark.driver.memory=8g"]
    assert told(remote="sc://host") == []
    monkeypatch.setattr(SparkSession, "getActiveSession", Running)
    with pytest.raises(InvalidConfigError, match=r"without Spark Connect runs already.*found local\[2\].*stop\(\) it first"):
        session(remote="sc://host")


def test_what_a_session_is_started_with() -> None:
    local = settings("local[3,4]", memory="5g")
    assert (local["spark.driver.memory"], local["spark.sql.shuffle.partitions"]) == ("5g", "6")
    assert settings("local[*]")["spark.sql.shuffle.partitions"] == str(2 * (os.cpu_count() or 1))
    assert local["spark.python.daemon.module"] == "tidelog.spark.worker_daemon"
    cluster = settings("spark://host:7077")
    assert "spark.driver.memory" not in cluster
    assert "spark.python.daemon.module" not in cluster, "executors may get the package later than the daemon starts"
    assert UNIX_SOCKETS.items() <= local.items()
    assert not UNIX_SOCKETS.keys() & cluster.keys(), "nobody would remove them"
    assert len(local["spark.python.unix.domain.socket.dir"]) + 43 < 108
    assert settings("spark://host:7077")["spark.executor.extraJavaOptions"] == ARROW_JAVA_OPTIONS
    assert settings("local[2]", is_connect=True) == RECOMMENDED


def test_a_package_in_a_place_with_a_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java would take what follows the space for the program to run, and no session would start."""
    monkeypatch.setattr(sessions, "QUIET", Path("/my project/quiet.properties"))
    for master in ("local[2]", "spark://host:7077"):
        found = shlex.split(settings(master)["spark.driver.extraJavaOptions"])
        assert found == ["-Dlog4j2.configurationFile=/my project/quiet.properties", *ARROW_JAVA_OPTIONS.split()]


def test_without_java(tmp_path: Path) -> None:
    with pytest.raises(
        MissingPackageError, match="Spark needs Java, and there is none: expected JAVA_HOME, or java on the PATH, found neither"
    ):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(MissingPackageError, match="JAVA_HOME has no Java"):
        check_java({"JAVA_HOME": str(tmp_path)})
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    assert check_java({"JAVA_HOME": str(tmp_path)}) == str(java)
    assert check_java({"PATH": str(java.parent)}) == str(java)


def test_a_program_without_java_is_told_in_one_line(tmp_path: Path) -> None:
    code = "from tidelog.spark import session; session()"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("tidelog.errors.MissingPackageError: Spark needs Java, and there is none")


def test_the_package_has_what_it_says() -> None:
    assert tidelog.spark.__all__ == ["session"]
    assert callable(tidelog.spark.session)
    with pytest.raises(AttributeError, match="no attribute 'sessoin'"):
        _ = tidelog.spark.sessoin  # type: ignore[attr-defined]


HEAVY = (
    "import sys; import pyspark_tidelog; print(sorted({'numpy', 'pyarrow', 'pandas', 'tidelog.record', 'tidelog.store'} & {*sys.modules}))"
)


def test_what_spark_imports_to_plan_is_light() -> None:
    base = subprocess.run(
        [sys.executable, "-c", HEAVY.replace("pyspark_tidelog", "pyspark.sql.datasource")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    done = subprocess.run([sys.executable, "-c", HEAVY], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == base.stdout
    assert "tidelog.store" not in done.stdout

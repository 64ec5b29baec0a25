"""`--spark [MASTER]`, as far as no Spark is needed: how it is typed, and what is told where it is missing."""

import sys
from pathlib import Path

import pytest

from tests.cli.commands import run, run_process
from tests.support.small_stores import open_store
from tidelog.cli.main import in_front


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with open_store(tmp_path / "s") as made:
        made.create_topic("t").append(b"x")
    return tmp_path / "s"


@pytest.mark.parametrize(
    ("typed", "taken"),
    [
        (["stats", "d", "--spark"], ["stats", "d", "--spark=local[*]"]),
        (["stats", "d", "--spark", "local[2]"], ["stats", "d", "--spark=local[2]"]),
        (["stats", "d", "--spark", "spark://host:7077", "t"], ["stats", "d", "--spark=spark://host:7077", "t"]),
        (["stats", "--spark", "d", "t"], ["stats", "--spark=local[*]", "d", "t"]),
        (["stats", "--spark", "yarn", "d"], ["stats", "--spark=yarn", "d"]),
        (["stats", "--spark=yarn", "d"], ["stats", "--spark=yarn", "d"]),
        (["stats", "d", "--spark", "--json", "-q"], ["-q", "stats", "d", "--spark=local[*]", "--json"]),
        (["ls", "--", "--spark"], ["ls", "--", "--spark"]),
    ],
)
def test_the_master_may_be_left_out(typed: list[str], taken: list[str]) -> None:
    assert in_front(typed) == taken


def test_without_pyspark(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)  # as if it were not installed
    for command in ("stats", "verify", "reindex"):
        done = run(command, store, "--spark")
        assert (done.returncode, done.stdout) == (3, "")
        first, second = done.stderr.splitlines()
        assert first.startswith("error: PySpark is not installed, or too old: expected pyspark 4.2 or newer")
        assert second == "hint: pip install 'tidelog[spark]'"


def test_without_java(store: Path) -> None:
    done = run_process("stats", store, "--spark", JAVA_HOME="/nowhere")
    assert (done.returncode, done.stdout) == (3, "")
    first, second = done.stderr.splitlines()
    assert first == "error: JAVA_HOME has no Java: expected bin/java, found nothing"
    assert second.startswith("hint: install a Java runtime")


def test_what_spark_is_not_for(store: Path) -> None:
    partition = str(store / "t-0")
    for arguments in (["stats", partition], ["verify", partition], ["reindex", partition], ["stats", str(store), "--io-limit", "1M"]):
        done = run(*arguments, "--spark")
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 2

"""Commands with `--spark`: the same answers as without, by executors."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.commands import run
from tests.support.ingest_files import FILES, write_file
from tests.support.job_topics import copied, files_of, make_topic
from tests.support.keyed_topics import make_keyed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a topic of two partitions; not to be changed."""
    path = tmp_path_factory.mktemp("command") / "store"
    make_topic(path, partitions=2, batches=200)
    return path


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return copied(made, tmp_path / "store")


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    done = run("-q", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_stats(store: Path, spark: "SparkSession") -> None:
    here = rows("stats", store, "tide", "--records", "--segments")
    assert rows("stats", store, "tide", "--records", "--segments", "--spark") == here
    assert here[-1]["records"] > 100
    assert spark.range(1).count() == 1  # a session that was there before goes on


@pytest.mark.leaves
def test_verify(store: Path) -> None:
    assert rows("verify", store, "--spark") == rows("verify", store)
    file = store / "tide-1" / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    here, there = run("verify", store), run("verify", store, "--spark", "local[2]")
    assert (there.returncode, sorted(there.stdout.splitlines())) == (1, sorted(here.stdout.splitlines()))
    assert "batch-crc" in there.stdout


def test_compact(store: Path, tmp_path: Path) -> None:
    other = copied(store, tmp_path / "other")
    before = files_of(store)
    plan = run("compact", store, "--spark")
    assert (plan.returncode, files_of(store)) == (0, before)
    assert "tide-0: clean offsets 0 to " in plan.stdout
    done = run("compact", store, "--spark", "--apply")
    assert done.returncode == 0, done.stderr
    assert "tidelog: compacted tide-0: " in done.stderr
    assert run("compact", other, "--apply").returncode == 0
    for partition in ("tide-0", "tide-1"):
        logs = {name: data for name, data in files_of(store / partition).items() if name.endswith(".log")}
        assert logs.keys() == {name for name in files_of(other / partition) if name.endswith(".log")}
        assert sum(map(len, logs.values())) < sum(len(data) for name, data in before.items() if name.startswith(partition))
    assert rows("stats", store, "--records")[-1]["records"] == rows("stats", other, "--records")[-1]["records"]
    assert not list(store.rglob("*.deleted"))
    assert run("verify", store).returncode == 0


@pytest.mark.leaves
def test_reindex(store: Path) -> None:
    assert run("reindex", store, "--apply").returncode == 0
    before = files_of(store)
    for file in sorted((store / "tide-0").glob("*.index"))[:3]:
        file.unlink()
    broken = files_of(store)
    plan = run("reindex", store, "--spark")
    assert plan.stdout.splitlines()[-1].startswith("reindex: 3 files, from ")
    assert files_of(store) == broken
    done = run("reindex", store, "--spark", "--apply")
    assert done.returncode == 0, done.stderr
    assert files_of(store) == before


@pytest.mark.leaves
def test_a_brokers_directory_is_not_compacted_there(store: Path) -> None:
    (store / "tidelog.json").unlink()
    given = ["--config", "cleanup.policy=compact", "--config", "min.compaction.lag.ms=0", "--config", "delete.retention.ms=1"]
    before = files_of(store)
    done = run("compact", store, "tide", "--spark", "--apply", *given)
    assert done.returncode == 3
    assert "not a store of Tidelog" in done.stderr
    assert files_of(store) == before


@pytest.mark.slow
@pytest.mark.leaves("timestamp-1970")
def test_rows_in_and_out(tmp_path: Path) -> None:
    """Files in, the latest state and all versions out, and as files again."""
    source, store = tmp_path / "users.csv", tmp_path / "store"
    source.write_text("id,email,at\n1,a@x,1000\n2,b@x,2000\n1,c@x,3000\n")
    asked = ["--key", "id", "--value", "email", "--timestamp", "cast(at as bigint)", "--transactional-id", "once"]
    asked += ["--spark"]
    [partition, result] = rows("ingest", store, "users", source, *asked)
    assert (partition["topic"], result["type"], result["records"], result["was_there_already"]) == ("users", "result", 3, False)
    assert rows("ingest", store, "users", source, *asked)[-1]["was_there_already"] is True
    expected = [
        {"type": "row", "topic": "users", "key": "1", "value": "c@x"},
        {"type": "row", "topic": "users", "key": "2", "value": "b@x"},
    ]
    assert rows("table", store, "users") == expected
    assert sorted(rows("table", store, "users", "--spark"), key=lambda row: str(row["key"])) == expected
    assert rows("history", store, "users", "--spark") == rows("history", store, "users")
    found = rows("history", store, "users", "--key", "1")
    assert [(row["type"], row["version"], row["value"], row["valid_from_ms"], row["valid_to_ms"]) for row in found] == [
        ("version", 1, "a@x", 1000, 3000),
        ("version", 2, "c@x", 3000, None),
    ]
    assert run("history", store, "users", "--key", "2").stdout == "2\t1\t1970-01-01T00:00:02.000Z\t…\tb@x\n"
    assert rows("export", store, "-o", tmp_path / "out", "--spark", "--format", "json")[-1]["records"] == 3
    assert rows("copy", store, "-o", tmp_path / "copied", "--spark", "--key", "1")[-1]["records"] == 2
    assert rows("restore", store, "users", "-o", tmp_path / "restored", "--spark")[-1]["records"] == 3
    done = run("forget", store, "users", "--key", "1", "--spark", "--apply")
    assert done.returncode == 0, done.stderr
    assert [row["key"] for row in rows("table", store, "users")] == ["2"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_ingest_is_the_same_here_and_there(name: str, tmp_path: Path) -> None:
    source, asked = write_file(name, tmp_path)
    found = []
    for more in ([], ["--spark"]):
        store = tmp_path / f"store{len(more)}"
        result = rows("ingest", store, "t", source, *asked, "--compression", "zstd", *more)[-1]
        records = rows("cat", store, "t")
        assert result["records"] == len(records) > 0
        for record in records:
            if "--timestamp" not in asked:
                del record["timestamp_ms"]
        found.append(sorted(records, key=lambda record: (record["partition"], record["offset"])))
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_run_is_known_again_by_either(tmp_path: Path) -> None:
    source, asked = write_file("words.csv", tmp_path)
    asked += ["--transactional-id", "load"]
    assert rows("ingest", tmp_path / "s", "t", source, *asked)[-1]["was_there_already"] is False
    assert rows("ingest", tmp_path / "s", "t", source, *asked, "--spark")[-1]["was_there_already"] is True
    assert rows("ingest", tmp_path / "s", "t", source, *asked)[-1]["was_there_already"] is True


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [[], ["--tombstones"], ["--allow-incomplete", "--from", "@1700000100000"], ["--as-of", "@1700000200000"]], ids=str
)
def test_history_is_the_same_here_and_there(more: list[str], tmp_path: Path) -> None:
    make_keyed(tmp_path / "s", policy="delete")
    here = rows("history", tmp_path / "s", "tide", *more)
    assert here == rows("history", tmp_path / "s", "tide", *more, "--spark")
    assert len(here) > 20

"""`tidelog find`: records, and where they lie."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import objects, run
from tests.support.small_stores import open_store
from tidelog.record import read_batches
from tidelog.record.kernel.hashing import partition_for_key

TIME = 1_700_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three partitions; keys where Kafka's clients put them, but for one; compressed and plain batches, two segments."""
    path = tmp_path / "store"
    with open_store(path) as made:
        topic = made.create_topic("emails", 3)
        for turn in range(3):
            rows = [(b"key %d" % number, b"turn %d of %d" % (turn, number), (), TIME + 100 * turn + number) for number in range(30)]
            topic.append_many(rows, compression="zstd" if turn == 1 else None)
            if turn == 1:
                for partition in range(3):
                    topic.log(partition).roll()
        topic.append(b"astray", key=b"key 1", timestamp_ms=TIME + 1000, partition=(murmur2_place(b"key 1") + 1) % 3)
    return path


def murmur2_place(key: bytes) -> int:
    return partition_for_key(key, 3)


def check_place(found: dict[str, Any]) -> None:
    """What is said about the batch is what lies in the file."""
    data = Path(found["path"]).read_bytes()
    batch = next(read_batches(data, found["position"]))
    assert (batch.base_offset, batch.last_offset, batch.size_bytes) == (
        found["batch_base_offset"], found["batch_last_offset"], found["batch_size_bytes"],
    )  # fmt: skip
    assert str(batch.compression) == found["compression"]
    [record] = [one for one in batch.records() if one.offset == found["offset"]]
    assert (record.key, record.value) == (found["key"].encode(), found["value"].encode())


def test_by_offset(store: Path) -> None:
    for partition in range(3):
        for offset in range(0, 25, 6):
            [found] = objects("find", store, "emails", "--offset", str(offset), "-p", str(partition))
            assert (found["type"], found["partition"], found["offset"]) == ("record", partition, offset)
            check_place(found)
    assert objects("find", store / "emails-0", "--offset", "3") == objects("find", store, "emails", "-o", "3", "-p", "0")


def test_by_time(store: Path) -> None:
    found = objects_quiet("find", store, "emails", "--time", f"@{TIME + 100}")
    assert [one["partition"] for one in found] == [0, 1, 2]
    assert min(one["timestamp_ms"] for one in found) == TIME + 100
    for one in found:
        check_place(one)
    assert objects_quiet("find", store, "emails", "--time", f"@{TIME + 5000}") == []
    done = run("find", store, "emails", "--time", "2023-11-14T22:13:20.100")
    assert done.stderr == f"time 2023-11-14T22:13:20.100Z (@{TIME + 100})\n"


def objects_quiet(*arguments: str | Path) -> list[dict[str, Any]]:
    done = run("-q", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_key_is_looked_for_everywhere(store: Path) -> None:
    [last] = objects("find", store, "emails", "--key", "key 1")
    assert last["value"] == "astray"
    every = objects("find", store, "emails", "--key", "key 1", "--all")
    assert sorted(one["value"] for one in every) == ["astray", "turn 0 of 1", "turn 1 of 1", "turn 2 of 1"]
    for one in every:
        check_place(one)


def test_unless_the_partitioner_says_where_it_is(store: Path) -> None:
    [last] = objects_quiet("find", store, "emails", "--key", "key 1", "--partitioner", "murmur2")
    assert (last["value"], last["partition"]) == ("turn 2 of 1", murmur2_place(b"key 1"))
    done = run("find", store, "emails", "--key", "key 1", "--partitioner", "murmur2", "--all")
    assert done.stderr == f"key 1 belongs to partition {murmur2_place(b'key 1')} of 3\n"
    assert len(done.stdout.splitlines()) == 6


def test_text_says_where(store: Path) -> None:
    done = run("find", store, "emails", "--offset", "0", "-p", "0")
    first, second = done.stdout.splitlines()
    assert first.startswith("0\t0\t2023-11-14T22:13:20.0")
    size = next(read_batches((store / "emails-0" / f"{0:020}.log").read_bytes())).size_bytes
    last = next(read_batches((store / "emails-0" / f"{0:020}.log").read_bytes())).last_offset
    assert second == f"  in {store}/emails-0/{0:020}.log at byte 0: batch of offsets 0 to {last}, {size} bytes, compression none"


def test_what_is_not_there(store: Path) -> None:
    done = run("find", store, "emails", "--key", "nobody")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "there is no such record\n")
    done = run("find", store, "emails", "--offset", "99999", "-p", "0")
    assert done.returncode == 2
    assert "out of range" in done.stderr


def test_aborted_records_are_no_versions_of_a_key(tmp_path: Path) -> None:
    with open_store(tmp_path) as made:
        made.create_topic("t")
        with made.transaction("a") as transaction:
            transaction.append("t", b"kept", key=b"k")
        with suppress(RuntimeError), made.transaction("a") as transaction:
            for _ in range(4):  # so much that some of it is in the log before it is taken back
                transaction.append("t", b"dropped" * 100_000, key=b"k")
            raise RuntimeError("abort")
        assert made.log("t", 0).log_end_offset > 3
    assert len(objects("find", tmp_path, "t", "--key", "k", "--all", "--isolation", "log_end")) > 1
    assert [one["value"] for one in objects("find", tmp_path, "t", "--key", "k", "--all")] == ["kept"]


def test_an_offset_that_compaction_has_taken(tmp_path: Path) -> None:
    with open_store(tmp_path) as made:
        topic = made.create_topic("t", 1, {"cleanup.policy": "compact"})
        for value in (b"1", b"2", b"3"):
            topic.append(value, key=b"k")
        made.compact("t", roll=True)
        assert [record.offset for record in topic.read()] == [2]
    done = run("find", tmp_path, "t", "--offset", "0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "there is no such record\n")
    assert [one["value"] for one in objects("find", tmp_path, "t", "--offset", "2")] == ["3"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "what is to be found?"),
        (["--offset", "1", "--key", "k"], "what is to be found?"),
        (["--offset", "1"], "one partition only"),
        (["--key", "k", "--partitioner", "crc32"], "no such partitioner"),
        (["--time", "soon"], "not a time"),
    ],
)
def test_wrong_use(arguments: list[str], what: str, store: Path) -> None:
    done = run("find", store, "emails", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert what in done.stderr


def test_in_one_partition_the_last_is_the_last_whatever_its_time(tmp_path: Path) -> None:
    with open_store(tmp_path) as made:
        topic = made.create_topic("t", 2)
        for value, time_ms, partition in ((b"first", TIME + 9, 0), (b"last", TIME, 0), (b"elsewhere", TIME - 1, 1)):
            topic.append(value, key=b"k", timestamp_ms=time_ms, partition=partition)
    assert [one["value"] for one in objects("find", tmp_path, "t", "--key", "k")] == ["last"]
    assert objects("table", tmp_path, "t")[0]["value"] == "last"


@pytest.mark.leaves
def test_where_nothing_says_how_many_partitions_there_are_all_are_searched(store: Path) -> None:
    """Of a broker's directory without its metadata log the highest that is here need not be the last."""
    (store / "tidelog.json").unlink()
    key = next(key for key in (b"key %d" % number for number in range(30)) if murmur2_place(key) == partition_for_key(key, 2) == 0)
    for lost in (1, 2):
        shutil.rmtree(store / f"emails-{lost}")
    (store / "emails-0").rename(store / "emails-1")  # as if there were two, and the key in the other
    done = run("find", store, "emails", "--key", key.decode(), "--partitioner", "murmur2", "--isolation", "log_end")
    assert done.returncode == 0, done.stderr
    assert "nothing says how many partitions there are" in done.stderr
    assert "turn 2 of" in done.stdout


def test_a_key_that_is_no_text(tmp_path: Path) -> None:
    """A shell passes on any bytes; Python shows those that are no UTF-8 as surrogates."""
    key, path = b"\xff\xfekey", tmp_path / "s"
    with open_store(path) as made:
        topic = made.create_topic("t")
        topic.append(b"one \xfe", key=key, headers=[("h", b"\xff")])
        topic.append(b"two", key=b"key")
    typed, header, inside = os.fsdecode(key), os.fsdecode(b"h=\xff"), os.fsdecode(b"\xfe")
    assert [found["offset"] for found in objects("find", path, "t", "--key", typed)] == [0]
    for asked in (["--key", typed], ["--key-regex", typed], ["--header", header], ["--value", inside], ["--value-regex", inside]):
        assert [found["offset"] for found in objects("cat", path, "t", *asked)] == [0], asked
    assert {found["key"]["base64"] for found in objects("history", path, "t", "--key", typed)} == {"//5rZXk="}
    assert run("forget", path, "t", "--key", typed, "--apply").returncode == 0
    assert [found["value"] for found in objects("cat", path, "t")] == ["two"]

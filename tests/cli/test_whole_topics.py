"""`export`, `table`, `copy`, `restore`, `forget` without Spark: what is written, that nothing is overwritten, what is refused."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.cli.commands import objects, run
from tests.support.golden import GOLDEN
from tests.support.logs import FakeClock
from tests.support.small_stores import open_store, tree_of
from tidelog.disk.disk import Disk

BROKER = GOLDEN / "broker" / "data"
TIME = 1_700_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Ten records of four keys, one of which is deleted in the end."""
    path = tmp_path / "store"
    with open_store(path, clock=FakeClock(TIME + 1000)) as made:
        topic = made.create_topic("emails", 1, {"retention.ms": 86_400_000})
        for number in range(10):
            topic.append(b"mail %d" % number, key=b"anna-%d" % (number % 4), timestamp_ms=TIME + number)
        topic.append(None, key=b"anna-3", timestamp_ms=TIME + 10)
    return path


def changed(*arguments: str | Path) -> list[dict[str, Any]]:
    done = run(*arguments, "--apply", "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_export(store: Path, tmp_path: Path) -> None:
    done = run("export", store, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{tmp_path}/out: 11 records in 1 file, ")
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert [(row["key"], row["value"], row["offset"]) for row in rows[:2]] == [(b"anna-0", b"mail 0", 0), (b"anna-1", b"mail 1", 1)]
    lines = objects(
        "export", store, "emails", "-o", tmp_path / "lines", "--format", "json", "--partition-by", "none", "--from", "3", "--to", "5"
    )
    assert [(line["type"], line["records"]) for line in lines] == [("file", 2), ("result", 2)]
    text = (tmp_path / "lines" / lines[0]["path"]).read_text()
    assert [json.loads(line) for line in text.splitlines()] == objects("cat", store, "emails", "--from", "3", "--to", "5")
    before = tree_of(tmp_path)
    done = run("export", store, "-o", tmp_path / "out")
    assert (done.returncode, done.stdout) == (3, "")
    assert tree_of(tmp_path) == before


def test_table(store: Path) -> None:
    assert run("table", store, "emails").stdout == "anna-0\tmail 8\nanna-1\tmail 9\nanna-2\tmail 6\n"
    assert {row["key"]: row["value"] for row in objects("table", store, "emails", "--as-of", "2")} == {
        "anna-0": "mail 0", "anna-1": "mail 1", "anna-2": "mail 2",
    }  # fmt: skip
    [row] = objects("-q", "table", store / "emails-0", "--as-of", f"@{TIME}")
    assert row == {"type": "row", "topic": "emails", "key": "anna-0", "value": "mail 0"}
    with open_store(store) as made:
        made.topic("emails").alter({"cleanup.policy": "compact"})
        made.compact("emails", roll=True)
    done = run("table", store, "emails", "--as-of", "2")
    assert (done.returncode, done.stdout) == (3, "")
    assert run("table", store, "emails", "--as-of", "2", "--allow-incomplete").returncode == 0
    assert run("table", store, "emails").stdout == "anna-0\tmail 8\nanna-1\tmail 9\nanna-2\tmail 6\n"


def test_copy(store: Path, tmp_path: Path) -> None:
    before = tree_of(store)
    done = run("copy", store, "-o", tmp_path / "all")
    assert done.returncode == 0, done.stderr
    assert objects("cat", tmp_path / "all", "emails") == objects("cat", store, "emails")
    [*_, result] = objects("copy", store, "emails", "-o", tmp_path / "some", "--key", "anna-1", "--key", "anna-2")
    assert (result["type"], result["command"], result["records"]) == ("result", "copy", 5)
    assert {row["key"] for row in objects("cat", tmp_path / "some", "emails")} == {"anna-1", "anna-2"}
    objects("copy", store, "-o", tmp_path / "regex", "--key-regex", "-[03]$")
    assert {row["key"] for row in objects("cat", tmp_path / "regex", "emails")} == {"anna-0", "anna-3"}
    objects("copy", store, "-o", tmp_path / "part", "--until-offset", "emails-0=4")
    assert [row["offset"] for row in objects("cat", tmp_path / "part", "emails")] == [0, 1, 2, 3]
    for name, before_all in (("first", "1969-12-31T23:59:59.999Z"), ("long-ago", "1960-01-01")):
        # To Kafka a time of -1 is the end of a log: all of it was copied, and of other such times it was said that there are none.
        assert objects("-q", "copy", store, "-o", tmp_path / name, "--until", before_all)[-1]["records"] == 0
    objects("-q", "copy", store, "-o", tmp_path / "then", "--until", f"@{TIME + 2}")
    assert [row["offset"] for row in objects("cat", tmp_path / "then", "emails")] == [0, 1]
    for path in ("all", "some", "regex", "part", "then"):
        assert run("verify", tmp_path / path).returncode == 0
    there = tree_of(tmp_path)
    assert run("copy", store, "-o", tmp_path / "all").returncode == 3
    assert tree_of(tmp_path) == there
    assert tree_of(store) == before


def test_copy_of_a_brokers_directory_has_its_settings(tmp_path: Path) -> None:
    assert run("copy", BROKER, "-o", tmp_path / "new").returncode == 0
    [setting] = objects("config", "get", tmp_path / "new", "emails", "retention.ms")
    assert (setting["value"], setting["source"]) == ("172800000", "tidelog.json")
    assert len(objects("cat", tmp_path / "new", "emails")) == 10


@pytest.mark.leaves
def test_restore(store: Path, tmp_path: Path) -> None:
    log = store / "emails-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes() + b"torn")
    [partition, result] = objects("restore", store, "-o", tmp_path / "new")
    assert (partition["records"], len(partition["cuts"]), result["records"]) == (11, 1, 11)
    [cut] = partition["cuts"]
    assert (cut["base_offset"], cut["position"], cut["size_bytes"]) == (0, log.stat().st_size - 4, 4)
    assert (tmp_path / "new" / "emails-0" / cut["kept_in"]).read_bytes() == b"torn"
    assert run("verify", tmp_path / "new").returncode == 0
    assert len(objects("cat", tmp_path / "new", "emails")) == 11


@pytest.mark.leaves
def test_restore_of_what_is_damaged_inside(store: Path, tmp_path: Path) -> None:
    with open_store(store, clock=FakeClock(TIME + 1000)) as made:
        made.log("emails", 0).roll()
        made.topic("emails").append(b"late", key=b"k", timestamp_ms=TIME)
    log = store / "emails-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    done = run("restore", store, "-o", tmp_path / "new")
    assert (done.returncode, done.stdout) == (3, "")
    assert not (tmp_path / "new").exists()
    done = run("restore", store, "-o", tmp_path / "new", "--damage", "cut")
    assert done.returncode == 0, done.stderr
    assert "bytes from byte 80 on were cut" in done.stdout
    assert len(objects("cat", tmp_path / "new", "emails")) == 1


def test_forget(store: Path, tmp_path: Path) -> None:
    before = tree_of(store)
    done = run("forget", store, "emails", "--key", "anna-1")
    assert (done.returncode, done.stderr) == (0, "nothing was changed; --apply does it\n")
    size = (store / "emails-0" / f"{0:020}.log").stat().st_size
    assert done.stdout == f"  emails-0: remove 3 records, rewrite 1 segment ({size} B)\nforget: 3 records of 1 key\n"
    assert tree_of(store) == before
    (tmp_path / "keys").write_text("anna-1\nanna-2\n")
    *_, partition, result = changed("forget", store, "emails", "--key-file", tmp_path / "keys")
    assert (partition["type"], partition["records"]) == ("partition", 5)
    assert (result["type"], result["records"], result["proof"]["occurrences"]) == ("result", 5, 0)
    assert {row["key"] for row in objects("cat", store, "emails")} == {"anna-0", "anna-3"}
    assert b"anna-1" not in b"".join(file.read_bytes() for file in store.rglob("*.log"))
    assert run("forget", store, "emails", "--key", "anna-1", "--apply").stdout == "forget: nothing to do\n"
    assert run("verify", store).returncode == 0


def test_keys_in_a_file_end_with_the_line(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as made:
        topic = made.create_topic("t")
        for key in (b"a\rb", b"a", b"b", b"c"):
            topic.append(b"x", key=key)
    (tmp_path / "keys").write_bytes(b"a\rb\nc\r\n")
    assert run("forget", tmp_path / "s", "t", "--key-file", tmp_path / "keys", "--apply").returncode == 0
    assert [found["key"] for found in objects("cat", tmp_path / "s", "t")] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["export", "{store}"], "export to where?"),
        (["export", "{store}", "nope", "-o", "{store}/../x"], "no topic 'nope'"),
        (["export", "{store}", "-o", "{store}/../x", "--format", "xml"], "format"),
        (["export", "{store}", "-o", "{store}/x"], "lies in the directory that is read"),
        (["export", "{store}/emails-0", "-o", "{store}/../x"], "whole topics"),
        (["copy", "{store}"], "copy to where?"),
        (["copy", "{store}", "-o", "{store}/../x", "--until-offset", "emails=3"], "not a place"),
        (["copy", "{store}", "-o", "{store}/../x", "--until", "2h", "--until-offset", "emails-0=3"], "two ways to say it"),
        (["copy", "{store}", "-o", "{store}/../x", "--key", "a", "--key-regex", "b"], "two ways to say it"),
        (["copy", "{store}", "-o", "{store}/../x", "--key-regex", "("], "not a regular expression"),
        (["restore", "{store}", "-o", "{store}/../x", "--damage", "keep"], "no such way with damage"),
        (["table", "{store}"], "which topic?"),
        (["forget", "{store}", "emails"], "forget what?"),
        (["forget", "{store}", "__consumer_offsets", "--key", "k"], "a topic that Kafka keeps for itself"),
        (["ingest", "{store}", "emails", "/nowhere.csv"], "no such file"),
    ],
)
def test_wrong_use(arguments: list[str], what: str, store: Path) -> None:
    before = tree_of(store.parent)
    done = run(*(argument.format(store=store) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert what in done.stderr
    assert tree_of(store.parent) == before


@pytest.mark.leaves
def test_forget_what_was_kept_aside(store: Path) -> None:
    """A repair has kept aside what it cut: the key is in there too, also when the log has none of it any more."""
    asked: list[str | Path] = ["forget", store, "emails", "--key", "anna-1"]
    aside = store / "emails-0" / f"cut-{0:020}-at-0.log.tidelog"
    aside.write_bytes((store / "emails-0" / f"{0:020}.log").read_bytes())
    done = run(*asked, "--apply")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == (
        "hint: the topic's segments have none left; --remove-kept-aside removes these files, which nothing else needs"
    )
    done = run(*asked, "--apply")
    assert (done.returncode, done.stdout) == (0, "forget: nothing to do\n")
    assert done.stderr == f"{aside}: kept aside, with a key in it; --remove-kept-aside removes it\n"
    done = run(*asked, "--remove-kept-aside")
    assert done.stdout == f"  remove {aside}, which was kept aside and has a key in it\nforget: 0 records of 1 key, 1 file kept aside\n"
    assert aside.exists()
    step, partition, result = changed(*asked, "--remove-kept-aside")
    assert (step["type"], step["path"], step["is_applied"]) == ("step", str(aside), True)
    assert (partition["records"], result["removed"], result["proof"]["occurrences"]) == (0, [str(aside)], 0)
    assert not aside.exists()
    assert run(*asked, "--remove-kept-aside", "--apply").stdout == "forget: nothing to do\n"


def test_forget_needs_room_for_all_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store"
    with open_store(path) as made:
        topic = made.create_topic("emails", 3)
        for partition in range(3):
            topic.append(b"x" * 1000, key=b"anna" if partition else b"bela", partition=partition)
    before = tree_of(path)
    size = (path / "emails-1" / f"{0:020}.log").stat().st_size
    monkeypatch.setattr(Disk, "free_bytes", lambda *_: 2 * size - 1)
    done = run("forget", path, "emails", "--key", "anna", "--apply")
    assert done.returncode == 3
    assert f"expected {2 * size} bytes free" in done.stderr
    assert tree_of(path) == before
    monkeypatch.setattr(Disk, "free_bytes", lambda *_: 2 * size)
    assert run("forget", path, "emails", "--key", "anna", "--apply").returncode == 0


def test_what_is_passed_over_is_told(store: Path, tmp_path: Path) -> None:
    (store / "lost+found").mkdir()
    asked: list[list[str | Path]] = [
        ["export", store, "-o", tmp_path / "exported"],
        ["copy", store, "-o", tmp_path / "copied"],
        ["restore", store, "-o", tmp_path / "restored"],
        ["history", store, "emails"],
        ["forget", store, "emails", "--key", "anna-1"],
    ]
    for arguments in asked:
        done = run(*arguments)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(f"{store}/lost+found: of the file system; passed over\n") == 1


def test_spark_makes_tables_of_whole_topics(store: Path) -> None:
    done = run("table", store, "emails", "--partition", "0", "--spark")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == ["error: --spark is about whole topics", "hint: leave out --partition, or --spark"]

"""`tidelog verify` and `tidelog stats`."""

import json
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import objects, run
from tests.support.golden import GOLDEN
from tests.support.small_stores import open_store
from tidelog import inspection
from tidelog.inspection import SegmentStats
from tidelog.record import BatchSettings, Compression, NewBatch

BROKER = GOLDEN / "broker" / "data"
TIME = 1_700_000_000_000
FIRST = f"{0:020}.log"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two partitions; the first has two segments, one of them compressed, and a tombstone."""
    path = tmp_path / "store"
    with open_store(path) as made:
        topic = made.create_topic("emails", 2)
        log = topic.log(0)
        log.append(NewBatch([(b"k%d" % (number % 5), b"value", (), TIME + number) for number in range(20)]).encode())
        log.roll()
        rows = [(b"k%d" % number, b"x" * 100, (), TIME + 100) for number in range(7)]
        log.append(NewBatch(rows, settings=BatchSettings(compression=Compression.ZSTD)).encode())
        topic.append(None, key=b"k1", timestamp_ms=TIME + 200, partition=0)
    return path


def flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)


def test_a_log_in_order(store: Path) -> None:
    for path in (store, store / "emails-0", store / "emails-0" / FIRST, store / "tidelog.json"):
        done = run("verify", path)
        assert done.returncode == 0, done.stdout
    assert run("verify", store).stdout == "verify: in order (level everything)\n"
    assert run("verify", store, "--level", "records").stdout == "verify: in order (level records)\n"
    assert objects("verify", store, "--level", "headers") == [
        {"type": "result", "command": "verify", "level": "headers", "paths": 1, "is_sound": True, "errors": 0, "warnings": 0, "notes": 0}
    ]


@pytest.mark.leaves
def test_damage_is_told_and_exit_code_1(store: Path) -> None:
    file = store / "emails-0" / FIRST
    flip(file, 100)
    done = run("verify", store)
    assert (done.returncode, done.stderr) == (1, "")
    first, last = done.stdout.splitlines()
    what = "the CRC of a batch does not match: its 20 records are not to be trusted [batch-crc; salvage]"
    assert first == f"error: {file} at byte 0 (offset 19): {what}"
    assert last == "verify: 1 error"
    for path in (store / "emails-0", file):
        done = run("verify", path, "--json")
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert done.returncode == 1
        assert (found[0]["type"], found[0]["code"], found[0]["position"], found[0]["path"]) == ("finding", "batch-crc", 0, str(file))
        assert (found[1]["type"], found[1]["errors"], found[1]["is_sound"]) == ("result", 1, False)
    assert run("verify", store / "emails-1", store / "tidelog.json").returncode == 0
    assert run("verify", store / "emails-1", file).returncode == 1
    assert run("verify", store, "--level", "headers").returncode == 0  # nobody has asked for CRCs


@pytest.mark.leaves
def test_notes_are_no_trouble(store: Path) -> None:
    (store / "emails-0" / f"{0:020}.log.deleted").write_bytes(b"")
    done = run("verify", store)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "verify: 1 note")
    assert "leftover-deleted" in done.stdout


def test_a_partition_that_is_missing(store: Path) -> None:
    """With all files that are left in order: what a store has is written down in it."""
    (store / "emails-1").rename(store.parent / "elsewhere-1")
    done = run("verify", store)
    assert done.returncode == 1
    told = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    assert [line.partition(": the")[0] for line in told] == [f"error: {store}/emails-1"]
    assert "[partition-missing; restoring it from a backup, or deleting the topic]" in told[0]
    *found, result = map(json.loads, run("verify", store, "--json").stdout.splitlines())
    assert [(one["code"], one["path"]) for one in found if one["severity"] == "error"] == [("partition-missing", f"{store}/emails-1")]
    assert (result["errors"], result["is_sound"]) == (1, False)


def test_all_directories_of_a_store(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with open_store(*paths) as made:
        made.create_topic("t", 4)
    assert run("verify", *paths).stdout == "verify: in order (level everything)\n"
    done = run("verify", paths[0])
    assert (done.returncode, done.stdout.count("partition-elsewhere")) == (0, 1)
    next(paths[1].glob("t-*")).rename(tmp_path / "elsewhere-1")
    done = run("verify", *paths)
    assert (done.returncode, done.stdout.count("partition-missing")) == (1, 1)


@pytest.mark.leaves
def test_flushed_batches_that_are_gone(store: Path) -> None:
    """A crash leaves no such end: who opens the log would go on from there, and nobody would know."""
    path = sorted((store / "emails-0").glob("*.log"))[-1]
    path.write_bytes(path.read_bytes()[:-30])
    done = run("verify", store)
    assert done.returncode == 1
    (told,) = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    assert told.startswith(f"error: {path} at byte ")
    assert "expected an end at offset 28 or more, found 27 [ends-below-recovery-point; restoring it from a backup" in told


@pytest.mark.parametrize(("arguments", "what"), [(["{store}/nope"], "no such file"), (["{store}", "--level", "all"], "no such level")])
def test_wrong_use(arguments: list[str], what: str, store: Path) -> None:
    done = run("verify", *(argument.format(store=store) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert what in done.stderr
    assert done.stderr.splitlines()[1].startswith("hint: ")


def test_stats_by_headers(store: Path) -> None:
    done = run("stats", store)
    assert (done.returncode, done.stderr) == (0, "")
    header, first, second, total = done.stdout.splitlines()
    assert header.split() == [
        "TOPIC", "PARTITION", "RECORDS", "MARKERS", "BATCHES", "SIZE", "AVERAGE", "BATCH", "CODECS", "FIRST", "LAST",
    ]  # fmt: skip
    assert first.startswith("emails          0       28        0        3  ")
    assert first.endswith("2 none, 1 zstd  2023-11-14T22:13:20.000Z  2023-11-14T22:13:20.200Z")
    assert second.split()[:3] == ["emails", "1", "0"]
    assert total.startswith("total: 28 records in 3 batches, ")
    rows = objects("stats", store)
    assert [row["type"] for row in rows] == ["partition", "partition", "result"]
    size_bytes = sum(file.stat().st_size for file in (store / "emails-0").glob("*.log"))
    assert (rows[0]["records"], rows[0]["size_bytes"], rows[0]["first_offset"], rows[0]["last_offset"]) == (28, size_bytes, 0, 27)
    assert (rows[0]["codecs"], rows[0]["magics"], rows[0]["distinct_keys"]) == ({"none": 2, "zstd": 1}, {"2": 3}, None)
    assert objects("stats", store / "emails-0")[0] == rows[0]
    assert [row["base_offset"] for row in objects("stats", store, "emails", "--segments")[:-1]] == [0, 20, 0]


def test_stats_by_records(store: Path) -> None:
    [first, _, whole] = objects("stats", store, "emails", "--records")
    assert (first["tombstones"], first["null_keys"], first["key_bytes"], first["value_bytes"]) == (1, 0, 56, 800)
    assert first["distinct_keys"] == whole["distinct_keys"] == 7
    assert "about 7 keys, 1 tombstone\n" in run("stats", store, "--records").stdout


def test_what_is_known_of_keys_does_not_add_up_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four kibibytes for each segment: of all that lie in a directory they were kept to the end."""
    with open_store(tmp_path) as made:
        topic = made.create_topic("t", 8)
        for number in topic.partition_ids():
            topic.append(b"x", key=b"k%d" % number, partition=number)
    sketches: list[weakref.ref[object]] = []
    alive: list[int] = []

    def watched(path: str, **how: Any) -> list[SegmentStats]:
        alive.append(sum(sketch() is not None for sketch in sketches))
        found = inspection.stats(path, **how)
        sketches.extend(weakref.ref(one.keys) for one in found)
        return found

    monkeypatch.setattr(sys.modules["tidelog.inspection.stats"], "stats", watched)  # the package has the function under that name
    assert objects("stats", tmp_path, "--records", "--segments")[-1]["distinct_keys"] == 8
    assert len(alive) == 8
    assert max(alive) <= 2


def test_stats_of_a_broker() -> None:
    rows = {(row["topic"], row["partition"]): row["records"] for row in objects("stats", BROKER)[:-1]}
    assert rows == {("again", 0): 10, ("emails", 0): 10, ("emails", 1): 0, ("emails", 2): 0, ("plain", 0): 10, ("profiles", 0): 10, ("profiles", 1): 0}  # fmt: skip # noqa: E501
    assert objects("stats", BROKER, "__cluster_metadata")[0]["records"] > 50


def test_a_delete_horizon_is_no_time_of_a_record(tmp_path: Path) -> None:
    """What a header has for the first record's time is the horizon once a tombstone was kept: it was shown as a day in the future."""
    with open_store(tmp_path) as made:
        topic = made.create_topic("t", 1, {"cleanup.policy": "compact"})
        topic.append(None, key=b"k", timestamp_ms=TIME)
        made.compact("t", roll=True)
    [row, _] = objects("stats", tmp_path, "t")
    assert (row["records"], row["first_timestamp_ms"], row["last_timestamp_ms"]) == (1, None, TIME)

"""`tidelog dump`: files of a log, whole and damaged, against what Kafka itself says about them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import objects, run, run_process
from tests.cli.test_cat import as_bytes
from tests.support.golden import GOLDEN, golden_logs, is_same
from tests.support.small_stores import tree_of
from tidelog.inspection.dump import dump

BROKER = GOLDEN / "broker" / "data"
PARTITION = GOLDEN / "partitions" / "index-dense" / "closed"
FIRST = "00000000000000000000"


def named(tmp_path: Path, data: bytes, name: str = f"{FIRST}.log", home: str = "t-0") -> Path:
    path = tmp_path / home / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("log", golden_logs(), ids=lambda log: log.name.replace("/", "-"))
def test_batches_and_records_are_those_that_kafka_reads(log: Any, tmp_path: Path) -> None:
    path = named(tmp_path, log.data)
    found = list(dump(str(path), records=True))
    batches = [one for one in found if one["type"] == "batch"]
    assert len(batches) == len(log.batches)
    for ours, theirs in zip(batches, log.batches, strict=True):
        for name, value in ours.items():
            if theirs.get(name) is not None and value is not None:  # of old formats some is in the records only
                assert value == theirs[name], name
        assert ours["magic"] < 2 or None not in (ours["base_offset"], ours["count"])
    records = [one for one in found if one["type"] == "record"]
    expected = [record for batch in log.batches for record in batch["records"]]
    assert [one["offset"] for one in records] == [one["offset"] for one in expected]
    for shown, known in zip(records, expected, strict=True):
        assert (shown["timestamp_ms"], shown["topic"], shown["partition"]) == (known["timestamp_ms"], "t", 0)
        assert is_same(known["key"], shown["key"])
        assert is_same(known["value"], shown["value"])
        assert known.get("coordinator_epoch") == shown.get("coordinator_epoch")
    assert {one["type"] for one in found} <= {"segment", "batch", "record"}


def test_a_partition_with_all_its_files() -> None:
    before = tree_of(PARTITION)
    found = objects("dump", PARTITION, "--records")
    kinds = {Path(one["path"]).suffix: one["type"] for one in found if one["type"] not in ("segment", "batch")}
    assert kinds[".index"] == "offset_index_entry"
    assert kinds[".timeindex"] == "time_index_entry"
    assert next(one for one in found if one["type"] == "checkpoint_entry").keys() == {"type", "epoch", "start_offset", "path"}
    batches = {(Path(one["path"]).stem, one["position"]): one for one in found if one["type"] == "batch"}
    entries = [one for one in found if one["type"] == "offset_index_entry"]
    assert entries
    assert all(batches[Path(one["path"]).stem, one["position"]]["last_offset"] == one["offset"] for one in entries)
    assert tree_of(PARTITION) == before


def test_a_brokers_whole_directory() -> None:
    found = objects("dump", BROKER, "--records")
    paths = {one["path"] for one in found}
    assert f"{BROKER}/recovery-point-offset-checkpoint" in paths
    assert f"{BROKER}/__cluster_metadata-0/{FIRST}.log" in paths
    assert f"{BROKER}/bootstrap.checkpoint" in paths
    offsets = {
        f"{one['topic']}-{one['partition']}": one["offset"] for one in found if one["path"].endswith("replication-offset-checkpoint")
    }
    assert offsets["emails-0"] == 10
    assert not [one for one in found if one["type"] == "finding" or "notes" in one]
    kinds = {one.get("kind") for one in found if "__cluster_metadata" in one["path"]}
    assert {"topic_record", "snapshot_header", "snapshot_footer", "leader_change", "config_record"} <= kinds
    raw = objects("dump", BROKER / "__cluster_metadata-0", "--records", "--raw")
    assert all(as_bytes(one["value"]) is not None and "kind" not in one for one in raw if one["type"] == "record")


def test_producers_and_aborted_transactions() -> None:
    seen: dict[str, dict[str, Any]] = {}
    for case in sorted((GOLDEN / "partitions").iterdir()):
        for one in dump(str(case / "closed")):
            seen.setdefault(one["type"], one)
    assert seen["producer"].keys() == {
        "type", "producer_id", "producer_epoch", "coordinator_epoch", "current_txn_first_offset", "last_timestamp_ms",
        "first_sequence", "last_sequence", "last_offset", "offset_delta", "path",
    }  # fmt: skip
    assert seen["aborted_transaction"].keys() == {
        "type", "version", "producer_id", "first_offset", "last_offset", "last_stable_offset", "path",
    }  # fmt: skip
    assert Path(seen["finding"]["path"]).parts[-3] == "opened-torn"


def test_the_marker_of_a_transaction(tmp_path: Path) -> None:
    """In an internal topic too: a marker's key is not one of the topic's."""
    data = (GOLDEN / "batches" / "v2-abort-marker.log").read_bytes()
    for home in ("t-0", "__consumer_offsets-0", "__transaction_state-3"):
        [shown] = [one for one in dump(str(named(tmp_path, data, home=home)), records=True) if one["type"] == "record"]
        assert (shown["control_type"], isinstance(shown["coordinator_epoch"], int)) == ("ABORT", True)
        assert "kind" not in shown
        assert shown["key"][:4] == b"\x00\x00\x00\x00"


def test_damage_is_shown_and_passed_over(tmp_path: Path) -> None:
    good = (PARTITION / f"{FIRST}.log").read_bytes()
    sizes = [one["size_bytes"] for one in dump(str(named(tmp_path, good))) if one["type"] == "batch"]
    assert len(sizes) > 3
    crc = bytearray(good)
    crc[sizes[0] - 1] ^= 1
    found = objects("dump", named(tmp_path, bytes(crc)), "--records")
    assert [one["is_valid"] for one in found if one["type"] == "batch"] == [False] + [True] * (len(sizes) - 1)
    [finding] = [one for one in found if one["type"] == "finding"]
    assert (finding["code"], finding["position"]) == ("batch-crc", 0)
    torn = list(dump(str(named(tmp_path, good[:-1]))))
    assert [one["code"] for one in torn if one["type"] == "finding"] == ["torn-tail"]
    lost = list(dump(str(named(tmp_path, good[: sizes[0]] + b"\xff" * 50 + good[sizes[0] :]))))
    assert [one["code"] for one in lost if one["type"] == "finding"] == ["framing-lost"]
    assert len([one for one in lost if one["type"] == "batch"]) == len(sizes)
    done = run("dump", named(tmp_path, bytes(crc)))
    assert done.returncode == 0
    assert "error at byte 0: the CRC of a batch does not match" in done.stdout


def test_small_files_that_are_damaged(tmp_path: Path) -> None:
    shutil.copytree(PARTITION, tmp_path / "t-0")
    (tmp_path / "t-0" / f"{FIRST}.snapshot").write_bytes(b"\x00\x01garbage")
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_bytes(b"what\n")
    (tmp_path / "t-0" / "partition.metadata").write_bytes(b"")
    (tmp_path / "t-0" / f"{FIRST}.index").write_bytes(b"\x00" * 7)
    found = objects("dump", tmp_path / "t-0")
    assert {Path(one["path"]).name for one in found if one["type"] == "finding"} == {
        f"{FIRST}.snapshot", "leader-epoch-checkpoint", "partition.metadata", f"{FIRST}.index",
    }  # fmt: skip


def test_text(tmp_path: Path) -> None:
    done = run("dump", BROKER / "emails-0" / f"{FIRST}.timeindex", BROKER / "emails-0" / f"{FIRST}.log", "--records")
    lines = done.stdout.splitlines()
    assert lines[:4] == [
        f"Dumping {BROKER}/emails-0/{FIRST}.timeindex",
        "timestamp: 1577836800009 offset: 9",
        f"Dumping {BROKER}/emails-0/{FIRST}.log",
        "Log starting offset: 0",
    ]
    assert lines[4].startswith("baseOffset: 0 lastOffset: 9 count: 10 ")
    assert lines[5].endswith(" keySize: 2 valueSize: 8 sequence: -1 headerKeys: [] key: k0 payload: emails 0")


def test_where_it_is_called_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which topic it is the name of the directory says, also if it is not typed."""
    monkeypatch.chdir(BROKER / "__cluster_metadata-0")
    for path in (".", f"{FIRST}.log", f"./{FIRST}.log", "../__cluster_metadata-0/"):
        found = [one for one in dump(path, records=True) if one["type"] == "record" and one["path"].endswith(".log")]
        assert found
        assert {one["path"] for one in found} == {f"{path.rstrip('/')}/{FIRST}.log" if not path.endswith(".log") else path}
        assert {one["topic"] for one in found} == {"__cluster_metadata"}
        assert all(one["kind"] is not None for one in found)


def test_text_is_utf8_in_every_locale(tmp_path: Path) -> None:
    path = named(tmp_path, (GOLDEN / "batches" / "v2-create-time-none.log").read_bytes())
    plain = run("dump", path, "--records", "--json")
    ascii_only = run_process("dump", path, "--records", "--json", PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0")
    assert (ascii_only.returncode, ascii_only.stdout) == (0, plain.stdout)
    assert not plain.stdout.isascii()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["{home}/nope"], "no such file or directory"),
        (["{home}/notes.txt"], "no file of a log, by its name"),
        ([], "PATH"),
    ],
)
def test_wrong_use(arguments: list[str], what: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    done = run("dump", *(argument.format(home=tmp_path) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert what in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_json_is_the_same_through_the_command(tmp_path: Path) -> None:
    path = named(tmp_path, (GOLDEN / "batches" / "v2-create-time-none.log").read_bytes())
    ours = [one for one in dump(str(path), records=True) if one["type"] == "record"]
    shown = [one for one in objects("dump", path, "--records") if one["type"] == "record"]
    assert [(as_bytes(one["key"]), as_bytes(one["value"])) for one in shown] == [(one["key"], one["value"]) for one in ours]
    assert [json.dumps(one["headers"]) for one in shown]

"""`tidelog cat`: records of stores, brokers and single partitions."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.cli.commands import COMMAND, objects, run, run_process
from tests.support.golden import GOLDEN
from tests.support.small_stores import open_store, tree_of
from tidelog.errors import DamagedLogError
from tidelog.schema.consumer_offsets import OffsetCommitKey, OffsetCommitValue, format_offset_key, format_offset_value

BROKER = GOLDEN / "broker" / "data"
TIME = 1_700_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """With records of all shapes."""
    path = tmp_path / "store"
    with open_store(path) as made:
        topic = made.create_topic("emails", 2)
        topic.append(b"hello", key=b"a", timestamp_ms=TIME, partition=0)
        topic.append(None, key=b"a", headers=(("h", b"1"), ("h", None), ("ü", b"\xff")), timestamp_ms=TIME + 1, partition=0)
        topic.append(b"\xff\x00", timestamp_ms=TIME + 2, partition=1)
        topic.append("größe\n\x1b[31m\t".encode(), key=b"", timestamp_ms=TIME + 3, partition=1)
        made.create_topic("empty")
    return path


def as_bytes(value: Any) -> bytes | None:
    """The bytes that JSON stands for."""
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])


def test_json_has_every_byte(store: Path) -> None:
    before = tree_of(store)
    found = objects("cat", store, "emails")
    with tidelog.open(store, "r") as reader:
        expected = list(reader.topic("emails").read())
    assert tree_of(store) == before
    assert len(found) == len(expected) == 4
    for shown, record in zip(found, expected, strict=True):
        assert list(shown) == [
            "type", "topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers", "sequence",
        ]  # fmt: skip
        assert (shown["type"], shown["topic"], shown["partition"]) == ("record", "emails", record.partition)
        assert (shown["offset"], shown["timestamp_ms"], shown["timestamp_type"]) == (record.offset, record.timestamp_ms, "CreateTime")
        assert (as_bytes(shown["key"]), as_bytes(shown["value"])) == (record.key, record.value)
        assert tuple((name, as_bytes(value)) for name, value in shown["headers"]) == record.headers


def test_text_is_one_line_a_record_and_harmless(store: Path) -> None:
    done = run("cat", store, "emails", "--partition", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1\t0\t2023-11-14T22:13:20.002Z\tnull\t\\xff\\x00\n1\t1\t2023-11-14T22:13:20.003Z\t\tgröße\\n\\x1b[31m\\t\n"


def test_where_to_begin(store: Path) -> None:
    def offsets(*arguments: str) -> list[tuple[int, int]]:
        done = run("-q", "cat", store, "emails", "--json", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return [(shown["partition"], shown["offset"]) for shown in map(json.loads, done.stdout.splitlines())]

    assert offsets("--partition", "0", "--from", "1") == [(0, 1)]
    assert offsets("--from", "latest") == []
    assert offsets("--from", "earliest", "--partition", "0") == [(0, 0), (0, 1)]
    assert sorted(offsets("--from", f"@{TIME + 1}")) == [(0, 1), (1, 0), (1, 1)]
    assert sorted(offsets("--from", "2023-11-14T22:13:20.001")) == [(0, 1), (1, 0), (1, 1)]
    assert sorted(offsets("--from", "2023-11-14T23:13:20.002+01:00")) == [(1, 0), (1, 1)]
    assert objects("cat", store, "empty", "--from", "0") == []


def test_the_resolved_time_is_told(store: Path) -> None:
    done = run("cat", store, "emails", "--from", "2023-11-14")
    assert done.stderr == "from 2023-11-14T00:00:00.000Z (@1699920000000)\n"


def test_a_single_partition(store: Path) -> None:
    whole = [shown for shown in objects("cat", store, "emails") if shown["partition"] == 1]
    assert objects("cat", store / "emails-1") == whole
    assert objects("cat", store / "emails-1", "emails", "--partition", "1", "--from", "0") == whole


def test_a_brokers_directory() -> None:
    before = tree_of(BROKER)
    found = objects("cat", BROKER, "emails", "--isolation", "log_end")
    assert {shown["value"] for shown in found} >= {"emails 0", "emails 9"}
    assert tree_of(BROKER) == before


def test_the_metadata_log_is_decoded() -> None:
    found = objects("cat", BROKER, "__cluster_metadata")
    assert found == objects("cat", BROKER / "__cluster_metadata-0")
    assert not [shown for shown in found if "notes" in shown]
    topics = {shown["value"]["name"]: shown["value"]["topic_id"] for shown in found if shown["kind"] == "topic_record"}
    expected = json.loads((BROKER.parent / "expected.json").read_text())["topics"]
    assert expected.items() <= {name: {**expected.get(name, {}), "topic_id": topic_id} for name, topic_id in topics.items()}.items()
    raw = objects("cat", BROKER, "__cluster_metadata", "--raw")
    assert [as_bytes(shown["value"]) is not None for shown in raw] == [True] * len(found)
    assert not [shown for shown in raw if "kind" in shown]


def test_positions_are_decoded(tmp_path: Path) -> None:
    key = format_offset_key(OffsetCommitKey("team", "emails", 3))
    with open_store(tmp_path) as made:
        topic = made.create_topic("stand-in")
        values = [(key, format_offset_value(OffsetCommitValue(42, 7, "mine", TIME))), (key, None), (b"\x00\x63", b"x"), (key, b"\x00\x09")]
        topic.append_many(values)
    home = Path(shutil.copytree(tmp_path / "stand-in-0", tmp_path / "elsewhere" / "__consumer_offsets-0"))
    done = run("cat", home)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "__consumer_offsets-0: offsets 0 to 3 are not known to be committed; --isolation log_end shows them\n"
    found = objects("cat", home, "--isolation", "log_end")
    about = {"group": "team", "topic": "emails", "partition": 3}
    assert (found[0]["kind"], found[0]["key"], found[0]["key_version"], found[0]["value_version"]) == ("offset_commit", about, 1, 3)
    assert found[0]["value"] == {"offset": 42, "leader_epoch": 7, "metadata": "mine", "commit_timestamp": TIME}
    assert (found[1]["key"], found[1]["value"]) == (about, None)
    assert (found[2]["kind"], found[2]["key"], found[2]["value"]) == (None, "\x00c", "x")
    assert found[2]["notes"] == ["key: an unknown kind of key, 99"]
    assert (found[3]["key"], found[3]["value"]) == (about, "\x00\x09")
    assert found[3]["notes"] == ["value: an unknown version: expected 0 to 4, found 9"]
    done = run("cat", home, "--isolation", "log_end")
    first, second, *_ = done.stdout.splitlines()
    assert first.split("\t")[3:] == ["offset_commit", json.dumps(about), json.dumps(found[0]["value"])]
    assert second.endswith("\tnull")


WRONG = {
    "no topic": (["cat", "{store}", "nope"], "no topic 'nope'", "there are: emails, empty"),
    "which topic": (["cat", "{store}"], "which topic?", "tidelog cat DIRECTORY TOPIC"),
    "no directory": (["cat", "{store}/nope", "emails"], "no such directory", None),
    "no partition": (["cat", "{store}", "emails", "--partition", "7"], "no partition 7", None),
    "another partition": (["cat", "{store}/emails-0", "emails", "--partition", "1"], "the directory of one partition", None),
    "another topic": (["cat", "{store}/emails-0", "empty"], "expected emails-0, found empty-0", None),
    "an offset of several": (["cat", "{store}", "emails", "--from", "1"], "one partition only", "--partition N says in which"),
    "no place": (["cat", "{store}", "emails", "--from", "soon"], "not a place in a log: 'soon'", "an offset, earliest"),
    "a negative offset": (["cat", "{store}", "emails", "--from=-1"], "not a place in a log: '-1'", "an offset, earliest"),
    "isolation": (["cat", "{store}", "emails", "--isolation", "none"], "no such isolation: 'none'", "committed"),
    "no argument": (["cat"], "DIRECTORY", "tidelog cat --help"),
    "no number": (["cat", "{store}", "emails", "--partition", "x"], "--partition", "tidelog cat --help"),
}


@pytest.mark.parametrize(("arguments", "what", "hint"), WRONG.values(), ids=WRONG)
def test_wrong_use_is_two_lines(arguments: list[str], what: str, hint: str | None, store: Path) -> None:
    done = run(*(argument.format(store=store) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert what in lines[0]
    assert len(lines) <= 2
    if hint is not None:
        assert lines[1].startswith("hint: ")
        assert hint in lines[1]


@pytest.mark.leaves("batch-crc")
def test_damage_is_exit_code_3(store: Path) -> None:
    path = next((store / "emails-0").glob("*.log"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    done = run("cat", store, "emails", "--partition", "0", "--isolation", "log_end")
    assert done.returncode == 3
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    with pytest.raises(DamagedLogError):
        run("--debug", "cat", store, "emails", "--partition", "0", "--isolation", "log_end")
    assert "Traceback" in run_process("cat", store, "emails", "--isolation", "log_end", TIDELOG_DEBUG="1").stderr


def test_a_closed_pipe_ends_quietly(store: Path) -> None:
    with open_store(store) as made:
        made.topic("emails").append_many([(None, b"x" * 1000)] * 5000)
    process = subprocess.Popen([COMMAND, "cat", store, "emails"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    os.read(process.stdout.fileno(), 10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 0
    process.stderr.close()


def test_what_a_store_keeps_for_itself(tmp_path: Path) -> None:
    """Positions and transactions that were made through the store, not by hand."""
    with open_store(tmp_path) as made:
        made.create_topic("emails").append(b"one")
        made.create_topic("sent")
        with made.consumer("mailers", ["emails"]) as consumer:
            assert [record.value for record in consumer.poll()] == [b"one"]
            consumer.commit()
            with made.transaction("mailer-1") as transaction:
                transaction.append("sent", b"two")
                transaction.commit_positions(consumer)
    positions = objects("cat", tmp_path, "__consumer_offsets")
    assert [(shown["kind"], shown["key"]["group"], shown["value"]["offset"]) for shown in positions] == [
        ("offset_commit", "mailers", 1)
    ] * 2
    states = objects("cat", tmp_path, "__transaction_state")
    assert {shown["key"]["transactional_id"] for shown in states} == {"mailer-1"}
    assert [shown["value"]["transaction_status"] for shown in states][-2:] == [2, 4]
    assert not [shown for shown in positions + states if "notes" in shown]
    dumped = objects("dump", tmp_path, "--records")
    assert not [shown for shown in dumped if shown["type"] == "finding"]
    assert {shown["control_type"] for shown in dumped if "control_type" in shown} == {"COMMIT"}

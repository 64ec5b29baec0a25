"""`tidelog ls` and `tidelog describe`."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.commands import objects, run
from tests.support.golden import GOLDEN
from tests.support.small_stores import open_store

BROKER = GOLDEN / "broker" / "data"
TIME = 1_700_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two topics, one with several segments."""
    path = tmp_path / "store"
    with open_store(path) as made:
        topic = made.create_topic("emails", 2, {"segment.bytes": 2_000_000, "retention.ms": 60_000})
        for number in range(3):
            topic.append(b"x" * 10, key=b"k", timestamp_ms=TIME + number, partition=0)
            if number < 2:
                topic.log(0).roll()
        made.create_topic("empty")
    return path


def test_topics(store: Path) -> None:
    done = run("ls", store)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "TOPIC   PARTITIONS  OFFSETS   SIZE  FIRST                     LAST\n"
        "emails           2        3  237 B  2023-11-14T22:13:20.000Z  2023-11-14T22:13:20.002Z\n"
        "empty            1        0    0 B\n"
    )
    [emails, empty] = objects("ls", store)
    assert emails == {
        "type": "topic", "topic": "emails", "partitions": 2, "unreadable_partitions": 0, "offsets": 3, "size_bytes": 237, "segments": 4,
        "first_timestamp_ms": TIME, "max_timestamp_ms": TIME + 2,
    }  # fmt: skip
    assert (empty["first_timestamp_ms"], empty["max_timestamp_ms"]) == (None, None)


def test_partitions_and_segments(store: Path) -> None:
    rows = objects("ls", store, "emails")
    assert [(row["partition"], row["log_start_offset"], row["log_end_offset"], row["segments"]) for row in rows] == [
        (0, 0, 3, 3),
        (1, 0, 0, 1),
    ]
    assert rows[0]["path"] == str(store / "emails-0")
    segments = objects("ls", store, "emails", "--segments")
    assert [(row["partition"], row["base_offset"], row["next_offset"], row["is_active"]) for row in segments] == [
        (0, 0, 1, False), (0, 1, 2, False), (0, 2, 3, True), (1, 0, 0, True),
    ]  # fmt: skip
    assert [row["first_timestamp_ms"] for row in segments] == [TIME, TIME + 1, TIME + 2, None]
    assert [row["size_bytes"] for row in segments] == [Path(row["path"]).stat().st_size for row in segments]
    assert objects("ls", store / "emails-0", "--segments") == segments[:3]
    assert objects("ls", store / "emails-0") == rows[:1]
    assert len(objects("ls", store, "--segments")) == 5


def test_a_brokers_directory_through_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(BROKER)
    rows = {row["topic"]: row for row in objects("ls", link)}
    assert {name: row["partitions"] for name, row in rows.items()} == {"again": 1, "emails": 3, "plain": 1, "profiles": 2}
    # A batch of ten records: the first is that of the first record, not of the batch.
    assert (rows["emails"]["first_timestamp_ms"], rows["emails"]["max_timestamp_ms"]) == (1_577_836_800_000, 1_577_836_800_009)


def test_what_is_odd_is_told_and_passed_over(store: Path, tmp_path: Path) -> None:
    (store / "lost+found").mkdir()
    (tmp_path / "elsewhere").mkdir()
    shutil.move(store / "empty-0", tmp_path / "elsewhere" / "empty-0")
    (store / "empty-0").symlink_to(tmp_path / "elsewhere" / "empty-0")
    done = run("ls", store)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"{store}/empty-0: a link to {tmp_path}/elsewhere/empty-0; it is read, and nothing is ever deleted through it",
        f"{store}/lost+found: of the file system; passed over",
    ]
    assert "empty " in done.stdout
    assert run("-q", "ls", store).stderr == ""
    assert (tmp_path / "elsewhere" / "empty-0").is_dir()


def test_a_partition_that_is_missing_does_not_hide_the_others(store: Path) -> None:
    shutil.rmtree(store / "emails-1")
    done = run("ls", store, "--json")
    assert done.returncode == 0
    assert "emails-1: " in done.stderr
    rows = {row["topic"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert (rows["emails"]["offsets"], rows["emails"]["unreadable_partitions"]) == (3, 1)


def test_describe_says_where_settings_are_from(store: Path) -> None:
    done = run("describe", store, "emails")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[2:8] == [
        "partitions  2 (tidelog.json)",
        "settings    tidelog.json",
        "",
        "Settings that are no defaults",
        "SETTING        VALUE    FROM",
        "retention.ms   60000    tidelog.json",
    ]
    rows = objects("describe", store, "emails", "--config", "segment.ms=5000")
    settings = {row["name"]: (row["value"], row["source"], row["is_assumed"]) for row in rows if row["type"] == "setting"}
    assert settings["retention.ms"] == ("60000", "tidelog.json", False)
    assert settings["segment.ms"] == ("5000", "given", False)
    assert settings["cleanup.policy"] == ("delete", "default", False)
    assert rows[0]["topic_id"]
    assert [row["partition"] for row in rows if row["type"] == "partition"] == [0, 1]


def test_a_brokers_defaults_are_assumed() -> None:
    rows = objects("describe", BROKER, "emails")
    settings = {row["name"]: (row["value"], row["source"], row["is_assumed"]) for row in rows if row["type"] == "setting"}
    assert settings["retention.ms"] == ("172800000", "__cluster_metadata", False)
    assert settings["cleanup.policy"] == ("delete", "default", True)
    assert rows[0]["topic_id"] == json.loads((BROKER.parent / "expected.json").read_text())["topics"]["emails"]["topic_id"]
    text = run("describe", BROKER, "emails", "--all").stdout
    assert "default, assumed" in text


@pytest.mark.parametrize(
    "arguments", [["ls", "{store}", "nope"], ["describe", "{store}", "nope"], ["ls", "{store}/nope"], ["describe", "{store}"]]
)
def test_wrong_use(arguments: list[str], store: Path) -> None:
    done = run(*(argument.format(store=store) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert 1 <= len(done.stderr.splitlines()) <= 2

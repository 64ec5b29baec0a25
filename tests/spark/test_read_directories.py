"""Directories as a table: which topics and partitions they hold, several as one, replicas, and what is missing."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.support.golden import GOLDEN
from tests.support.spark_reads import read_options, read_rows
from tidelog.errors import InconsistentTopicIdError, InvalidConfigError, LogNotFoundError, UnknownTopicError
from tidelog.log.log import Log
from tidelog.spark.catalog import find_partitions, resolve_directories

BROKER = GOLDEN / "broker" / "data"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with tidelog.open(tmp_path / "store") as store:
        for name, partitions in (("emails", 4), ("events", 2), ("orders", 1)):
            topic = store.create_topic(name, partitions=partitions)
            for partition in range(partitions):
                topic.append(f"{name}-{partition}".encode(), partition=partition)
    return tmp_path / "store"


def found(path: object, **options: Any) -> list[str]:
    return [str(source) for source in find_partitions(read_options(str(path), options))]


def values(path: object, **options: Any) -> list[str]:
    return [row["value"].decode() for row in read_rows(str(path), options)]


def test_which_topics(path: Path) -> None:
    assert found(path, subscribe="orders,emails") == ["emails-0", "emails-1", "emails-2", "emails-3", "orders-0"]
    assert found(path, subscribePattern="e.*s") == [f"emails-{number}" for number in range(4)] + ["events-0", "events-1"]
    assert found(path, subscribePattern="e") == []
    assert found(path, assign='{"events": [1], "emails": [2, 0]}') == ["emails-0", "emails-2", "events-1"]


def test_a_topic_that_is_not_there(path: Path) -> None:
    with pytest.raises(UnknownTopicError, match=r"no topic 'mails' \(there are: emails, events, orders\)"):
        found(path, subscribe="mails")
    with pytest.raises(UnknownTopicError, match="no partition 4 of topic 'emails': expected one of 0, 1, 2, 3, found 4"):
        found(path, assign='{"emails": [4]}')
    with pytest.raises(LogNotFoundError, match="no such directory"):
        found(path / "none", subscribe="emails")


def test_a_pattern_leaves_kafkas_own_topics_alone(path: Path) -> None:
    with tidelog.open(path) as store, store.consumer("group", ["orders"]) as consumer:
        consumer.poll(1)
        consumer.commit()
    assert not [name for name in found(path, subscribePattern=".*") if name.startswith("__")]
    assert [name for name in found(path, subscribe="__consumer_offsets") if name.startswith("__")]


def test_several_directories_are_one(path: Path, tmp_path: Path) -> None:
    others = [tmp_path / "second", tmp_path / "third"]
    for number, other in enumerate(others, start=2):
        other.mkdir()
        shutil.move(path / f"emails-{number}", other)
    everywhere = ",".join(map(str, [path, *others]))
    # A directory without the checkpoint of its store says nothing about what may be seen.
    for other in others:
        shutil.copy(path / "replication-offset-checkpoint", other)
    assert values(everywhere, subscribe="emails") == [f"emails-{number}" for number in range(4)]
    with pytest.raises(UnknownTopicError, match=r"partitions are not in .*: emails-2, emails-3 \(give the directories that have them too"):
        found(path, subscribe="emails")
    assert values(path, subscribe="emails", allowMissingPartitions="true") == ["emails-0", "emails-1"]
    assert values(path, assign='{"emails": [0]}') == ["emails-0"]
    with pytest.raises(UnknownTopicError, match="emails-3"):
        found(path, assign='{"emails": [0, 3]}')


def test_a_gap_in_the_numbers(path: Path) -> None:
    (path / "tidelog.json").unlink()
    shutil.rmtree(path / "emails-1")
    with pytest.raises(UnknownTopicError, match="emails-1"):
        found(path, subscribe="emails")


def test_what_a_brokers_metadata_log_says(tmp_path: Path) -> None:
    shutil.copytree(BROKER, tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "emails-2")
    with pytest.raises(UnknownTopicError, match="emails-2"):
        found(tmp_path / "data", subscribe="emails")
    assert found(tmp_path / "data", subscribe="emails", allowMissingPartitions="true") == ["emails-0", "emails-1"]


def test_what_a_brokers_metadata_log_says_of_another_topic_of_the_name(tmp_path: Path) -> None:
    """It had three partitions; the one that was made in its place has two."""
    shutil.copytree(BROKER, tmp_path / "data")
    with tidelog.open(tmp_path / "data", adopt=True) as store:
        store.delete_topic("emails")
        store.create_topic("emails", 2).append_many([(b"k%d" % number, b"") for number in range(20)])
    sources = find_partitions(read_options(str(tmp_path / "data"), {"subscribe": "emails"}))
    assert [(str(source), source.partition_count) for source in sources] == [("emails-0", 2), ("emails-1", 2)]
    for number in range(20):
        assert len(values(tmp_path / "data", subscribe="emails", keys=f"k{number}", keyPartitioner="murmur2")) == 1


def test_of_replicas_the_one_that_has_more(path: Path, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "behind")
    with tidelog.open(path) as store:
        store.topic("orders").append(b"second")
    for order in ((path, tmp_path / "behind"), (tmp_path / "behind", path)):
        assert values(",".join(map(str, order)), subscribe="orders") == ["orders-0", "second"]


def test_a_log_that_is_longer_but_not_visible_is_not_the_one(path: Path, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "ahead")
    with Log.open(tmp_path / "ahead" / "orders-0", mode="a") as log:
        log.append(tidelog.NewBatch([(None, b"unseen", (), 1_700_000_000_000)] * 2).encode())
    shutil.copy(path / "replication-offset-checkpoint", tmp_path / "ahead")
    with tidelog.open(path) as store:
        store.topic("orders").append(b"seen")
    assert values(f"{tmp_path / 'ahead'},{path}", subscribe="orders") == ["orders-0", "seen"]


def test_topics_of_the_same_name_are_not_mixed(path: Path, tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "other") as store:
        store.create_topic("emails", partitions=5)
    with pytest.raises(InconsistentTopicIdError, match="partitions of different topics that are both called 'emails'"):
        found(f"{path},{tmp_path / 'other'}", subscribe="emails")


def test_ways_to_write_a_path(path: Path, tmp_path: Path) -> None:
    assert resolve_directories(f"file://{path}") == resolve_directories(f"file:{path}") == [str(path)]
    comma = tmp_path / "a,b c"
    shutil.copytree(path, comma)
    assert resolve_directories(str(comma)) == [str(comma)]
    assert resolve_directories(f"file://{tmp_path}/a%2Cb%20c") == [str(comma)]
    assert resolve_directories(f'["{comma}", "{path}"]') == [str(comma), str(path)]
    for other in ("s3a://bucket/data", "hdfs://host/data", "dbfs:/data"):
        with pytest.raises(
            InvalidConfigError, match="option path: expected a directory that every executor sees, as a path or a file: URI, found"
        ):
            resolve_directories(other)
    with pytest.raises(InvalidConfigError, match="without a host"):
        resolve_directories("file://host/data")
    with pytest.raises(InvalidConfigError, match="the same directory twice"):
        resolve_directories(f"{path},{path}")

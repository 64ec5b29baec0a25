"""The topics that Kafka keeps for itself: who belongs where, and directories that are made when they are first used."""

import json
import shutil
from pathlib import Path

import pytest

import tidelog
from tidelog.disk.names import TopicPartition
from tidelog.errors import LogNotFoundError, TidelogError
from tidelog.store.internal_logs import existing_log, internal_log
from tidelog.store.internal_topics import OFFSETS, TRANSACTIONS, java_hash, partition_of_id
from tidelog.store.topic_names import CONSUMER_OFFSETS


def directories(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir() if entry.is_dir()}


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("hello", 99162322), ("polygenelubricants", -(1 << 31)), ("ä", 228), ("😀", 1772899), ("zzzzzz", -685785664)],
)
def test_the_hash_is_javas(text: str, code: int) -> None:
    assert java_hash(text) == code


def test_the_one_hash_without_a_positive_counterpart_is_zero() -> None:
    assert partition_of_id("polygenelubricants", 50) == 0
    assert partition_of_id("my-group", 50) == 12


def test_a_directory_is_made_when_an_id_is_first_used(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        assert existing_log(store._state, OFFSETS, "my-group") is None
        assert directories(tmp_path) == set(), "asking makes nothing"
        log = internal_log(store._state, OFFSETS, "my-group")
        assert directories(tmp_path) == {"__consumer_offsets-12"}
        assert internal_log(store._state, OFFSETS, "my-group") is log
        assert existing_log(store._state, OFFSETS, "my-group") is log
        description = store.topic(CONSUMER_OFFSETS).describe()
        assert (description.partitions, len(description.absent)) == (50, 49)
        own = {setting.name: setting.value for setting in description.settings if setting.source == "topic"}
        assert own == {"cleanup.policy": "compact", "compression.type": "producer", "flush.messages": "1", "segment.bytes": "104857600"}
    with tidelog.open(tmp_path) as store:
        assert existing_log(store._state, OFFSETS, "other") is None
        internal_log(store._state, OFFSETS, "other")
        internal_log(store._state, TRANSACTIONS, "x")
        assert directories(tmp_path) == {"__consumer_offsets-12", "__consumer_offsets-26", "__transaction_state-20"}
        assert len({log.topic_id for log in (store.log(CONSUMER_OFFSETS, 12), store.log(CONSUMER_OFFSETS, 26))}) == 1


def test_how_many_partitions_is_the_stores_setting_when_the_topic_is_made(tmp_path: Path) -> None:
    with tidelog.open(tmp_path, config={"offsets.topic.num.partitions": 3}) as store:
        internal_log(store._state, OFFSETS, "my-group")
        assert store.topic(CONSUMER_OFFSETS).partitions == 3
    with tidelog.open(tmp_path) as store:
        assert internal_log(store._state, OFFSETS, "other").partition == TopicPartition(CONSUMER_OFFSETS, partition_of_id("other", 3))


def test_partitions_that_somebody_else_has_made_meanwhile_are_found(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        internal_log(store._state, OFFSETS, "my-group")
        topic_id = store.topic(CONSUMER_OFFSETS).topic_id
    with tidelog.open(tmp_path / "other") as other:  # as a broker that had the directory would have
        other.create_topic(CONSUMER_OFFSETS, topic_id=topic_id)
        internal_log(other._state, OFFSETS, "other")
    (tmp_path / "other" / "__consumer_offsets-26").rename(tmp_path / "__consumer_offsets-26")
    for path in (tmp_path / "other").iterdir():
        path.unlink()
    (tmp_path / "other").rmdir()
    with tidelog.open(tmp_path) as store:
        log = existing_log(store._state, OFFSETS, "other")
        assert log is not None
        assert 26 not in store.topic(CONSUMER_OFFSETS).describe().absent


def test_a_partition_that_another_broker_has_is_not_made(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        internal_log(store._state, OFFSETS, "my-group")
    (tmp_path / "tidelog.json").unlink()
    with tidelog.open(tmp_path, adopt=True) as store, pytest.raises(LogNotFoundError, match="another broker has it"):
        internal_log(store._state, OFFSETS, "a")


def spoil(path: Path) -> None:
    """A directory whose log cannot be opened."""
    (path / "partition.metadata").write_text("no metadata")


@pytest.mark.leaves
def test_a_damaged_partition_stops_only_those_who_belong_to_it(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("a").append(b"one")
        store.group("my-group").reset(1, "a")
        internal_log(store._state, TRANSACTIONS, "x")
    spoil(tmp_path / "__consumer_offsets-12")
    spoil(tmp_path / "__transaction_state-20")
    with tidelog.open(tmp_path) as store:
        assert {str(partition) for partition in store.failures} == {"__consumer_offsets-12", "__transaction_state-20"}
        store.group("other").reset(1, "a")
        with store.transaction("another") as tx:
            tx.append("a", b"two")
        assert len(store.group("other").positions()) == 1
        with pytest.raises(TidelogError, match=r"partition\.metadata"):
            store.group("my-group").reset(1, "a")
        with pytest.raises(TidelogError, match=r"partition\.metadata"):
            store.transaction("x")
        assert not any(entry.is_incomplete for entry in store._state.file.topics.values())


@pytest.mark.leaves
def test_one_that_was_cut_off_while_another_is_damaged_is_made(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        internal_log(store._state, OFFSETS, "my-group")
    spoil(tmp_path / "__consumer_offsets-12")
    text = (tmp_path / "tidelog.json").read_text()  # as it is written down before the directory of another is made
    document = json.loads(text)
    entry = document["topics"][CONSUMER_OFFSETS]
    entry["absent"].remove(26)
    entry["is_incomplete"] = True
    (tmp_path / "tidelog.json").write_text(json.dumps(document))
    with tidelog.open(tmp_path) as store:
        assert directories(tmp_path) == {"__consumer_offsets-12", "__consumer_offsets-26"}
        assert {str(partition) for partition in store.failures} == {"__consumer_offsets-12"}
        assert internal_log(store._state, OFFSETS, "other").log_end_offset == 0


def test_a_missing_one_is_not_made_anew_when_another_is(tmp_path: Path) -> None:
    """What was in it may come back."""
    with tidelog.open(tmp_path) as store:
        internal_log(store._state, OFFSETS, "my-group")
    shutil.rmtree(tmp_path / "__consumer_offsets-12")
    with tidelog.open(tmp_path) as store:
        internal_log(store._state, OFFSETS, "other")
        assert directories(tmp_path) == {"__consumer_offsets-26"}
        with pytest.raises(LogNotFoundError, match="missing"):
            internal_log(store._state, OFFSETS, "my-group")

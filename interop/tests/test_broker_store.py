"""A store moves under a broker and back, and a broker's directory is adopted by a store and given back."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

import tidelog
from interop.broker.adoption import SET, Adopted, files_left_alone
from interop.broker.cases import CASES
from interop.broker.clients import Consumed, Read, Row
from interop.broker.judging import ISOLATIONS, assert_nothing_mended, assert_same, complaints, read_all
from interop.broker.kafka_writes import INTERNAL, PYTHON, copy_data
from interop.broker.scenarios import VERSIONS, Scenarios
from interop.broker.store_moves import CUT, GONE, MOVED, OUR_ROW, STORE_CONFIG, STRANGER, StateMoved, StoreMoved, partitions
from interop.broker.we_write import KAFKAS_ROW, files_of_ours
from interop.judge import Judge
from tidelog import Store
from tidelog.disk.names import CLEAN_SHUTDOWN, TopicPartition
from tidelog.disk.published_end import PUBLISHED_END
from tidelog.errors import LogNotFoundError, NotAStoreError
from tidelog.log.log import Log
from tidelog.store.store_file import STORE_FILE

STATES = ("closed", "crashed")
PARTITIONS = list(partitions())
MIN_SEGMENT_BYTES = 1 << 20
"""Since Kafka 4.0, and here; of a topic that an older broker has let have less no setting is taken."""


@dataclass
class Moved:
    """A store that a broker of some version had, left in some state."""

    store: StoreMoved
    state: str

    @property
    def found(self) -> StateMoved:
        return self.store.states[self.state]


@pytest.fixture(scope="module", params=[(version, state) for version in VERSIONS for state in STATES], ids="-".join)
def moved(request: pytest.FixtureRequest, scenarios: Scenarios) -> Moved:
    version, state = request.param
    return Moved(scenarios.store_moved(version), state)


def is_row(read: Read, row: Row) -> bool:
    return (read.key, read.value) == (row.key, row.value)


# A store moves under a broker


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
def test_a_consumer_reads_what_the_store_wrote(partition: TopicPartition, moved: Moved) -> None:
    before, seen = (Log.open(data / str(partition), mode="r") for data in (moved.store.before, moved.found.seen))
    with before, seen:
        for isolation in ISOLATIONS:
            consumed = moved.found.consumed[isolation][partition]
            assert read_all(before, isolation) == consumed.records
            assert consumed.records
            assert_same(seen, isolation, consumed)


def test_the_broker_leaves_the_stores_files_alone(moved: Moved) -> None:
    """All of them real: the store's file, a tail that was cut, an index that was repaired, how far logs were flushed before a crash."""
    names = [path.name for path in moved.found.own_files]
    assert STORE_FILE in names
    assert {name.partition("-")[0] for name in names} >= {"cut", "index"}
    assert names.count(PUBLISHED_END) == (0 if moved.state == "closed" else len(PARTITIONS) + 1)
    assert (CLEAN_SHUTDOWN in moved.found.names) == (moved.state == "closed")
    unknown = next(path for path in moved.found.after.iterdir() if path.name.startswith(STRANGER)).name
    expected = {Path(str(path).replace(f"{STRANGER}-0/", f"{unknown}/")): content for path, content in moved.found.own_files.items()}
    assert dict(files_of_ours(moved.found.after)) == expected


def test_the_broker_lets_deleted_topics_go_and_sets_one_aside_that_it_does_not_know(moved: Moved) -> None:
    names = {path.name for path in moved.found.after.iterdir()}
    assert [name.endswith("-delete") for name in moved.found.names if name.startswith(GONE)] == [True] * len(GONE)
    assert {name for name in names if name.startswith(GONE)} <= moved.found.names
    assert [name.endswith("-stray") for name in names if name.startswith(STRANGER)] == [True]
    assert [name for name in names if name.endswith("-stray") and not name.startswith(STRANGER)] == []


def test_the_store_goes_on_behind_the_broker(moved: Moved) -> None:
    back = moved.found.back
    assert list(back.failures) == [TopicPartition(STRANGER, 0)]
    assert isinstance(back.failures[TopicPartition(STRANGER, 0)], LogNotFoundError)
    assert back.topic_ids.keys() == {*MOVED, STRANGER}
    assert {name: back.topic_ids[name] for name in MOVED} == moved.store.topic_ids
    for partition in PARTITIONS:
        assert_nothing_mended(back.reports[partition])
        *before, kafkas = back.records[partition]
        assert before == moved.found.consumed["high_watermark"][partition].records, partition
        assert kafkas.offset == moved.found.appended[partition] == back.appended[partition] - 1
        assert is_row(kafkas, KAFKAS_ROW)


def test_the_broker_goes_on_behind_the_store(moved: Moved) -> None:
    for partition in PARTITIONS:
        found = moved.found.consumed_again["high_watermark"][partition]
        *before, ours = found.records
        assert before == moved.found.back.records[partition], partition
        assert (ours.offset, found.end) == (moved.found.back.appended[partition], moved.found.back.appended[partition] + 1)
        assert is_row(ours, OUR_ROW)
    open_one = TopicPartition("transaction-open", 0)
    assert moved.found.consumed_again["committed"][open_one] == moved.found.consumed["committed"][open_one]


def test_nobody_finds_anything_wrong_in_the_end(moved: Moved, judge: Judge) -> None:
    directories = [moved.found.data / str(partition) for partition in PARTITIONS]
    assert {directory.name: found for directory in directories if (found := complaints(directory))} == {}
    for directory, dumped in zip(directories, judge.dump(directories), strict=True):
        for way, said in dumped.items():
            assert ("error" not in said, said["err"]) == (True, ""), (directory.name, way)


def test_what_the_broker_has_set_aside_can_be_put_back(moved: Moved, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(moved.found.after, data)
    (set_aside,) = data.glob(f"{STRANGER}-0.*-stray")
    set_aside.rename(data / f"{STRANGER}-0")
    with tidelog.open(data, config=STORE_CONFIG) as store:
        assert store.failures == {}
        assert [record.value for record in store.log(STRANGER, 0).read()] == [b"number %d" % number for number in range(20)]
        cut = [record.value for record in store.log(CUT, 0).read()]
    assert cut == [*(b"number %d" % number for number in range(18)), KAFKAS_ROW.value]


# A broker's directory is adopted


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def adopted(version: str, scenarios: Scenarios) -> Adopted:
    return scenarios.adopted(version)


def test_a_brokers_directory_is_refused_unless_it_is_to_be_adopted(adopted: Adopted) -> None:
    names = {path.name for path in adopted.before.iterdir()}
    with pytest.raises(NotAStoreError, match="adopt=True"):
        tidelog.open(adopted.before)
    assert {path.name for path in adopted.before.iterdir()} == names


def test_the_store_finds_the_brokers_topics_in_order(adopted: Adopted) -> None:
    assert adopted.topic_ids.keys() >= {*CASES, PYTHON, *INTERNAL}
    assert None not in adopted.topic_ids.values()
    assert "__cluster_metadata" not in adopted.topic_ids
    for name in CASES:
        assert_nothing_mended(adopted.reports[name])


def test_the_settings_in_the_brokers_own_log_are_those_of_its_topics(adopted: Adopted, version: str, tmp_path: Path) -> None:
    """Asked for, they are taken from `__cluster_metadata`."""
    data = tmp_path / "data"
    copy_data(adopted.before, data)
    with Store.open(data, config=STORE_CONFIG, adopt="cluster-metadata") as store:
        found = {topic.name: topic.describe() for topic in store.topics()}
    for name, case in CASES.items():
        settings = case.settings(version)
        is_refused = int(settings.get("segment.bytes", MIN_SEGMENT_BYTES)) < MIN_SEGMENT_BYTES
        own = {setting.name: setting.value for setting in found[name].settings if setting.source == "topic"}
        assert own == {key: value for key, value in settings.items() if key != "segment.bytes" or not is_refused}, name
        assert found[name].is_looked_after != is_refused, name  # a setting that is not known might keep what others let go


def test_what_nobody_asked_for_is_left_alone(adopted: Adopted) -> None:
    before = dict(files_left_alone(adopted.before))
    assert len(before) > 10
    assert dict(files_left_alone(adopted.given_back)) == before
    assert (adopted.given_back / CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("name", CASES)
def test_the_broker_reads_what_the_store_appended(name: str, adopted: Adopted, version: str, scenarios: Scenarios) -> None:
    before = scenarios.kafka_wrote(version).consumed
    found: Consumed = adopted.consumed["high_watermark"][name]
    *kafkas, ours = found.records
    assert kafkas == before["high_watermark"][name].records
    assert (ours.offset, ours.offset + 1) == (adopted.appended[name], found.end)
    assert is_row(ours, OUR_ROW)
    assert ours.timestamp_type == ("LogAppendTime" if name == "append-time" else "CreateTime")
    expected = before["committed"][name].records
    assert adopted.consumed["committed"][name].records == (expected if name == "transaction-open" else [*expected, ours])
    with Log.open(adopted.seen / f"{name}-0", mode="r") as log:
        for isolation in ISOLATIONS:
            assert_same(log, isolation, adopted.consumed[isolation][name])


def test_the_store_has_it_again_behind_the_broker(adopted: Adopted) -> None:
    assert adopted.back.failures == {}
    assert adopted.back.topic_ids == adopted.topic_ids
    for name in CASES:
        partition = TopicPartition(name, 0)
        assert_nothing_mended(adopted.back.reports[partition])
        *before, kafkas = adopted.back.records[partition]
        assert before == adopted.consumed["high_watermark"][name].records
        assert (kafkas.offset, is_row(kafkas, KAFKAS_ROW)) == (adopted.appended_by_broker[name], True)
        assert complaints(adopted.data / str(partition)) == []
    with tidelog.open(adopted.data, config=STORE_CONFIG) as store:
        assert {topic.name for topic in store.topics() if topic.describe().is_looked_after} == set(SET)

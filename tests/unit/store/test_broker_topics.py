"""A broker's directory that is only read: partition counts, topic ids and settings from its metadata log, which may be growing."""

import json
import shutil
import threading
import tracemalloc
from pathlib import Path
from uuid import UUID

import pytest

import tidelog
from tests.support.readers import ReadOnlyDisk
from tests.support.small_stores import open_store, tree_of
from tests.unit.store.test_cluster_metadata import CONFIG, GOLDEN, ONE, OTHER, PARTITION, REMOVE, TOPIC, TWO, write
from tidelog.disk.file_pool import FilePool
from tidelog.disk.partition_metadata import format_topic_id
from tidelog.errors import CorruptFileError
from tidelog.store import cluster_metadata
from tidelog.store.broker_topics import BrokerTopics
from tidelog.store.cluster_metadata import DescribedTopic, MetadataLog
from tidelog.store.read_only_store import ReadOnlyStore

EXPECTED = json.loads((GOLDEN / "expected.json").read_text())["topics"]
FIRST = "00000000000000000000.log"


class CountingDisk(ReadOnlyDisk):
    """Says how many bytes were read."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0

    def read(self, fd: int, size: int, position: int) -> bytes:
        found = super().read(fd, size, position)
        self.bytes_read += len(found)
        return found


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "__cluster_metadata-0"
    path.mkdir()
    return path


def append(path: Path, values: list[bytes], base_offset: int) -> None:
    """What a broker writes next, in one batch."""
    before = path.read_bytes() if path.exists() else b""
    write(path, values, base_offset)
    path.write_bytes(before + path.read_bytes())


def look(directory: Path, disk: ReadOnlyDisk | None = None) -> MetadataLog:
    return MetadataLog(disk or ReadOnlyDisk(), str(directory))


def test_a_brokers_topics_are_described(tmp_path: Path) -> None:
    broker = Path(shutil.copytree(GOLDEN / "data", tmp_path / "data"))
    before = tree_of(broker)
    with ReadOnlyStore.open(broker, pool=FilePool(ReadOnlyDisk())) as store:
        for name, expected in EXPECTED.items():
            found = store.topic(name).describe()
            assert found.topic_id is not None
            assert format_topic_id(found.topic_id) == expected["topic_id"]
            assert store.topic(name).partitions == found.partitions == expected["partitions"]
            own = {setting.name: setting.value for setting in found.settings}
            assert own == {name: value for name, value in expected["config"].items() if "throttled" not in name}
            assert {setting.source for setting in found.settings} == {"topic"}
            assert found[-3:] == ("partition.metadata", "__cluster_metadata", "__cluster_metadata")
            assert (found.absent, found.refused, found.is_looked_after) == ((), (), False)
    assert tree_of(broker) == before


def test_partitions_of_other_brokers_are_counted(tmp_path: Path) -> None:
    """This broker has only some of them, so its directories do not say how many there are."""
    broker = Path(shutil.copytree(GOLDEN / "data", tmp_path / "data"))
    for number in (0, 2):
        shutil.rmtree(broker / f"emails-{number}")
    with tidelog.open(broker, "r") as store:
        found = store.topic("emails").describe()
        assert (found.partitions, found.absent) == (3, (0, 2))
        assert store.topic("emails").partition_ids() == [1]
        shutil.rmtree(broker / "__cluster_metadata-0")
        found = store.topic("emails").describe()
        assert (found.partitions, found.absent) == (2, (0,))
        assert found[-3:] == ("partition.metadata", "the directories of its partitions", "Kafka's defaults")


def test_the_id_that_only_the_log_has(tmp_path: Path) -> None:
    broker = Path(shutil.copytree(GOLDEN / "data", tmp_path / "data"))
    (broker / "plain-0" / "partition.metadata").unlink()
    (broker / "profiles-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAEAAAAAAAAAAQ")
    with tidelog.open(broker, "r") as store:
        found = store.topic("plain").describe()
        assert found.topic_id is not None
        assert (format_topic_id(found.topic_id), found.topic_id_from) == (EXPECTED["plain"]["topic_id"], "__cluster_metadata")
        other = store.topic("profiles").describe()
        assert other.topic_id == UUID(int=(1 << 64) + 1)
        assert (other.partitions_from, other.settings) == ("the directories of its partitions", ())
        assert other.settings_from == "Kafka's defaults: __cluster_metadata knows another topic of this name"


def test_a_damaged_log_takes_nothing_away(tmp_path: Path) -> None:
    broker = Path(shutil.copytree(GOLDEN / "data", tmp_path / "data"))
    path = broker / "__cluster_metadata-0" / FIRST
    good = path.read_bytes()
    with tidelog.open(broker, "r") as store:
        for bad in (good[:-1] + bytes([good[-1] ^ 1]), b"\xff" * 1000, good[:17] + b"\xff" * 100):
            path.write_bytes(bad)
            found = store.topic("emails").describe()
            assert (found.partitions, found.settings) == (3, ())
            assert found.topic_id is not None
            assert str(found.settings_from).startswith("Kafka's defaults (")
            assert len(list(store.topic("emails").read(isolation="log_end"))) > 0
        path.write_bytes(good)
        assert store.topic("emails").describe().settings_from == "__cluster_metadata"


def test_what_a_store_says_counts(tmp_path: Path) -> None:
    broker = Path(shutil.copytree(GOLDEN / "data", tmp_path / "data"))
    with open_store(broker, adopt=True) as store:
        store.topic("emails").alter({"retention.ms": 7})
    with tidelog.open(broker, "r") as reader:
        found = reader.topic("emails").describe()
        assert [(setting.name, setting.value) for setting in found.settings] == [("retention.ms", "7")]
        assert found[-3:] == ("tidelog.json", "tidelog.json", "tidelog.json")


def test_a_setting_that_cannot_be_here_is_named(tmp_path: Path) -> None:
    broker = Path(shutil.copytree(GOLDEN / "data", tmp_path / "data"))
    append(broker / "__cluster_metadata-0" / FIRST, [CONFIG(2, "emails", "segment.bytes", "14")], 10**6)
    with tidelog.open(broker, "r") as store:
        found = store.topic("emails").describe()
        assert found.refused == (("segment.bytes", "14"),)
        assert [setting.name for setting in found.settings] == ["retention.ms"]


def test_a_log_that_grows_is_read_on(directory: Path) -> None:
    disk = CountingDisk()
    append(directory / FIRST, [TOPIC("a", ONE), *(PARTITION(number, ONE) for number in range(100))], 0)
    log = look(directory, disk)
    first = log.topics()
    assert first == {"a": DescribedTopic(ONE, 100)}
    disk.bytes_read = 0
    assert log.topics() is first
    assert disk.bytes_read == 0
    append(directory / FIRST, [TOPIC("b", TWO), CONFIG(2, "b", "flush.ms", "5")], 101)
    assert log.topics() == {"a": DescribedTopic(ONE, 100), "b": DescribedTopic(TWO, 0, {"flush.ms": "5"})}
    assert 0 < disk.bytes_read < 300
    append(directory / "00000000000000000103.log", [REMOVE(ONE)], 103)
    assert log.topics().keys() == {"b"}
    assert first == {"a": DescribedTopic(ONE, 100)}


def test_a_transaction_may_lie_between_two_looks(directory: Path) -> None:
    begin, end = OTHER(23), OTHER(24)
    append(directory / FIRST, [begin, TOPIC("a", ONE)], 0)
    log = look(directory)
    assert log.topics() == {}
    append(directory / FIRST, [PARTITION(0, ONE)], 2)
    assert log.topics() == {}
    append(directory / FIRST, [end], 3)
    assert log.topics() == {"a": DescribedTopic(ONE, 1)}


def test_a_batch_that_is_still_being_written(directory: Path) -> None:
    append(directory / FIRST, [TOPIC("a", ONE)], 0)
    whole = (directory / FIRST).read_bytes()
    append(directory / FIRST, [TOPIC("b", TWO)], 1)
    both = (directory / FIRST).read_bytes()
    (directory / FIRST).write_bytes(whole)
    log = look(directory)
    for end in range(len(whole), len(both)):
        (directory / FIRST).write_bytes(both[:end])
        assert log.topics().keys() == {"a"}
    (directory / FIRST).write_bytes(both)
    assert log.topics().keys() == {"a", "b"}


def test_what_a_quorum_takes_back_is_forgotten(directory: Path) -> None:
    """A follower cuts the end of its log, and gets other records there: the file need not be smaller when it is looked at."""
    append(directory / FIRST, [TOPIC("a", ONE)], 0)
    kept = (directory / FIRST).read_bytes()
    append(directory / FIRST, [TOPIC("b", TWO)], 1)
    log = look(directory)
    assert log.topics().keys() == {"a", "b"}
    (directory / FIRST).write_bytes(kept)
    append(directory / FIRST, [TOPIC("c", TWO), PARTITION(0, TWO)], 1)
    assert log.topics() == {"a": DescribedTopic(ONE), "c": DescribedTopic(TWO, 1)}
    (directory / FIRST).write_bytes(kept)
    assert log.topics() == {"a": DescribedTopic(ONE)}


def test_a_snapshot_stands_for_segments_that_are_gone(directory: Path) -> None:
    append(directory / FIRST, [TOPIC("a", ONE), PARTITION(0, ONE)], 0)
    log = look(directory)
    assert log.topics() == {"a": DescribedTopic(ONE, 1)}
    write(directory / "00000000000000000005-0000000001.checkpoint", [TOPIC("b", TWO), PARTITION(0, TWO)])
    append(directory / "00000000000000000005.log", [PARTITION(1, TWO)], 5)
    (directory / FIRST).unlink()
    assert log.topics() == {"b": DescribedTopic(TWO, 2)}


def test_segments_below_the_snapshot_are_not_read(directory: Path) -> None:
    (directory / FIRST).write_bytes(b"\xff" * 500)
    write(directory / "00000000000000000002-0000000001.checkpoint", [TOPIC("a", ONE)])
    append(directory / "00000000000000000002.log", [PARTITION(0, ONE)], 2)
    assert look(directory).topics() == {"a": DescribedTopic(ONE, 1)}


def test_a_batch_larger_than_what_is_read_at_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(directory / FIRST, [TOPIC("a", ONE)], 0)
    append(directory / FIRST, [PARTITION(number, ONE) for number in range(300)], 1)
    append(directory / FIRST, [TOPIC("b", TWO)], 301)
    for size in (62, 100, 1000):
        monkeypatch.setattr(cluster_metadata, "_PIECE_BYTES", size)
        assert look(directory).topics() == {"a": DescribedTopic(ONE, 300), "b": DescribedTopic(TWO)}


def test_memory_is_not_in_proportion_to_the_log(directory: Path) -> None:
    for offset in range(0, 40_000, 5000):
        append(directory / FIRST, [CONFIG(2, "a", "flush.ms", str(number) * 40) for number in range(5000)], offset)
    size = (directory / FIRST).stat().st_size
    assert size > 6_000_000
    log = look(directory)
    tracemalloc.start()
    try:
        log.topics()
        assert tracemalloc.get_traced_memory()[1] < size // 2
    finally:
        tracemalloc.stop()


def test_after_a_fault_it_begins_again(directory: Path) -> None:
    append(directory / FIRST, [TOPIC("a", ONE)], 0)
    log = look(directory)
    good = (directory / FIRST).read_bytes()
    (directory / FIRST).write_bytes(good + good[:8] + b"\xff" * 60)
    for _ in range(3):
        with pytest.raises(CorruptFileError):
            log.topics()
    (directory / FIRST).write_bytes(good)
    assert log.topics() == {"a": DescribedTopic(ONE)}


def test_a_damaged_log_is_not_read_again_until_it_changes(directory: Path) -> None:
    disk = CountingDisk()
    (directory / FIRST).write_bytes(b"\xff" * 10_000)
    brokers = BrokerTopics(disk, [str(directory.parent)])
    first = brokers.look()
    disk.bytes_read = 0
    assert brokers.look() == first
    assert disk.bytes_read == 0
    write(directory / FIRST, [TOPIC("a", ONE)])
    assert brokers.look() == ({"a": DescribedTopic(ONE)}, "")


def test_the_log_may_come_and_go(tmp_path: Path) -> None:
    brokers = BrokerTopics(ReadOnlyDisk(), [str(tmp_path)])
    assert brokers.look() == ({}, "")
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    assert brokers.look() == ({}, "")
    append(directory / FIRST, [TOPIC("a", ONE)], 0)
    assert brokers.look() == ({"a": DescribedTopic(ONE)}, "")
    (directory / FIRST).write_bytes(b"\xff" * 100)
    found, trouble = brokers.look()
    assert found == {}
    assert "the brokers' log cannot be read" in trouble
    shutil.rmtree(directory)
    assert brokers.look() == ({}, "")


def test_looked_at_by_several_threads(directory: Path) -> None:
    append(directory / FIRST, [TOPIC("a", ONE), PARTITION(0, ONE)], 0)
    brokers = BrokerTopics(ReadOnlyDisk(), [str(directory.parent)])
    wrong: list[object] = []

    def watch() -> None:
        last = 0
        for _ in range(200):
            found, trouble = brokers.look()
            count = found["a"].partitions
            if trouble or count < last:
                wrong.append((trouble, count, last))
            last = count

    threads = [threading.Thread(target=watch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(1, 40):
        whole = directory / "next"
        write(whole, [PARTITION(number, ONE)], number + 1)
        with (directory / FIRST).open("ab") as file:
            file.write(whole.read_bytes())
    for thread in threads:
        thread.join()
    assert wrong == []
    assert brokers.look()[0]["a"].partitions == 40

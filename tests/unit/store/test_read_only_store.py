"""Stores that are only read: whoever's they are, nothing is changed, and what can be read is read."""

import gc
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import tidelog
from tests.support.golden_partitions import golden_cases, load_case
from tests.support.logs import TIME
from tests.support.readers import BrokersDisk, ReadOnlyDisk, state_of_files
from tests.support.topics import SMALL, TopicModel, open_store, plain
from tidelog.disk.file_pool import FilePool
from tidelog.errors import LogClosedError, LogNotFoundError, NotAStoreError, TidelogError, UnknownTopicError
from tidelog.record import read_batches
from tidelog.store.read_only_store import ReadOnlyStore

TOPIC_ID = UUID("b8a9265c-5464-4d0f-9554-ab176006971e")


def open_reader(*paths: Path, disk: Any = None) -> ReadOnlyStore:
    """On a disk that refuses every change."""
    return ReadOnlyStore.open(list(paths), pool=FilePool(ReadOnlyDisk() if disk is None else disk))


def brokers_directory(home: Path, partitions: dict[str, Path], watermarks: dict[str, int]) -> Path:
    """A broker's data directory of golden partitions, with what else lies in one."""
    home.mkdir()
    for name, source in partitions.items():
        shutil.copytree(source, home / name)
    lines = [f"{name.rpartition('-')[0]} {name.rpartition('-')[2]} {offset}" for name, offset in watermarks.items()]
    for file in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        (home / file).write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    (home / "cleaner-offset-checkpoint").write_text("0\n0\n")
    (home / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\ndirectory.id=y\n")
    (home / ".lock").touch()
    suffix = "0123456789abcdef0123456789abcdef"
    for name in ("__cluster_metadata-0", f"gone-0.{suffix}-delete", f"moving-0.{suffix}-future", f"lost-0.{suffix}-stray", "notes"):
        (home / name).mkdir()
    (home / "a-file-0").touch()
    return home


# Ours


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[tuple[Path, TopicModel]]:
    """A store that somebody has open."""
    with open_store(tmp_path / "store") as store:
        model = TopicModel(store.create_topic("tide", 2, {**SMALL, "retention.ms": 1000}, topic_id=TOPIC_ID))
        model.append(0, [(b"a", b"1", TIME)])
        model.append(1, [(b"b", b"2", TIME)])
        store.create_topic("empty")
        yield tmp_path / "store", model


def test_beside_its_owner(ours: tuple[Path, TopicModel]) -> None:
    path, model = ours
    with tidelog.open(path, mode="r") as store:
        assert [topic.name for topic in store.topics()] == ["empty", "tide"]
        topic = store.topic("tide")
        assert (topic.partitions, topic.partition_ids(), topic.topic_id) == (2, [0, 1], TOPIC_ID)
        assert sorted(plain(topic.read())) == sorted(model.committed(0) + model.committed(1))
        assert list(store.topic("empty").read()) == []
        model.append(0, [(b"a", b"3", TIME)])
        assert plain(topic.read(partition=0)) == model.committed(0)
        assert topic.table() == {b"a": b"3", b"b": b"2"}
        assert store.log("tide", 0) is topic.log(0)


def test_nothing_is_changed(ours: tuple[Path, TopicModel]) -> None:
    path, _ = ours
    before = state_of_files(path)
    with open_reader(path) as store:
        for topic in store.topics():
            topic.describe()
            list(topic.read())
            topic.to_arrow()
    assert state_of_files(path) == before


def test_topics_come_and_go(ours: tuple[Path, TopicModel], tmp_path: Path) -> None:
    with open_store(tmp_path / "other") as owner, open_reader(tmp_path / "other") as store:
        assert store.topics() == []
        owner.create_topic("new").append(b"v")
        assert [record.value for record in store.topic("new").read()] == [b"v"]
        owner.delete_topic("new")
        assert store.topics() == []
        with pytest.raises(UnknownTopicError, match=r"no topic 'new'.*there are: none"):
            store.topic("new")


def test_of_many_topics_those_are_named_that_are_near(tmp_path: Path) -> None:
    for number in range(100, 150):
        (tmp_path / f"emails{number}-0").mkdir()
    with open_reader(tmp_path) as store:
        with pytest.raises(UnknownTopicError, match=r"did you mean emails1\d\d or emails1\d\d or emails1\d\d\?"):
            store.topic("emails999")
        with pytest.raises(UnknownTopicError, match="there are 50 others"):
            store.topic("x")
        with pytest.raises(UnknownTopicError, match=r"no partition '0' of topic 'emails100': expected one of 0, found '0'"):
            store.log("emails100", "0")  # type: ignore[arg-type]


def test_what_is_known_of_a_topic(ours: tuple[Path, TopicModel]) -> None:
    with open_reader(ours[0]) as store:
        described = store.topic("tide").describe()
        assert (described.name, described.topic_id, described.partitions, described.absent) == ("tide", TOPIC_ID, 2, ())
        assert described.is_looked_after
        values = {setting.name: setting.value for setting in described.settings}
        assert values["retention.ms"] == "1000"
        assert {setting.source for setting in described.settings} == {"topic"}


def test_following_a_store_of_another_process(ours: tuple[Path, TopicModel]) -> None:
    path, model = ours
    with open_reader(path) as store:
        reading = store.topic("tide").read(tidelog.LATEST, {0: 3, 1: 1}, follow=True, poll_s=0.001)
        writer = threading.Timer(0.02, lambda: model.append(0, [(b"a", b"5", TIME), (b"a", b"6", TIME)]))
        writer.start()
        assert [record.value for record in reading] == [b"5", b"6"]
        writer.join()


def test_a_store_without_its_file_or_with_a_damaged_one_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with open_store(path) as owner:
        owner.create_topic("tide", 2, topic_id=TOPIC_ID).append(b"v", partition=1)
    for content in (b"{", None):
        if content is None:
            (path / "tidelog.json").unlink()
        else:
            (path / "tidelog.json").write_bytes(content)
        with open_reader(path) as store:
            topic = store.topic("tide")
            assert [record.value for record in topic.read()] == [b"v"]
            assert topic.describe()[:5] == ("tide", TOPIC_ID, 2, (), False)


@pytest.mark.leaves
def test_a_partition_that_is_missing_or_broken_raises_for_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with open_store(path) as owner:
        topic = owner.create_topic("tide", 3)
        for partition in range(3):
            topic.append(b"%d" % partition, partition=partition)
    shutil.rmtree(path / "tide-1")
    (path / "tide-2" / f"{0:020}.log").unlink()
    (path / "tide-2" / f"{0:020}.log").mkdir()
    with open_reader(path) as store:
        reader = store.topic("tide")
        assert reader.partition_ids() == [0, 1, 2]
        assert [record.value for record in reader.read(partition=0)] == [b"0"]
        with pytest.raises(LogNotFoundError, match="the directory of a partition is missing"):
            reader.read(partition=1)
        with pytest.raises(TidelogError, match="tide-2"):
            list(reader.read(partition=2))
        with pytest.raises(TidelogError):
            list(reader.read())
        with pytest.raises(UnknownTopicError, match="no partition 3 of topic 'tide': expected one of 0, 1, 2, found 3"):
            reader.log(3)


def test_a_topic_whose_deletion_was_cut_off_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with open_store(path) as owner:
        owner.create_topic("old").append(b"v")
        shutil.copytree(path / "old-0", tmp_path / "kept")
        owner.delete_topic("old")
    shutil.copytree(tmp_path / "kept", path / "old-0")
    content = json.loads((path / "tidelog.json").read_text())
    content["deleted"][0]["is_renamed"] = False
    (path / "tidelog.json").write_text(json.dumps(content))
    with open_reader(path) as store:
        assert store.topics() == []


def test_several_directories_of_one_store(tmp_path: Path) -> None:
    with open_store([tmp_path / "a", tmp_path / "b"]) as owner:
        topic = owner.create_topic("tide", 4)
        for partition in range(4):
            topic.append(b"%d" % partition, partition=partition)
    assert {path.parent.name for path in tmp_path.glob("*/tide-*")} == {"a", "b"}
    with open_reader(tmp_path / "b", tmp_path / "a") as store:
        assert sorted(record.value or b"" for record in store.topic("tide").read()) == [b"0", b"1", b"2", b"3"]
    with open_reader(tmp_path / "a") as store:  # half of it
        assert store.topic("tide").describe().partitions == 4
        with pytest.raises(LogNotFoundError):
            list(store.topic("tide").read())


# A broker's


GOLDEN = {path.name: path for path in golden_cases("partitions")}


@pytest.mark.parametrize("state", ["open", "closed"])
@pytest.mark.parametrize("disk", [ReadOnlyDisk, BrokersDisk])
def test_a_brokers_directory(tmp_path: Path, state: str, disk: type[ReadOnlyDisk]) -> None:
    names = {"money-0": "transactions", "money-2": "producers", "old-0": "legacy-v1", "compact-0": "compacted"}
    ends = {name: _end(GOLDEN[case]) for name, case in names.items()}
    home = brokers_directory(tmp_path / "data", {name: GOLDEN[case] / state for name, case in names.items()}, ends)
    before = state_of_files(home)
    with open_reader(home, disk=disk()) as store:
        assert [topic.name for topic in store.topics()] == ["compact", "money", "old"]
        money = store.topic("money")
        assert (money.partitions, money.partition_ids(), money.describe().absent) == (3, [0, 2], (1,))
        assert not money.describe().is_looked_after
        assert money.describe().settings == ()
        with pytest.raises(UnknownTopicError, match="no partition 1"):
            money.read(partition=1)
        for topic in store.topics():
            for partition in topic.partition_ids():
                log = topic.log(partition)
                records = list(topic.read(partition=partition, isolation="high_watermark"))
                assert records == list(log.read())
                assert records
                table = topic.to_arrow(partition=partition, isolation="high_watermark")
                assert table["offset"].to_pylist() == [record.offset for record in records]
                assert table["value"].to_pylist() == [record.value for record in records]
                assert table["key"].to_pylist() == [record.key for record in records]
        assert [record.offset for record in money.read(partition=0)] == _committed_by_kafka(GOLDEN["transactions"], state)
        assert money.to_arrow(partition=0, columns=["offset"])["offset"].to_pylist() == _committed_by_kafka(GOLDEN["transactions"], state)
    assert state_of_files(home) == before


def _end(case: Path) -> int:
    return next(int(step["log_end_offset"]) for step in reversed(load_case(case)["steps"]) if "log_end_offset" in step)


def _committed_by_kafka(case: Path, state: str) -> list[int]:
    """The data records below the first open transaction that are not part of an aborted one: from the transactions that Kafka named."""
    aborted = set()
    for step in load_case(case)["steps"]:
        if step["op"] == "read" and step["isolation"] == "txn_committed" and step.get("result"):
            aborted |= {tuple(entry) for entry in step["result"].get("aborted_transactions", ())}
    batches = [batch for path in sorted((case / state).glob("*.log")) for batch in read_batches(path.read_bytes())]
    found: list[int] = []
    running: dict[int, list[int]] = {}
    first: dict[int, int] = {}
    for batch in batches:
        producer = getattr(batch, "producer_id", -1)
        if batch.is_control:
            offsets = running.pop(producer, [])
            began = first.pop(producer, -1)
            if (producer, began) not in aborted:
                found += offsets
        elif getattr(batch, "is_transactional", False):
            first.setdefault(producer, batch.base_offset)
            running.setdefault(producer, []).extend(record.offset for record in batch)
        else:
            found += [record.offset for record in batch]
    stable = min(first.values(), default=1 << 62)
    return sorted(offset for offset in found if offset < stable)


def test_two_brokers_at_once(tmp_path: Path) -> None:
    source = GOLDEN["producers"] / "closed"
    end = _end(GOLDEN["producers"])
    one = brokers_directory(tmp_path / "one", {"a-0": source, "both-0": source}, {"a-0": end, "both-0": end})
    two = brokers_directory(tmp_path / "two", {"a-1": source, "both-0": source}, {"a-1": end, "both-0": end})
    with open_reader(one, two) as store:
        assert [record.partition for record in store.topic("a").read()] == [0] * len(list(store.log("a", 0).read())) + [1] * len(
            list(store.log("a", 1).read())
        )
        with pytest.raises(NotAStoreError, match="several of the directories have both-0"):
            store.topic("both").read()


def test_many_partitions_are_found_by_few_looks(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as owner:
        owner.create_topic("tide", 50, SMALL)
    looks = []

    class CountingDisk(ReadOnlyDisk):
        def entries(self, path: str) -> Any:
            looks.append(path)
            return super().entries(path)

    with open_reader(tmp_path / "store", disk=CountingDisk()) as store:
        assert list(store.topic("tide").read()) == []
        assert looks.count(str(tmp_path / "store")) < 5


# What is refused


def test_directories_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError, match="no such directory"):
        tidelog.open(tmp_path / "nothing", mode="r")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "there").mkdir()
    with pytest.raises(LogNotFoundError):
        tidelog.open([tmp_path / "there", tmp_path / "nothing"], mode="r")
    (tmp_path / "file").touch()
    with pytest.raises(LogNotFoundError, match="not a directory"):
        tidelog.open(tmp_path / "file", mode="r")


def test_an_empty_directory_has_no_topics_and_stays_empty(tmp_path: Path) -> None:
    with tidelog.open(tmp_path, mode="r") as store:
        assert store.topics() == []
    assert list(tmp_path.iterdir()) == []


def test_options_of_the_mode(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='mode "r" changes nothing, so it cannot adopt'):
        tidelog.open(tmp_path, mode="r", adopt=True)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="mode must be 'a' or 'r', not 'w'"):
        tidelog.open(tmp_path, mode="w")  # type: ignore[call-overload]
    with pytest.raises(TidelogError):
        tidelog.open(tmp_path, mode="r", config={"no.such.setting": 1})
    assert list(tmp_path.iterdir()) == []


def test_closed(ours: tuple[Path, TopicModel]) -> None:
    with open_reader(ours[0]) as store:
        topic = store.topic("tide")
        log = topic.log(0)
        reading = topic.read()
    assert store.is_closed
    assert log.is_closed
    store.close()
    for use in (store.topics, lambda: store.topic("tide"), lambda: topic.log(0), topic.read, topic.describe, lambda: next(reading)):
        with pytest.raises(LogClosedError):
            use()


def test_dropped_without_being_closed(ours: tuple[Path, TopicModel]) -> None:
    store = open_reader(ours[0])
    store.log("tide", 0)
    with pytest.warns(ResourceWarning, match="was dropped without being closed") as caught:
        del store
    assert len(caught) == 1


def test_what_is_being_read_outlives_a_dropped_store(ours: tuple[Path, TopicModel]) -> None:
    """`for record in tidelog.open(path, "r").topic("emails").read()` ended with an error about a log that was closed."""
    path, model = ours
    store = open_reader(path)
    topic = store.topic("tide")
    log, records, tables = topic.log(0), topic.read(), topic.arrow(columns=["value"])
    with pytest.warns(ResourceWarning, match="was dropped without being closed") as caught:
        del store, topic
    assert sum(1 for _ in records) == sum(table.num_rows for table in tables) == len(model.committed(0)) + len(model.committed(1))
    assert not log.is_closed
    state = log._state
    del records, tables, log
    gc.collect()
    assert state.is_closed
    assert len(caught) == 1


def test_another_process_reads_the_same(ours: tuple[Path, TopicModel]) -> None:
    path, model = ours
    code = (
        "import sys, tidelog\n"
        "with tidelog.open(sys.argv[1], mode='r') as store:\n"
        "    print(sorted((r.partition, r.offset, r.timestamp_ms, r.key, r.value) for t in store.topics() for r in t.read()))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == repr(sorted(tuple(record) for record in model.committed(0) + model.committed(1)))


def test_a_reader_in_this_process_does_not_take_the_owners_lock(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "store") as owner:
        owner.create_topic("tide").append(b"v")
        with tidelog.open(Path(folder) / "store", mode="r") as store:
            list(store.topic("tide").read())
        code = "import sys, tidelog; tidelog.open(sys.argv[1]).close()"
        done = subprocess.run([sys.executable, "-c", code, f"{folder}/store"], capture_output=True, text=True, check=False, timeout=60)
        assert "LockedError" in done.stderr

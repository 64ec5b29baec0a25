"""`jobs.copy`: the bytes of the source where nothing is left out, the right records where something is, and a store that is in order."""

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tests.spark.jobs.moving import copy_here, findings, rows_of
from tests.support.golden import GOLDEN
from tests.support.golden_partitions import golden_cases
from tests.support.job_topics import files_of, make_topic
from tests.support.logs import TIME
from tests.support.producers import end_of_txn
from tests.support.verified import write_segment
from tidelog.disk.disk import OS
from tidelog.disk.names import CLEAN_SHUTDOWN, TopicPartition
from tidelog.errors import (
    CorruptError,
    InvalidRecordTypeError,
    JobFailedError,
    LogNotFoundError,
    NotAStoreError,
    OffsetOutOfRangeError,
    TidelogError,
    UnknownTopicError,
)
from tidelog.inspection import verify
from tidelog.log.log import Log
from tidelog.record import BatchSettings, Compression, NewBatch
from tidelog.spark import jobs
from tidelog.spark.jobs.local_tasks import LocalTasks
from tidelog.spark.jobs.topic_plan import topic_names
from tidelog.store.store import Store
from tidelog.store.store_file import read_store_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIDE = TopicPartition("tide", 0)


def ends_in_seven(key: bytes) -> bool:
    """A filter on keys that can be found by its name."""
    return key.endswith(b"7")


def test_the_copy_has_the_bytes_of_its_source(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "store", partitions=2, batches=120)
    make_topic(tmp_path / "store", "other", batches=40, seed=3)
    result = jobs.copy(spark, tmp_path / "store", tmp_path / "copy", piece_bytes=12_000)
    found, expected = files_of(tmp_path / "copy"), files_of(tmp_path / "store")
    assert found.keys() == expected.keys()
    assert {name for name in expected if found[name] != expected[name]} == {"tidelog.json"}  # another store's id
    assert findings(tmp_path / "copy") == []
    files = [read_store_file(OS, str(tmp_path / name)) for name in ("store", "copy")]
    assert files[0] is not None
    assert files[1] is not None
    assert files[0].topics == files[1].topics  # ids and settings
    assert files[0].store_id != files[1].store_id
    with tidelog.open(tmp_path / "copy") as copied:
        assert not any(log.load_report.has_changed for log in copied._state.logs.values())
        copied.topic("other").append(b"value", key=b"key")
    rows = {(row.topic, row.partition): row for row in result.details.collect()}
    assert rows.keys() == {("tide", 0), ("tide", 1), ("other", 0)}
    assert sum(row.records for row in rows.values()) == result.records == sum(map(len, rows_of(tmp_path / "store").values()))
    assert dict(result.stages)["copy batches"] >= 5
    assert "the last stable offset" in str(result)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "store"]


def test_a_dry_run_makes_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "store", batches=60)
    result = jobs.copy(spark, tmp_path / "store", tmp_path / "copy", "tide", until={"tide-0": 30}, dry_run=True)
    assert "tide-0: offsets 0 to 30 (as asked for)" in str(result)
    assert result.details.collect()[0].outcome == "planned"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ([b"key-7", b"key-21", b"no such key"], lambda key: key in (b"key-7", b"key-21")),
        (re.compile(rb"-2\d$"), lambda key: re.search(rb"-2\d$", key) is not None),
        (ends_in_seven, ends_in_seven),
        ([b"no such key"], lambda _: False),
    ],
    ids=["exact", "pattern", "function", "none"],
)
@pytest.mark.parametrize("piece_bytes", [6000, 1 << 20])
def test_a_filter_on_keys(keys: Any, wanted: Any, piece_bytes: int, tmp_path: Path) -> None:
    make_topic(tmp_path / "store", partitions=2, batches=150)
    before = rows_of(tmp_path / "store")
    result = copy_here(tmp_path / "store", tmp_path / "copy", keys=keys, piece_bytes=piece_bytes)
    assert rows_of(tmp_path / "copy") == {partition: [row for row in rows if wanted(row[1])] for partition, rows in before.items()}
    assert result.partitions[0].records_left_out == len(before[TIDE]) - result.partitions[0].records
    assert findings(tmp_path / "copy") == []
    (tmp_path / "copy" / CLEAN_SHUTDOWN).unlink()
    for path in (tmp_path / "copy").glob("*/*.snapshot"):
        path.unlink()  # what producers did has to be in the batches too
    opened = [Store.open(tmp_path / name, background=False, clock=lambda: TIME) for name in ("store", "copy")]
    with opened[0] as source, opened[1] as copied:
        for number in (0, 1):
            old, new = source.log("tide", number), copied.log("tide", number)
            assert (new.log_start_offset, new.log_end_offset) == (old.log_start_offset, old.log_end_offset)
            ends = [{entry.producer_id: entry.batches[-1].last_sequence for entry in log.producer_entries.values()} for log in (old, new)]
            assert ends[0] == ends[1]  # producers go on where they were
            assert len(ends[0]) == 2


def test_up_to_offsets_a_batch_is_cut_in_two(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        log = store.create_topic("tide").log(0)
        for codec in (Compression.NONE, Compression.ZSTD):
            for number in range(5):
                rows = [(b"key", b"%d" % row, (), TIME + 10 * number) for row in range(10)]
                log.append(NewBatch(rows, settings=BatchSettings(compression=codec)).encode())
    before = rows_of(tmp_path / "store")[TIDE]
    for end in (0, 1, 10, 13, 49, 50, 77, 100):
        result = copy_here(tmp_path / "store", tmp_path / f"copy-{end}", until={("tide", 0): end})
        assert rows_of(tmp_path / f"copy-{end}")[TIDE] == before[:end]
        assert result.partitions[0].end_offset == end
        assert findings(tmp_path / f"copy-{end}") == []
        with Store.open(tmp_path / f"copy-{end}", background=False) as store:
            assert store.log("tide", 0).log_end_offset == end
            assert store.topic("tide").append(b"next").offset == end


def test_up_to_a_time_is_kafkas_look_up(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        topic = store.create_topic("tide")
        for shift in (0, 50, 20, 90, 10, 200):  # some come late
            topic.append(b"at %d" % shift, timestamp_ms=TIME + shift)
    for until in (tidelog.Time(TIME + 60), datetime.fromtimestamp((TIME + 60) / 1000, UTC)):
        target = tmp_path / f"copy-{type(until).__name__}"
        copy_here(tmp_path / "store", target, until=until)
        assert [row[2] for row in rows_of(target)[TIDE]] == [b"at 0", b"at 50", b"at 20"]  # the one at 10 lies behind the first at 60
    copy_here(tmp_path / "store", tmp_path / "all", until=tidelog.Time(TIME + 1000))
    assert len(rows_of(tmp_path / "all")[TIDE]) == 6


def make_transactions(directory: Path) -> None:
    """By offset: 0 and 1 of nobody, 2 to 4 of producer 1, 5 of 2, 6 commits 1, 7 and 8 of 1, 9 commits 2, 10 of nobody, 11 aborts 1,
    12 of 2 and not decided."""
    with Store.open(directory, background=False, clock=lambda: TIME) as store:
        log = store.create_topic("tide").log(0)
        sequences = {1: 0, 2: 0}

        def append(producer: int, count: int) -> None:
            settings = BatchSettings(producer_id=producer, producer_epoch=0, base_sequence=sequences[producer], is_transactional=True)
            log.append(NewBatch([(b"k", b"%d" % producer, (), TIME)] * count, settings=settings).encode())
            sequences[producer] += count

        log.append(NewBatch([(b"k", b"nobody", (), TIME)] * 2).encode())
        append(1, 3)
        append(2, 1)
        log.append(end_of_txn(1, "commit", timestamp_ms=TIME), origin="coordinator")
        append(1, 2)
        log.append(end_of_txn(2, "commit", timestamp_ms=TIME), origin="coordinator")
        log.append(NewBatch([(b"k", b"nobody", (), TIME)]).encode())
        log.append(end_of_txn(1, "abort", timestamp_ms=TIME), origin="coordinator")
        append(2, 1)
        assert (log.log_end_offset, log.last_stable_offset) == (13, 12)


@pytest.mark.parametrize(
    ("asked", "end"), [(None, 12), (13, 12), (12, 12), (11, 2), (9, 2), (7, 2), (6, 2), (3, 2), (2, 2), (1, 1), (0, 0)]
)
def test_no_transaction_is_cut_in_two(asked: int | None, end: int, tmp_path: Path) -> None:
    """Up to 11 the second one of producer 1 is open, from 7 on; up to 7 that of producer 2, from 5 on; up to 5 the first of 1, from 2."""
    make_transactions(tmp_path / "store")
    result = copy_here(tmp_path / "store", tmp_path / "copy", until=None if asked is None else {TIDE: asked})
    assert result.partitions[0].end_offset == end
    with tidelog.open(tmp_path / "copy", mode="r") as store:
        log = store.log("tide", 0)
        assert log.last_stable_offset == log.log_end_offset == end
    assert findings(tmp_path / "copy") == []


def test_past_the_last_stable_offset_if_told(tmp_path: Path) -> None:
    make_transactions(tmp_path / "store")
    copy_here(tmp_path / "store", tmp_path / "copy", past_stable=True)
    assert rows_of(tmp_path / "copy") == rows_of(tmp_path / "store")
    with tidelog.open(tmp_path / "copy", mode="r") as store:
        assert (store.log("tide", 0).last_stable_offset, store.log("tide", 0).log_end_offset) == (12, 13)
    assert rows_of(tmp_path / "copy", "committed") == rows_of(tmp_path / "store", "committed")
    assert findings(tmp_path / "copy") == findings(tmp_path / "store")


def test_where_the_log_starts_is_kept(tmp_path: Path) -> None:
    make_topic(tmp_path / "store", batches=150)
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        store.topic("tide").alter({"cleanup.policy": "compact,delete"})
        log = store.log("tide", 0)
        start = log.delete_records_before(log.segments[1].base_offset + 20)
    before = rows_of(tmp_path / "store")
    for name, keys in (("copy", None), ("some", [b"key-9"]), ("none", [b"?"])):
        copy_here(tmp_path / "store", tmp_path / name, keys=keys)
        assert rows_of(tmp_path / name)[TIDE] == [row for row in before[TIDE] if keys is None or row[1] in keys]
        with Store.open(tmp_path / name, background=False) as store:
            assert store.log("tide", 0).log_start_offset == start
        assert findings(tmp_path / name) == []


def test_a_store_that_goes_on_is_copied_as_it_is(spark: "SparkSession", tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", background=False) as store:
        topic = store.create_topic("tide")
        for number in range(100):
            topic.append(b"%d" % number, key=b"key")
        jobs.copy(spark, tmp_path / "store", tmp_path / "copy")
        topic.append(b"later")
    assert [row[2] for row in rows_of(tmp_path / "copy")[TIDE]] == [b"%d" % number for number in range(100)]
    assert findings(tmp_path / "copy") == []


def test_a_segment_that_is_replaced_meanwhile_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_topic(tmp_path / "store", batches=150)
    run = LocalTasks.run

    def compact_first(tasks: LocalTasks, what: str, *rest: Any, **options: Any) -> Any:
        if what == "copy batches":
            with Store.open(tmp_path / "store", background=False, clock=lambda: TIME + 10_000) as store:
                assert store.compact().records_removed
        return run(tasks, what, *rest, **options)

    monkeypatch.setattr(LocalTasks, "run", compact_first)
    with pytest.raises(JobFailedError, match="replaced or cut"):
        copy_here(tmp_path / "store", tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]
    monkeypatch.setattr(LocalTasks, "run", run)
    copy_here(tmp_path / "store", tmp_path / "copy")
    assert rows_of(tmp_path / "copy") == rows_of(tmp_path / "store")


@pytest.mark.leaves("index-position")
def test_an_index_that_leads_astray_costs_time_only(tmp_path: Path) -> None:
    """A value that is itself a batch, and an index entry that points at it: the piece before it does not end there."""
    inner = NewBatch([(b"k", b"v" * 500, (), TIME)], base_offset=40).encode()
    config = {"index.interval.bytes": 100, "internal.segment.bytes": 100_000}
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        log = store.create_topic("tide", config=config).log(0)
        for _ in range(100):
            log.append(NewBatch([(b"key", inner, (), TIME)]).encode())
    path = tmp_path / "store" / "tide-0" / "00000000000000000000"
    data, index = path.with_suffix(".log").read_bytes(), bytearray(path.with_suffix(".index").read_bytes())
    size = len(data) // 100
    for entry in range(0, len(index), 8):
        if int.from_bytes(index[entry : entry + 4], "big") == 40:
            position = data.index(inner, int.from_bytes(index[entry + 4 : entry + 8], "big"))
            index[entry : entry + 8] = (40).to_bytes(4, "big") + position.to_bytes(4, "big")
    path.with_suffix(".index").write_bytes(index)
    result = copy_here(tmp_path / "store", tmp_path / "copy", piece_bytes=40 * size - 200)
    assert dict(result.stages)["copy segments again"] == 1
    assert (tmp_path / "copy" / "tide-0" / "00000000000000000000.log").read_bytes() == data
    assert findings(tmp_path / "copy") == []


def test_offsets_that_go_back_between_two_pieces_are_noticed(tmp_path: Path) -> None:
    batches = [NewBatch([(b"key", b"v" * 100, (), TIME)], base_offset=offset).encode() for offset in (*range(20), *range(10, 40))]
    write_segment(tmp_path / "store" / "tide-0", 0, batches)
    (tmp_path / "store" / "replication-offset-checkpoint").write_text("0\n1\ntide 0 40\n")
    for piece_bytes in (20 * len(batches[0]), 1 << 20):
        with pytest.raises(CorruptError, match="go back"):
            copy_here(tmp_path / "store", tmp_path / "copy", piece_bytes=piece_bytes)


@pytest.mark.leaves
def test_damage_is_not_copied(tmp_path: Path) -> None:
    make_topic(tmp_path / "store", batches=60)
    path = next((tmp_path / "store" / "tide-0").glob("*.log"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    for piece_bytes in (3000, 1 << 20):
        with pytest.raises(CorruptError, match="CRC"):
            copy_here(tmp_path / "store", tmp_path / "copy", piece_bytes=piece_bytes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


def test_what_cannot_be_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "store", batches=20)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "a file").touch()
    store = tmp_path / "store"
    refused: list[tuple[type[Exception], dict[str, Any]]] = [
        (NotAStoreError, {"target": tmp_path / "taken"}),
        (NotAStoreError, {"target": store / "inside"}),
        (LogNotFoundError, {"target": tmp_path / "no" / "such"}),
        (UnknownTopicError, {"topics": "other"}),
        (UnknownTopicError, {"until": {"other-0": 3}}),
        (OffsetOutOfRangeError, {"until": {"tide-0": 1 << 40}}),
        (InvalidRecordTypeError, {"keys": "text"}),
        (InvalidRecordTypeError, {"keys": ["text"]}),
        (InvalidRecordTypeError, {"keys": re.compile("text")}),
        (InvalidRecordTypeError, {"keys": lambda _: True}),
        (TypeError, {"until": 17}),
        (ValueError, {"until": datetime(2026, 1, 1)}),  # without a zone
    ]
    for kind, options in refused:
        with pytest.raises(kind) as raised:
            jobs.copy(spark, store, **({"target": tmp_path / "copy"} | options))
        assert not isinstance(raised.value, TidelogError) or len(str(raised.value).splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "taken"]
    (tmp_path / "taken" / "a file").unlink()
    assert jobs.copy(spark, store, tmp_path / "taken").records  # an empty one is as good as none


# What Kafka has written


def test_a_brokers_directory_becomes_a_store(tmp_path: Path) -> None:
    source = tmp_path / "data"
    shutil.copytree(GOLDEN / "broker" / "data", source)
    result = copy_here(source, tmp_path / "copy", cluster_metadata=True)
    assert rows_of(tmp_path / "copy") == rows_of(source)
    assert findings(tmp_path / "copy") == []
    with tidelog.open(source, mode="r") as broker, tidelog.open(tmp_path / "copy") as store:
        assert {topic.name: topic.topic_id for topic in store.topics()} == {topic.name: topic.topic_id for topic in broker.topics()}
        own = {topic.name: {s.name: s.value for s in topic.describe().settings if s.source == "topic"} for topic in store.topics()}
        theirs = {topic.name: {s.name: s.value for s in topic.describe().settings} for topic in broker.topics()}
        assert {name: {**theirs[name], **config} for name, config in own.items()} == own
        assert all(topic.describe().is_looked_after for topic in store.topics())
        assert store.failures == {}
    assert (tmp_path / "copy" / CLEAN_SHUTDOWN).exists()
    assert len(result.partitions) > 3


def is_sound(directory: Path) -> bool:
    return all(finding.severity == "note" for finding in verify(directory, level="records"))


@pytest.mark.slow
def test_partitions_that_kafka_has_written(tmp_path: Path) -> None:
    """All of the golden ones that are in order, each as a whole, with half of its keys, and up to its middle."""
    folders = [
        folder / "closed" for family in ("partitions", "compaction") for folder in golden_cases(family) if (folder / "closed").is_dir()
    ]
    done = 0
    for folder in folders:
        home = tmp_path / f"{folder.parent.parent.name}-{folder.parent.name}"
        shutil.copytree(folder, home / "tide-0")
        if not is_sound(home / "tide-0") or not list((home / "tide-0").glob("*.log")):
            continue
        (home / "replication-offset-checkpoint").write_text(f"0\n1\ntide 0 {1 << 60}\n")
        before = rows_of(home)[TIDE]
        keys = {row[1] for row in before if row[1] is not None and len(row[1]) % 2}
        copy_here(home, tmp_path / "whole", past_stable=True)
        assert rows_of(tmp_path / "whole")[TIDE] == before, folder
        assert findings(tmp_path / "whole") == [], folder
        copy_here(home, tmp_path / "some", past_stable=True, keys=keys)
        assert rows_of(tmp_path / "some")[TIDE] == [row for row in before if row[1] in keys], folder
        assert findings(tmp_path / "some") == [], folder
        middle = before[len(before) // 2][0] if before else 0
        copy_here(home, tmp_path / "half", past_stable=True, until={TIDE: middle})
        assert rows_of(tmp_path / "half", "log_end")[TIDE] == [row for row in before if row[0] < middle], folder
        assert findings(tmp_path / "half") == [], folder
        for name in ("whole", "some", "half"):
            with Log.open(tmp_path / name / "tide-0") as log:
                assert not log.load_report.has_changed, (folder, log.load_report)
            shutil.rmtree(tmp_path / name)
        done += 1
    assert done > 80


def test_a_topic_that_is_named_twice_is_copied_once(tmp_path: Path) -> None:
    make_topic(tmp_path / "store", partitions=2, batches=20)
    result = copy_here(tmp_path / "store", tmp_path / "copy", ["tide", "tide"])
    assert [one.partition for one in result.partitions] == [TopicPartition("tide", 0), TopicPartition("tide", 1)]
    assert rows_of(tmp_path / "copy") == rows_of(tmp_path / "store")
    assert topic_names(["tide", "other", "tide"]) == ["tide", "other"]

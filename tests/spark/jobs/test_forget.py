"""`jobs.forget`: no byte of a key is left anywhere, everything else is as it was, and whoever is killed can do it again."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

import tidelog
from tests.spark.jobs.move_process import KEYS
from tests.spark.jobs.moving import copy_here, findings, forget_here, kill_at, rows_of
from tests.support.crash_parts import GONE, TasksOnce
from tests.support.golden_partitions import golden_cases
from tests.support.job_topics import SETTINGS, copied, files_of, make_topic
from tests.support.logs import TIME
from tests.support.verified import complaints
from tidelog.compaction import parts_commit
from tidelog.disk.disk import OS
from tidelog.disk.names import TopicPartition
from tidelog.errors import InvalidRecordTypeError, InvalidTopicError, JobFailedError, LockedError, UnknownTopicError
from tidelog.log.log import Log
from tidelog.record import BatchSettings, Compression, NewBatch
from tidelog.spark import jobs
from tidelog.spark.jobs import forget_job
from tidelog.spark.jobs.forget_job import ForgetOptions, run_forget
from tidelog.spark.jobs.local_tasks import LocalTasks
from tidelog.spark.jobs.running import staged
from tidelog.spark.jobs.task_errors import typed_error
from tidelog.store.compacting_in_parts import PartSizes, compact_in_parts
from tidelog.store.staging import Staging
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIDE = TopicPartition("tide", 0)
Rows = dict[TopicPartition, list[tuple[int, bytes | None, bytes | None, int]]]


def without(rows: Rows, keys: tuple[bytes, ...]) -> Rows:
    return {partition: [row for row in own if row[1] not in keys] for partition, own in rows.items()}


def files_with(directory: Path, key: bytes) -> list[str]:
    return [name for name, data in files_of(directory).items() if key in data]


def test_all_versions_are_gone_and_nothing_else_is(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "store", partitions=2, batches=150)
    make_topic(tmp_path / "store", "other", batches=40, seed=3)
    before = rows_of(tmp_path / "store")
    other = {name: data for name, data in files_of(tmp_path / "store").items() if name.startswith("other-0/") and name.endswith(".log")}
    with tidelog.open(tmp_path / "store", mode="r") as store:
        ends = [store.log("tide", number).log_end_offset for number in (0, 1)]
    assert files_with(tmp_path / "store", KEYS[1])
    planned = jobs.forget(spark, tmp_path / "store", "tide", KEYS, dry_run=True)
    assert planned.proof is None
    assert rows_of(tmp_path / "store") == before
    result = jobs.forget(spark, tmp_path / "store", "tide", KEYS, piece_bytes=12_000)
    expected = {
        partition: rows if partition.topic == "other" else without({partition: rows}, KEYS)[partition] for partition, rows in before.items()
    }
    assert rows_of(tmp_path / "store") == expected
    gone = sum(len(rows) for rows in before.values()) - sum(len(rows) for rows in expected.values())
    assert result.records == planned.records == gone > 20
    assert result.proof is not None
    assert result.proof.occurrences == 0
    assert result.proof.files >= 20
    assert "0 occurrences" in str(result)
    assert [name for name in files_with(tmp_path / "store", KEYS[1]) if name.startswith("tide")] == []
    assert {name: files_of(tmp_path / "store")[name] for name in other} == other
    assert not [name for name in files_of(tmp_path / "store") if name.endswith((".deleted", ".cleaned", ".swap"))]
    with tidelog.open(tmp_path / "store", mode="r") as store:
        assert [store.log("tide", number).log_end_offset for number in (0, 1)] == ends
    assert findings(tmp_path / "store") == []
    assert dict(result.stages)["rewrite segments"] >= 4
    assert sum(row.records for row in result.details.collect()) == gone
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]
    again = forget_here(tmp_path / "store", KEYS)
    assert again.records == 0
    assert "rewrite segments" not in dict(again.stages)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_in_every_codec_and_in_the_active_segment(codec: Compression, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        log = store.create_topic("tide", config=SETTINGS | {"compression.type": "producer"}).log(0)
        for number in range(20):
            rows = [(b"person-%d" % row, b"value" * 20, ((f"h{row}", b"x"),), TIME + number) for row in range(5)]
            log.append(NewBatch(rows, settings=BatchSettings(compression=codec)).encode())
        assert len(log.segments) == 1
    before = rows_of(tmp_path / "store")
    result = forget_here(tmp_path / "store", [b"person-3"])
    assert result.records == 20
    assert rows_of(tmp_path / "store") == without(before, (b"person-3",))
    assert files_with(tmp_path / "store", b"person-3") == []
    assert findings(tmp_path / "store") == []


def test_quotes_in_other_records_are_counted_and_stay(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        topic = store.create_topic("tide")
        topic.append(b"hers", key=b"alice")
        topic.append(b"alice says hello to alice", key=b"bob")
        topic.append(b"packed: alice again", key=b"alice@home", headers=[("from", b"alice")])
        log = topic.log(0)
        rows = [(b"carol", b"alice, in zstd", (), TIME), (b"alice", b"alice", (), TIME)]
        log.append(NewBatch(rows, settings=BatchSettings(compression=Compression.ZSTD)).encode())
    result = forget_here(tmp_path / "store", [b"alice"])
    assert result.records == 2
    assert result.proof is not None
    assert (result.proof.occurrences, result.proof.quoted_in_values, result.proof.quoted_elsewhere) == (0, 4, 2)
    assert [row[1] for row in rows_of(tmp_path / "store")[TIDE]] == [b"bob", b"alice@home", b"carol"]
    assert "quoted 4 times in values" in str(result)


def test_short_keys_and_keys_that_look_like_numbers(tmp_path: Path) -> None:
    """The keys of integer serializers: their bytes are in indexes and headers by chance, where they are no keys."""
    keys = [number.to_bytes(4, "big") for number in range(8)]
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        topic = store.create_topic("tide", config={"index.interval.bytes": 1})
        for number in range(40):
            topic.append(b"v", key=keys[number % 8])
            topic.append(b"v", key=b"k%d" % (number % 8))
    result = forget_here(tmp_path / "store", [keys[0], keys[3], b"k2"])
    assert result.records == 15
    assert result.proof is not None
    assert (result.proof.occurrences, result.proof.short_keys) == (0, 1)
    assert result.proof.look_alikes > 0
    assert "only compared with keys of records" in str(result)
    assert {row[1] for row in rows_of(tmp_path / "store")[TIDE]} == {*keys, *(b"k%d" % number for number in range(8))} - {
        keys[0],
        keys[3],
        b"k2",
    }


@pytest.mark.parametrize("how", ["torn", "gzip"])
def test_files_kept_aside_are_named_and_removed_only_if_told(how: str, tmp_path: Path) -> None:
    """Of a torn batch the bytes tell; in one that is compressed they are not to be seen."""
    make_topic(tmp_path / "store", batches=40)
    codec = Compression.NONE if how == "torn" else Compression.GZIP
    batch = NewBatch([(KEYS[0], b"v", (), TIME), (b"else", b"v", (), TIME)], settings=BatchSettings(compression=codec)).encode()
    assert (KEYS[0] in batch) == (how == "torn")
    batch = batch[:-3] if how == "torn" else batch
    partition = tmp_path / "store" / "tide-0"
    with_key, without_key = partition / "cut-00000000000000000000-at-7.log.tidelog", partition / "cut-00000000000000000000-at-9.log.tidelog"
    with_key.write_bytes(b"damaged" + batch)
    without_key.write_bytes(NewBatch([(b"else", b"v", (), TIME)]).encode())
    with pytest.raises(JobFailedError, match="remove_kept_aside=True") as raised:
        forget_here(tmp_path / "store", KEYS)
    assert str(with_key) in str(raised.value)
    assert str(without_key) not in str(raised.value)
    assert not {row[1] for row in rows_of(tmp_path / "store")[TIDE]} & set(KEYS)  # the rest is done
    result = forget_here(tmp_path / "store", KEYS, remove_kept_aside=True)
    assert result.kept_aside == (str(with_key),)
    assert (with_key.exists(), without_key.exists()) == (False, True)
    assert result.proof is not None
    assert result.proof.occurrences == 0


def test_what_cannot_be_looked_into_is_told(tmp_path: Path) -> None:
    make_topic(tmp_path / "store", batches=20)
    batch = NewBatch([(b"other", b"v" * 100, (), TIME)], settings=BatchSettings(compression=Compression.ZSTD)).encode()
    torn = tmp_path / "store" / "tide-0" / "cut-00000000000000000000-at-7.log.tidelog"
    torn.write_bytes(batch[:-5])
    with pytest.raises(JobFailedError, match="may remain"):
        forget_here(tmp_path / "store", KEYS)
    assert forget_here(tmp_path / "store", KEYS, remove_kept_aside=True).kept_aside == (str(torn),)


def test_what_a_deleted_topic_of_that_name_has_left_is_told(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        store.create_topic("tide").append(b"old", key=KEYS[0])
        store.delete_topic("tide")
        store.create_topic("tide").append(b"new", key=KEYS[0])
        assert list((tmp_path / "store").glob("tide-0.*-delete"))
    with pytest.raises(JobFailedError, match="-delete/0"):
        forget_here(tmp_path / "store", KEYS, clock=lambda: TIME)
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME + 100_000) as store:
        store.scheduler.run_due(TIME + 10_000_000)
    result = forget_here(tmp_path / "store", KEYS)
    assert result.proof is not None
    assert result.proof.occurrences == 0
    assert files_with(tmp_path / "store", KEYS[0]) == []


def test_producers_and_transactions_go_on(tmp_path: Path) -> None:
    make_topic(tmp_path / "store", batches=150)
    committed = rows_of(tmp_path / "store", "committed")
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        before = {entry.producer_id: entry.batches[-1].last_sequence for entry in store.log("tide", 0).producer_entries.values()}
    every = tuple({row[1] for row in rows_of(tmp_path / "store")[TIDE] if row[1] is not None} - {b"key-1"})
    forget_here(tmp_path / "store", every)
    assert rows_of(tmp_path / "store", "committed") == without(committed, every)
    (tmp_path / "store" / ".kafka_cleanshutdown").unlink()  # everything is worked out anew from the batches
    for path in (tmp_path / "store" / "tide-0").glob("*.snapshot"):
        path.unlink()
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        after = {entry.producer_id: entry.batches[-1].last_sequence for entry in store.log("tide", 0).producer_entries.values()}
    assert after == before


@pytest.mark.slow
def test_logs_that_kafka_has_written(tmp_path: Path) -> None:
    """All formats, codecs and transactions, compacted and not: half of the keys go, each record of them and no other."""
    done = records = 0
    for folder in (folder for family in ("partitions", "compaction") for folder in golden_cases(family)):
        home = tmp_path / "kafka" / "tide-0"
        shutil.copytree(folder / "closed", home)
        if not complaints(home) and list(home.glob("*.log")):
            (home.parent / "replication-offset-checkpoint").write_text(f"0\n1\ntide 0 {1 << 60}\n")
            copy_here(home.parent, tmp_path / "store", past_stable=True)
            before = rows_of(tmp_path / "store")
            keys = tuple({row[1] for row in before[TIDE] if row[1] is not None and sum(row[1]) % 2})
            if keys:
                result = forget_here(tmp_path / "store", keys, clock=lambda: TIME)
                assert rows_of(tmp_path / "store") == without(before, keys), folder
                assert findings(tmp_path / "store") == [], folder
                assert result.proof is not None
                assert result.proof.occurrences == 0, folder
                done, records = done + 1, records + result.records
            shutil.rmtree(tmp_path / "store")
        shutil.rmtree(home.parent)
    assert done > 30
    assert records > 500


def test_what_cannot_be_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "store", batches=5)
    with Store.open(tmp_path / "store", background=False):
        with pytest.raises(LockedError):
            jobs.forget(spark, tmp_path / "store", "tide", KEYS)
        assert jobs.forget(spark, tmp_path / "store", "tide", KEYS, dry_run=True).dry_run
    for topics, keys, kind in (
        ("no such", KEYS, UnknownTopicError),
        ("__consumer_offsets", KEYS, InvalidTopicError),
        ("tide", "text", InvalidRecordTypeError),
        ("tide", (), ValueError),
    ):
        with pytest.raises(kind):
            jobs.forget(spark, tmp_path / "store", topics, keys)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ending", "count", "how"),
    [
        (".log", 1, "local"),
        (".log.cleaned", 2, "local"),
        (".log.swap", 1, "local"),
        (".index.swap", 2, "local"),
        pytest.param(".log.cleaned", 1, "spark", marks=pytest.mark.slow),
        pytest.param(".log.swap", 2, "spark", marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_leaves_a_sound_log_and_the_next_one_finishes(ending: str, count: int, how: str, tmp_path: Path) -> None:
    make_topic(tmp_path / "store", batches=150)
    before = rows_of(tmp_path / "store")
    kill_at("forget", tmp_path / "store", ending=ending, count=count, how=how)
    stages = {path.name.rpartition(".")[2] for path in (tmp_path / "store" / "tide-0").iterdir()}
    assert stages & {"cleaned", "swap"} or ending == ".log"  # it died in the midst of it
    seen = rows_of(tmp_path / "store")[TIDE]
    with Store.open(copied(tmp_path / "store", tmp_path / "opened"), background=False) as store:
        assert store.failures == {}
    assert rows_of(tmp_path / "opened")[TIDE] == seen  # readers saw what opening makes of it
    assert without({TIDE: seen}, KEYS) == without(before, KEYS)
    result = forget_here(tmp_path / "store", KEYS)
    assert rows_of(tmp_path / "store") == without(before, KEYS)
    assert result.proof is not None
    assert result.proof.occurrences == 0
    assert files_with(tmp_path / "store", KEYS[1]) == []
    assert findings(tmp_path / "store") == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["opened", "store"]


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_what_a_compaction_of_several_topics_has_left_goes_too(is_elsewhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver was killed in the commit of another topic: what it has staged of this one is a second name of what is forgotten."""
    make_topic(tmp_path / "store", batches=60)
    make_topic(tmp_path / "store", "other", batches=40, seed=3)
    (tmp_path / "elsewhere").mkdir()
    within = str(tmp_path / "elsewhere") if is_elsewhere else None
    replace_group = parts_commit._replace_group

    def cut_off(log: Log, *arguments: Any, **options: Any) -> None:
        if log.partition.topic == "other":
            raise InterruptedError
        replace_group(log, *arguments, **options)

    monkeypatch.setattr(parts_commit, "_replace_group", cut_off)
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME + 10_000) as store:
        left = Staging.make(OS, str(tmp_path / "store"), GONE, within=within)
        with pytest.raises(InterruptedError):
            compact_in_parts(store, ["tide", "other"], TasksOnce(left), PartSizes(6000, 6000, 6000), roll=True, staging=left.path)
    monkeypatch.undo()
    assert [name for name, data in files_of(Path(left.path)).items() if KEYS[1] in data]
    monkeypatch.setattr(forget_job, "SparkTasks", lambda _, job, **how: LocalTasks(job, staging=how["staging"]))
    monkeypatch.setattr(forget_job, "details_frame", lambda *_: None)
    result = jobs.forget(cast("SparkSession", None), tmp_path / "store", "tide", KEYS, staging=within)
    assert result.records > 0
    assert not Path(left.path).exists()
    assert findings(tmp_path / "store") == []


def test_a_proof_that_is_cut_off_does_not_say_that_nothing_was_changed(tmp_path: Path) -> None:
    """Of other jobs that is so when a stage fails."""
    make_topic(tmp_path / "store", batches=60)

    class NoProof(LocalTasks):
        def run(self, what: str, function: Any, tasks: Any, *, here: bool = False) -> list[Any]:
            if what.startswith("prove"):
                raise typed_error(RuntimeError("Python worker exited unexpectedly (crashed)"), what)
            return super().run(what, function, tasks, here=here)

    before = rows_of(tmp_path / "store")
    with (
        Store.open(tmp_path / "store", background=False) as store,
        staged(str(tmp_path / "store")) as made,
        pytest.raises(JobFailedError, match="nothing is proven: run it again") as failure,
    ):
        run_forget(NoProof("forget", staging=made), store, ["tide"], frozenset(KEYS), ForgetOptions())
    assert "nothing was changed" not in str(failure.value)
    assert rows_of(tmp_path / "store") == without(before, KEYS) != before
    result = forget_here(tmp_path / "store", KEYS)
    assert (result.records, result.proof is not None) == (0, True)


@pytest.mark.parametrize("dry_run", [False, True])
def test_of_no_topic_there_is_no_proof(dry_run: bool, tmp_path: Path) -> None:
    """Elsewhere None are all topics, and a list may be empty by mistake: 0 occurrences in 0 files would read like an outcome."""
    make_topic(tmp_path / "store", batches=3)
    for topics in cast("Any", (None, [], ())):
        with pytest.raises(UnknownTopicError, match="no topic is named"):
            jobs.forget(cast("SparkSession", None), tmp_path / "store", topics, KEYS[0], dry_run=dry_run)


@pytest.mark.parametrize("case", ["more partitions", "another directory", "a long name"])
def test_what_a_deleted_topic_had_elsewhere_is_looked_through_too(case: str, tmp_path: Path) -> None:
    """Not only what was the same partition in the same directory."""
    homes = [tmp_path / "one", tmp_path / "two"]
    name = "t" * 240 if case == "a long name" else "tide"
    with Store.open(homes if case == "another directory" else homes[0], background=False) as store:
        store.create_topic(name, 2 if case == "more partitions" else 1)
        store.topic(name).append(b"v", key=KEYS[0], partition=1 if case == "more partitions" else 0)
        store.delete_topic(name)
        store.create_topic("between").append(b"v", key=b"k")
        store.create_topic(name).append(b"v", key=b"other")
        paths = store.paths
    assert [path for home in homes for path in home.glob("*-delete")]
    with (
        Store.open(paths, background=False) as store,
        staged(str(homes[0])) as made,
        pytest.raises(JobFailedError, match="a deleted topic of that name"),
    ):
        run_forget(LocalTasks("forget", staging=made), store, [name], frozenset([KEYS[0]]), ForgetOptions())

"""`jobs.restore`: a backup that may be torn becomes a store, up to a point in time; what is cut is what recovery cuts, and is kept."""

import shutil
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tests.spark.jobs.moving import findings, kill_at, restore_here, rows_of
from tests.support.golden import GOLDEN
from tests.support.golden_partitions import golden_cases
from tests.support.job_topics import copied, files_of, make_topic
from tests.support.logs import TIME
from tidelog.disk.disk import OS
from tidelog.disk.names import CLEAN_SHUTDOWN, TopicPartition
from tidelog.errors import DamagedLogError, NotAStoreError, TidelogError, UnknownTopicError
from tidelog.inspection.repair_files import look_at
from tidelog.log.log import Log
from tidelog.spark import jobs
from tidelog.spark.jobs.local_tasks import LocalTasks
from tidelog.spark.jobs.restore_job import run_restore
from tidelog.store.backup_times import first_at_time
from tidelog.store.copy_plan import UntilPoint
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIDE = TopicPartition("tide", 0)


def segments(directory: Path, name: str = "tide-0") -> list[Path]:
    return sorted((directory / name).glob("*.log"))


def tear(path: Path, size_bytes: int) -> None:
    """Cut off the last bytes of a file."""
    path.write_bytes(path.read_bytes()[:-size_bytes])


def test_a_torn_backup_is_cut_where_recovery_cuts_it(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "store", partitions=2, batches=120)
    backup = copied(tmp_path / "store", tmp_path / "backup")
    (backup / CLEAN_SHUTDOWN).unlink()
    tear(segments(backup)[-1], 20)
    before = files_of(backup)
    result = jobs.restore(spark, backup, tmp_path / "restored", piece_bytes=12_000)
    assert files_of(backup) == before  # it is only read
    copied(backup, tmp_path / "recovered")
    with Store.open(tmp_path / "recovered", background=False) as store:
        (cut,) = store.log("tide", 0).load_report.cuts
    torn, whole = result.partitions
    assert (torn.cuts[0].base_offset, torn.cuts[0].position, torn.cuts[0].size_bytes) == (cut.base_offset, cut.position, cut.size_bytes)
    assert torn.cuts[0].kept_in == cut.kept_in
    assert whole.cuts == ()
    found, recovered = files_of(tmp_path / "restored"), files_of(tmp_path / "recovered")
    logs = {name for name in recovered if name.endswith((".log", ".log.tidelog"))}
    assert {name: found[name] for name in logs} == {name: recovered[name] for name in logs}
    assert rows_of(tmp_path / "restored") == rows_of(tmp_path / "recovered")
    assert findings(tmp_path / "restored") == []
    assert result.bytes_cut == cut.size_bytes
    row = next(row for row in result.details.collect() if row.partition == 0)
    assert (row.from_offset, row.to_offset, row.bytes_cut) == (0, torn.to_offset, cut.size_bytes)
    assert "were cut" in str(result)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "recovered", "restored", "store"]


def test_what_is_sound_comes_back_byte_by_byte(tmp_path: Path) -> None:
    make_topic(tmp_path / "store", partitions=2, batches=150)
    backup = copied(tmp_path / "store", tmp_path / "backup")
    for path in backup.glob("tide-*/*"):
        if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            path.write_bytes(b"not believed" * 10)
    restore_here(backup, tmp_path / "restored")
    found, expected = files_of(tmp_path / "restored"), files_of(tmp_path / "store")
    assert {name for name in expected if found.get(name) != expected[name]} == {"tidelog.json"}
    assert found.keys() == expected.keys()


def test_a_copy_of_a_store_that_is_written_to(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", background=False) as store:
        topic = store.create_topic("tide")
        for number in range(50):
            topic.append(b"%d" % number)
        copied(tmp_path / "store", tmp_path / "backup")
    result = restore_here(tmp_path / "backup", tmp_path / "restored")
    assert (result.partitions[0].records, result.partitions[0].cuts) == (50, ())
    assert [row[2] for row in rows_of(tmp_path / "restored")[TIDE]] == [b"%d" % number for number in range(50)]
    assert findings(tmp_path / "restored") == []


@pytest.mark.parametrize("piece_bytes", [3000, 1 << 20])
def test_damage_with_data_behind_it_is_refused_unless_it_is_to_be_cut(piece_bytes: int, tmp_path: Path) -> None:
    make_topic(tmp_path / "store", batches=150)
    backup = copied(tmp_path / "store", tmp_path / "backup")
    first, last = segments(backup)
    data = bytearray(first.read_bytes())
    data[9000] ^= 255
    first.write_bytes(data)
    with pytest.raises(DamagedLogError, match='damage="cut"'):
        restore_here(backup, tmp_path / "restored", piece_bytes=piece_bytes)
    assert not (tmp_path / "restored").exists()
    result = restore_here(backup, tmp_path / "restored", damage="cut", piece_bytes=piece_bytes)
    (one,) = result.partitions
    assert [cut.base_offset for cut in one.cuts] == [0, int(last.stem)]
    assert one.cuts[0].position <= 9000
    restored = tmp_path / "restored" / "tide-0"
    kept = [(restored / str(cut.kept_in)).read_bytes() for cut in one.cuts]
    assert (restored / first.name).read_bytes() + kept[0] == bytes(data)
    assert kept[1] == last.read_bytes()
    before = rows_of(tmp_path / "store")[TIDE]
    assert rows_of(tmp_path / "restored")[TIDE] == [row for row in before if row[0] < one.to_offset]
    assert one.records == len([row for row in before if row[0] < one.to_offset])
    assert findings(tmp_path / "restored") == []


def backup_around_a_merge(tmp_path: Path) -> tuple[Path, list[int]]:
    """All that a compacted topic had and has, and the base offsets of the segments that others went into."""
    make_topic(tmp_path / "store", batches=400, keys=400)
    backup = copied(tmp_path / "store", tmp_path / "backup")
    with Store.open(tmp_path / "store", background=False) as store:
        store.topic("tide").alter({"internal.segment.bytes": 50_000})  # of what is merged
        store.compact("tide")
    old, new = ([path.name for path in segments(place)] for place in (backup, tmp_path / "store"))
    assert len(old) - len(new) > 1
    for name in new:
        shutil.copy(tmp_path / "store" / "tide-0" / name, backup / "tide-0" / name)
    return backup, [int(Path(name).stem) for name, behind in pairwise(old) if name in new and behind not in new]


@pytest.mark.parametrize("piece_bytes", [3000, 1 << 20])
def test_segments_that_were_merged_meanwhile(piece_bytes: int, tmp_path: Path) -> None:
    backup, merged = backup_around_a_merge(tmp_path)
    with pytest.raises(
        DamagedLogError, match=r"reaches into the offsets of the next one.*expected offsets below \d+, found a batch"
    ) as told:
        restore_here(backup, tmp_path / "restored", piece_bytes=piece_bytes)
    assert "salvage" in str(told.value)
    assert not (tmp_path / "restored").exists()
    result = restore_here(backup, tmp_path / "restored", damage="cut", piece_bytes=piece_bytes)
    (one,) = result.partitions
    assert [cut.base_offset for cut in one.cuts] == merged
    restored = tmp_path / "restored" / "tide-0"
    for cut in one.cuts:
        assert cut.reason.startswith("offsets that are those of segment")
        kept = (restored / str(cut.kept_in)).read_bytes()
        whole = (backup / "tide-0" / f"{cut.base_offset:020}.log").read_bytes()
        assert (kept, len(kept)) == (whole[cut.position :], cut.size_bytes)
    assert one.why == "all that is sound"
    assert findings(tmp_path / "restored") == []
    found, expected = rows_of(tmp_path / "restored")[TIDE], rows_of(tmp_path / "store")[TIDE]
    assert set(expected) <= set(found)


def test_offsets_of_the_next_segment_behind_the_point(tmp_path: Path) -> None:
    """What is not asked for is no damage."""
    backup, merged = backup_around_a_merge(tmp_path)
    behind = min(int(path.stem) for path in segments(backup) if int(path.stem) > merged[0])
    (one,) = restore_here(backup, tmp_path / "restored", until={"tide-0": behind}).partitions
    assert (one.cuts, one.to_offset <= behind) == ((), True)
    assert findings(tmp_path / "restored") == []


@pytest.mark.leaves("torn-tail", "ends-below-recovery-point", "time-index-offset", "snapshot-beyond-end")
def test_to_a_point_in_time(spark: "SparkSession", tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        for name in ("tide", "other"):
            topic = store.create_topic(name)
            for number in range(20):
                topic.append(b"%d" % number, timestamp_ms=TIME + number)
    tear(segments(tmp_path / "store")[-1], 5)  # behind that point
    result = jobs.restore(spark, tmp_path / "store", tmp_path / "restored", until=tidelog.Time(TIME + 7))
    assert {one.to_offset for one in result.partitions} == {7}
    assert all(one.cuts == () for one in result.partitions)
    assert {len(rows) for rows in rows_of(tmp_path / "restored").values()} == {7}
    some = jobs.restore(spark, tmp_path / "store", tmp_path / "some", topics="other", until={"other-0": 3})
    assert [(one.partition, one.records) for one in some.partitions] == [(TopicPartition("other", 0), 3)]
    planned = jobs.restore(spark, tmp_path / "store", tmp_path / "none", until={"other-0": 3}, dry_run=True)
    assert [(row.topic, row.outcome, row.to_offset) for row in planned.details.collect()] == [
        ("other", "planned", 3),
        ("tide", "planned", None),
    ]
    assert planned.dry_run
    assert not (tmp_path / "none").exists()
    with pytest.raises(UnknownTopicError):
        jobs.restore(spark, tmp_path / "store", tmp_path / "none", topics="no such")
    with pytest.raises(NotAStoreError, match="not empty"):
        jobs.restore(spark, tmp_path / "store", tmp_path / "some")


def damaged_backup(tmp_path: Path) -> tuple[Path, int]:
    """One that was closed in order, of four segments, with a bad byte in the last: it cannot be opened. And the damaged batch's offset."""
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        topic = store.create_topic("tide", config={"internal.segment.bytes": 1000})
        for number in range(60):
            topic.append(b"%d" % number, timestamp_ms=TIME + number)
    backup = copied(tmp_path / "store", tmp_path / "backup")
    last = segments(backup)[-1]
    assert len(segments(backup)) >= 4
    data = bytearray(last.read_bytes())
    data[-1] ^= 255
    last.write_bytes(data)
    return backup, 59


@pytest.mark.leaves
@pytest.mark.parametrize("damage", ["refuse", "cut"])
@pytest.mark.parametrize("until", [{"tide-0": 7}, tidelog.Time(TIME + 7), tidelog.Time(TIME + 58)])
def test_to_a_point_before_damage(until: Any, damage: str, tmp_path: Path) -> None:
    """Whether that is known needs no log that can be opened, and nothing is missing below it."""
    backup, bad = damaged_backup(tmp_path)
    with pytest.raises(DamagedLogError), tidelog.open(backup, mode="r") as store:
        store.log("tide", 0)
    result = restore_here(backup, tmp_path / "restored", until=until, damage=damage)
    end = 7 if isinstance(until, dict) else until.ms - TIME
    assert end < bad
    assert (result.partitions[0].to_offset, result.partitions[0].cuts) == (end, ())
    assert [row[0] for row in rows_of(tmp_path / "restored")[TIDE]] == list(range(end))
    assert findings(tmp_path / "restored") == []


@pytest.mark.leaves
def test_to_a_point_behind_damage(tmp_path: Path) -> None:
    """All that lies before it is older, and what is behind it does not come back."""
    backup, bad = damaged_backup(tmp_path)
    result = restore_here(backup, tmp_path / "restored", until=tidelog.Time(TIME + 59), damage="cut")
    assert (result.partitions[0].to_offset, len(result.partitions[0].cuts)) == (bad, 1)
    path = segments(backup)[0]
    data = bytearray(path.read_bytes())
    data[-1] ^= 255
    path.write_bytes(data)
    with pytest.raises(DamagedLogError, match='damage="cut"'):
        restore_here(backup, tmp_path / "refused", until=tidelog.Time(TIME + 50))
    cut = restore_here(backup, tmp_path / "cut", until=tidelog.Time(TIME + 50), damage="cut").partitions[0]
    assert cut.to_offset == int(segments(backup)[1].stem) - 1
    files = look_at(OS, str(path.parent), lambda *_: 0)
    assert first_at_time(str(path.parent), files, TIME + 50, 0) is None
    assert first_at_time(str(path.parent), files, TIME + 3, 0) == 3
    assert first_at_time(str(path.parent), files, TIME + 3, 5) == 5  # what lies before the start of the log is not there


def test_a_dry_run_tells_and_makes_nothing(tmp_path: Path) -> None:
    make_topic(tmp_path / "store", partitions=2, batches=150)
    (tmp_path / "store" / "tide-0" / "00000000000000000001.index").write_bytes(b"left over")
    before = files_of(tmp_path)
    tasks = LocalTasks("restore")
    target = str(tmp_path / "restored")
    result = run_restore(tasks, tmp_path / "store", target, ["tide", "tide"], UntilPoint.of({"tide-1": 70}), dry_run=True)
    assert (result.dry_run, result.partitions, result.stages) == (True, (), ())
    assert [(plan.partition.partition, plan.log_start_offset, plan.why) for plan in result.plans] == [
        (0, 0, "all that is sound"),
        (1, 0, "as asked for"),
    ]
    assert result.plans[1].end_offset == 70
    lines = str(result).splitlines()
    assert lines[0].startswith("tide-0: offsets 0 to its end (all that is sound)")
    assert "00000000000000000001.index: left out" in lines[1]
    assert lines[-1] == f"would be restored to {target}"
    assert files_of(tmp_path) == before
    (tmp_path / "store" / "tide-0" / "00000000000000000001.index").unlink()


def test_a_backup_of_several_directories(tmp_path: Path) -> None:
    with Store.open([tmp_path / "a", tmp_path / "b"], background=False) as store:
        topic = store.create_topic("tide", 4)
        for number in range(40):
            topic.append(b"%d" % number, partition=number % 4)
    assert list((tmp_path / "a").glob("tide-*"))
    assert list((tmp_path / "b").glob("tide-*"))
    result = restore_here([tmp_path / "a", tmp_path / "b"], tmp_path / "restored")
    assert [one.records for one in result.partitions] == [10] * 4
    assert rows_of(tmp_path / "restored") == rows_of([tmp_path / "a", tmp_path / "b"])
    with tidelog.open(tmp_path / "restored") as store:
        assert store.failures == {}
        store.topic("tide").append(b"more")
    shutil.copytree(
        tmp_path / "a" / next((tmp_path / "a").glob("tide-*")).name, tmp_path / "b" / next((tmp_path / "a").glob("tide-*")).name
    )
    with pytest.raises(NotAStoreError, match="several of the directories"):
        restore_here([tmp_path / "a", tmp_path / "b"], tmp_path / "again")


def test_a_brokers_backup_has_its_settings(tmp_path: Path) -> None:
    result = restore_here(GOLDEN / "broker" / "data", tmp_path / "restored")
    assert rows_of(tmp_path / "restored", "log_end") == rows_of(GOLDEN / "broker" / "data", "log_end")
    with tidelog.open(tmp_path / "restored") as store:
        assert store.failures == {}
        assert all(topic.describe().is_looked_after for topic in store.topics())
        assert any(setting.source == "topic" for topic in store.topics() for setting in topic.describe().settings)
    assert findings(tmp_path / "restored") == []
    assert len(result.partitions) > 3


@pytest.mark.leaves
def test_what_crashes_of_kafka_have_left(tmp_path: Path) -> None:
    """The golden directories of crashes: the same records and the same end as opening them leaves, where that does not refuse."""
    done = 0
    for folder in golden_cases("recovery"):
        if not (folder / "before").is_dir():
            continue
        work = tmp_path / folder.name
        shutil.copytree(folder / "before", work / "backup" / "tide-0")
        shutil.copytree(folder / "before", work / "opened" / "tide-0")
        try:
            with Log.open(work / "opened" / "tide-0", last_shutdown_clean=False, recovery_point=0, clock=lambda: TIME) as log:
                expected = [(record.offset, record.key, record.value) for record in log.read(isolation="log_end")]
                end = log.log_end_offset
        except TidelogError:
            continue
        if "overflow" in folder.name:  # opening splits such a segment; here it is told
            with pytest.raises(DamagedLogError, match="opening the log splits it"):
                restore_here(work / "backup", work / "restored", damage="cut")
            continue
        result = restore_here(work / "backup", work / "restored", damage="cut")
        assert [row[:3] for row in rows_of(work / "restored", "log_end")[TIDE]] == expected, folder.name
        assert result.partitions[0].to_offset == end, folder.name
        assert findings(work / "restored") == [], folder.name
        done += 1
    assert done > 100


@pytest.mark.parametrize(
    ("ending", "count", "how"),
    [
        (".log", 1, "local"),
        ("/store", 1, "local"),
        pytest.param(".log", 2, "spark", marks=pytest.mark.slow),
        pytest.param("/store", 1, "spark", marks=pytest.mark.slow),
    ],
)
def test_a_killed_restore_leaves_no_target_and_can_be_done_again(ending: str, count: int, how: str, tmp_path: Path) -> None:
    make_topic(tmp_path / "backup", partitions=2, batches=80)
    before = files_of(tmp_path / "backup")
    kill_at("restore", tmp_path / "backup", tmp_path / "restored", ending=ending, count=count, how=how)
    assert not (tmp_path / "restored").exists()
    assert list(tmp_path.glob(".restored.tidelog-staging-*"))
    restore_here(tmp_path / "backup", tmp_path / "restored")
    assert files_of(tmp_path / "backup") == before
    assert rows_of(tmp_path / "restored") == rows_of(tmp_path / "backup")
    assert findings(tmp_path / "restored") == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "restored"]

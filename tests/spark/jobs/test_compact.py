"""`jobs.compact` on a real session: the bytes of the local cleaner, in as many tasks as there are pieces."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.job_topics import copied, files_of, make_topic
from tests.support.logs import TIME
from tidelog.disk.names import TopicPartition
from tidelog.errors import DamagedLogError, LockedError, LogNotFoundError
from tidelog.record import walk_headers
from tidelog.spark import jobs
from tidelog.spark.jobs import compact_job, running
from tidelog.store.compacting_in_parts import compact_in_parts
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATER = TIME + 10_000


def compacted_locally(directory: Path, now_ms: int, *, roll: bool = True) -> None:
    with Store.open(directory, background=False, clock=lambda: now_ms) as store:
        assert store.compact(roll=roll).failures == ()


def test_same_files_as_the_local_cleaner_round_after_round(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "local", partitions=2, batches=120)
    make_topic(tmp_path / "local", "other", batches=40, seed=3)
    copied(tmp_path / "local", tmp_path / "spark")
    for now_ms in (LATER, LATER + 5_000):
        compacted_locally(tmp_path / "local", now_ms)
        result = jobs.compact(spark, tmp_path / "spark", roll=True, now_ms=now_ms, piece_bytes=6000)
        assert result.failures == ()
        if now_ms == LATER:
            assert len(result.compacted) == 3
            assert result.records_removed > 0
            rows = result.details.collect()
            assert sum(row.records_removed for row in rows) == result.records_removed
            assert {(row.topic, row.partition) for row in rows} == {("tide", 0), ("tide", 1), ("other", 0)}
            assert dict(result.stages)["hash keys"] > 10
            assert "records went" in str(result)
        assert files_of(tmp_path / "spark") == files_of(tmp_path / "local")
        make_topic(tmp_path / "local", partitions=2, batches=30, seed=now_ms)
        make_topic(tmp_path / "spark", partitions=2, batches=30, seed=now_ms)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["local", "spark"]


def test_a_dry_run_reads_no_data_and_changes_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "store")
    before = files_of(tmp_path / "store")
    with Store.open(tmp_path / "store", background=False):  # somebody has it
        result = jobs.compact(spark, tmp_path / "store", "tide", dry_run=True, now_ms=LATER)
        assert result.dry_run
        assert "segments into" in str(result)
        assert result.details.collect()[0].outcome == "planned"
    assert {name: data for name, data in files_of(tmp_path / "store").items() if name.startswith("tide-0/0")} == {
        name: data for name, data in before.items() if name.startswith("tide-0/0")
    }


def test_who_has_the_store_is_told(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "store", batches=5)
    with Store.open(tmp_path / "store", background=False), pytest.raises(LockedError):
        jobs.compact(spark, tmp_path / "store")


@pytest.mark.leaves("segment-overlap")
def test_a_base_offset_that_is_damaged_is_told_and_nothing_is_changed(spark: "SparkSession", tmp_path: Path) -> None:
    """In the last batch before the active segment: no later one shows that it is too large, and no CRC covers it."""
    make_topic(tmp_path / "store")
    path = sorted((tmp_path / "store" / "tide-0").glob("*.log"))[-2]
    content = bytearray(path.read_bytes())
    last = int(walk_headers(content).position[-1])
    content[last + 5] ^= 1
    path.write_bytes(content)
    before = {file.name: file.read_bytes() for file in path.parent.glob("*.log")}
    result = jobs.compact(spark, tmp_path / "store", now_ms=LATER, piece_bytes=1500)
    assert [type(failure.error) for failure in result.failures] == [DamagedLogError]
    assert {file.name: file.read_bytes() for file in path.parent.glob("*.log")} == before


def test_only_topics_that_were_chosen_are_opened_and_counted(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A share of all logs of the store would be too large to cut those that were chosen. One named twice is chosen once."""
    make_topic(tmp_path / "store", partitions=2, batches=40)
    make_topic(tmp_path / "store", "other", batches=40, seed=3)
    opened: list[set[TopicPartition]] = []
    totals: list[tuple[int, int]] = []

    def compact(store: Store, *rest: Any, **options: Any) -> Any:
        opened.append(set(store._state.logs))
        return compact_in_parts(store, *rest, **options)

    def fair_share(total_bytes: int, workers: int, task_bytes: int) -> int:
        totals.append((total_bytes, task_bytes))
        return running.fair_share(total_bytes, workers, task_bytes)

    monkeypatch.setattr(compact_job, "compact_in_parts", compact)
    monkeypatch.setattr(compact_job, "fair_share", fair_share)
    size_bytes = sum(path.stat().st_size for path in (tmp_path / "store").glob("tide-*/*.log"))
    result = jobs.compact(spark, tmp_path / "store", ["tide", "tide"], roll=True, now_ms=LATER)
    chosen = {TopicPartition("tide", 0), TopicPartition("tide", 1)}
    assert opened == [chosen]
    assert [total for total, _ in totals] == [size_bytes]
    assert [one.partition for one in result.compacted] == sorted(chosen)
    with Store.open(tmp_path / "store", background=False) as store:  # as it is after a crash: all are open
        assert compact_job.bytes_to_compact(store, ["other"]) == store.log("other", 0).size_bytes
        assert compact_job.bytes_to_compact(store, None) == sum(log.size_bytes for log in store._state.logs.values())


@pytest.mark.parametrize("topics", [None, "tide"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_directory_that_is_not_there_is_not_made(spark: "SparkSession", tmp_path: Path, topics: str | None, dry_run: bool) -> None:
    with pytest.raises(LogNotFoundError, match="no such directory"):
        jobs.compact(spark, tmp_path / "sore", topics, dry_run=dry_run)
    assert list(tmp_path.iterdir()) == []

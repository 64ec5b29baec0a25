"""`jobs.verify`, `jobs.stats` and `jobs.reindex` on a real session: what the library calls say, in parts."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.support.job_topics import copied, files_of, make_topic
from tests.support.logs import TIME
from tests.unit.inspection.test_reindex import BUILT, built, recovered
from tidelog.errors import JobFailedError, LockedError, LogNotFoundError, UnknownTopicError
from tidelog.inspection import stats as local_stats
from tidelog.inspection import verify_log_directory
from tidelog.spark import jobs
from tidelog.spark.jobs import verify_job
from tidelog.spark.jobs.keyed_plan import plan_keyed
from tidelog.spark.jobs.local_tasks import LocalTasks
from tidelog.spark.jobs.stats_job import run_stats
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = 1_800_000_000_000
GOLDEN = Path(__file__).parents[2] / "golden" / "broker" / "data"


def test_verify_finds_what_the_library_finds(spark: "SparkSession", tmp_path: Path) -> None:
    copied(GOLDEN, tmp_path / "golden")
    make_topic(tmp_path / "made", partitions=2)
    logs = sorted((tmp_path / "made" / "tide-0").glob("*.log"))
    whole = {path: path.read_bytes() for path in logs}
    for path, at in ((logs[0], 5000), (logs[1], 70), (logs[-1], 9)):
        data = bytearray(whole[path])
        data[at] ^= 4
        path.write_bytes(data)
    for directory, level in ((tmp_path / "golden", "records"), (tmp_path / "made", "everything"), (tmp_path / "made", "records")):
        result = jobs.verify(spark, directory, level=level, now_ms=NOW, piece_bytes=4000)  # type: ignore[arg-type]
        expected = list(verify_log_directory(directory, level=level, now_ms=NOW))  # type: ignore[arg-type]
        assert sorted(map(str, result.findings)) == sorted(map(str, expected))
        assert result.details.count() == len(expected)
    assert not result.is_sound
    assert {row.code for row in result.details.where("topic = 'tide' and partition = 0").collect()} >= {"batch-crc"}
    assert dict(result.stages)["check batches"] > 5
    assert dict(result.stages)["check logs"] >= 2
    only = jobs.verify(spark, tmp_path / "made", "tide", now_ms=NOW)
    assert {finding.path.split("/")[-2] for finding in only.findings} <= {"tide-0", "tide-1"}
    for path, content in whole.items():
        path.write_bytes(content)


def test_verify_misses_what_a_store_says_that_it_has(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path, partitions=2)
    make_topic(tmp_path, "other")
    (tmp_path / "tide-1").rename(tmp_path.parent / f"{tmp_path.name}-elsewhere")
    for topics in (None, ["tide"], "tide"):
        result = jobs.verify(spark, tmp_path, topics, level="headers", now_ms=NOW)
        assert [(one.severity, one.path) for one in result.findings if one.code == "partition-missing"] == [("error", f"{tmp_path}/tide-1")]
        (row,) = result.details.where("code = 'partition-missing'").collect()
        assert (row.topic, row.partition) == ("tide", 1)
    assert jobs.verify(spark, tmp_path, "other", level="headers", now_ms=NOW).is_sound
    (tmp_path / "other-0").rename(tmp_path.parent / f"{tmp_path.name}-other")
    result = jobs.verify(spark, tmp_path, "other", level="headers", now_ms=NOW)  # not a partition of it is left
    assert ([one.code for one in result.findings], result.partitions) == (["partition-missing"], 0)


def test_stats_are_those_of_the_library_and_of_a_reader(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path, partitions=2)
    make_topic(tmp_path, "other", batches=20, seed=2)
    with Store.open(tmp_path, background=False, clock=lambda: TIME) as store:
        log = store.log("tide", 1)
        records = [record for batch in log.batches(isolation="log_end") if not batch.is_control for record in batch.records()]
    headers = jobs.stats(spark, tmp_path, piece_bytes=3000)
    by_hand = [one for name in ("other-0", "tide-0", "tide-1") for one in local_stats(tmp_path / name)]
    assert list(headers.segments) == by_hand
    assert sum(one.records for one in headers.segments if one.directory.endswith("tide-1")) == len(records)
    assert headers.total.tombstones is None
    assert dict(headers.stages)["count"] > 5
    full = jobs.stats(spark, tmp_path, "tide", records=True, piece_bytes=3000)
    of_one = [one for one in full.segments if one.directory.endswith("tide-1")]
    assert sum(one.tombstones or 0 for one in of_one) == sum(record.value is None for record in records)
    assert sum(one.key_bytes or 0 for one in of_one) == sum(len(record.key or b"") for record in records)
    keys = {record.key for record in records}
    assert full.total.distinct_keys == pytest.approx(len(keys), abs=2)
    rows = full.details.collect()
    assert sum(row.records for row in rows) == full.records
    assert sum(row.codecs.get("lz4", 0) for row in rows) == full.total.codecs["lz4"] > 0
    assert "tombstones" in str(full)


def test_reindex_leaves_what_a_recovery_leaves(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "store")
    expected = recovered(tmp_path / "store", tmp_path / "recovered")
    directory = tmp_path / "store"
    for path in (directory / "tide-0").iterdir():
        if path.suffix in BUILT:
            path.unlink()
    before = files_of(directory)
    planned = jobs.reindex(spark, directory, dry_run=True, now_ms=TIME)
    assert planned.files == len(expected)
    assert files_of(directory) == before
    done = jobs.reindex(spark, directory, now_ms=TIME)
    assert built(directory / "tide-0") == expected
    assert {row.file for row in done.details.collect()} == expected.keys()
    assert jobs.reindex(spark, directory, now_ms=TIME).files == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recovered", "store"]
    log = min((directory / "tide-0").glob("*.log"))
    data = log.read_bytes()
    log.write_bytes(data[:80] + bytes([data[80] ^ 1]) + data[81:])
    assert [str(partition) for partition, _ in jobs.reindex(spark, directory).failures] == ["tide-0"]
    log.write_bytes(data)
    with Store.open(directory, background=False, clock=lambda: TIME) as store:
        assert store.failures == {}
        with pytest.raises(LockedError):
            jobs.reindex(spark, directory)


def test_what_is_not_there_is_told(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path, batches=3)
    with pytest.raises(UnknownTopicError, match="there are: tide"):
        jobs.stats(spark, tmp_path, "tidal")
    with pytest.raises(UnknownTopicError):
        jobs.verify(spark, tmp_path, "tidal")
    with pytest.raises(LogNotFoundError):
        jobs.stats(spark, tmp_path / "nowhere")


def test_what_is_missing_from_a_store_of_several_directories_has_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told of the first of them, whichever is verified."""
    homes = [tmp_path / "one", tmp_path / "two"]
    with Store.open(homes, background=False) as store:
        store.create_topic("tide", 4)
    gone = next(path for home in homes for path in sorted(home.glob("tide-*")))
    shutil.rmtree(gone)
    monkeypatch.setattr(verify_job, "SparkTasks", lambda _, job, **how: LocalTasks(job, progress=how["progress"]))
    for home, other in (homes, homes[::-1]):
        for topics in (None, "tide"):
            result = jobs.verify(cast("SparkSession", None), home, topics, beside=[other])
            rows = [row[:4] for row in result.rows.rows if row[3] == "partition-missing"]
            assert rows == [("tide", int(gone.name.rpartition("-")[2]), "error", "partition-missing")]


class Elsewhere(LocalTasks):
    """Tasks run where the data directory is not, as on a machine that has not mounted it."""

    def __init__(self, data: Path) -> None:
        super().__init__("looking")
        self._data = data

    def run(self, what: str, function: Any, tasks: Any, *, here: bool = False) -> list[Any]:
        away = self._data.rename(self._data.with_name("away"))
        try:
            return super().run(what, function, tasks, here=here)
        finally:
            away.rename(self._data)


@pytest.mark.parametrize("piece_bytes", [None, 3000])
def test_a_directory_that_executors_do_not_have_is_not_sound(
    piece_bytes: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a task does not find counts as deleted meanwhile. Here it was not: nobody has looked at it."""
    data = tmp_path / "data"
    make_topic(data, partitions=2)
    monkeypatch.setattr(verify_job, "SparkTasks", lambda *_, **__: Elsewhere(data))
    with pytest.raises(JobFailedError, match="an executor does not find this directory") as failure:
        jobs.verify(cast("SparkSession", None), data, piece_bytes=piece_bytes)
    assert failure.value.path == str(data / "tide-0")
    for records in (False, True):
        with pytest.raises(JobFailedError, match="an executor does not find this directory"):
            run_stats(Elsewhere(data), str(data), None, records=records, piece_bytes=piece_bytes)
    with pytest.raises(JobFailedError, match="an executor does not find this directory"):
        plan_keyed(Elsewhere(data), data, "tide", until={0: 5}, isolation="committed", piece_bytes=None, needs_past=True)


def test_a_relative_path_is_that_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors have another working directory."""
    make_topic(tmp_path / "data", partitions=2)
    (tmp_path / "executor").mkdir()

    class WorkingElsewhere(LocalTasks):
        def run(self, what: str, function: Any, tasks: Any, *, here: bool = False) -> list[Any]:
            with monkeypatch.context() as there:
                there.chdir(tmp_path / "executor")
                return super().run(what, function, tasks, here=here)

    monkeypatch.setattr(verify_job, "SparkTasks", lambda *_, **__: WorkingElsewhere("verify"))
    monkeypatch.chdir(tmp_path)
    log = min((tmp_path / "data" / "tide-1").glob("*.log"))
    data = log.read_bytes()
    log.write_bytes(data[:80] + bytes([data[80] ^ 1]) + data[81:])
    for beside in ((), ["data"]):
        result = jobs.verify(cast("SparkSession", None), "data", beside=beside, now_ms=NOW)
        assert sorted(map(str, result.findings)) == sorted(map(str, verify_log_directory(tmp_path / "data", now_ms=NOW)))
        assert not result.is_sound
    log.write_bytes(data)

"""`jobs.export`: files that Spark reads back as the same rows; the target is there with everything, or it is not there."""

import base64
import gzip
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.spark.jobs.workers import wait_for
from tests.support.keyed_topics import make_keyed
from tests.support.logs import TIME
from tidelog import Time
from tidelog.cli.record_printer import json_line
from tidelog.errors import CorruptBatchError, InvalidConfigError, JobFailedError, MissingPackageError, StorageError, UnknownTopicError
from tidelog.record import BatchSettings, NewBatch
from tidelog.spark import jobs
from tidelog.spark.jobs import export_plan
from tidelog.spark.jobs.export_job import Exported, run_export
from tidelog.spark.jobs.export_plan import NO_DATE, ExportOptions
from tidelog.spark.jobs.local_tasks import LocalTasks
from tidelog.spark.jobs.running import Work, do_task
from tidelog.spark.schema import COLUMNS
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_MS = 86_400_000
PIECE_BYTES = 6000


def make_topic(directory: Path) -> None:
    """A topic over four days, and one record without a timestamp, with headers, nulls, and bytes that are no text."""
    make_keyed(directory)
    with Store.open(directory, background=False, clock=lambda: TIME + 10 * DAY_MS) as store:
        topic = store.create_topic("days", 1, {"internal.segment.bytes": 2000, "index.interval.bytes": 100})
        for number in range(120):
            value = None if number % 11 == 0 else b"\xff\x00" if number % 13 == 0 else b'"quoted, \n %d"' % number
            headers = [("name", b"%d" % number), ("empty", None)] if number % 3 == 0 else []
            topic.append(
                value, key=None if number % 17 == 0 else b"%d" % number, headers=headers, timestamp_ms=TIME + DAY_MS * number // 40
            )


def lines_of(directory: Path, topic: str) -> Counter[str]:
    """What `cat --json` prints."""
    with Store.open(directory, background=False, clock=lambda: TIME) as store:
        return Counter(json_line(record) for record in store.topic(topic).read())


def exported(directory: Path, target: Path, topic: str = "days", **asked: Any) -> Exported:
    """An export without Spark."""
    chosen = {"format": "parquet", "columns": None, "partition_by": ("topic", "date"), "compression": None, "bytes_as": "base64"}
    options = ExportOptions.of(**(chosen | {name: asked.pop(name) for name in list(asked) if name in chosen}), isolation="committed")
    return run_export(LocalTasks("export"), directory, topic, target, options, piece_bytes=asked.pop("piece_bytes", PIECE_BYTES), **asked)


def rows_of(frame: "DataFrame") -> list[Any]:
    columns = ["topic", "partition", "offset", "key", "value", "timestamp", "timestampType", "headers"]
    return sorted(frame.select(*columns).collect(), key=lambda row: (row.topic, row.partition, row.offset))


def test_spark_reads_the_same_rows_back(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "store")
    target = tmp_path / "out"
    result = jobs.export(spark, tmp_path / "store", ["days", "tide"], target, piece_bytes=PIECE_BYTES)
    source = spark.read.format("tidelog").options(subscribe="days,tide", includeHeaders="true").load(str(tmp_path / "store"))
    expected = rows_of(source)
    assert rows_of(spark.read.parquet(str(target))) == expected
    assert result.records == len(expected) == sum(row.records for row in result.details.collect())
    assert dict(result.stages)["write files"] > 3
    days = {path.name for path in (target / "topic=days").iterdir()}
    assert days == {"date=2023-11-14", "date=2023-11-15", "date=2023-11-16", "date=2023-11-17"}
    assert (target / "_SUCCESS").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]
    with pytest.raises(StorageError, match="the target is there already"):
        jobs.export(spark, tmp_path / "store", "days", target)
    planned = jobs.export(spark, tmp_path / "store", "days", tmp_path / "other", dry_run=True)
    assert not (tmp_path / "other").exists()
    assert "days-0: offsets 0 to 120" in str(planned)
    csv = exported(tmp_path / "store", tmp_path / "csv", format="csv", columns=["offset", "key", "value", "headers"])
    read = spark.read.options(header="true", multiLine="true", escape='"').csv(str(tmp_path / "csv")).collect()
    assert csv.records == len(read) == 120
    of_days = {row.offset: row for row in expected if row.topic == "days"}
    for row in read:
        whole = of_days[int(row.offset)]
        assert [None if text is None else base64.b64decode(text) for text in (row.key, row.value)] == [whole.key, whole.value]
        assert (row.headers is None) == (whole.headers is None)


def test_lines_are_those_of_cat(tmp_path: Path) -> None:
    make_topic(tmp_path / "store")
    for topic in ("days", "tide"):
        exported(tmp_path / "store", tmp_path / topic, topic, format="json", compression="gzip")
        files = sorted((tmp_path / topic).rglob("*.json.gz"))
        assert len(files) > 1
        assert Counter(line for file in files for line in gzip.decompress(file.read_bytes()).decode().splitlines(True)) == lines_of(
            tmp_path / "store", topic
        )


def test_parts_of_it_and_other_folders(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    make_topic(tmp_path / "store")
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        store.log("days", 0).append(NewBatch([(b"120", b"when?", (), -1)], settings=BatchSettings()).encode())
    part = exported(tmp_path / "store", tmp_path / "part", start=Time(TIME + DAY_MS), end=100, partition_by=[], columns=["offset"])
    assert [path.parent.name for path in (tmp_path / "part").rglob("*.parquet")] == ["part"] * len(part.files)
    table = pq.read_table(tmp_path / "part")
    assert table.schema.names == ["offset"]
    assert sorted(table["offset"].to_pylist()) == list(range(40, 100))
    whole = exported(tmp_path / "store", tmp_path / "whole", partition_by="date", compression="zstd")
    assert sum(file.records for file in whole.files if f"date={NO_DATE}" in file.path) == 1
    with pytest.raises(CorruptBatchError, match="a value that is not UTF-8 cannot be text"):
        exported(tmp_path / "store", tmp_path / "text", format="csv", bytes_as="utf8")
    assert exported(tmp_path / "store", tmp_path / "keys", format="csv", columns=["key"], bytes_as="utf8").records == 121
    assert "16" in (tmp_path / "keys").rglob("*.csv").__next__().read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keys", "part", "store", "whole"]


def test_many_days_share_a_few_open_files(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        topic = store.create_topic("days", 1, {"flush.messages": (1 << 63) - 1})
        for number in range(300):
            topic.append(b"%d" % number, timestamp_ms=TIME - DAY_MS * (number % 100))
    done = exported(tmp_path / "store", tmp_path / "out")
    assert done.records == 300
    assert len({file.path.rpartition("/")[0] for file in done.files}) == 100 < len(done.files)


def test_damage_leaves_no_target(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "store")
    log = sorted((tmp_path / "store" / "days-0").glob("*.log"))[1]
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptBatchError, match="tidelog export days: write files"):
        jobs.export(spark, tmp_path / "store", "days", tmp_path / "out", piece_bytes=1500)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    data[200] ^= 1
    log.write_bytes(data)


class TwiceTasks(LocalTasks):
    """Runs every task twice, as speculation does: the first attempt is the one whose answer nobody hears."""

    def run(self, what: str, function: Work, tasks: Sequence[Any], *, here: bool = False) -> list[Any]:
        for number, task in enumerate(tasks):
            do_task(function, task, self.staging, f"lost-{number}")
        return super().run(what, function, tasks, here=here)


def test_attempts_that_nobody_hears_of_leave_nothing(tmp_path: Path) -> None:
    make_topic(tmp_path / "store")
    options = ExportOptions.of("json", None, ("topic",), None, "base64", "committed")
    done = run_export(TwiceTasks("export"), tmp_path / "store", "days", tmp_path / "out", options, piece_bytes=PIECE_BYTES)
    files = list((tmp_path / "out").rglob("*.json"))
    assert len(files) == len(done.files)
    assert Counter(line for file in files for line in file.read_text().splitlines(True)) == lines_of(tmp_path / "store", "days")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]


DRIVER = """
import sys
from tidelog.spark import jobs, session
spark = session("tidelog kill", "local[2]", {"spark.sql.shuffle.partitions": 2}, memory="1g")
print("ready", flush=True)
jobs.export(spark, sys.argv[1], "tide", sys.argv[2], format="json", piece_bytes=700)
"""


@pytest.mark.slow
def test_a_killed_driver_is_followed_by_one_that_finishes(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "store")
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "store"), str(tmp_path / "out")]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    assert driver.stdout is not None
    assert driver.stdout.readline() == "ready\n"
    assert wait_for(lambda: any(tmp_path.glob(".out.tidelog-staging-*/*-*.json")) or driver.poll() is not None)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.communicate(timeout=120)
    assert driver.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    assert any(tmp_path.glob(".out.tidelog-staging-*"))
    jobs.export(spark, tmp_path / "store", "tide", tmp_path / "out", format="json", piece_bytes=PIECE_BYTES)
    lines = [line for file in (tmp_path / "out").rglob("*.json") for line in file.read_text().splitlines(True)]
    assert Counter(lines) == lines_of(tmp_path / "store", "tide")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_keyed(tmp_path / "store", batches=2)
    for asked, words in (
        ({"format": "xml"}, "one of parquet, json"),
        ({"columns": ["key", "key"]}, "each once"),
        ({"partition_by": ["value"]}, "some of topic, partition, date"),
        ({"compression": "zip"}, "one of snappy"),
        ({"columns": ["topic"]}, "one that is not in the names of folders"),
        ({"format": "json", "columns": ["key"]}, "those of cat --json"),
    ):
        with pytest.raises(InvalidConfigError, match=words):
            exported(tmp_path / "store", tmp_path / "out", "tide", **asked)
    with pytest.raises(UnknownTopicError, match="no topic is named"):
        exported(tmp_path / "store", tmp_path / "out", cast("Any", []))
    with pytest.raises(StorageError, match="the target lies in the data directory"):
        exported(tmp_path / "store", tmp_path / "store" / "out", "tide")
    monkeypatch.setattr(export_plan, "find_spec", lambda name: None)
    for format_, package in (("iceberg", "pyiceberg"), ("delta", "deltalake")):
        with pytest.raises(MissingPackageError, match=f"needs the package {package}"):
            exported(tmp_path / "store", tmp_path / "out", "tide", format=format_)
    assert not (tmp_path / "out").exists()


def test_a_table_of_delta(tmp_path: Path) -> None:
    delta = pytest.importorskip("deltalake")
    make_topic(tmp_path / "store")
    done = exported(tmp_path / "store", tmp_path / "out", format="delta")
    table = delta.DeltaTable(str(tmp_path / "out"))
    assert len(table.file_uris()) == len(done.files)
    assert list(table.metadata().partition_columns) == ["topic", "date"]
    assert {one.name for one in table.schema().fields} == {*COLUMNS, "date"}


def test_a_table_of_iceberg(tmp_path: Path) -> None:
    iceberg = pytest.importorskip("pyiceberg.table")
    make_topic(tmp_path / "store")
    done = exported(tmp_path / "store", tmp_path / "out", format="iceberg")
    notes = max((tmp_path / "out" / "metadata").glob("*.metadata.json"))
    found = iceberg.StaticTable.from_metadata(str(notes)).scan(row_filter="offset >= 100").to_arrow()
    assert sorted(found["offset"].to_pylist()) == list(range(100, done.records))


WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from tidelog.spark.jobs import export_plan
from tidelog.spark.jobs.export_job import run_export
from tidelog.spark.jobs.export_plan import ExportOptions
from tidelog.spark.jobs.local_tasks import LocalTasks
from tidelog.spark.jobs.running import Work, do_task
from tidelog.spark.schema import COLUMNS
options = ExportOptions.of("parquet", None, ("topic", "date"), None, "base64", "committed")
print(run_export(LocalTasks("export"), sys.argv[1], "days", sys.argv[2], options).records)
"""


@pytest.mark.parametrize(("form", "sign"), [("iceberg", "#"), ("iceberg", "?"), ("delta", "%20"), ("delta", "\\")])
def test_a_path_that_a_format_takes_for_another_is_refused(tmp_path: Path, form: str, sign: str) -> None:
    """The package of Iceberg wrote its notes to what comes before the sign."""
    pytest.importorskip("deltalake" if form == "delta" else "pyiceberg.table")
    make_topic(tmp_path / "store")
    (tmp_path / "here" / f"a{sign}b").mkdir(parents=True)
    with pytest.raises(InvalidConfigError, match=f"for {form}, a path without signs"):
        exported(tmp_path / "store", tmp_path / "here" / f"a{sign}b" / "out", format=form)
    assert [path.name for path in (tmp_path / "here").rglob("*")] == [f"a{sign}b"]
    for name in ("a b", "ä", "100%", "a&b;c=[1]"):
        (tmp_path / "here" / name).mkdir()
        assert exported(tmp_path / "store", tmp_path / "here" / name / "out", format=form).records == 120


@pytest.mark.leaves("timestamp-future")
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_time_that_a_table_cannot_hold(tmp_path: Path, form: str) -> None:
    """As of a producer that gives microseconds for milliseconds. The packages raise errors of their own, not always the same."""
    pytest.importorskip("deltalake" if form == "delta" else "pyiceberg.table")
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        topic = store.create_topic("days", config={"message.timestamp.after.max.ms": (1 << 63) - 1})
        topic.append(b"v", timestamp_ms=TIME * 1000)
    with pytest.raises(JobFailedError, match=f"making a table of {form} failed"):
        exported(tmp_path / "store", tmp_path / "out", format=form)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert exported(tmp_path / "store", tmp_path / "out").records == 1


def test_without_spark(tmp_path: Path) -> None:
    """As the command line does it where PySpark is not installed."""
    make_topic(tmp_path / "store")
    command = [sys.executable, "-c", WITHOUT_SPARK, str(tmp_path / "store"), str(tmp_path / "out")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "120\n"

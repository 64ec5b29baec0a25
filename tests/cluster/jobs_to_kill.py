"""The jobs as they are run to be killed: each on a small store, into a place of its own, and what it makes there.

A driver that somebody kills and whoever runs the job again call the same functions, so that their outcomes are those of the same job.
"""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.jobs.moving import rows_of
from tests.spark.jobs.test_compact import LATER, compacted_locally
from tests.spark.jobs.test_copy_into_broker import make_broker
from tests.support.job_topics import copied, files_of
from tidelog.spark import jobs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PIECE_BYTES = 1500
FORGOTTEN = (b"key-7", b"key-33")
MAKING = ("export", "copy", "restore", "ingest")
"""They make the directory that they write."""
LOOKING = ("stats", "verify", "table", "history")
"""They answer, and change nothing."""


def outcome(spark: "SparkSession", job: str, store: Path, place: Path) -> Any:
    """What a job says of a store, or what it makes of it in a place of its own. The undisturbed compaction is the local cleaner's."""
    prepare(job, store, place)
    if job == "compact" and place.name == "undisturbed":
        compacted_locally(place / "store", LATER)
        return made(job, place)
    answer = run(spark, job, store, place)
    return answer if job in LOOKING else made(job, place)


def prepare(job: str, store: Path, place: Path) -> None:
    """What has to be there before a job is run."""
    place.mkdir()
    if job == "into_broker":
        make_broker(place / "store")
    elif job not in (*MAKING, *LOOKING):
        copied(store, place / "store")
    if job == "reindex":
        for path in (place / "store").glob("tide-0/*index"):
            path.unlink()


def run(spark: "SparkSession", job: str, store: Path, place: Path) -> Any:
    """Run a job where all is prepared. What it says, if it only looks."""
    target = place / "store"
    match job:
        case "compact":
            jobs.compact(spark, target, roll=True, now_ms=LATER, piece_bytes=PIECE_BYTES)
        case "forget":
            jobs.forget(spark, target, "tide", FORGOTTEN, piece_bytes=PIECE_BYTES)
        case "reindex":
            jobs.reindex(spark, target, now_ms=LATER, piece_bytes=PIECE_BYTES)
        case "copy":
            jobs.copy(spark, store, target, piece_bytes=PIECE_BYTES)
        case "restore":
            jobs.restore(spark, store, target, piece_bytes=PIECE_BYTES)
        case "into_broker":
            into_broker(spark, store, target)
        case "export":
            jobs.export(spark, store, "tide", target, format="json", piece_bytes=PIECE_BYTES)
        case "ingest":
            jobs.ingest(spark, some_rows(spark), target, "tide", partitions=2, transactional_id="load")
        case "stats":
            found = jobs.stats(spark, store, records=True, piece_bytes=PIECE_BYTES)
            return [row.asDict() for row in found.details.orderBy("base_offset").collect()]
        case "verify":
            return sorted(map(str, jobs.verify(spark, store, level="records", piece_bytes=PIECE_BYTES).findings))
        case "table":
            return sorted(jobs.table(spark, store, "tide", piece_bytes=PIECE_BYTES).table.collect())
        case "history":
            return sorted(jobs.history(spark, store, "tide", piece_bytes=PIECE_BYTES).history.drop("valid_to").collect())
    return None


def made(job: str, place: Path) -> Any:
    """What a job has made in its place."""
    if job == "ingest":  # records, not files: the end of the transaction has the time of day
        return {partition: rows for partition, rows in rows_of(place / "store", "committed").items() if partition.topic == "tide"}
    return {name: data for name, data in files_of(place / "store").items() if job == "export" or name.endswith(("log", "index"))}


def into_broker(spark: "SparkSession", store: Path, broker: Path) -> jobs.CopyResult:
    """Copy the one partition of a store to where a broker has none of it."""
    return jobs.copy(spark, store, broker, "emails", into_broker=True, piece_bytes=PIECE_BYTES)


def some_rows(spark: "SparkSession") -> "DataFrame":
    """Enough tasks for everybody, always with the same rows and times. They pass through Python, where a driver may hold them up."""
    columns = ("cast(id % 7 as string) key", "cast(id as string) value", "timestamp_millis(1700000000000 + id) timestamp")
    frame = spark.range(4000, numPartitions=8).selectExpr(*columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PySpark about the version of pandas, which is not used here
        return frame.mapInArrow(lambda batches: batches, frame.schema)  # a function in here goes to executors by value

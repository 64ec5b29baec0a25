"""A program on Spark as a user would write it. `test_typed` checks it as it checks `program.py`; what it says, the tests of Spark try."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions

from tidelog.inspection import Finding
from tidelog.spark import jobs, session
from tidelog.spark.gaps import Gap, read_gaps


def nightly(directory: Path, archive: Path) -> DataFrame:
    """Rows in, old versions out, a copy as Parquet, and the latest state."""
    spark: SparkSession = session(memory="1g", config={"spark.ui.enabled": False})
    rows = spark.range(10).withColumn("name", functions.lit("ann"))
    taken: jobs.IngestResult = jobs.ingest(spark, rows, directory, "names", key="id", transactional_id="nightly")
    compacted: jobs.CompactResult = jobs.compact(spark, directory, ["names"], dry_run=True)
    findings: tuple[Finding, ...] = jobs.verify(spark, directory, level="headers").findings
    exported: jobs.ExportResult = jobs.export(spark, directory, "names", archive, partition_by="topic")
    print(taken, compacted, exported, *findings, jobs.stats(spark, directory).total.records)  # noqa: T201
    return jobs.table(spark, directory, "names").table


def lost(partition: Path) -> list[Gap]:
    """Records that should be there."""
    return [gap for gap in read_gaps(partition) if gap.is_data_loss]

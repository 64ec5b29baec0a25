"""What tests of the sink share: a store to write to, and what is found in it afterwards."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import tidelog
from tidelog.disk.disk import OS
from tidelog.record.kernel.record import Record
from tidelog.store.staging import find_staging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession


def records_of(data: Path, topic: str = "t") -> list[Record]:
    """What readers of committed records see, partition by partition."""
    with tidelog.open(data, "r") as store:
        found = store.topic(topic)
        return [record for number in found.partition_ids() for record in found.read(partition=number)]


def values_of(data: Path, topic: str = "t") -> list[str]:
    """The values as text, sorted."""
    return sorted((record.value or b"").decode() for record in records_of(data, topic))


def writing(frame: "DataFrame", **options: object) -> "DataFrameWriter":
    """A write in mode append, to topic `t` unless something else is said."""
    writer = frame.write.format("tidelog").mode("append")
    for name, value in {"topic": "t", "lockTimeout": "2s", **options}.items():
        if value is not None:
            writer = writer.option(name, str(value))
    return writer


def keyed(spark: "SparkSession", count: int, partitions: int = 2) -> "DataFrame":
    """Numbers as text, each its own key."""
    return spark.range(0, count, 1, partitions).selectExpr("cast(id as string) as key", "cast(id as string) as value")


def assert_nothing_staged(data: Path) -> None:
    """Nobody has left anything."""
    assert find_staging(OS, str(data)) == []


def a_table(**columns: list[object]) -> pa.Table:
    """Columns."""
    return pa.table(columns)

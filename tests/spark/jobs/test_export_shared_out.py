"""The jobs that read whole topics share the reading out: the driver hardly reads, and one partition is the work of many tasks."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.jobs.test_shared_out import LARGE_BYTES, MOST, bytes_read, make_large
from tests.support.keyed_topics import make_keyed
from tidelog.spark import jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIECE_BYTES = 12 << 20
Ran = tuple[int, tuple[tuple[str, int], ...]]


@pytest.mark.slow
def test_the_driver_reads_next_to_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    make_keyed(tmp_path / "small", "large", partitions=1, batches=5)
    size_bytes = make_large(tmp_path / "large")
    work: list[Callable[[Path], Ran]] = [
        lambda path: _table(spark, path),
        lambda path: _history(spark, path),
        lambda path: _export(spark, path, tmp_path / f"out-{path.name}"),
        lambda path: _ingest(spark, tmp_path / f"out-{path.name}", tmp_path / f"in-{path.name}"),
    ]
    records = LARGE_BYTES // 64_000 * 8 + 160
    for job in work:
        job(tmp_path / "small")  # what is imported and started once is not the work
        before = bytes_read()
        found, stages = job(tmp_path / "large")
        read = bytes_read() - before
        assert found == records, stages
        assert read < MOST * size_bytes, (stages, read)
        assert stages[-1][1] >= LARGE_BYTES // PIECE_BYTES - 1 or stages[-1][0] == "write", stages


def _table(spark: "SparkSession", path: Path) -> Ran:
    result = jobs.table(spark, path, "large", columns=["key", "offset"], piece_bytes=PIECE_BYTES)
    return result.table.count(), result.stages


def _history(spark: "SparkSession", path: Path) -> Ran:
    result = jobs.history(spark, path, "large", piece_bytes=PIECE_BYTES, include_tombstones=True)
    return result.history.count(), result.stages


def _export(spark: "SparkSession", path: Path, target: Path) -> Ran:
    result = jobs.export(spark, path, "large", target, piece_bytes=PIECE_BYTES)
    return result.records, result.stages


def _ingest(spark: "SparkSession", source: Path, target: Path) -> Ran:
    result = jobs.ingest(spark, source, target, "again", format="parquet", key="key", value="value")
    return result.records, result.stages

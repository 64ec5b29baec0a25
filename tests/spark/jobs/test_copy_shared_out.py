"""Moving one large partition: executors read and write, the driver hardly reads, and one partition uses as many tasks as it has pieces."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.jobs.test_copy_into_broker import make_broker
from tests.spark.jobs.test_shared_out import LARGE_BYTES, MOST, bytes_read, make_large
from tests.support.job_topics import make_topic
from tidelog.spark import jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIECE_BYTES = 16 << 20


@pytest.mark.slow
def test_the_driver_reads_next_to_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "small", "large", batches=5)
    size_bytes = make_large(tmp_path / "large")
    work: list[tuple[str, Callable[[Path, Path], Any]]] = [
        ("copy batches", lambda path, target: jobs.copy(spark, path, target, piece_bytes=PIECE_BYTES)),
        ("copy batches", lambda path, target: jobs.restore(spark, path, target, piece_bytes=PIECE_BYTES)),
        (
            "rewrite segments",
            lambda path, _: jobs.forget(spark, path, "large", [b"key-2", b"key-1-3", b"key-1000-2"], piece_bytes=PIECE_BYTES),
        ),
    ]
    for number, (stage, job) in enumerate(work):
        job(tmp_path / "small", tmp_path / f"small-{number}")  # what is imported and started once is not the work
        before = bytes_read()
        result = job(tmp_path / "large", tmp_path / f"large-{number}")
        read = bytes_read() - before
        assert read < MOST * size_bytes, (result.stages, read)
        assert dict(result.stages)[stage] >= LARGE_BYTES // PIECE_BYTES - 1, result.stages
        if number < 2:
            logs = [sorted((tmp_path / name / "large-0").glob("*.log")) for name in ("large", f"large-{number}")]
            assert [path.name for path in logs[1]] == [path.name for path in logs[0]]
            assert all(old.read_bytes() == new.read_bytes() for old, new in zip(*logs, strict=True))
            for path in logs[1]:
                path.unlink()
    assert result.records == 2


@pytest.mark.slow
def test_it_reads_next_to_nothing_of_what_goes_into_a_broker(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "small", "emails", batches=5)
    size_bytes = make_large(tmp_path / "large", "emails")
    for name in ("small", "large"):  # the first one for what is imported and started once
        broker = make_broker(tmp_path / f"broker-{name}")
        before = bytes_read()
        result = jobs.copy(spark, tmp_path / name, broker, "emails", into_broker=True, piece_bytes=PIECE_BYTES)
        read = bytes_read() - before
    assert read < MOST * size_bytes, (result.stages, read)
    assert dict(result.stages)["copy batches"] >= LARGE_BYTES // PIECE_BYTES - 1, result.stages
    assert sum(path.stat().st_size for path in (broker / "emails-0").glob("*.log")) == size_bytes

"""Work is shared out: executors read, the driver hardly does; one partition uses all tasks, and many small segments share a few."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.job_topics import SETTINGS, make_topic
from tests.support.logs import TIME
from tidelog.record import BatchSettings, NewBatch
from tidelog.spark import jobs
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE_BYTES = 96 << 20
MOST = 0.02
"""Of the log, that the driver may read."""
MANY_SEGMENTS = 2000


def bytes_read() -> int:
    """By this process, files and sockets alike, since it was started."""
    for line in Path("/proc/self/io").read_text().splitlines():
        name, _, value = line.partition(": ")
        if name == "rchar":
            return int(value)
    raise AssertionError("the system does not tell")


def make_large(directory: Path, topic: str = "large") -> int:
    """One partition with distinct keys, in two segments and the active one: its bytes."""
    chance = random.Random(1)
    config = SETTINGS | {"internal.segment.bytes": LARGE_BYTES // 2, "index.interval.bytes": 4096, "flush.messages": (1 << 63) - 1}
    value = chance.randbytes(8000)
    with Store.open(directory, background=False, clock=lambda: TIME) as store:
        store.create_topic(topic, 1, config)
        log = store.log(topic, 0)
        for number in range(LARGE_BYTES // 64_000 + 20):
            rows = [(b"key-%d-%d" % (number, row), value, (), TIME) for row in range(8)]
            log.append(NewBatch(rows, settings=BatchSettings()).encode())
        return log.size_bytes


def test_the_driver_reads_next_to_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    make_topic(tmp_path / "small", batches=5)
    size_bytes = make_large(tmp_path / "large")
    work: list[Callable[[Path], Any]] = [
        lambda path: jobs.stats(spark, path, records=True, piece_bytes=8 << 20),
        lambda path: jobs.verify(spark, path, level="records", piece_bytes=8 << 20),
        lambda path: jobs.reindex(spark, path, dry_run=True),
        lambda path: jobs.compact(spark, path, piece_bytes=8 << 20),
    ]
    for job in work:
        job(tmp_path / "small")  # what is imported and started once is not the work
        before = bytes_read()
        result = job(tmp_path / "large")
        read = bytes_read() - before
        assert read < MOST * size_bytes, (result.stages, read)
        if "read segments" not in dict(result.stages):
            assert max(tasks for _, tasks in result.stages) >= LARGE_BYTES // (8 << 20) - 1, result.stages
    assert result.compacted[0].stats[0].map_entries > 10_000


def test_thousands_of_small_segments_are_a_few_tasks(spark: "SparkSession", tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        store.create_topic("tide", 1, SETTINGS | {"internal.segment.bytes": 100, "flush.messages": (1 << 63) - 1})
        log = store.log("tide", 0)
        for number in range(MANY_SEGMENTS):
            log.append(NewBatch([(b"k%d" % (number % 97), b"v" * 20, (), TIME)], settings=BatchSettings()).encode())
        assert len(log.segments) > MANY_SEGMENTS * 0.9
    counted = jobs.stats(spark, tmp_path / "store")
    assert counted.records == MANY_SEGMENTS
    result = jobs.compact(spark, tmp_path / "store", roll=True, now_ms=TIME)
    assert result.failures == ()
    assert all(tasks <= 8 for _, tasks in (*result.stages, *counted.stages))
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        assert sum(1 for _ in store.topic("tide").read()) == 97

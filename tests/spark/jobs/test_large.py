"""What is large: one partition of 4 GiB, and a directory of ten thousand segments."""

import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.jobs.test_shared_out import MOST, bytes_read
from tests.support.job_topics import SETTINGS, make_topic
from tests.support.logs import TIME
from tidelog.disk.names import TopicPartition
from tidelog.record import BatchSettings, NewBatch
from tidelog.spark import jobs
from tidelog.spark.jobs.local_ingest import ingest_here
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

HUGE_BYTES = 4 << 30
MOST_OF_A_TASK = {"count": 1 << 30, "check batches": 1 << 30, "hash keys": 128 << 20}
"""Who reads headers, or keeps nothing of what it reads, has more."""
HUGE_KEYS = 50_000
SEGMENTS = 10_000
SMALL_KEYS = 97
MOST_TASKS = 8
NEVER = (1 << 63) - 1


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder on the disk that the sources are on: where tests have theirs may be memory."""
    folder = Path(__file__).parents[3] / "build" / "test-large"
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(folder).free < 3 * HUGE_BYTES:
        pytest.skip("12 GiB of disk are needed")
    yield folder
    shutil.rmtree(folder)


def make_huge(directory: Path) -> int:
    """One partition, in segments of a gibibyte: its records."""
    chance, records = random.Random(3), 0
    value = chance.randbytes(8000)
    with Store.open(directory, background=False, clock=lambda: TIME) as store:
        store.create_topic("tide", 1, {"cleanup.policy": "compact", "file.delete.delay.ms": 0, "flush.messages": NEVER})
        log = store.log("tide", 0)
        while log.size_bytes < HUGE_BYTES:
            rows = [(b"key-%d" % ((records + row) % HUGE_KEYS), value, (), TIME) for row in range(32)]
            log.append(NewBatch(rows, settings=BatchSettings()).encode())
            records += len(rows)
        log.roll()
    return records


def test_one_partition_of_4_gib(spark: "SparkSession", on_disk: Path, tmp_path: Path) -> None:
    """Every job that goes over all of it is shared out, and the driver reads next to nothing."""
    make_topic(tmp_path / "small", batches=5)
    huge = on_disk / "huge"
    records = make_huge(huge)
    work: list[tuple[str, Callable[[Path], Any]]] = [
        ("count", lambda path: jobs.stats(spark, path)),
        ("check batches", lambda path: jobs.verify(spark, path)),
        ("hash keys", lambda path: jobs.compact(spark, path)),
    ]
    for stage, job in work:
        job(tmp_path / "small")  # what is imported and started once is not the work
        before = bytes_read()
        result = job(huge)
        read = bytes_read() - before
        assert read < MOST * HUGE_BYTES, (result.stages, read)
        assert dict(result.stages)[stage] >= HUGE_BYTES // MOST_OF_A_TASK[stage], result.stages
        if stage == "count":
            assert result.records == records
        if stage == "check batches":
            assert result.is_sound
    assert result.failures == ()
    assert result.records_removed == records - HUGE_KEYS
    assert [len(one.passes) for one in result.compacted] == [1]
    table = jobs.table(spark, huge, "tide", columns=["key", "offset"]).table
    assert {(bytes(row.key), row.offset) for row in table.collect()} == {
        (b"key-%d" % (offset % HUGE_KEYS), offset) for offset in range(records - HUGE_KEYS, records)
    }


def seconds_to_write(store: Path, rows: Path) -> float:
    """How long a few rows of a sink take at best, from the first look to the end of the commit."""
    columns = dict.fromkeys(("key", "value", "headers", "timestamp", "partition"))
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        ingest_here([str(rows)], str(store), "other", columns=columns)
        best = min(best, time.perf_counter() - start)
    return best


def test_ten_thousand_segments(spark: "SparkSession", tmp_path: Path) -> None:
    """Every job packs them into a few tasks, and a write to another topic takes less than a second more for them."""
    store, rows = tmp_path / "store", tmp_path / "rows.txt"
    rows.write_text("a\nb\n")
    with Store.open(store, background=False, clock=lambda: TIME) as opened:
        opened.create_topic("tide", 1, SETTINGS | {"internal.segment.bytes": 100, "flush.messages": NEVER})
        log = opened.log("tide", 0)
        for number in range(SEGMENTS):
            log.append(NewBatch([(b"k%d" % (number % SMALL_KEYS), b"v" * 20, (), TIME)], settings=BatchSettings()).encode())
        assert len(log.segments) == SEGMENTS
    assert seconds_to_write(store, rows) < seconds_to_write(tmp_path / "empty", rows) + 1
    versions = jobs.history(spark, store, "tide")
    assert versions.history.count() == SEGMENTS  # before anything is cleaned: it is read when it is asked for
    done: dict[str, Any] = {
        "history": versions,
        "stats": jobs.stats(spark, store, "tide"),
        "verify": jobs.verify(spark, store),
        "reindex": jobs.reindex(spark, store, "tide"),
        "table": jobs.table(spark, store, "tide"),
        "export": jobs.export(spark, store, "tide", tmp_path / "exported", format="json"),
        "copy": jobs.copy(spark, store, tmp_path / "copied", "tide"),
        "restore": jobs.restore(spark, store, tmp_path / "restored", topics="tide"),
        "forget": jobs.forget(spark, store, "tide", [b"k5"]),
        "compact": jobs.compact(spark, store, "tide", roll=True, now_ms=TIME),
    }
    assert {name: result.stages for name, result in done.items() if any(tasks > MOST_TASKS for _, tasks in result.stages)} == {}
    forgotten = len(range(5, SEGMENTS, SMALL_KEYS))
    for name in ("stats", "export", "copy", "restore"):
        assert done[name].records == SEGMENTS, name
    assert done["verify"].is_sound
    assert done["reindex"].files == 0
    assert done["forget"].records == forgotten
    assert done["compact"].failures == ()
    assert done["compact"].partitions[0].partition == TopicPartition("tide", 0)
    with Store.open(store, background=False, clock=lambda: TIME) as opened:
        assert sum(1 for _ in opened.topic("tide").read()) == SMALL_KEYS - 1

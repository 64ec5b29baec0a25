"""Promises about the jobs on whole topics: Spark's executors against the same library in this process.

Two gibibytes of records with 16-byte keys and 100-byte values in 16 KiB batches: four topics of one partition, half a gibibyte each, keys
drawn evenly from 100 thousand, or from 4 million in each (16 million in all). Everything is in the page cache, and the session is warm.

    compact     against the local cleaner with two threads, each of which has two of the topics; fresh copies each time, and before
                anything is timed the files of both have to be equal. Opening and closing the store is part of it on both sides
    verify      against `verify_log_directory`, and at the level "records" too, which is where the work is
    reindex     against `tidelog.inspection.reindex`, both as dry runs: all is read and built, and found to be right
    count       `stats` of the topic of the data source's benchmarks against `count()` through Spark's Kafka connector

Reproduce: `.venv/bin/python -m bench --only 9-`
"""

import filecmp
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.compaction_data import NO_FLUSH, SETTINGS, keyed_batches
from bench.data import FOLDER, Inputs
from bench.jobs import Job, require_equal
from bench.log_timing import Timed, no_collection, rates_in_turn
from bench.spark_data import ROWS, TOPIC, made_once
from bench.spark_peer import rivals
from bench.timing import Measurement, Pace
from tidelog import __version__
from tidelog.inspection import Level, reindex, verify_log_directory
from tidelog.record.kernel.clock import wall_clock
from tidelog.spark import jobs as spark_jobs
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS = tuple(f"topic{number}" for number in range(4))
TOPIC_BYTES = 512 << 20
SAMPLES = 5
MEMORY = {"log.cleaner.dedupe.buffer.size": 1 << 30, "log.cleaner.threads": 2}
"""So much that the local cleaner needs one pass for all keys."""
_LINKED_BYTES = 1 << 20


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("9-compact-100k", ">= 0.7", "bytes/s", partial(_compact, keys=100_000), needs_jvm=True),
        Job("9-compact-16m-keys", ">= 0.5", "bytes/s", partial(_compact, keys=4_000_000), needs_jvm=True),
        Job("9-verify", ">= 1.4", "bytes/s", partial(_verify, level="everything"), needs_jvm=True),
        Job("9-verify-records", ">= 1.4", "bytes/s", partial(_verify, level="records"), needs_jvm=True),
        Job("9-reindex", ">= 1.4", "bytes/s", _reindex, needs_jvm=True),
        Job("9-stats-count", ">= 15", "records/s", _count, needs_jvm=True),
    ]


def topics_with(keys: int, topic_bytes: int = TOPIC_BYTES) -> Path:
    """A store with the four topics, made once."""
    name = f"spark-jobs-{keys}" + (f"-{topic_bytes >> 20}m" if topic_bytes != TOPIC_BYTES else "")
    directory = made_once(name, partial(_make, keys, topic_bytes))
    for path in directory.glob("*/*.log"):
        path.read_bytes()
    return directory


def _make(keys: int, topic_bytes: int, directory: Path) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    with Store.open(directory, background=False) as store:
        for number, name in enumerate(TOPICS):
            store.create_topic(name, 1, {**SETTINGS, **NO_FLUSH})
            log = store.log(name, 0)
            for batches in keyed_batches(keys, 100, seed=number):
                log.append_as_follower(batches)
                if log.size_bytes >= topic_bytes:
                    break
            log.roll()
    os.sync()


def fresh_copy(of: Path, target: Path) -> Path:
    """Closed segments are never written to, so a link is as good as a copy."""
    shutil.rmtree(target, ignore_errors=True)
    for path in of.rglob("*"):
        own = target / path.relative_to(of)
        if path.is_dir() or path.name == ".lock":
            continue
        own.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".log" and path.stat().st_size > _LINKED_BYTES:
            os.link(path, own)
        else:
            shutil.copyfile(path, own)
    return target


@cache
def warm_session() -> "SparkSession":
    """The one that the rows of the data source have."""
    return rivals().session


def _compact(inputs: Inputs, pace: Pace, *, keys: int) -> Measurement:
    source = topics_with(keys)
    spark, folder = warm_session(), FOLDER / "scratch" / "spark-jobs"
    now_ms = wall_clock()

    def ours(target: str = "ours") -> Timed:
        directory = fresh_copy(source, folder / target)
        with no_collection():
            start = time.perf_counter()
            result = spark_jobs.compact(spark, directory, now_ms=now_ms)
            seconds = time.perf_counter() - start
        require_equal("failures", result.failures, ())
        return Timed(sum(done.stats[0].bytes_read for done in result.compacted), seconds)

    def peer(target: str = "local") -> Timed:
        directory = fresh_copy(source, folder / target)
        with no_collection():
            start = time.perf_counter()
            with Store.open(directory, config=MEMORY, clock=lambda: now_ms, background=False) as store:
                threads = [threading.Thread(target=partial(_compact_each, store, TOPICS[first::2])) for first in range(2)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            seconds = time.perf_counter() - start
        return Timed(_closed_bytes(source), seconds)

    try:
        require_equal("bytes read", ours().done, peer().done)
        _require_equal_files(folder / "ours", folder / "local")
        return rates_in_turn(ours, peer, _few(pace), f"tidelog {__version__}, local cleaner, two threads")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compact_each(store: Store, topics: tuple[str, ...]) -> None:
    for topic in topics:
        require_equal("failures", store.compact(topic).failures, ())


def _closed_bytes(source: Path) -> int:
    return sum(path.stat().st_size for path in source.glob("*/*.log"))


def _require_equal_files(ours: Path, peer: Path) -> None:
    kinds = (".log", ".index", ".timeindex")
    names = sorted(str(path.relative_to(peer)) for path in peer.rglob("*") if path.suffix in kinds)
    require_equal("files", sorted(str(path.relative_to(ours)) for path in ours.rglob("*") if path.suffix in kinds), names)
    require_equal("the same bytes in files", filecmp.cmpfiles(ours, peer, names, shallow=False)[0], names)


def _verify(inputs: Inputs, pace: Pace, *, level: Level) -> Measurement:
    source = topics_with(100_000)
    spark = warm_session()
    size_bytes = _closed_bytes(source)

    def ours() -> list[str]:
        return [str(finding) for finding in spark_jobs.verify(spark, source, level=level).findings]

    def peer() -> list[str]:
        return [str(finding) for finding in verify_log_directory(source, level=level)]

    require_equal("findings", sorted(ours()), sorted(peer()))
    return rates_in_turn(_timed(ours, size_bytes), _timed(peer, size_bytes), _few(pace), f"tidelog {__version__}, one process")


def _reindex(inputs: Inputs, pace: Pace) -> Measurement:
    source = topics_with(100_000)
    spark = warm_session()
    size_bytes = _closed_bytes(source)

    def ours() -> int:
        return spark_jobs.reindex(spark, source, dry_run=True, now_ms=1).files

    def peer() -> int:
        return sum(len(reindex(source / f"{topic}-0", dry_run=True, now_ms=1).changed) for topic in TOPICS)

    require_equal("files that differ", ours(), peer())
    return rates_in_turn(_timed(ours, size_bytes), _timed(peer, size_bytes), _few(pace), f"tidelog {__version__}, one process")


def _count(inputs: Inputs, pace: Pace) -> Measurement:
    both = rivals()

    def ours() -> int:
        return spark_jobs.stats(both.session, both.broker.data, TOPIC).records

    def peer() -> int:
        return both.connector().count()

    require_equal("records", ours(), peer())
    return rates_in_turn(_timed(ours, ROWS), _timed(peer, ROWS), _few(pace), both.connector_version)


def _timed(run: Callable[[], object], done: int) -> Callable[[], Timed]:
    def timed() -> Timed:
        with no_collection():
            start = time.perf_counter()
            run()
            return Timed(done, time.perf_counter() - start)

    return timed


def _few(pace: Pace) -> Pace:
    """Each takes a second or more."""
    return replace(pace, samples=min(pace.samples, SAMPLES))

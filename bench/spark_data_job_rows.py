"""Promises about the jobs that read whole topics: Spark's executors reduce and write, against the same through Spark's Kafka connector.

The rows are those of the data source's benchmarks: 4 M records of 16-byte keys and 100-byte values in 4 partitions, of which the connector
reads from a live broker on this machine, and ours from that broker's directory. The session is the same, and warm.

    table     the latest value of each key: our executors leave one row of each key of a task before anything crosses to the JVM; through
              the connector it is `max_by(value, offset)` of all rows. Both have to have found the same keys and values
    export    all rows as uncompressed Parquet: our executors write the files, the connector's rows are written by Spark. Both have the same
              seven columns, and what Spark reads back from both has to be equal

Reproduce: `.venv/bin/python -m bench --only 9-table` and `--only 9-export`
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.data import Inputs
from bench.jobs import Job, require_equal
from bench.log_data import scratch
from bench.log_timing import Timed, no_collection, rates_in_turn
from bench.spark_data import ROWS, TOPIC
from bench.spark_jobs import latest_per_key, lengths
from bench.spark_peer import rivals
from bench.timing import Measurement, Pace
from tidelog.spark import jobs as spark_jobs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLES = 5
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""Those that the connector gives."""


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("9-table-connector", ">= 3", "rows/s", _table, needs_jvm=True),
        Job("9-export-parquet-connector", ">= 3", "rows/s", _export, needs_jvm=True),
    ]


def _table(inputs: Inputs, pace: Pace) -> Measurement:
    both = rivals()

    def ours() -> tuple[int, ...]:
        return _sums(spark_jobs.table(both.session, both.broker.data, TOPIC, columns=["key", "value"]).table)

    def peer() -> tuple[int, ...]:
        return latest_per_key(both.connector())

    require_equal("keys and values", ours(), peer())
    return rates_in_turn(_timed(ours), _timed(peer), _few(pace), both.connector_version)


def _export(inputs: Inputs, pace: Pace) -> Measurement:
    both = rivals()
    with scratch("spark-export") as folder:
        mine, theirs = folder / "ours", folder / "peer"

        def ours() -> None:
            spark_jobs.export(both.session, both.broker.data, TOPIC, mine, columns=COLUMNS, partition_by=(), compression="none")

        def peer() -> None:
            both.connector().write.parquet(str(theirs))

        ours()
        peer()
        require_equal("rows", lengths(both.session.read.parquet(str(mine))), lengths(both.session.read.parquet(str(theirs))))
        return rates_in_turn(_timed(ours, mine), _timed(peer, theirs), _few(pace), both.connector_version)


def _sums(table: "DataFrame") -> tuple[int, ...]:
    """How many keys, and of their values the same sum that the query through the connector has."""
    from pyspark.sql import functions as F  # noqa: N812 (as Spark's documentation has it)

    row = table.agg(F.count("*"), F.sum(F.crc32("value"))).first()
    assert row is not None
    return tuple(row)


def _timed(run: Callable[[], object], target: Path | None = None) -> Callable[[], Timed]:
    def timed() -> Timed:
        if target is not None:
            shutil.rmtree(target, ignore_errors=True)
        with no_collection():
            start = time.perf_counter()
            run()
            return Timed(ROWS, time.perf_counter() - start)

    return timed


def _few(pace: Pace) -> Pace:
    """Each takes a second or more."""
    return replace(pace, samples=min(pace.samples, SAMPLES))

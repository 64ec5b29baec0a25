"""Promises about Spark: our data source against Spark's own Kafka connector, Parquet, and our own full scan.

4 M rows of 16-byte keys and 100-byte values in 4 partitions, on two cores, all in the page cache. The connector gets them from a broker
on the same machine, ours reads that broker's directory while it runs. Every side runs the same query in the same session: a count, the
lengths of all keys and values, everything into Spark's noop sink, the latest value per key. Sessions and JVMs are warm: each query runs
twice on each side before the clock starts, and both have to have found the same. A sample is one query, with its load and its plan, since
Spark keeps the plan of a DataFrame of ours; it takes seconds, so there are fewer samples than elsewhere.

A slice is a hundredth of a topic in the middle of it, by time or by offset, against the same query over all of it.

Reproduce: `.venv/bin/python -m bench --only 8-`
"""

import itertools
import json
import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as Spark's documentation has it)

import tidelog
from bench.data import BASE_TIMESTAMP_MS, Inputs
from bench.jobs import Job, require_equal
from bench.log_data import scratch
from bench.log_timing import Timed
from bench.spark_data import PARTITIONS, ROWS, SLICE, TOPIC, made_once, rows_of_topic, rows_to_write, topic_of
from bench.spark_peer import Rivals, a_broker, new_topic, rivals, write_with_connector
from bench.timing import Measurement, Pace

SAMPLES, QUICK_SAMPLES = 5, 2
WRITE_SETTINGS = {"spark.sql.execution.arrow.maxBytesPerBatch": "2147483647"}
WRITE_WARM_UPS = 8
PAGES_BYTES = 2 << 30
_PIECE = bytes(1 << 20)
_UNIT = "rows/s"
_HOUR_S = 3600

Query = Callable[[DataFrame], Any]
Read = Callable[[Rivals], DataFrame]


def jobs() -> list[Job]:
    """In the order of the table."""
    connector, parquet = _connector, _parquet
    both = {"columns": "key,value"}
    # Without latestByKey it is Spark's sort of all rows that takes the time, of Parquet as of ours: 4.7 s of 4.8, 7.7 s with the connector.
    latest = {"columns": "key,value,offset", "latestByKey": "true"}
    return [
        _reading("8-count-connector", ">= 2.5", count, {}, connector),
        _reading("8-count-offset-connector", ">= 6", count, {"columns": "offset"}, connector),
        _reading("8-sum-connector", ">= 2.5", lengths, {}, connector),
        _reading("8-noop-connector", ">= 2.5", to_noop, {}, connector),
        _reading("8-sum-key-value-connector", ">= 3.5", lengths, both, connector),
        _reading("8-sum-key-value-parquet", ">= 0.4", lengths, both, parquet),
        _reading("8-noop-key-value-connector", ">= 3.5", keys_and_values_to_noop, both, connector),
        _reading("8-noop-key-value-parquet", ">= 0.4", keys_and_values_to_noop, both, parquet),
        _reading("8-latest-per-key-connector", ">= 2.5", latest_per_key, latest, connector),
        Job("8-write-connector", ">= 2.5", _UNIT, _write, needs_jvm=True),
        Job("8-slice-time-1g", ">= 6", "queries/h", partial(_slice, 1, "time"), needs_jvm=True),
        Job("8-slice-offset-1g", ">= 6", "queries/h", partial(_slice, 1, "offset"), needs_jvm=True),
        Job("8-slice-time-4g", ">= 20", "queries/h", partial(_slice, 4, "time"), needs_jvm=True),
        Job("8-slice-offset-4g", ">= 20", "queries/h", partial(_slice, 4, "offset"), needs_jvm=True),
    ]


def count(frame: DataFrame) -> int:
    """How many rows."""
    return frame.count()


def lengths(frame: DataFrame) -> tuple[int, ...]:
    """Every key and value is touched."""
    row = frame.agg(F.count("*"), F.sum(F.length("value")), F.sum(F.length("key"))).first()
    assert row is not None
    return tuple(row)


def to_noop(frame: DataFrame) -> None:
    """All columns of all rows come to Spark, and go nowhere."""
    frame.write.format("noop").mode("overwrite").save()


def keys_and_values_to_noop(frame: DataFrame) -> None:
    """Two columns of all rows."""
    to_noop(frame.select("key", "value"))


def latest_per_key(frame: DataFrame) -> tuple[int, ...]:
    """The last value of each key. Offsets order the records of a key, which are all in one partition."""
    latest = frame.groupBy("key").agg(F.max_by("value", "offset").alias("value"))
    row = latest.agg(F.count("*"), F.sum(F.crc32("value"))).first()
    assert row is not None
    return tuple(row)


def _connector(both: Rivals) -> tuple[DataFrame, str]:
    return both.connector(), both.connector_version


def _parquet(both: Rivals) -> tuple[DataFrame, str]:
    return both.parquet(), both.parquet_version


def _reading(name: str, promise: str, query: Query, options: dict[str, str], peer: Callable[[Rivals], tuple[DataFrame, str]]) -> Job:
    def measure(inputs: Inputs, pace: Pace) -> Measurement:
        both = rivals()
        version = peer(both)[1]

        def mine() -> object:
            return query(both.ours(options=options))

        def theirs() -> object:
            return query(peer(both)[0])

        require_equal(name, mine(), theirs())
        return _in_turn(partial(_timed, mine, ROWS), partial(_timed, theirs, ROWS), pace, version)

    return Job(name, promise, _UNIT, measure, needs_jvm=True)


def _timed(run: Callable[[], object], done: int) -> Timed:
    start = time.perf_counter()
    run()
    return Timed(done, time.perf_counter() - start)


def _in_turn(
    ours: Callable[[], Timed], peer: Callable[[], Timed], pace: Pace, version: str, scale: float = 1.0, warm_ups: int = 1
) -> Measurement:
    """A sample is a query; so many of each beforehand are not counted."""
    for _ in range(warm_ups):
        ours()
        peer()
    samples = min(pace.samples, SAMPLES) if pace.samples >= SAMPLES else QUICK_SAMPLES
    found: list[tuple[Timed, Timed]] = [(ours(), peer()) for _ in range(samples)]
    mine, theirs = ([scale * timed.done / timed.seconds for timed in side] for side in zip(*found, strict=True))
    return Measurement(mine, theirs, version)


def _write(inputs: Inputs, pace: Pace) -> Measurement:
    """Keys and values from Parquet, whose reading is a small part of it, into a fresh topic of 4 partitions on each side, spread by key.

    Batches of Arrow are not measured after each row, as docs/spark.md tells those who write small records.
    """
    both = rivals()
    for name, value in WRITE_SETTINGS.items():
        both.session.conf.set(name, value)
    source = made_once("spark-written", lambda path: rows_to_write(both.session).drop("partition").write.parquet(str(path)))
    frame = both.session.read.parquet(str(source))
    lengths_of, numbers = lengths(frame), itertools.count()
    with scratch("spark") as folder, a_broker(folder / "broker") as broker:
        broker.start()

        def ours() -> Timed:
            directory = folder / "ours"
            with tidelog.open(directory) as store:
                store.create_topic(TOPIC, PARTITIONS)
            writer = frame.write.format("tidelog").mode("append").option("topic", TOPIC)
            _settle(folder)
            timed = _timed(lambda: writer.save(str(directory)), ROWS)
            require_equal("rows written by us", lengths(both.ours(directory, {"columns": "key,value"})), lengths_of)
            shutil.rmtree(directory)
            return timed

        def peer() -> Timed:
            topic = f"written-{next(numbers)}"
            new_topic(broker, topic)
            _settle(folder)
            timed = _timed(lambda: write_with_connector(frame, broker, topic), ROWS)
            require_equal("rows written by Kafka's sink", lengths(both.connector(topic, broker)), lengths_of)
            return timed

        try:
            return _in_turn(ours, peer, pace, both.connector_version, warm_ups=WRITE_WARM_UPS)
        finally:
            for name in WRITE_SETTINGS:
                both.session.conf.unset(name)


def _settle(folder: Path) -> None:
    """Begin with nothing left to be written, and with memory that is there.

    What the other side has left to be written is not our work, nor ours theirs. And a virtual machine that gives free pages back to its
    host has to get them again one by one, which made the same writing cost three times the CPU: more than both sides write is taken and
    freed just before.
    """
    os.sync()
    with (folder / "pages").open("wb") as file:
        for _ in range(PAGES_BYTES // len(_PIECE)):
            file.write(_PIECE)
    (folder / "pages").unlink()


def _slice(gibibytes: int, by: str, inputs: Inputs, pace: Pace) -> Measurement:
    """A hundredth from the middle, against all of it: the same query, the same columns."""
    directory, rows = topic_of(gibibytes), rows_of_topic(gibibytes)
    both = rivals()
    first, last = int(rows * 0.5), int(rows * (0.5 + SLICE))

    def part() -> tuple[int, ...]:
        return lengths(both.ours(directory, _bounds(by, first, last)))

    def whole() -> tuple[int, ...]:
        return lengths(both.ours(directory))

    require_equal("rows of the slice", part()[0], last - first)
    require_equal("rows of the topic", whole()[0], rows)
    return _in_turn(partial(_timed, part, 1), partial(_timed, whole, 1), pace, "our own full scan", _HOUR_S)


def _bounds(by: str, first: int, last: int) -> dict[str, str]:
    """Records come a millisecond, and go to the partitions in turn."""
    if by == "time":
        return {"startingTimestamp": str(BASE_TIMESTAMP_MS + first), "endingTimestamp": str(BASE_TIMESTAMP_MS + last)}
    start, end = ({TOPIC: {str(number): -(-(at - number) // PARTITIONS) for number in range(PARTITIONS)}} for at in (first, last))
    return {"startingOffsets": json.dumps(start), "endingOffsets": json.dumps(end)}

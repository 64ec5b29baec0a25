"""What Spark's benchmarks read: 4 M rows at a broker, the same as Parquet, and topics of a gibibyte and of four.

    bench/data/spark-broker     a broker's own directory: 4 M records of 16-byte keys and 100-byte values in 4 partitions, written by
                                Spark's Kafka sink. The connector reads them from the broker, ours from its directory
    bench/data/spark-rows       the same rows, all seven columns, as uncompressed Parquet that Spark wrote
    bench/data/spark-1g, -4g    a store with a topic of 4 partitions; a record a millisecond, so that one percent of the time is one percent
                                of the records

Made once, each under another name until it is complete. 16 384 keys are used again and again: a latest value per key has something to do.

Reproduce: `.venv/bin/python -m bench --only 8-`
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as Spark's documentation has it)

import tidelog
from bench.data import BASE_TIMESTAMP_MS, FOLDER, KEY_BYTES
from bench.jvm import CannotRunError

TOPIC = "tide"
PARTITIONS = 4
ROWS = 4_000_000
KEYS = 16_384
VALUE_BYTES = 100
SLICE = 0.01
GIBIBYTE = 1 << 30
RECORD_BYTES = 128
"""Of a key, a value, and what a record adds; batches add less than one percent."""
_TABLE_ROWS = 1 << 19
_FREE_BYTES = 12 * GIBIBYTE


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of input, made if it is not there."""
    path = FOLDER / name
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(FOLDER).free
        if free < _FREE_BYTES:
            raise CannotRunError(f"bench/data has {free / GIBIBYTE:.1f} GiB left, Spark's rows and the topics that are sliced need 12")
        partial = path.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        make(partial)
        partial.rename(path)
    return path


def rows_to_write(session: SparkSession, rows: int = ROWS) -> DataFrame:
    """Key, value and partition of each row, made by Spark itself: the same in every session. All records of a key are in one partition."""
    number = F.col("id")
    key = F.pmod(F.xxhash64(number), F.lit(KEYS))
    text = F.concat(F.format_string('{"n": %012d, "tide": "', number), F.sha2(number.cast("string"), 256))
    return session.range(rows, numPartitions=PARTITIONS).select(
        F.format_string("key-%012d", key).cast("binary").alias("key"),
        F.rpad(text, VALUE_BYTES, "~").cast("binary").alias("value"),
        (key % PARTITIONS).cast("int").alias("partition"),
    )


def topic_of(gibibytes: int) -> Path:
    """A store with a topic of that size."""
    return made_once(f"spark-{gibibytes}g", lambda path: _make_topic(path, rows_of_topic(gibibytes)))


def rows_of_topic(gibibytes: int) -> int:
    """How many records that many gibibytes are; as many in each partition."""
    return gibibytes * GIBIBYTE // RECORD_BYTES // PARTITIONS * PARTITIONS


def _make_topic(path: Path, rows: int) -> None:
    source = np.random.default_rng(8)
    keys = _binary(source.integers(97, 123, (_TABLE_ROWS, KEY_BYTES), np.uint8))
    values = _binary(source.integers(32, 127, (_TABLE_ROWS, VALUE_BYTES), np.uint8))
    with tidelog.open(path, config={"log.cleaner.enable": False}) as store:
        topic = store.create_topic(TOPIC, PARTITIONS, config={"flush.messages": (1 << 63) - 1})
        for first in range(0, rows, _TABLE_ROWS):
            count = min(_TABLE_ROWS, rows - first)
            number = np.arange(first, first + count)
            columns = {
                "key": keys.slice(0, count),
                "value": values.slice(0, count),
                "timestamp_ms": pa.array(BASE_TIMESTAMP_MS + number),
                "partition": pa.array((number % PARTITIONS).astype(np.int32)),
            }
            topic.append_many(pa.table(columns))


def _binary(letters: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> pa.Array:
    """A value for each row of letters."""
    rows, width = letters.shape
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(letters.tobytes())])

"""Topics for tests on a cluster, and what is in one: by our own reader, without Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidelog

SOURCE, TARGET = "source", "target"
PARTITIONS = 4
BASE_TIMESTAMP_MS = 1_700_000_000_000

Rows = list[tuple[bytes | None, bytes | None]]


@contextmanager
def a_store(directory: Path) -> Iterator[tidelog.Store]:
    """For what a test does itself; Spark's commits take the directory's lock, so it is not held."""
    with tidelog.open(directory, config={"log.cleaner.enable": False}) as store:
        yield store


def make_topics(directory: Path, rows: int, *, value_bytes: int = 40) -> None:
    """A source of so many rows, each value different, and an empty target."""
    number = np.arange(rows)
    keys = [b"key-%d" % (n % 1000) for n in range(rows)]
    values = [b"value-%d" % n + b"~" * (value_bytes - 14) for n in range(rows)]
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "timestamp_ms": pa.array(BASE_TIMESTAMP_MS + number),
        "partition": pa.array((number % PARTITIONS).astype(np.int32)),
    }
    with a_store(directory) as store:
        store.create_topic(SOURCE, PARTITIONS, config={"segment.bytes": 1 << 20, "index.interval.bytes": 4096}).append_many(
            pa.table(columns)
        )
        store.create_topic(TARGET, PARTITIONS)


def rows_in(directory: Path, topic: str) -> Rows:
    """Every committed row, sorted: a row that is there twice is there twice."""
    with tidelog.open(directory, mode="r") as store:
        found = [(record.key, record.value) for record in store.topic(topic).read(isolation="committed")]
    return sorted(found, key=lambda row: (row[0] or b"", row[1] or b""))


def staged_files(directory: Path) -> list[Path]:
    """What a write has left beside the directory, where tasks put their files."""
    return sorted(directory.parent.glob(f".{directory.name}.tidelog-staging-*"))

"""Promises about reading a topic whole: as records against SQLite, as Arrow columns against DuckDB and Parquet.

The 400 000 records of S, 16-byte keys and 100-byte values, in a topic of one partition; the same records with offset and timestamp in a
table of SQLite and of DuckDB, and in a Parquet file that pyarrow wrote with its defaults (snappy, dictionaries where they help). All of it
is in the page cache. Every side reads offset, timestamp, key and value, in one thread, by the call that comes first in its documentation:
DuckDB and Parquet give a table. DuckDB can also give record batches, and small ones faster than a table; that figure is kept beside it, as
`small_batches`.

Our side checks every CRC, and takes committed records only.

Reproduce: `.venv/bin/python -m bench --only 5-replay`
"""
# ruff: noqa: B018 — reading an attribute is the work here

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tidelog
from bench.data import Inputs
from bench.jobs import Job, require_equal
from bench.log_data import scratch
from bench.one_core import on_one_core
from bench.timing import Measurement, Pace, alone, in_turn
from tidelog.record import walk_headers

COLUMNS = ["offset", "timestamp_ms", "key", "value"]
SMALL_ROWS = 65_536
_UNIT = "records/s"


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("5-replay-records-sqlite", ">= 1.2", _UNIT, on_one_core(_records_sqlite)),
        Job("5-replay-arrow-duckdb", ">= 3", _UNIT, on_one_core(_arrow_duckdb)),
        Job("5-replay-arrow-parquet", ">= 1", _UNIT, on_one_core(_arrow_parquet)),
    ]


def _records_sqlite(inputs: Inputs, pace: Pace) -> Measurement:
    with _topic(inputs) as (topic, folder), closing(sqlite3.connect(folder / "records.sqlite")) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table records (offset integer primary key, timestamp_ms integer, key blob, value blob)")
        rows = ((record.offset, record.timestamp_ms, record.key, record.value) for record in topic.read())
        connection.executemany("insert into records values (?, ?, ?, ?)", rows)
        connection.commit()
        select = "select offset, timestamp_ms, key, value from records order by offset"
        theirs = connection.execute("select count(*), sum(length(key) + length(value)) from records").fetchone()
        require_equal("records and bytes", _volume(topic.to_arrow(columns=COLUMNS)), theirs)
        count = theirs[0]

        def ours() -> int:
            for record in topic.read():
                record.offset, record.timestamp_ms, record.key, record.value
            return int(count)

        def peer() -> int:
            for _, _, _, _ in connection.execute(select):
                pass
            return int(count)

        return in_turn(ours, peer, pace, f"SQLite {sqlite3.sqlite_version}")


def _arrow_duckdb(inputs: Inputs, pace: Pace) -> Measurement:
    import duckdb

    with _topic(inputs) as (topic, folder), duckdb.connect(str(folder / "records.duckdb")) as connection:
        connection.execute("set threads = 1")
        records = topic.to_arrow(columns=COLUMNS)  # DuckDB finds it by its name
        connection.execute("create table replayed as select * from records")
        connection.execute("checkpoint")
        del records

        def table() -> Any:
            return connection.sql("select * from replayed").to_arrow_table()

        def small_batches() -> int:
            return _rows(connection.sql("select * from replayed").to_arrow_reader(SMALL_ROWS))

        require_equal("records and bytes", _volume(topic.to_arrow(columns=COLUMNS)), _volume(table()))
        version = f"DuckDB {duckdb.__version__}"
        measured = in_turn(lambda: _rows(topic.arrow(columns=COLUMNS)), lambda: int(table().num_rows), pace, version)
        measured.extra["small_batches"] = median(alone(small_batches, pace))
        return measured


def _arrow_parquet(inputs: Inputs, pace: Pace) -> Measurement:
    with _topic(inputs) as (topic, folder):
        path = folder / "records.parquet"
        pq.write_table(topic.to_arrow(columns=COLUMNS), path)
        require_equal("records and bytes", _volume(topic.to_arrow(columns=COLUMNS)), _volume(pq.read_table(path)))

        def peer() -> int:
            return int(pq.read_table(path, use_threads=False).num_rows)

        return in_turn(lambda: _rows(topic.arrow(columns=COLUMNS)), peer, pace, f"Parquet, pyarrow {pa.__version__}")


def _rows(batches: Any) -> int:
    return sum(batch.num_rows for batch in batches)


def _volume(table: pa.Table) -> tuple[int, int]:
    return table.num_rows, sum(pc.sum(pc.binary_length(table[column])).as_py() for column in ("key", "value"))


@contextmanager
def _topic(inputs: Inputs) -> Iterator[tuple[tidelog.Topic, Path]]:
    """The records of S in a topic, closed once and opened again so that nothing is left to do; and room for the peer's files."""
    source = inputs.memory("s")
    headers = walk_headers(source)
    spans = zip(headers.position.tolist(), headers.size_bytes.tolist(), strict=True)
    batches = [bytes(8) + source[position + 8 : position + size] for position, size in spans]  # as a client sends them
    with scratch("replay") as folder:
        with tidelog.open(folder / "store") as store:
            store.create_topic("tide").log(0).append_run(batches)
        with tidelog.open(folder / "store") as store:
            yield store.topic("tide"), folder

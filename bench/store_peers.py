"""What a Python developer would pick instead of a log: SQLite, LMDB, DuckDB, persist-queue, a bare file. Each writes the same records.

A pass of a peer opens it afresh in an empty folder, and times the writing alone. Each is used as its documentation tells those who want
speed: SQLite with a write-ahead log and one prepared statement, LMDB with ascending keys appended, DuckDB from an Arrow table.

Reproduce: `.venv/bin/python -m bench --only 5-append`
"""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.log_timing import Timed, no_collection

Rows = Sequence[tuple[bytes, bytes]]
TXN_ROWS = 1000
_INSERT = "insert into records (timestamp_ms, key, value) values (?, ?, ?)"


def fresh(folder: Path) -> Path:
    """The same folder, empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def timed(count: int, work: Callable[[], object]) -> Timed:
    """Do something once, by the clock."""
    with no_collection():
        start = time.perf_counter()
        work()
        return Timed(count, time.perf_counter() - start)


def sqlite(folder: Path, rows: Rows, *, synchronous: str, txn_rows: int = 1) -> Timed:
    """One insert a transaction, or so many."""
    with closing(sqlite3.connect(fresh(folder) / "records.sqlite", isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute(f"pragma synchronous = {synchronous}")
        connection.execute("create table records (offset integer primary key, timestamp_ms integer, key blob, value blob)")
        now_ms = time.time_ns() // 1_000_000

        def one_by_one() -> None:
            execute = connection.execute
            for key, value in rows:
                execute(_INSERT, (now_ms, key, value))

        def in_transactions() -> None:
            for first in range(0, len(rows), txn_rows):
                connection.execute("begin")
                connection.executemany(_INSERT, [(now_ms, key, value) for key, value in rows[first : first + txn_rows]])
                connection.execute("commit")

        answer = timed(len(rows), one_by_one if txn_rows == 1 else in_transactions)
        (count,) = connection.execute("select count(*) from records").fetchone()
        assert count == len(rows), count
        return answer


def lmdb(folder: Path, rows: Rows, *, is_durable: bool, txn_rows: int = 1) -> Timed:
    """The offset as key; key and value, one behind the other, as value."""
    import lmdb as peer

    environment = peer.open(str(fresh(folder)), map_size=1 << 30, sync=is_durable, metasync=is_durable)
    try:

        def work() -> None:
            for first in range(0, len(rows), txn_rows):
                with environment.begin(write=True) as transaction:
                    for offset, (key, value) in enumerate(rows[first : first + txn_rows], first):
                        transaction.put(offset.to_bytes(8, "big"), key + value, append=True)

        return timed(len(rows), work)
    finally:
        environment.close()


def file(folder: Path, rows: Rows) -> Timed:
    """A bare file, synced after every record."""
    fd = os.open(fresh(folder) / "records", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:

        def work() -> None:
            for key, value in rows:
                os.write(fd, key + value)
                os.fsync(fd)

        return timed(len(rows), work)
    finally:
        os.close(fd)


def persist_queue(folder: Path, rows: Rows) -> Timed:
    """Its acknowledged queue on SQLite."""
    from persistqueue import SQLiteAckQueue

    queue = SQLiteAckQueue(str(fresh(folder)), auto_commit=True)

    def work() -> None:
        for row in rows:
            queue.put(row)

    try:
        return timed(len(rows), work)
    finally:
        queue.close()


def duckdb(folder: Path, table: pa.Table) -> Timed:
    """One insert of a whole table, which DuckDB finds by the name of the variable."""
    import duckdb as peer

    with peer.connect(str(fresh(folder) / "records.duckdb")) as connection:
        connection.execute("set threads = 1")
        connection.execute("create table records (key blob, value blob)")
        answer = timed(table.num_rows, lambda: _insert(connection, table))
        counted = connection.execute("select count(*) from records").fetchone()
        assert counted == (table.num_rows,), counted
        return answer


def _insert(connection: Any, table: pa.Table) -> None:
    connection.register("given", table)
    connection.execute("insert into records select key, value from given")


def parquet(folder: Path, table: pa.Table) -> Timed:
    """A file of its own, with pyarrow's defaults."""
    import pyarrow.parquet as pq

    path = fresh(folder) / "records.parquet"
    return timed(table.num_rows, lambda: pq.write_table(table, path))

"""Promises about producing: one record, durable or not, from one thread or sixteen; through a writer; many at once.

Records of S, 16-byte keys and 100-byte values, to a topic of one partition, against what a Python developer would pick instead. Both sides
write to fresh files on the same disk, in turn, with equal durability: what the peer syncs before it answers, so do we. SQLite's NORMAL
syncs only when it moves its log into the table, LMDB's nosync never; there our topic leaves it to the system (`flush.messages` at its
maximum).
Sixteen threads are ours alone: SQLite takes one writer at a time, and is fastest with one thread.

Reproduce: `.venv/bin/python -m bench --only 5-append`, `--only 5-writer`
"""

import shutil
import sqlite3
import threading
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median

import pyarrow as pa

import tidelog
from bench import store_peers
from bench.data import Inputs
from bench.jobs import Job, require_equal
from bench.log_data import scratch
from bench.log_timing import Timed, rates_in_turn
from bench.one_core import on_one_core
from bench.store_peers import Rows, timed
from bench.timing import Measurement, Pace
from tidelog.record import read_batches

DURABLE_RECORDS = 400
THREADS = 16
SINGLE_RECORDS = 20_000
MANY_RECORDS = 200_000
_UNIT = "records/s"
_NO_FLUSH = {"flush.messages": (1 << 63) - 1}
_DURABLE = {"flush.messages": 1}

Produce = Callable[[tidelog.Topic, Rows], object]
Peer = Callable[[Path, Rows], Timed]


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("5-append-durable-sqlite", ">= 1.2", _UNIT, on_one_core(_durable_sqlite)),
        Job("5-append-durable-file", ">= 0.7", _UNIT, on_one_core(_durable_file)),
        Job("5-append-durable-16-sqlite", ">= 5", _UNIT, on_one_core(_durable_16_sqlite)),
        Job("5-append-sqlite", ">= 2", _UNIT, on_one_core(_append_sqlite)),
        Job("5-append-lmdb", ">= 0.5", _UNIT, on_one_core(_append_lmdb)),
        Job("5-writer-sqlite", ">= 2", _UNIT, on_one_core(_writer_sqlite)),
        Job("5-append-many-sqlite", ">= 4", _UNIT, on_one_core(_many_sqlite)),
        Job("5-append-many-arrow-duckdb", ">= 5", _UNIT, on_one_core(_arrow_duckdb)),
    ]


def _durable_sqlite(inputs: Inputs, pace: Pace) -> Measurement:
    rows = rows_of(inputs, DURABLE_RECORDS)
    noted: dict[str, Peer] = {"lmdb": partial(store_peers.lmdb, is_durable=True), "persist_queue": store_peers.persist_queue}
    return _measure(rows, _append_each, _DURABLE, partial(store_peers.sqlite, synchronous="full"), _sqlite(), pace, noted)


def _durable_file(inputs: Inputs, pace: Pace) -> Measurement:
    return _measure(rows_of(inputs, DURABLE_RECORDS), _append_each, _DURABLE, store_peers.file, "a file, fsync each", pace)


def _durable_16_sqlite(inputs: Inputs, pace: Pace) -> Measurement:
    """SQLite writes a sixteenth of the records: as many as one of our threads."""
    rows = rows_of(inputs, THREADS * DURABLE_RECORDS)

    def peer(folder: Path, rows: Rows) -> Timed:
        return store_peers.sqlite(folder, rows[::THREADS], synchronous="full")

    return _measure(rows, _append_in_threads, _DURABLE, peer, _sqlite(), pace)


def _append_sqlite(inputs: Inputs, pace: Pace) -> Measurement:
    peer = partial(store_peers.sqlite, synchronous="normal")
    return _measure(rows_of(inputs, SINGLE_RECORDS), _append_each, _NO_FLUSH, peer, _sqlite(), pace)


def _append_lmdb(inputs: Inputs, pace: Pace) -> Measurement:
    peer = partial(store_peers.lmdb, is_durable=False)
    return _measure(rows_of(inputs, SINGLE_RECORDS), _append_each, _NO_FLUSH, peer, f"LMDB, py-lmdb {version('lmdb')}", pace)


def _writer_sqlite(inputs: Inputs, pace: Pace) -> Measurement:
    peer = partial(store_peers.sqlite, synchronous="normal", txn_rows=store_peers.TXN_ROWS)
    return _measure(rows_of(inputs, MANY_RECORDS), _write, _NO_FLUSH, peer, _sqlite(), pace)


def _many_sqlite(inputs: Inputs, pace: Pace) -> Measurement:
    peer = partial(store_peers.sqlite, synchronous="normal", txn_rows=store_peers.TXN_ROWS)
    noted = {"lmdb": partial(store_peers.lmdb, is_durable=False, txn_rows=store_peers.TXN_ROWS)}
    return _measure(rows_of(inputs, MANY_RECORDS), lambda topic, rows: topic.append_many(rows), _NO_FLUSH, peer, _sqlite(), pace, noted)


def _arrow_duckdb(inputs: Inputs, pace: Pace) -> Measurement:
    """Durable on both sides: DuckDB syncs when it commits."""
    rows = rows_of(inputs, MANY_RECORDS)
    table = pa.table({"key": pa.array([key for key, _ in rows], pa.binary()), "value": pa.array([value for _, value in rows], pa.binary())})

    def peer(folder: Path, _: Rows) -> Timed:
        return store_peers.duckdb(folder, table)

    noted = {"parquet": lambda folder, _: store_peers.parquet(folder, table)}
    peer_version = f"DuckDB {version('duckdb')}"
    return _measure(rows, lambda topic, _: topic.append_many(table), _DURABLE, peer, peer_version, pace, noted)


def _measure(
    rows: Rows,
    produce: Produce,
    settings: dict[str, int],
    peer: Peer,
    peer_version: str,
    pace: Pace,
    noted: Mapping[str, Peer] | None = None,
) -> Measurement:
    """Both sides in turn; of peers without a promise a figure is noted."""
    with scratch("produce") as folder:
        _check(folder / "ours", rows, produce, settings)
        measured = rates_in_turn(
            partial(_ours, folder / "ours", rows, produce, settings), partial(peer, folder / "peer", rows), pace, peer_version
        )
        for name, other in (noted or {}).items():
            passes = [other(folder / "noted", rows) for _ in range(3)]
            measured.extra[name] = round(median(done / seconds for done, seconds in passes))
        return measured


def _ours(folder: Path, rows: Rows, produce: Produce, settings: dict[str, int]) -> Timed:
    shutil.rmtree(folder, ignore_errors=True)
    with tidelog.open(folder) as store:
        topic = store.create_topic("tide", config=settings)
        answer = timed(len(rows), lambda: produce(topic, rows))
        require_equal("records", topic.log(0).log_end_offset, len(rows))
        return answer


def _check(folder: Path, rows: Rows, produce: Produce, settings: dict[str, int]) -> None:
    """What is read back has to be what was given, before anybody's time is taken."""
    shutil.rmtree(folder, ignore_errors=True)
    with tidelog.open(folder) as store:
        topic = store.create_topic("tide", config=settings)
        produce(topic, rows)
        found = sorted((record.key, record.value) for record in topic.log(0).read())
        require_equal("records", found == sorted(rows), True)


def _append_each(topic: tidelog.Topic, rows: Rows) -> None:
    append = topic.append
    for key, value in rows:
        append(value, key=key)


def _append_in_threads(topic: tidelog.Topic, rows: Rows) -> None:
    workers = [threading.Thread(target=_append_each, args=(topic, rows[first::THREADS])) for first in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _write(topic: tidelog.Topic, rows: Rows) -> None:
    with topic.writer() as writer:
        append = writer.append
        for key, value in rows:
            append(value, key=key)


def rows_of(inputs: Inputs, count: int) -> Rows:
    """The first records of S."""
    rows: list[tuple[bytes, bytes]] = []
    for batch in read_batches(inputs.memory("s")):
        rows += [(record.key or b"", record.value or b"") for record in batch]
        if len(rows) >= count:
            break
    return rows[:count]


def _sqlite() -> str:
    return f"SQLite {sqlite3.sqlite_version}"

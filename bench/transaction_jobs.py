"""Promises about transactions and positions, durable both, from one thread.

A transaction of 100 records of S over four partitions, against SQLite, which has the same 100 rows in one transaction of its own, with a
write-ahead log and `synchronous = FULL`. SQLite syncs one file once. A transaction of ours syncs four partitions side by side, then the
decision, then the markers: what readers of each partition need, Kafka's among them.

A commit of positions, of four partitions, against a single durable append of ours: both are one batch and one sync.

Both sides write to fresh files on the same disk, in turn.

Reproduce: `.venv/bin/python -m bench --only 7-`
"""

import shutil
import sqlite3
from functools import partial
from pathlib import Path

import tidelog
from bench import store_peers
from bench.data import Inputs
from bench.jobs import Job, require_equal
from bench.log_data import scratch
from bench.log_timing import Timed, rates_in_turn
from bench.store_peers import Rows, timed
from bench.store_write_jobs import rows_of
from bench.timing import Measurement, Pace
from tidelog.disk.names import TopicPartition

TRANSACTIONS = 40
RECORDS = 100
PARTITIONS = 4
COMMITS = 400
_DURABLE = {"flush.messages": 1}


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("7-transaction-100-over-4-sqlite", ">= 0.15", "records/s", _transactions_sqlite),
        Job("7-commit-positions-append", ">= 0.5", "commits/s", _commits_append),
    ]


def _transactions_sqlite(inputs: Inputs, pace: Pace) -> Measurement:
    rows = rows_of(inputs, TRANSACTIONS * RECORDS)
    with scratch("transactions") as folder:
        ours = partial(_transactions, folder / "ours", rows)
        peer = partial(store_peers.sqlite, folder / "peer", rows, synchronous="full", txn_rows=RECORDS)
        return rates_in_turn(ours, peer, pace, f"SQLite {sqlite3.sqlite_version}")


def _transactions(folder: Path, rows: Rows) -> Timed:
    shutil.rmtree(folder, ignore_errors=True)
    with tidelog.open(folder) as store:
        topic = store.create_topic("tide", PARTITIONS, config=_DURABLE)
        _transact(store, rows[:RECORDS])  # makes what is made once: SQLite's table is there too
        answer = timed(len(rows), lambda: _transact(store, rows))
        found = sorted((record.key, record.value) for record in topic.read(isolation="committed"))
        require_equal("records", found == sorted([*rows[:RECORDS], *rows]), True)
        # Of each transaction something is in each partition: a marker, at least.
        markers = [topic.log(number).log_end_offset - sum(1 for _ in topic.read(partition=number)) for number in range(PARTITIONS)]
        require_equal("markers", markers, [TRANSACTIONS + 1] * PARTITIONS)
        return answer


def _transact(store: tidelog.Store, rows: Rows) -> None:
    for first in range(0, len(rows), RECORDS):
        with store.transaction("bench") as transaction:
            append = transaction.append
            for key, value in rows[first : first + RECORDS]:
                append("tide", value, key=key)


def _commits_append(inputs: Inputs, pace: Pace) -> Measurement:
    rows = rows_of(inputs, COMMITS)
    with scratch("positions") as folder:
        return rates_in_turn(
            partial(_commits, folder / "ours", rows), partial(_appends, folder / "peer", rows), pace, "our own durable append"
        )


def _commits(folder: Path, rows: Rows) -> Timed:
    shutil.rmtree(folder, ignore_errors=True)
    with tidelog.open(folder) as store:
        topic = store.create_topic("tide", PARTITIONS, config=_DURABLE)
        topic.append_many(rows)
        with store.consumer("bench", "tide") as consumer:
            places = [TopicPartition("tide", number) for number in range(PARTITIONS)]
            consumer.commit(dict.fromkeys(places, 0))  # makes what is made once

            def commit() -> None:
                for number in range(COMMITS):
                    consumer.commit(dict.fromkeys(places, number))

            answer = timed(COMMITS, commit)
        found = {partition: position.offset for partition, position in store.group("bench").positions().items()}
        require_equal("positions", found, dict.fromkeys(places, COMMITS - 1))
        return answer


def _appends(folder: Path, rows: Rows) -> Timed:
    shutil.rmtree(folder, ignore_errors=True)
    with tidelog.open(folder) as store:
        append = store.create_topic("tide", config=_DURABLE).append

        def work() -> None:
            for key, value in rows:
                append(value, key=key)

        return timed(COMMITS, work)

"""A program as a user would write it: takes orders, bills them exactly once, keeps the latest state, looks after its directory.

`test_typed` checks it with mypy as an outsider has it, against the package as it is installed, and runs it.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import tidelog
from tidelog import aio
from tidelog.errors import DamagedLogError, LockedError, TidelogError, UnknownTopicError
from tidelog.inspection import Finding, verify_log_directory
from tidelog.log import OffsetAndTimestamp
from tidelog.record import Compression, encode_batches, read_batches
from tidelog.store import Consumer, RecordMetadata, Transaction


def take_orders(store: tidelog.Store) -> list[RecordMetadata]:
    """One record at a time, many at once, and through a writer."""
    orders: tidelog.Topic = store.create_topic("orders", partitions=2, config={"segment.bytes": 1 << 20}, exist_ok=True)
    done = [orders.append(b"12", key=b"ann", headers=[("shop", b"north")], timestamp_ms=1_700_000_000_000)]
    summary = orders.append_many([(b"bob", b"7"), (b"ann", b"30", [("shop", None)])], compression=Compression.ZSTD)
    if summary.records != 2:
        raise AssertionError(summary)
    with orders.writer(linger_ms=1, compression="lz4") as writer:
        handles = [writer.append(b"%d" % number, key=b"eve") for number in range(3)]
        writer.flush()
    return done + [handle.result() for handle in handles]


def bill(store: tidelog.Store) -> int:
    """Read on where the group was, and write what follows from it, in one transaction."""
    bills = store.create_topic("bills", config={"cleanup.policy": "compact"})
    billed = 0
    consumer: Consumer
    with store.consumer("billing", ["orders"], auto_offset_reset="earliest") as consumer:
        while records := consumer.poll(max_records=4, timeout_s=0):
            transaction: Transaction
            with store.transaction("billing") as transaction:
                for record in records:
                    amount: bytes | None = record.value
                    transaction.append(bills, b"please pay " + (amount or b"nothing"), key=record.key)
                    billed += 1
                transaction.commit_positions(consumer)
        lag: Mapping[tuple[str, int], int] = {(where.topic, where.partition): left for where, left in consumer.lag().items()}
    if any(lag.values()):
        raise AssertionError(lag)
    return billed


def look_back(store: tidelog.Store) -> dict[bytes, bytes]:
    """The latest state, a range of time, and what becomes of the segments."""
    since = tidelog.Time(1_700_000_000_000)
    recent: Iterator[tidelog.Record] = store.topic("orders").read(datetime.now(UTC) - timedelta(hours=1), tidelog.LATEST, merge="time")
    names: list[tuple[str, bytes | None]] = [header for record in recent for header in record.headers]
    if sum(1 for _ in store.topic("orders").read(since)) <= len(names):
        raise AssertionError(names)
    for partition in store.explain("orders").partitions:
        for outlook in partition.segments:
            print(partition.partition, outlook.segment.base_offset, outlook.why)  # noqa: T201
    return dict(store.topic("bills").table())


def by_partition(directory: Path) -> OffsetAndTimestamp | None:
    """One partition by itself, whose batches are bytes."""
    batch: bytes = encode_batches([(b"k", b"v", (), 5)], compression="gzip")
    with tidelog.Log.open(directory / "single-0", config={"flush.messages": 1}) as log:
        info = log.append(batch)
        fetched = log.fetch(info.first_offset, 1 << 16)
        values: list[bytes | None] = [record.value for found in read_batches(fetched.data) for record in found]
        if values != [b"v"]:
            raise AssertionError(values)
        return log.offset_for_time(0)


async def on_the_loop(directory: Path) -> int:
    """The same without blocking the loop."""
    async with await aio.open(directory) as store:
        topic: aio.AsyncTopic = await store.create_topic("events")
        places = await asyncio.gather(*(topic.append(b"%d" % number) for number in range(4)))
        async with store.transaction("loop") as transaction:
            await transaction.append(topic, b"last")
        await topic.alter({"retention.ms": 86_400_000}, reset=["segment.ms"])
        if (await store.retain("events")).deleted:
            raise AssertionError("nothing is that old")
        return len(places) + len([record async for record in topic.read()])


def main() -> int:
    """Everything, in a directory that goes away."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        with tidelog.open(home / "data", config={"num.partitions": 1}) as store:
            placed = take_orders(store)
            billed, state = bill(store), look_back(store)
            try:
                tidelog.open(home / "data")
            except LockedError as error:
                print(error.what, error.path, error.hint)  # noqa: T201
            try:
                store.topic("none")
            except (UnknownTopicError, DamagedLogError) as refused:
                facts: TidelogError = refused
                print(facts.expected, facts.found)  # noqa: T201
        with tidelog.open(home / "data", mode="r") as readable:
            names = [topic.name for topic in readable.topics()]
        findings: list[Finding] = [found for found in verify_log_directory(home / "data") if found.severity == "error"]
        first = by_partition(home / "logs")
        answers = asyncio.run(on_the_loop(home / "async"))
        print(len(placed), billed, sorted(state), names, findings, first is not None and first.offset, answers)  # noqa: T201
        return len(findings)


if __name__ == "__main__":
    sys.exit(main())

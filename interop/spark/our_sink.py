"""Our sink writes into a broker's directory; then a broker starts on it, and a consumer and Spark's own connector read what is there.

A broker makes topics and is stopped; a store adopts its directory. A batch is written, with headers, times, partitions, null keys and
tombstones; then a commit is cut off by SIGKILL when all of its records are in the logs, and only the ledger's is not; then a stream writes
in several micro-batches, whose first commit aborts what was cut off. The topics of the ledger and of transactions are made by the broker
too: those that it does not know it would set aside.
"""

import multiprocessing
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import tidelog
from interop.broker.broker import Broker
from interop.broker.clients import Consumed, Row
from interop.spark.both_read import Answer, answer
from interop.spark.questions import COMMITTED, HEADERS, UNCOMMITTED
from tests.support.staged import a_commit, stage
from tidelog.disk.names import TopicPartition
from tidelog.store.internal_topics import COMMITS
from tidelog.store.sink_commit import commit_staged
from tidelog.store.transactions.open_transaction import OpenTransaction

SUNK, STREAMED, OTHER = "sunk", "streamed", "other"
PARTITIONS = 3
ROWS = 3000
BATCHES = 3
CUT_ROWS = {TopicPartition(SUNK, number): [b"cut:%d" % n for n in range(50)] for number in range(PARTITIONS)}


@dataclass
class SinkMet:
    """What was written, and what a broker's readers found."""

    written: list[tuple[Any, ...]] = field(default_factory=list, repr=False)
    """Key, value, headers, timestamp of the rows of the batch, sorted."""
    consumed: dict[str, list[Consumed]] = field(default_factory=dict, repr=False)
    """By topic: the partitions, as a consumer with read_committed has them."""
    connector: Answer = field(default_factory=Answer, repr=False)
    """Both topics through the connector, committed."""
    uncommitted: Answer = field(default_factory=Answer, repr=False)
    """And everything."""
    ours: Answer = field(default_factory=Answer, repr=False)
    """Through our source, when the broker has stopped again."""
    micro_batches: int = 0
    strays: list[str] = field(default_factory=list)
    """What the broker has set aside."""
    streamed_again: int = 0
    """How many rows the stream has written in all, when it has gone on behind the broker."""


def let_our_sink_write(home: Path, session: SparkSession, version: str) -> SinkMet:
    """Two starts of a broker. None is running afterwards."""
    met = SinkMet()
    with Broker(home, version=version) as broker:
        broker.start()
        broker.clients.create_topics({SUNK: {}, STREAMED: {}}, partitions=PARTITIONS)
        broker.clients.create_topics({COMMITS.name: {"cleanup.policy": "compact"}, OTHER: {}})
        config = {"transactional.id": "p", "enable.idempotence": "true"}
        broker.clients.produce(OTHER, [[Row(b"k", b"v")]], producer="p", config=config, transaction="begin-commit")
        broker.stop()
        with tidelog.open(broker.data, adopt=True):
            pass
        rows = some_rows(session)
        met.written = sorted((_bytes(row.key), _bytes(row.value), row.timestamp) for row in rows.collect())
        rows.write.format("tidelog").mode("append").option("topic", SUNK).save(str(broker.data))
        cut_a_commit(broker.data, home / "staged")
        met.micro_batches = stream(session, broker.data, home / "checkpoint")

        broker.start()
        for topic in (SUNK, STREAMED):
            for number in range(PARTITIONS):
                met.consumed.setdefault(topic, []).append(broker.clients.consume([topic], "read_committed", partition=number)[topic])

        def connector(options: dict[str, str]) -> DataFrame:
            return session.read.format("kafka").options(**options, **{"kafka.bootstrap.servers": broker.bootstrap}).load()

        asked = {"subscribe": f"{SUNK},{STREAMED}"} | HEADERS
        met.connector = answer(connector, asked | COMMITTED)
        met.uncommitted = answer(connector, asked | UNCOMMITTED)
        broker.stop()
        met.strays = sorted(path.name for path in broker.data.glob("*-stray"))
        met.ours = answer(lambda options: session.read.format("tidelog").options(**options).load(str(broker.data)), asked)
        stream(session, broker.data, home / "checkpoint")
        with tidelog.open(broker.data, mode="r") as store:
            met.streamed_again = sum(1 for _ in store.topic(STREAMED).read(isolation="committed"))
    return met


def some_rows(session: SparkSession) -> DataFrame:
    """Rows of every shape."""
    headers = "array(named_struct('key', 'tide', 'value', cast(string(id) as binary)), named_struct('key', 'null', 'value', binary(null)))"
    return session.range(ROWS, numPartitions=4).selectExpr(
        "case when id % 10 = 3 then null else cast(concat('key-', id % 97) as binary) end as key",
        "case when id % 10 = 7 then null else cast(concat('value-', id) as binary) end as value",
        f"case when id % 2 = 0 then null else {headers} end as headers",
        "timestamp_millis(1700000000000 + id * 1000) as timestamp",
        f"case when id % 3 = 0 then cast(id % {PARTITIONS} as int) end as partition",
    )


def stream(session: SparkSession, data: Path, checkpoint: Path) -> int:
    """From one topic to the other, all that is there; gives back how many micro-batches there have been in all."""
    options = {"subscribe": SUNK, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(ROWS // BATCHES), "includeHeaders": "true"}
    frame = session.readStream.format("tidelog").options(**options).load(str(data)).drop("topic", "partition")
    writer = frame.writeStream.format("tidelog").option("topic", STREAMED).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start(str(data)).awaitTermination()
    return len(list((checkpoint / "commits").glob("[0-9]*")))


def cut_a_commit(data: Path, staged: Path) -> None:
    """A commit that is killed behind its last batch, before the ledger's record: in a process of its own."""
    process = multiprocessing.get_context("spawn").Process(target=_commit_and_die, args=(data, staged))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, process.exitcode


def _commit_and_die(data: Path, staged: Path) -> None:
    append = OpenTransaction.append_side_by_side

    def append_and_die(*arguments: Any) -> None:
        append(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    OpenTransaction.append_side_by_side = append_and_die  # type: ignore[method-assign,assignment]
    commit_staged(str(data), a_commit(stage(staged, data, CUT_ROWS)), lock_timeout_s=10)


def _bytes(value: bytearray | None) -> bytes:
    return b"" if value is None else bytes(value)

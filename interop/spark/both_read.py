"""The same topics through Spark's own Kafka connector from a live broker, and through ours from that broker's directory.

A broker takes the steps of all cases (`interop/broker/cases.py`), and fills a topic of several partitions. Then every question
(`questions.py`) is asked three times: of the connector, of ours beside the live broker, and of ours when the broker has stopped. One more
is asked as a stream.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from interop.broker.broker import Broker
from interop.broker.cases import CASES
from interop.broker.kafka_writes import take_step
from interop.spark.questions import COMMITTED, HEADERS, QUESTIONS, SPREAD, SPREAD_PARTITIONS, spread_case

CHECKPOINTED_S = 1.0
"""Until the broker has noted its high watermarks, beyond which a reader beside it does not look."""

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
    "log.flush.start.offset.checkpoint.interval.ms": "200",
}
"""Nobody is to abort what is left open while it is looked at. Where a log starts is noted by default once a minute, and until then nobody
beside the broker can know that records were deleted."""

STREAMED = (
    {"subscribe": f"{SPREAD},transactions,codec-lz4", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "60"} | HEADERS | COMMITTED
)

Ask = Callable[[dict[str, str]], DataFrame]


@dataclass(frozen=True)
class Answer:
    """A DataFrame: its schema as text, with what may be null, and its rows in the order of topic, partition, offset."""

    schema: str = ""
    rows: list[tuple[Any, ...]] = field(default_factory=list, repr=False)
    error: str = ""


@dataclass
class BothRead:
    """Answers by question."""

    connector: dict[str, Answer] = field(default_factory=dict, repr=False)
    live: dict[str, Answer] = field(default_factory=dict, repr=False)
    stopped: dict[str, Answer] = field(default_factory=dict, repr=False)
    streams: dict[str, Answer] = field(default_factory=dict, repr=False)
    """Of the one question that is asked as a stream: "connector", "live", "stopped"."""


def let_both_read(home: Path, session: SparkSession, version: str) -> BothRead:
    """One start of a broker. None is running afterwards."""
    both = BothRead()
    with Broker(home, version=version, settings=SETTINGS) as broker:
        broker.start()
        write_all(broker)

        def connector(options: dict[str, str]) -> DataFrame:
            return session.read.format("kafka").options(**options, **{"kafka.bootstrap.servers": broker.bootstrap}).load()

        def ours(options: dict[str, str]) -> DataFrame:
            return session.read.format("tidelog").options(**options).load(str(broker.data))

        both.connector = {name: answer(connector, question.options) for name, question in QUESTIONS.items()}
        time.sleep(CHECKPOINTED_S)
        both.live = {name: answer(ours, question.options | question.ours) for name, question in QUESTIONS.items()}
        kafka = session.readStream.format("kafka").options(**STREAMED, **{"kafka.bootstrap.servers": broker.bootstrap})
        both.streams["connector"] = streamed(lambda: kafka.load(), home / "checkpoint-connector")
        tidelog = session.readStream.format("tidelog").options(**STREAMED)
        both.streams["live"] = streamed(lambda: tidelog.load(str(broker.data)), home / "checkpoint-live")
        broker.stop()
        both.stopped = {name: answer(ours, question.options | question.ours) for name, question in QUESTIONS.items()}
        both.streams["stopped"] = streamed(lambda: tidelog.load(str(broker.data)), home / "checkpoint-stopped")
    return both


def write_all(broker: Broker) -> None:
    """Every case, and the topic of several partitions."""
    clients = broker.clients
    clients.create_topics({name: case.settings(broker.version) for name, case in CASES.items()})
    clients.create_topics({SPREAD: {}}, partitions=SPREAD_PARTITIONS)
    for case in CASES.values():
        for step in case.steps:
            take_step(broker, case, step)
    for partition in range(SPREAD_PARTITIONS):
        (step,) = spread_case(partition).steps
        codec = step.compression  # type: ignore[union-attr]
        config = {"compression.type": codec}
        clients.produce(SPREAD, step.batches, producer=f"{SPREAD}-{codec}", config=config, partition=partition)  # type: ignore[union-attr]


def answer(ask: Ask, options: dict[str, str]) -> Answer:
    """What the DataFrame holds; an error is an answer too, and does not keep others from being asked."""
    try:
        frame = ask(options)
        return Answer(frame.schema.json(), sorted_rows(frame))
    except (PySparkException, Py4JError) as error:
        return Answer(error=str(error))


def streamed(load: Callable[[], DataFrame], folder: Path) -> Answer:
    """What a stream brings until it has all, and how many micro-batches it took, as a last row."""
    try:
        frame = load()
        target = f"{folder}-rows"
        query = frame.writeStream.format("parquet").option("checkpointLocation", str(folder)).trigger(availableNow=True).start(target)
        query.awaitTermination()
        batches = len(list((folder / "commits").glob("[0-9]*")))
        found = frame.sparkSession.read.schema(frame.schema).parquet(target)
        return replace(Answer(frame.schema.json(), sorted_rows(found)), error="" if batches > 1 else "only one micro-batch")
    except (PySparkException, Py4JError) as error:
        return Answer(error=str(error))


def sorted_rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """In an order that both sides can have; bytes as bytes."""
    rows = [tuple(_plain(value) for value in row) for row in frame.collect()]
    places = [frame.columns.index(name) for name in ("topic", "partition", "offset")]
    return sorted(rows, key=lambda row: [row[place] for place in places])


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list | tuple):
        return tuple(_plain(part) for part in value)
    return value

"""A change stream, the latest state of what it changes, and counts per minute: three topics, two streams, no broker.

    python examples/spark/pipeline.py data                  100 000 changes
    python examples/spark/pipeline.py data --changes 0      go on with what is there

Changes of customers land in the topic `changes`. One stream writes the latest state of each to the compacted topic `customers`: a deleted
customer becomes a tombstone. Another counts changes by minute, into `changes-per-minute`. Kill it whenever you like, and start it again: a
micro-batch is one transaction, whose last record says which micro-batch it was. So each change is in the table once, and in one count.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import tidelog
from tidelog.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHANGES, CUSTOMERS, COUNTS = "changes", "customers", "changes-per-minute"
PARTITIONS = 4
FIRST_MS = 1_767_225_600_000  # 2026-01-01
EVERY_MS = 40
CUSTOMER_COUNT = 5_000
COMPACTED = {"cleanup.policy": "compact"}


def make_topics(directory: Path) -> None:
    """The three topics, if they are not there."""
    with tidelog.open(directory) as store:
        store.create_topic(CHANGES, PARTITIONS, exist_ok=True)
        store.create_topic(CUSTOMERS, PARTITIONS, config=COMPACTED, exist_ok=True)
        store.create_topic(COUNTS, config=COMPACTED, exist_ok=True)


def changes(first: int, count: int) -> Iterator[tuple[bytes, bytes, tuple[()], int]]:
    """What happens to customers: key, value, headers and time of each change. One of ten deletes."""
    for number in range(first, first + count):
        customer = number * 7919 % CUSTOMER_COUNT
        change = {"op": "delete"} if number % 10 == 9 else {"op": "upsert", "email": f"customer-{customer}@tide-{number}.example"}
        yield b"%d" % customer, json.dumps(change).encode(), (), FIRST_MS + EVERY_MS * number


def land(directory: Path, count: int) -> int:
    """Append that many changes behind those that are there; gives back how many there are now."""
    with tidelog.open(directory) as store:
        topic = store.topic(CHANGES)
        first = sum(topic.log(number).log_end_offset for number in topic.partition_ids())
        topic.append_many(changes(first, count))
    return first + count


def read_changes(spark: "SparkSession", directory: Path, per_batch: int) -> "DataFrame":
    """Changes as they come: partitions advance together in time, so that no window is closed too early."""
    options = {
        "subscribe": CHANGES,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(per_batch),
        "columns": "key,value,timestamp",
    }
    return spark.readStream.format("tidelog").options(**options).load(str(directory))


def latest_state(frame: "DataFrame") -> "DataFrame":
    """The row of a customer after each change: its address, or nothing, which is a tombstone."""
    from pyspark.sql import functions as F  # noqa: N812 (as Spark's documentation has it)

    return frame.select("key", F.get_json_object(F.col("value").cast("string"), "$.email").alias("value"), "timestamp")


def counts_per_minute(frame: "DataFrame") -> "DataFrame":
    """How many changes each minute had: written when no earlier change is expected any more."""
    from pyspark.sql import functions as F  # noqa: N812 (as Spark's documentation has it)

    minutes = frame.withWatermark("timestamp", "1 minute").groupBy(F.window("timestamp", "1 minute")).count()
    start = F.date_format("window.start", "yyyy-MM-dd HH:mm")
    return minutes.select(start.alias("key"), F.col("count").cast("string").alias("value"), F.col("window.start").alias("timestamp"))


def start(frame: "DataFrame", directory: Path, topic: str) -> "StreamingQuery":
    """Write to a topic until everything that is there now has been read. Where it stands is kept beside the directory."""
    checkpoint = directory.with_name(f"{directory.name}-checkpoints") / topic
    writer = frame.writeStream.format("tidelog").option("topic", topic).option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start(str(directory))


def run(spark: "SparkSession", directory: Path, per_batch: int) -> None:
    """Both streams, side by side, to the end of what has landed."""
    frame = read_changes(spark, directory, per_batch)
    for query in [start(latest_state(frame), directory, CUSTOMERS), start(counts_per_minute(frame), directory, COUNTS)]:
        query.awaitTermination()


def main() -> None:
    """Land, stream, show."""
    parser = argparse.ArgumentParser(description="A change stream, the latest state, counts per minute.")
    parser.add_argument("directory", type=Path, help="of the store; it is made")
    parser.add_argument("--changes", type=int, default=100_000, help="how many land before the streams start")
    parser.add_argument("--per-batch", type=int, default=25_000, help="how many changes a micro-batch takes at most")
    options = parser.parse_args()
    directory = options.directory.absolute()
    make_topics(directory)
    landed = land(directory, options.changes)
    spark = session("tidelog pipeline", "local[2]", memory="1g")
    began = time.monotonic()
    run(spark, directory, options.per_batch)
    print(f"{landed} changes streamed in {time.monotonic() - began:.1f} s")
    with tidelog.open(directory, mode="r") as store:
        customers, counts = store.topic(CUSTOMERS).table(), store.topic(COUNTS).table()
    print(f"{len(customers)} customers, {len(counts)} minutes, {sum(map(int, counts.values()))} changes in them")


if __name__ == "__main__":
    main()

"""What is asked of both: options that Spark's Kafka connector and our data source have in common, by name.

Each is asked of the connector while the broker runs, and of ours from the broker's directory while it runs and when it has stopped. A new
question goes here.
"""

import json
from dataclasses import dataclass, field

from interop.broker.cases import TIME, Case, Send, numbers

SPREAD, SPREAD_PARTITIONS = "spread", 4
"""A topic of several partitions, each with records of other times."""
SPREAD_RECORDS = 30
STEP_MS = 1000

ISOLATION = "kafka.isolation.level"
COMMITTED, UNCOMMITTED = {ISOLATION: "read_committed"}, {ISOLATION: "read_uncommitted"}
HEADERS = {"includeHeaders": "true"}


@dataclass(frozen=True, slots=True)
class Question:
    """Options for both, and how many rows have to be there at least: a question that finds nothing proves nothing."""

    options: dict[str, str]
    at_least: int = 1
    ours: dict[str, str] = field(default_factory=dict)
    """What only ours is told."""


def spread_time(partition: int, number: int) -> int:
    """When a record of a partition of SPREAD was made."""
    return TIME + 500 * partition + STEP_MS * number


def spread_case(partition: int) -> Case:
    """What goes to a partition of SPREAD, a codec each."""
    codec = ("none", "lz4", "zstd", "gzip")[partition]
    rows = [
        row._replace(timestamp_ms=spread_time(partition, number))
        for number, (row,) in enumerate(numbers(1000 * partition, SPREAD_RECORDS, keys=5))
    ]
    batches = tuple(tuple(rows[at : at + 3]) for at in range(0, SPREAD_RECORDS, 3))
    return Case(SPREAD, {}, (Send(batches, compression=codec),))


def _of_spread(**offsets: int) -> str:
    """JSON of a number for each partition of SPREAD."""
    return json.dumps({SPREAD: {name.removeprefix("p"): offset for name, offset in offsets.items()}})


_SUBSCRIBED = {"subscribe": SPREAD}
_ALL = {"subscribePattern": "[a-z].*"}

QUESTIONS: dict[str, Question] = {
    "committed": Question(_ALL | HEADERS | COMMITTED, at_least=600),
    "by-default-committed": Question({"subscribe": "transactions,transaction-open"} | COMMITTED, 30),
    "uncommitted": Question(_ALL | HEADERS | UNCOMMITTED, at_least=700),
    "without-headers": Question({"subscribe": "codec-none,append-time"}, at_least=100),
    "pattern": Question({"subscribePattern": "codec-(zstd|lz4)"} | HEADERS, at_least=50),
    "assigned": Question({"assign": json.dumps({SPREAD: [1, 3], "defaults": [0]})}, at_least=100),
    "compacted": Question({"subscribe": "compacted,tombstones-gone,compacted-transactions"} | COMMITTED, at_least=10),
    "deleted-records": Question({"subscribe": "records-deleted,all-deleted,empty"}, at_least=20),
    "offsets": Question(
        _SUBSCRIBED | {"startingOffsets": _of_spread(p0=5, p1=-2, p2=0, p3=29), "endingOffsets": _of_spread(p0=20, p1=7, p2=-1, p3=30)},
        at_least=50,
    ),
    "offsets-inside-batches": Question(
        {"subscribe": "codec-gzip", "startingOffsets": '{"codec-gzip": {"0": 4}}', "endingOffsets": '{"codec-gzip": {"0": 6}}'}, at_least=2
    ),
    "offsets-in-compacted-gaps": Question(
        {"subscribe": "compacted", "startingOffsets": '{"compacted": {"0": 1}}', "endingOffsets": '{"compacted": {"0": 70}}'}
    ),
    "nothing-between": Question(_SUBSCRIBED | {"startingOffsets": "earliest", "endingOffsets": _of_spread(p0=0, p1=0, p2=0, p3=0)}, 0),
    "times": Question(
        _SUBSCRIBED
        | {
            "startingOffsetsByTimestamp": _of_spread(**{f"p{n}": spread_time(n, 4) + n for n in range(SPREAD_PARTITIONS)}),
            "endingOffsetsByTimestamp": _of_spread(**{f"p{n}": spread_time(n, 20) - n for n in range(SPREAD_PARTITIONS)}),
        },
        at_least=60,
    ),
    "time-of-all": Question(
        _SUBSCRIBED | {"startingTimestamp": str(spread_time(2, 10)), "endingTimestamp": str(spread_time(0, 25))}, at_least=55
    ),
    "time-beyond-the-end": Question(
        _SUBSCRIBED | {"startingTimestamp": str(spread_time(3, SPREAD_RECORDS - 1)), "startingOffsetsByTimestampStrategy": "latest"}
    ),
    "ending-time-beyond-the-end": Question(_SUBSCRIBED | {"endingTimestamp": str(TIME + 10**9)}, at_least=4 * SPREAD_RECORDS),
    "out-of-order-times": Question({"subscribe": "codec-none", "startingTimestamp": str(TIME + 100)}, at_least=5),
    "more-partitions": Question(_SUBSCRIBED | {"minPartitions": "9"}, at_least=4 * SPREAD_RECORDS),
    "few-records-a-partition": Question(_SUBSCRIBED | {"maxRecordsPerPartition": "7"}, at_least=4 * SPREAD_RECORDS),
}

"""What is written to a partition: the same steps for Kafka's clients and for our log, so that the outcomes can be compared.

A case is a topic of one partition. `kafka_writes.py` lets Kafka take its steps, `we_write.py` takes them itself. A new case goes here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from interop.broker.clients import Row

TIME = 1_700_000_000_000

ROWS = (
    Row(b"key", b"value", (), TIME),
    Row(None, b"no key", (), TIME + 1),
    Row(b"tombstone", None, (), TIME + 2),
    Row(b"", b"", (), TIME + 3),
    Row(None, None, (), TIME + 4),
    Row(b"headers", b"v", (("a", b"1"), ("a", b"2"), ("", b""), ("null", None), ("ключ", "значение".encode())), TIME + 5),
    Row(b"late", b"v", (), TIME - 5_000_000),
    Row(b"early", b"v", (), TIME + 1_000_000),
    Row(b"large", bytes(range(256)) * 3, (), TIME + 6),
)
"""Every shape of a record."""

Batches = tuple[tuple[Row, ...], ...]


@dataclass(frozen=True)
class Send:
    """Batches of one producer, and what happens to its transaction before and behind them.

    `transaction` is "" (none, or the one that is open), "begin", "commit", "abort", "begin-commit" or "begin-abort".
    """

    batches: Batches
    producer: str = "plain"
    compression: str = "none"
    is_idempotent: bool = False
    transaction: str = ""


@dataclass(frozen=True)
class DeleteBefore:
    """Move the start of the log."""

    offset: int


@dataclass(frozen=True)
class Clean:
    """Wait until the cleaner has done all it can."""


Step = Send | DeleteBefore | Clean


@dataclass(frozen=True)
class Case:
    """A topic: its settings, and what is written to it."""

    name: str
    config: dict[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()

    def settings(self, version: str) -> dict[str, str]:
        """The settings as a version of Kafka spells them: before 4.1 small segments needed no name of their own."""
        if version.startswith("3."):
            return {name.removeprefix("internal."): value for name, value in self.config.items()}
        return dict(self.config)

    @property
    def is_compacted(self) -> bool:
        """Written by Kafka only, since its cleaner is part of it."""
        return self.config.get("cleanup.policy") == "compact"

    @property
    def is_transactional(self) -> bool:
        """It has markers, whose timestamps depend on when they are written."""
        return any(isinstance(step, Send) and step.transaction for step in self.steps)

    @property
    def is_append_time(self) -> bool:
        """Its timestamps depend on when it is written."""
        return self.config.get("message.timestamp.type") == "LogAppendTime"


def numbers(first: int, count: int, keys: int = 0, batch: int = 1) -> Batches:
    """Batches of records with numbers as values; with that many different keys, or without any."""
    rows = [Row(b"k%d" % (n % keys) if keys else None, b"number %d" % n, (), TIME + n) for n in range(first, first + count)]
    return tuple(tuple(rows[at : at + batch]) for at in range(0, len(rows), batch))


def tombstones(keys: Iterable[int]) -> Batches:
    """A tombstone a batch."""
    return tuple((Row(b"k%d" % key, None, (), TIME + 500),) for key in keys)


def transaction(producer: str, what: str, *batches: tuple[Row, ...]) -> Send:
    """A part of a transaction."""
    return Send(batches, producer=producer, transaction=what, is_idempotent=True)


DENSE = {"index.interval.bytes": "0"}
SMALL = DENSE | {"internal.segment.bytes": "500"}
MEDIUM = {"internal.segment.bytes": "3000", "index.interval.bytes": "100"}
COMPACTED = SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "3600000"}

SHAPES: Batches = (ROWS, ROWS[:1], ROWS[1:5], *((row,) for row in ROWS), ROWS)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def transactions(last: str) -> tuple[Step, ...]:
    """Commits, aborts, two at the same time, others in between; the last one ends as it is told, or not."""
    a, b, c, d = (batch for batch in numbers(0, 16, keys=3, batch=4))
    return (
        transaction("one", "begin-commit", a, b),
        transaction("two", "begin-abort", c),
        Send((d,)),
        transaction("one", "begin", a),
        transaction("two", "begin", b),
        Send(numbers(100, 2, keys=2)),
        transaction("one", "", c),
        transaction("two", "abort", d),
        transaction("one", "commit"),
        transaction("two", "begin-abort", *numbers(200, 12, keys=2)),
        transaction("one", "begin-commit", *numbers(300, 12, keys=2)),
        transaction("two", last, a),
        Send(numbers(400, 3, keys=3)),
    )


def _cases() -> Iterable[Case]:
    for codec in CODECS:
        yield Case(f"codec-{codec}", MEDIUM, (Send(SHAPES, compression=codec), Send(SHAPES, "again", codec, is_idempotent=True)))
    yield Case("codec-of-broker", MEDIUM | {"compression.type": "zstd"}, (Send(SHAPES), Send(SHAPES, "lz4", "lz4")))
    yield Case("defaults", {}, (Send(SHAPES), Send(numbers(0, 100, batch=10))))
    yield Case("empty")
    yield Case("append-time", MEDIUM | {"message.timestamp.type": "LogAppendTime"}, tuple(Send(SHAPES, c, c) for c in CODECS))
    yield Case("tiny-segments", SMALL | {"internal.segment.bytes": "100"}, (Send(numbers(0, 30)),))
    yield Case("dense-index", DENSE | {"internal.segment.bytes": "20000"}, (Send(numbers(0, 400, batch=2)),))
    yield Case(
        "idempotent",
        SMALL,
        (Send(numbers(0, 20, batch=3), "one", is_idempotent=True), Send(numbers(20, 9), "two", "lz4", is_idempotent=True), *_turns(30)),
    )
    yield Case("transactions", MEDIUM, transactions("begin-commit"))
    yield Case("transactions-small", SMALL, transactions("begin-abort"))
    yield Case("transaction-open", SMALL, transactions("begin"))
    yield Case("records-deleted", SMALL, (Send(numbers(0, 40, batch=2)), DeleteBefore(17)))
    yield Case("all-deleted", SMALL, (Send(numbers(0, 10)), DeleteBefore(10)))
    yield Case(
        "compacted",
        COMPACTED,
        (
            Send(numbers(0, 60, keys=7)),
            Send(tombstones((5, 6))),
            Send(numbers(60, 20, keys=5)),
            Clean(),
            Send(numbers(80, 9, keys=2)),
            Clean(),
        ),
    )
    yield Case(
        "tombstones-gone",
        COMPACTED | {"delete.retention.ms": "0"},
        (
            Send(numbers(0, 30, keys=5)),
            Send(tombstones((0, 2))),
            Send(numbers(30, 9, keys=1)),
            Clean(),
            Send(numbers(40, 30, keys=1)),
            Clean(),
        ),
    )
    yield Case("compacted-transactions", COMPACTED, (*transactions("begin-abort"), Send(numbers(0, 20, keys=2)), Clean()))


def _turns(first: int) -> list[Step]:
    """Two producers, one batch after the other."""
    return [
        Send(numbers(n, 2, batch=2), ("one", "two")[n % 2], ("none", "lz4")[n % 2], is_idempotent=True) for n in range(first, first + 8)
    ]


CASES = {case.name: case for case in _cases()}

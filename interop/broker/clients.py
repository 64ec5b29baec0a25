"""Kafka's Java clients, in a JVM of their own (`interop/java/Clients.java`)."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from interop.java_program import AskedProgram

Headers = tuple[tuple[str, bytes | None], ...]


class Row(NamedTuple):
    """A record to be written."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


class Read(NamedTuple):
    """A record that was read, by whomever."""

    offset: int
    timestamp_ms: int
    timestamp_type: str
    leader_epoch: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


class Consumed(NamedTuple):
    """A partition as a consumer saw it."""

    start: int
    end: int
    records: list[Read]
    times: list[tuple[int, int | None, int | None]]
    """Timestamps that were looked up, one of Kafka's special values among them, with the offset and timestamp of what was found."""


class Clients(AskedProgram):
    """A context manager. What its producers have under way when it ends is dropped."""

    def __init__(self, bootstrap: str, *, version: str, messages: Path) -> None:
        super().__init__("Clients", bootstrap, version=version, messages=messages)

    def create_topics(self, topics: Mapping[str, Mapping[str, str]], *, partitions: int = 1) -> dict[str, str]:
        """Topics with their settings. Gives back their ids."""
        ids: dict[str, str] = self.ask("topics", topics=topics, partitions=partitions)
        return ids

    def produce(
        self,
        topic: str,
        batches: Iterable[Sequence[Row]],
        *,
        producer: str,
        config: Mapping[str, str],
        transaction: str = "",
        partition: int = 0,
    ) -> list[int]:
        """Send batches; see `ProduceJob.java` for what a transaction can be. Gives back the offsets."""
        written = [[[_base64(row.key), _base64(row.value), _headers(row.headers), row.timestamp_ms] for row in batch] for batch in batches]
        where: dict[str, Any] = {"topic": topic, "partition": partition, "producer": producer}
        offsets: list[int] = self.ask("produce", **where, batches=written, config=config, transaction=transaction)
        return offsets

    def consume(self, topics: Iterable[str], isolation: str, *, partition: int = 0) -> dict[str, Consumed]:
        """Everything in a partition of topics, with isolation "read_committed" or "read_uncommitted"."""
        answer = self.ask("consume", topics=list(topics), isolation=isolation, partition=partition)
        return {topic: _consumed(found) for topic, found in answer.items()}


def _consumed(found: dict[str, Any]) -> Consumed:
    records = [
        Read(offset, timestamp_ms, kind, epoch, _bytes(key), _bytes(value), tuple((name, _bytes(content)) for name, content in headers))
        for offset, timestamp_ms, kind, epoch, key, value, headers in found["records"]
    ]
    return Consumed(found["start"], found["end"], records, [tuple(time) for time in found["times"]])


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _headers(headers: Headers) -> list[list[str | None]]:
    return [[name, _base64(content)] for name, content in headers]

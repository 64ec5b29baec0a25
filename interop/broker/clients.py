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


class GroupRow(NamedTuple):
    """A line of what Kafka's group tool prints. None where it has a dash."""

    topic: str
    partition: int
    position: int | None
    end: int | None
    lag: int | None


class KnownTransaction(NamedTuple):
    """What a broker says of a transactional id."""

    state: str
    producer_id: int
    producer_epoch: int
    partitions: list[str]


GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


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
        positions: tuple[str, Sequence[tuple[str, int, int, str]]] | None = None,
    ) -> list[int]:
        """Send batches; see `ProduceJob.java` for what a transaction can be. Gives back the offsets.

        `positions` go into it: a group, and topic, partition, offset, metadata of each.
        """
        written = [[[_base64(row.key), _base64(row.value), _headers(row.headers), row.timestamp_ms] for row in batch] for batch in batches]
        where: dict[str, Any] = {"topic": topic, "partition": partition, "producer": producer}
        if positions is not None:
            where |= {"group": positions[0], "positions": positions[1]}
        offsets: list[int] = self.ask("produce", **where, batches=written, config=config, transaction=transaction)
        return offsets

    def consume(self, topics: Iterable[str], isolation: str, *, partition: int = 0) -> dict[str, Consumed]:
        """Everything in a partition of topics, with isolation "read_committed" or "read_uncommitted"."""
        answer = self.ask("consume", topics=list(topics), isolation=isolation, partition=partition)
        return {topic: _consumed(found) for topic, found in answer.items()}

    def group_offsets(self, *groups: str) -> dict[str, dict[tuple[str, int], tuple[int, int | None, str]]]:
        """What the admin client says: by group and partition the offset, leader epoch and metadata."""
        answer = self.ask("group_offsets", groups=groups)
        return {group: {(found[0], found[1]): tuple(found[2:]) for found in positions} for group, positions in answer.items()}

    def describe_group(self, group: str) -> list[GroupRow]:
        """What Kafka's group tool prints."""
        printed: str = self.ask("tool", main_class=GROUP_TOOL, arguments=["--describe", "--group", group, "--offsets"])
        rows = [line.split() for line in printed.splitlines()]
        return sorted(
            GroupRow(fields[1], int(fields[2]), *(None if field == "-" else int(field) for field in fields[3:6]))
            for fields in rows
            if fields[:1] == [group]
        )

    def member(
        self, group: str, *topics: str, config: Mapping[str, str] | None = None, commits: bool = True, stays: bool = False
    ) -> list[tuple[str, int, int, bytes]]:
        """A member of a group reads on from its positions: topic, partition, offset and value of each record."""
        answer = self.ask("member", group=group, topics=topics, config=dict(config or {}), commits=commits, stays=stays)
        return [(topic, partition, offset, base64.b64decode(value)) for topic, partition, offset, value in answer]

    def transactions(self, *partitions: tuple[str, int]) -> tuple[dict[str, KnownTransaction], dict[str, list[tuple[int, int, int]]]]:
        """All transactional ids, and what is open in partitions: producer id, epoch, first offset."""
        answer = self.ask("transactions", partitions=partitions)
        known = {name: KnownTransaction(**found) for name, found in answer["transactions"].items()}
        return known, {partition: [tuple(one) for one in found] for partition, found in answer["open"].items()}


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

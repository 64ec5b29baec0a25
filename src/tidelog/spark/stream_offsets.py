"""How far a stream has come: what Spark keeps in the checkpoint of a query.

    {"version": 1,
     "topics": {"emails": {"id": "tKgmCFRkTQ-VVKsXYAaXFA", "offsets": {"0": 123, "1": 99}, "from": {"1": 17}}}}

`offsets` has for each partition the next offset to be read. `id` is the topic's; null where nothing in its directories says it. `from` is
there for partitions that joined with this micro-batch, and says where they begin: in the first one that is all of them. Spark asks for the
beginning again when it repeats a first batch that was cut short, and "latest" is another offset by then; what was written down counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.disk.names import TopicPartition
from tidelog.errors import CorruptFileError, UnsupportedError

VERSION = 1
_HINT = "the checkpoint was not written by a stream of this source; start the query with a new one"

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next offset of every partition."""

    topic_ids: Mapping[str, str | None]
    next_offsets: Offsets
    joined_at: Offsets = field(default_factory=dict)
    """Where partitions begin that were not in the micro-batch before."""

    def to_json(self) -> dict[str, Any]:
        """What Spark is given. Equal offsets have equal text: that is how Spark compares them."""
        topics: dict[str, Any] = {name: {"id": self.topic_ids[name], "offsets": {}} for name in sorted(self.topic_ids)}
        for (topic, partition), offset in sorted(self.next_offsets.items()):
            topics[topic]["offsets"][str(partition)] = offset
        for (topic, partition), offset in sorted(self.joined_at.items()):
            topics[topic].setdefault("from", {})[str(partition)] = offset
        return {"version": VERSION, "topics": topics}

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> "StreamOffset":
        """What Spark gives back."""
        version = document.get("version") if isinstance(document, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise UnsupportedError(
                "the offsets of a stream are of a later release", expected=f"version {VERSION}", found=version, hint="update tidelog"
            )
        try:
            if version != VERSION:
                raise ValueError(version)
            topics = document["topics"]
            return cls(
                {str(name): _topic_id(entry["id"]) for name, entry in topics.items()},
                {at: offset for name, entry in topics.items() for at, offset in _offsets(name, entry["offsets"])},
                {at: offset for name, entry in topics.items() for at, offset in _offsets(name, entry.get("from", {}))},
            )
        except (LookupError, TypeError, ValueError, AttributeError):
            raise CorruptFileError(
                "not the offsets of a stream", expected=f"version {VERSION} with topics", found=_shortened(document), hint=_HINT
            ) from None

    def begins(self, end: "StreamOffset") -> dict[TopicPartition, int]:
        """Where each partition of a micro-batch begins that goes from here to `end`."""
        return {at: end.joined_at.get(at, self.next_offsets.get(at, 0)) for at in end.next_offsets}

    def is_as_far_as(self, other: "StreamOffset") -> bool:
        """Whether nothing lies between them."""
        return self.next_offsets == other.next_offsets and self.topic_ids == other.topic_ids


def _topic_id(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(value)
    return value


def _offsets(topic: str, entries: Mapping[str, Any]) -> list[tuple[TopicPartition, int]]:
    found = [(TopicPartition(topic, int(partition)), int(offset)) for partition, offset in entries.items()]
    if any(at.partition < 0 or offset < 0 for at, offset in found):
        raise ValueError(entries)
    return found


def _shortened(document: object) -> str:
    text = repr(document)
    return text if len(text) <= 120 else f"{text[:117]}..."

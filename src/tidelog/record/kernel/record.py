"""`Record`: one record as a Python object, made by the million, hence a compiled class."""

from typing import Any

from tidelog.record.layout import TimestampType

Headers = tuple[tuple[str, bytes | None], ...]


class Record:
    """A record as it was read, or as it is to be written.

    `key` and `value` are bytes or None; a record with a key and without a value is a tombstone, an empty value is data. `headers` is a
    tuple of (name, value or None), order and duplicates kept. `timestamp_ms` is -1 where there is none, `offset`, `partition` and
    `sequence` are -1 where they are not known. Records compare by value and can be pickled.
    """

    __slots__ = ("headers", "key", "offset", "partition", "sequence", "timestamp_ms", "timestamp_type_id", "topic", "value")

    def __init__(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int = -1,
        timestamp_type: int = 0,
        offset: int = -1,
        sequence: int = -1,
        topic: str | None = None,
        partition: int = -1,
    ) -> None:
        self.topic: str | None = topic
        self.partition: int = partition
        self.offset: int = offset
        self.timestamp_ms: int = timestamp_ms
        self.timestamp_type_id: int = timestamp_type
        self.sequence: int = sequence
        self.key: bytes | None = key
        self.value: bytes | None = value
        self.headers: Headers = headers

    @property
    def timestamp_type(self) -> TimestampType:
        """Who stamped the record."""
        return TimestampType(self.timestamp_type_id)

    def _state(self) -> tuple[Any, ...]:
        return (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp_ms,
            self.timestamp_type_id,
            self.sequence,
            self.key,
            self.value,
            self.headers,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return self._state() == other._state()

    def __hash__(self) -> int:
        return hash(self._state())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, self._state()

    def __repr__(self) -> str:
        place = "" if self.topic is None else f"{self.topic}-{self.partition}@"
        content = f"key={self.key!r}, value={self.value!r}, headers={self.headers!r}"
        return f"Record({place}{self.offset}, timestamp_ms={self.timestamp_ms}, {content})"


def _restore(
    topic: str | None,
    partition: int,
    offset: int,
    timestamp_ms: int,
    timestamp_type: int,
    sequence: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> Record:
    return Record(
        value,
        key=key,
        headers=headers,
        timestamp_ms=timestamp_ms,
        timestamp_type=timestamp_type,
        offset=offset,
        sequence=sequence,
        topic=topic,
        partition=partition,
    )

"""Where a record went, as Kafka's producers answer."""

from typing import NamedTuple


class RecordMetadata(NamedTuple):
    """Where a record went."""

    partition: int
    offset: int
    timestamp_ms: int
    """As stored: the record's own, or when it was appended where the topic stamps that."""

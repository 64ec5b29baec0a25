"""The topics that Kafka keeps for itself, positions of groups and states of transactions, and ours: how they are made, who belongs where.

An id, of a group or of a transaction, belongs to one partition, by Java's hash of it. Ours, the ledger of sinks, has one partition.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.config import StoreConfig
from tidelog.store.topic_names import CONSUMER_OFFSETS, SINK_COMMITS, TRANSACTION_STATE


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """How such a topic is made: as a broker makes it, and durable whatever the store's defaults are."""

    name: str
    partitions_field: str | None
    """The field of `StoreConfig` that says how many partitions it has; None: one."""
    segment_bytes_field: str | None
    settings: Mapping[str, str]

    def partitions(self, config: StoreConfig) -> int:
        """How many it gets when it is made."""
        count: int = 1 if self.partitions_field is None else getattr(config, self.partitions_field)
        return count

    def config(self, config: StoreConfig) -> dict[str, object]:
        """How it is set when it is made."""
        if self.segment_bytes_field is None:
            return dict(self.settings)
        return {**self.settings, "segment.bytes": getattr(config, self.segment_bytes_field)}


_COMPACTED = {"cleanup.policy": "compact", "flush.messages": "1"}
OFFSETS = InternalTopic(
    CONSUMER_OFFSETS, "offsets_topic_num_partitions", "offsets_topic_segment_bytes", {**_COMPACTED, "compression.type": "producer"}
)
TRANSACTIONS = InternalTopic(
    TRANSACTION_STATE,
    "transaction_state_log_num_partitions",
    "transaction_state_log_segment_bytes",
    {**_COMPACTED, "compression.type": "uncompressed"},
)
COMMITS = InternalTopic(SINK_COMMITS, None, None, {**_COMPACTED, "compression.type": "uncompressed", "segment.bytes": str(8 << 20)})
INTERNAL = {topic.name: topic for topic in (OFFSETS, TRANSACTIONS, COMMITS)}


def java_hash(text: str) -> int:
    """`String.hashCode`: over the units of UTF-16."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for place in range(0, len(units), 2):
        code = (31 * code + (units[place] << 8 | units[place + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


def partition_of_id(owner_id: str, partitions: int) -> int:
    """The partition that an id belongs to. As in Kafka the one number without a positive counterpart counts as zero."""
    code = java_hash(owner_id)
    return 0 if code == -(1 << 31) else abs(code) % partitions

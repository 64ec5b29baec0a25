"""Which positions are old enough to go: Kafka's rule (KIP-211), decided from what is known.

| group                                   | its positions go                                                            |
|-----------------------------------------|-----------------------------------------------------------------------------|
| simple: nobody ever joined it           | `offsets.retention.minutes` after they were committed; see below            |
| classic, empty                          | that long after it became empty; if that is not known, after the commit     |
| classic, with members that subscribe    | that long after the commit, of topics that nobody subscribes to             |
| classic, with members of another kind   | never                                                                       |
| of a newer kind                         | never here: only its broker knows its members                               |

Of a simple group, what a member of this process reads is committed once more, as it is, when it leaves and half that time is over: so it
goes half that time after the member has left at the earliest.

An old value that has its own time to expire goes by that. What a live member reads stays, and so does what an open transaction is about to
replace.
"""

from collections.abc import Collection
from typing import NamedTuple

from tidelog.disk.names import TopicPartition
from tidelog.errors import TidelogError
from tidelog.schema.consumer_offsets import GroupMetadataValue, OffsetCommitValue, subscribed_topics
from tidelog.store.groups.positions_table import GroupRecords

_CONSUMER_PROTOCOL = "consumer"


class Expired(NamedTuple):
    """What is to go of a group."""

    partitions: tuple[TopicPartition, ...]
    is_group_gone: bool
    """Whether nothing is left then, and the group itself goes."""


def expired(
    group: GroupRecords,
    *,
    now_ms: int,
    retention_ms: int,
    live_topics: Collection[str] | None,
    pending: Collection[TopicPartition],
) -> Expired:
    """What is to go of a group. `live_topics` are those that a live member reads; None if there is none."""
    nothing = Expired((), False)
    if group.others:
        return nothing
    kept_topics: set[str] = set(live_topics or ())
    since_ms: int | None = None  # of each position, its own commit
    if group.metadata_key is not None:
        metadata = group.metadata
        if metadata is None:  # it could not be read
            return nothing
        if metadata.members:
            subscribed = _subscribed(metadata)
            if subscribed is None:
                return nothing
            kept_topics |= subscribed
        elif metadata.current_state_timestamp_ms >= 0:
            since_ms = metadata.current_state_timestamp_ms
    gone = tuple(
        partition
        for partition, stored in sorted(group.positions.items())
        if partition.topic not in kept_topics
        and partition not in pending
        and is_expired(stored.value, since_ms, now_ms=now_ms, retention_ms=retention_ms)
    )
    has_members = live_topics is not None or (group.metadata is not None and bool(group.metadata.members))
    is_all = len(gone) == len(group.positions) and not pending
    return Expired(gone, is_all and not has_members)


def is_expired(value: OffsetCommitValue, since_ms: int | None, *, now_ms: int, retention_ms: int) -> bool:
    """Whether a position is old enough: since its group became empty, or else since it was committed."""
    if value.expire_timestamp_ms >= 0:
        return now_ms >= value.expire_timestamp_ms
    return now_ms - (value.commit_timestamp_ms if since_ms is None else since_ms) >= retention_ms


def is_half_forgotten(value: OffsetCommitValue, *, now_ms: int, retention_ms: int) -> bool:
    """Whether a position is to be committed anew when its member leaves: not each time, and what has its own time never."""
    return value.expire_timestamp_ms < 0 and now_ms - value.commit_timestamp_ms >= retention_ms / 2


def _subscribed(metadata: GroupMetadataValue) -> set[str] | None:
    """What the members of a classic group subscribe to; None if it is a group of something else, or cannot be told."""
    if metadata.protocol_type != _CONSUMER_PROTOCOL:
        return None
    try:
        return {topic for member in metadata.members for topic in subscribed_topics(member.subscription)}
    except TidelogError:
        return None

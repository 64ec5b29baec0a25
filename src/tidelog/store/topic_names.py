"""Kafka's rules for the names and the ids of topics."""

from collections.abc import Iterable
from uuid import UUID, uuid4

from tidelog.disk.directory_state import CLUSTER_METADATA
from tidelog.disk.names import check_name
from tidelog.disk.partition_metadata import format_topic_id
from tidelog.errors import InvalidTopicError

CONSUMER_OFFSETS, TRANSACTION_STATE = "__consumer_offsets", "__transaction_state"
SINK_COMMITS = "__tidelog_commits"
"""Ours: which commits of a pipeline are done."""
INTERNAL_TOPICS = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE, SINK_COMMITS))
"""What only groups, transactions and sinks write to."""
_RESERVED_IDS = (UUID(int=0), UUID(int=1))
"""No id at all, and that of the brokers' own log."""


def check_new_name(name: object, existing: Iterable[str]) -> str:
    """The name, if a new topic may have it beside the existing ones; `InvalidTopicError` otherwise."""
    checked = check_name(name)
    if checked == CLUSTER_METADATA:
        raise InvalidTopicError("a topic's name that brokers keep for themselves", expected="another name", found=repr(name))
    for other in existing:
        if other != checked and _metric_name(other) == _metric_name(checked):
            raise InvalidTopicError(
                "a topic's name that a broker's metrics could not tell from another",
                expected=f"a name that differs from {other!r} in more than . and _",
                found=repr(name),
            )
    return checked


def check_topic_id(topic_id: object, existing: Iterable[UUID | None]) -> UUID:
    """The id, if a new topic may have it beside those of the existing ones; `InvalidTopicError` otherwise."""
    if not isinstance(topic_id, UUID):
        raise InvalidTopicError(
            "a topic's id that is none",
            expected="a uuid.UUID",
            found=repr(topic_id),
            hint="tidelog.disk.partition_metadata.parse_topic_id reads Kafka's 22 characters",
        )
    if topic_id in _RESERVED_IDS:
        raise InvalidTopicError("a topic's id that Kafka keeps for itself", expected="another id", found=topic_id)
    if topic_id in existing:
        raise InvalidTopicError("a topic's id that another topic has", expected="another id", found=format_topic_id(topic_id))
    return topic_id


def new_topic_id() -> UUID:
    """A random id. As Kafka's it never begins with a dash, which a command line would take for an option."""
    while True:
        topic_id = uuid4()
        if not format_topic_id(topic_id).startswith("-"):
            return topic_id


def _metric_name(name: str) -> str:
    return name.replace(".", "_")

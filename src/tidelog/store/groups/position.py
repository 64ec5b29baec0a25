"""What a group has committed, and how far behind it is."""

from typing import NamedTuple

from tidelog.disk.names import TopicPartition
from tidelog.errors import InvalidGroupError, RefusedBatchError

NO_EPOCH = -1
MAX_OFFSET = 0x7FFFFFFFFFFFFFFF
MAX_TEXT_BYTES = 0x7FFF
"""Of a text in a record of `__consumer_offsets`."""


class Position(NamedTuple):
    """A committed position: where a group goes on in a partition."""

    offset: int
    """Of the next record to be read."""
    leader_epoch: int = NO_EPOCH
    """Of the last record that was read; -1 if it is not known."""
    metadata: str = ""
    """Whatever the consumer has to say about it."""
    commit_timestamp_ms: int = -1
    """When it was committed, by the clock of the store that keeps it."""


class GroupLag(NamedTuple):
    """How far a group is behind in a partition, as Kafka's group tool shows it."""

    position: int
    """The committed offset."""
    log_end_offset: int | None
    """What readers can see ends here; None if the partition is not in the store."""
    lag: int | None
    """How many offsets lie between."""


def check_group(group: object) -> str:
    """The name of a group, if it is one. Kafka takes every text that is not empty, and that its schema has room for."""
    if not isinstance(group, str) or not group:
        raise InvalidGroupError("a group without a name", expected="a text that is not empty", found=repr(group))
    try:
        size_bytes = len(group.encode())
    except UnicodeEncodeError as error:
        raise InvalidGroupError("the name of a group that cannot be written in UTF-8", found=repr(group)) from error
    if size_bytes > MAX_TEXT_BYTES:
        raise InvalidGroupError("the name of a group is too long", expected=f"at most {MAX_TEXT_BYTES} bytes in UTF-8", found=size_bytes)
    return group


def check_partition(partition: object) -> TopicPartition:
    """A partition, if it is one: a `TopicPartition`, or a tuple of topic and number."""
    if isinstance(partition, tuple) and len(partition) == 2:
        topic, number = partition
        if isinstance(topic, str) and type(number) is int and number >= 0:
            return TopicPartition(topic, number)
    raise InvalidGroupError("not a partition", expected="TopicPartition(topic, number), or (topic, number)", found=repr(partition))


def check_position(partition: TopicPartition, position: object, max_metadata_bytes: int) -> Position:
    """A position to commit, if it is one: an offset, or a `Position`."""
    found = position if isinstance(position, Position) else Position(position)  # type: ignore[arg-type]
    for name, number, lowest in (("offset", found.offset, 0), ("leader epoch", found.leader_epoch, NO_EPOCH)):
        if type(number) is not int or not lowest <= number <= (MAX_OFFSET if lowest == 0 else 0x7FFFFFFF):
            raise InvalidGroupError(f"no {name} to commit for {partition}", expected=f"a number from {lowest} on", found=repr(number))
    if not isinstance(found.metadata, str):
        raise InvalidGroupError(f"metadata of {partition} that is no text", expected="a str", found=repr(found.metadata))
    if len(found.metadata) * 4 > max_metadata_bytes:  # most of the time nobody has to look closer
        size_bytes = len(found.metadata.encode(errors="surrogatepass"))
        if size_bytes > max_metadata_bytes:
            raise RefusedBatchError(
                f"metadata of {partition} too large: nothing was committed",
                expected=f"at most {max_metadata_bytes} bytes",
                found=size_bytes,
                hint="offset.metadata.max.bytes",
                kafka_error="OFFSET_METADATA_TOO_LARGE",
            )
    return found

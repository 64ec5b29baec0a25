"""The records of `__transaction_state`: what a coordinator has decided about a transactional id.

    key                             value, version 0
      version          int16, 0       version                 int16, 0
      transactional id string         producer id             int64
                                      producer epoch          int16
                                      timeout                 int32
                                      status                  int8
                                      partitions              array, null while empty: topic (string), partitions (array of int32)
                                      last update             int64
                                      start                   int64      -1 while there is none

Version 1 has the same fields in the flexible form, and tagged ones of the second transaction protocol (KIP-890): the producer id before (0)
and the next one (1), the protocol that the client speaks (2), the next epoch (3). A value of None, a tombstone, forgets the id.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tidelog.disk.names import TopicPartition
from tidelog.errors import MalformedRecordError, UnsupportedError
from tidelog.schema.fields import FieldReader, int16_string

KEY_VERSION: Final = 0
VALUE_VERSION: Final = 0

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_START = struct.Struct(">hqhib")
_END = struct.Struct(">qq")
_PREVIOUS_PRODUCER_ID_TAG, _NEXT_PRODUCER_ID_TAG, _CLIENT_VERSION_TAG, _NEXT_EPOCH_TAG = range(4)


class TransactionStatus(IntEnum):
    """Where a transaction is. From PREPARE_COMMIT and PREPARE_ABORT on it is decided, and only markers are missing."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


@dataclass(frozen=True, slots=True)
class TransactionLogValue:
    """The last state of a transactional id. What is not known is -1."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: TransactionStatus
    partitions: tuple[TopicPartition, ...] | None
    """Where it has written, or still has markers to write; None stands for Kafka's null."""
    last_update_ms: int
    start_ms: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_transaction_version: int = 0
    next_producer_epoch: int = -1


def parse_key(data: bytes) -> str:
    """The transactional id."""
    reader = FieldReader(data)
    version = reader.int16()
    if version != KEY_VERSION:
        raise UnsupportedError("an unknown version of a transactional id", expected=KEY_VERSION, found=version)
    return reader.string()


def format_key(transactional_id: str) -> bytes:
    """The key of an id."""
    return _INT16.pack(KEY_VERSION) + int16_string(transactional_id)


def parse_value(data: bytes) -> TransactionLogValue:
    """A state, of version 0 or 1."""
    reader = FieldReader(data)
    version = reader.int16()
    if version not in (0, 1):
        raise UnsupportedError("an unknown version of a transaction's state", expected="0 or 1", found=version)
    is_flexible = version >= 1
    producer_id, producer_epoch, timeout_ms, number = reader.int64(), reader.int16(), reader.int32(), reader.int8()
    try:
        status = TransactionStatus(number)
    except ValueError as error:
        raise MalformedRecordError("no status of a transaction", expected="0 to 7", found=number) from error
    partitions = _partitions(reader, is_flexible=is_flexible)
    last_update_ms, start_ms = reader.int64(), reader.int64()
    previous, following, client_version, next_epoch = -1, -1, 0, -1
    if is_flexible:
        for tag, value in reader.tagged():
            if tag == _PREVIOUS_PRODUCER_ID_TAG:
                previous = value.int64()
            elif tag == _NEXT_PRODUCER_ID_TAG:
                following = value.int64()
            elif tag == _CLIENT_VERSION_TAG:
                client_version = value.int16()
            elif tag == _NEXT_EPOCH_TAG:
                next_epoch = value.int16()
    return TransactionLogValue(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        status=status,
        partitions=partitions,
        last_update_ms=last_update_ms,
        start_ms=start_ms,
        previous_producer_id=previous,
        next_producer_id=following,
        client_transaction_version=client_version,
        next_producer_epoch=next_epoch,
    )


def format_value(value: TransactionLogValue) -> bytes:
    """A state, version 0, which every Kafka reads and which has no tagged fields. The partitions of a topic come together."""
    start = _START.pack(VALUE_VERSION, value.producer_id, value.producer_epoch, value.timeout_ms, value.status)
    return b"".join((start, *_formatted_partitions(value.partitions), _END.pack(value.last_update_ms, value.start_ms)))


def _partitions(reader: FieldReader, *, is_flexible: bool) -> tuple[TopicPartition, ...] | None:
    topics = reader.length(flexible=is_flexible)
    if topics < 0:
        return None
    found: list[TopicPartition] = []
    for _ in range(topics):
        topic = reader.string(flexible=is_flexible)
        count = reader.length(flexible=is_flexible)
        if count < 0:
            raise MalformedRecordError("null in place of partitions", position=reader.position)
        found += [TopicPartition(topic, reader.int32()) for _ in range(count)]
        if is_flexible:
            for _tag, _value in reader.tagged():
                pass  # none is known
    return tuple(found)


def _formatted_partitions(partitions: Iterable[TopicPartition] | None) -> list[bytes]:
    if partitions is None:
        return [_INT32.pack(-1)]
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    pieces = [_INT32.pack(len(by_topic))]
    for topic, numbers in by_topic.items():
        pieces += (int16_string(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return pieces

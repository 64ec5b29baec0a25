"""What a leader asks about a batch with a producer id before it writes it: is it a duplicate, may its producer append it, what changes."""

import struct

from tidelog.log.append_info import AppendInfo
from tidelog.log.producer_replay import read_marker
from tidelog.log.producer_state import Effect, Entries, ProducerState
from tidelog.log.producers import KEPT_BATCHES, MAX_SEQUENCE, NO_OFFSET, BatchMetadata, Origin, ProducerBatch, ProducerEntry
from tidelog.record.batch import RecordBatch
from tidelog.record.layout import CONTROL_BIT, TRANSACTIONAL_BIT

_PRODUCER = struct.Struct(">21xh20xqhi")
"""Attributes, producer id, producer epoch and base sequence of a v2 batch."""
_PRODUCER_ID_POSITION = 43
_SPECIAL = CONTROL_BIT | TRANSACTIONAL_BIT
_unpack = _PRODUCER.unpack_from
_new = tuple.__new__

Checked = Effect | AppendInfo | None
"""What the batch changes; or the answer to a duplicate; or nothing: a control batch that ends no transaction."""


def has_producer_id(batch: memoryview) -> bool:
    """Whether a v2 batch comes from a producer with an id. The caller has checked that it is one."""
    return batch[_PRODUCER_ID_POSITION] < 0x80


def next_of_producer(entries: Entries, batch: memoryview, first: int, last: int, max_timestamp_ms: int) -> ProducerEntry | None:
    """The producer behind a batch that is its next one and no part of a transaction, which most are; otherwise None.

    It is `appended` by a short way. Such a batch is no duplicate either: its sequence numbers lie behind all that are remembered, which is
    not so of one that begins at 0 again.
    """
    attributes, producer_id, epoch, sequence = _unpack(batch)
    entry = entries.get(producer_id)
    if entry is None or attributes & _SPECIAL:
        return None
    _, known_epoch, coordinator_epoch, _, start, batches = entry
    if known_epoch != epoch or start >= 0 or not batches or sequence != batches[-1][0] + 1:
        return None
    delta = last - first
    metadata = _new(BatchMetadata, ((sequence + delta) & MAX_SEQUENCE, last, delta, max_timestamp_ms))
    kept = batches if len(batches) < KEPT_BATCHES else batches[1:]
    return _new(ProducerEntry, (producer_id, epoch, coordinator_epoch, max_timestamp_ms, NO_OFFSET, (*kept, metadata)))


def check_producer(
    state: ProducerState, batch: memoryview, first: int, last: int, max_timestamp_ms: int, size_bytes: int, origin: Origin, pending: Entries
) -> Checked:
    """Ask about one batch, which will get these offsets."""
    attributes, producer_id, epoch, sequence = _unpack(batch)
    if attributes & CONTROL_BIT:
        marker = read_marker(RecordBatch(batch, 0, len(batch)))
        if marker is None:
            return None
        return state.check(marker._replace(offset=first, timestamp_ms=max_timestamp_ms), origin, pending)
    is_transactional = bool(attributes & TRANSACTIONAL_BIT)
    appended = tuple.__new__(ProducerBatch, (producer_id, epoch, sequence, first, last, max_timestamp_ms, is_transactional))
    if origin == "client":
        repeated = state.find_duplicate(appended, pending)
        if repeated is not None:
            return AppendInfo(repeated.first_offset, repeated.last_offset, max_timestamp_ms, repeated.timestamp_ms, size_bytes)
    return state.check(appended, origin, pending)

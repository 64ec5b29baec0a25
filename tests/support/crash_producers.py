"""What producers must be able to do with a log after a crash, worked out from the batches that are in it and nothing else.

A producer whose newest batch is there sends it again, since it may not have been told: that is a duplicate. If it is not there, what it
sends again is the next in order: that is appended. Transactions without a marker are open, aborted ones are not read.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from tests.support.batches import TIME
from tests.support.crash_model import Stored
from tidelog.log.log import Log
from tidelog.record.control import ControlType
from tidelog.record.encoding import BatchSettings
from tidelog.record.new_batch import NewBatch, transaction_marker

_PRODUCER = struct.Struct(">4xhi16xqhi")
"""Attributes, last offset delta, producer id, epoch and base sequence, from the CRC on."""
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_CONTROL_TYPE_AT = 44 + 8
"""Behind the header, and behind five numbers of a byte each and the version, if the record is small."""


@dataclass(slots=True)
class ProducerStory:
    """What the batches of a producer say, one after the other."""

    epoch: int = 0
    next_sequence: int = 0
    newest: Stored | None = None
    """Of the current epoch."""
    txn_start: int = -1

    @property
    def is_open(self) -> bool:
        """Whether a transaction is."""
        return self.txn_start >= 0

    def take_in(self, batch: Stored) -> bool | None:
        """One batch more: of a marker that ends a transaction, whether it is aborted."""
        attributes, delta, _, epoch, sequence = _PRODUCER.unpack_from(batch.tail)
        if epoch != self.epoch:
            self.epoch, self.next_sequence, self.newest = epoch, 0, None
        if attributes & _CONTROL:
            self.txn_start = -1
            return batch.tail[_CONTROL_TYPE_AT] == ControlType.ABORT
        self.newest, self.next_sequence = batch, sequence + delta + 1
        if attributes & _TRANSACTIONAL and self.txn_start < 0:
            self.txn_start = batch.base_offset
        return None


def producer_stories(batches: Iterable[Stored]) -> dict[int, ProducerStory]:
    """Of all who have an id."""
    stories: dict[int, ProducerStory] = {}
    for batch in batches:
        if batch.producer_id >= 0:
            stories.setdefault(batch.producer_id, ProducerStory()).take_in(batch)
    return stories


def committed_offsets(batches: Iterable[Stored], end: int) -> tuple[list[int], int]:
    """The offsets that readers of committed records see of a log up to `end`, and the last stable offset."""
    stories: dict[int, ProducerStory] = {}
    visible: dict[int, Stored] = {}
    for batch in batches:
        attributes = _PRODUCER.unpack_from(batch.tail)[0]
        if not attributes & _CONTROL:
            visible[batch.base_offset] = batch
        if batch.producer_id < 0:
            continue
        story = stories.setdefault(batch.producer_id, ProducerStory())
        start = story.txn_start
        if story.take_in(batch) and start >= 0:
            for offset in [at for at, other in visible.items() if at >= start and other.producer_id == batch.producer_id]:
                del visible[offset]
    stable = min([story.txn_start for story in stories.values() if story.is_open] + [end])
    return [offset for batch in visible.values() for offset in range(batch.base_offset, batch.last_offset + 1) if offset < stable], stable


def check_committed(log: Log, batches: Iterable[Stored]) -> None:
    """Open transactions bound what readers of committed records see, and aborted ones are not among it."""
    wanted, stable = committed_offsets(batches, log.log_end_offset)
    assert log.last_stable_offset == stable, f"the last stable offset is {log.last_stable_offset}, not {stable}"
    found = [record.offset for record in log.read(isolation="committed")]
    assert found == wanted, f"committed are {wanted}, read were {found}"


def check_duplicates(log: Log, batches: Iterable[Stored]) -> None:
    """Whoever sends his newest batch again is told where it is; nothing is written."""
    end = log.log_end_offset
    for producer_id, story in producer_stories(batches).items():
        newest = story.newest
        if newest is not None:
            info = log.append(newest.as_sent())
            assert info[:2] == (newest.base_offset, newest.last_offset), f"{newest} of producer {producer_id} sent again is at {info}"
    assert log.log_end_offset == end, "a duplicate was appended"


def check_next(log: Log, batches: Iterable[Stored]) -> None:
    """Whoever sends the batch behind his newest one is in order; then the open transactions that can be seen are ended."""
    for producer_id, story in producer_stories(batches).items():
        if story.newest is None and log.log_start_offset > 0:
            continue  # its batches were deleted; the log may know more than can be seen
        settings = BatchSettings(
            producer_id=producer_id, producer_epoch=story.epoch, base_sequence=story.next_sequence, is_transactional=story.is_open
        )
        info = log.append(NewBatch([(b"k", b"next", (), TIME)], settings=settings).encode())
        assert info.first_offset == log.log_end_offset - 1, f"the next batch of producer {producer_id} was taken for {info}"
        if story.is_open:
            marker = transaction_marker(
                ControlType.COMMIT, producer_id=producer_id, producer_epoch=story.epoch, coordinator_epoch=0, timestamp_ms=TIME
            )
            log.append(marker, origin="coordinator")
    if log.log_start_offset == 0:
        assert log.last_stable_offset == log.log_end_offset

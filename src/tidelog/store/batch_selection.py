"""What of some batches goes on: up to an offset, and of the records only those whose keys are wanted. No file is touched.

A batch of which everything stays is passed on as the bytes that it is. One that loses records is written anew as compaction does it:
offsets, producer fields, epoch, codec and the last offset stay, also if that record goes. Of one that keeps none the header stays, which
every reader of Kafka's passes over: it tells how far the log goes and where a producer left off, and that its offsets were taken on
purpose. A hole would not: where no cleaner works, readers take one for loss of data. Headers that lie one behind the other, and that
are of no producer, become one. Control batches always stay.

A batch that lies across the end is cut: its records below the end stay, and it ends there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from tidelog.compaction.batch_records import looked_into
from tidelog.compaction.segment_chunks import Chunk
from tidelog.record.headers import BatchHeaders
from tidelog.record.layout import ATTRIBUTES_POSITION, CONTROL_BIT, CRC_POSITION, TIMESTAMP_TYPE_BIT
from tidelog.record.new_batch import MAX_OFFSET_DELTA, empty_batch
from tidelog.record.plain_records import MAGIC_V2, PlainRecords, are_plain
from tidelog.record.retain import retain_records
from tidelog.store.key_match import KeyMatch, KeyMatcher

NO_END = 1 << 62
_DELTA_POSITION = 23
_EPOCH_POSITION = 12

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SelectionRules:
    """What goes on. Small: it travels."""

    end_offset: int = NO_END
    """Nothing at or behind it."""
    keeps: KeyMatch | None = None
    """Only records with these keys."""
    drops: KeyMatch | None = None
    """All records but those with these keys."""
    leader_epoch: int | None = None
    """What batches get in place of theirs, which means nothing to another cluster."""

    @property
    def looks_at_keys(self) -> bool:
        """Whether keys decide."""
        return self.keeps is not None or self.drops is not None


class Selected(NamedTuple):
    """What became of a chunk."""

    parts: list[memoryview | bytes]
    """Batches one behind the other; good as long as the chunk is."""
    removed: int
    """Records that were left out for their key."""
    is_over: bool
    """Whether the end was reached."""


class BatchSelection:
    """Selects from one chunk after the other. One thread."""

    def __init__(self, rules: SelectionRules) -> None:
        self._rules = rules
        self._keeps = None if rules.keeps is None else KeyMatcher(rules.keeps)
        self._drops = None if rules.drops is None else KeyMatcher(rules.drops)
        self._records = PlainRecords()

    def of(self, chunk: Chunk) -> Selected:
        """What of a chunk goes on. With another epoch the chunk itself is changed."""
        headers, end = chunk.headers, self._rules.end_offset
        if self._rules.leader_epoch is not None:
            _set_epoch(chunk.buffer, headers, self._rules.leader_epoch)
        below = len(headers)
        if int(headers.last_offset[-1]) >= end:
            below = int(np.flatnonzero(headers.last_offset >= end)[0])
        whole = headers[:below]
        parts: list[memoryview | bytes] = []
        removed = 0
        if below and not self._rules.looks_at_keys:
            parts.append(chunk.buffer[int(headers.position[0]) : whole.end_position])
        elif below:
            removed = self._select(chunk.buffer, whole, parts)
        is_over = below < len(headers)
        if is_over:
            across = headers[below : below + 1]
            if int(across.base_offset[0]) < end:  # of a legacy wrapper that is -1: it has to be looked into
                cut, gone = self._cut(chunk.buffer, across)
                removed += gone
                if cut:
                    parts.append(cut)
        return Selected(parts, removed, is_over)

    def count_gone(self, chunk: Chunk) -> int:
        """How many records of a chunk would go for their keys."""
        return sum(int(np.count_nonzero(gone)) for gone in self._gone(chunk.buffer, chunk.headers))

    def _select(self, buffer: memoryview, headers: BatchHeaders, parts: list[memoryview | bytes]) -> int:
        """Add the batches that go on; gives back how many records do not."""
        start = 0  # of the batches that go on as they are, and were not added yet
        emptied = -1  # the first of the batches without records whose header was added last
        removed = 0
        for row, gone in enumerate(self._gone(buffer, headers)):
            if not gone.any():
                continue
            if row > start:
                parts.append(buffer[int(headers.position[start]) : int(headers.position[row])])
                emptied = -1
            start = row + 1
            removed += int(np.count_nonzero(gone))
            # Those of producers stay by themselves: their sequences go on from one to the next.
            is_joined = bool(gone.all()) and int(headers.producer_id[row]) < 0
            if is_joined and emptied >= 0 and _can_join(headers, emptied, row):
                parts[-1] = _joined(headers, emptied, row)
                continue
            batch = looked_into(buffer, headers[row : row + 1]).batch
            parts.append(retain_records(batch, ~gone, keep_empty=True))  # type: ignore[arg-type]
            emptied = row if is_joined and int(headers.magic[row]) == MAGIC_V2 else -1
        if start < len(headers):
            parts.append(buffer[int(headers.position[start]) : headers.end_position])
        return removed

    def _gone(self, buffer: memoryview, headers: BatchHeaders) -> Iterator[Bools]:
        """For each batch which of its records do not go on for their keys; empty of a control batch."""
        plain = are_plain(headers)
        edges = [0, *(np.flatnonzero(np.diff(plain)) + 1).tolist(), len(headers)]
        for first, end in pairwise(edges):
            run = headers[first:end]
            if plain[first]:
                self._records.scan(buffer, run)
                gone = self._judged(buffer, self._records.key_starts, self._records.key_lengths)
                yield from np.split(gone, np.cumsum(run.count)[:-1])
                continue
            for row in range(len(run)):
                if int(run.magic[row]) == MAGIC_V2 and int(run.attributes[row]) & CONTROL_BIT:
                    yield np.zeros(0, np.bool_)
                    continue
                records = looked_into(buffer, run[row : row + 1])
                yield self._judged(records.payload, records.key_starts, records.key_lengths)

    def _judged(self, source: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32]) -> Bools:
        gone = np.zeros(len(lengths), np.bool_)
        if self._keeps is not None:
            gone |= ~self._keeps.flags(source, starts, lengths)
        if self._drops is not None:
            gone |= self._drops.flags(source, starts, lengths)
        return gone

    def _cut(self, buffer: memoryview, one: BatchHeaders) -> tuple[bytes, int]:
        """The batch that lies across the end, up to there; nothing if it has no record below that. And how many went for their key."""
        end = self._rules.end_offset
        is_v2 = int(one.magic[0]) == MAGIC_V2
        records = looked_into(buffer, one)
        below = records.offsets < end
        gone = np.zeros(len(below), np.bool_)
        if self._rules.looks_at_keys and not (is_v2 and int(one.attributes[0]) & CONTROL_BIT):
            gone = self._judged(records.payload, records.key_starts, records.key_lengths) & below
        # What begins below the end is known of a wrapper of the old format only by its records.
        kept = retain_records(records.batch, below & ~gone, keep_empty=is_v2 or bool(below.any()))  # type: ignore[arg-type]
        return _ending_at(kept, end - 1) if kept else kept, int(np.count_nonzero(gone))


def _can_join(headers: BatchHeaders, first: int, row: int) -> bool:
    """Whether a batch goes on where those before it end, from `first` on, and nothing but their offsets tells them apart."""
    before = row - 1
    return (
        int(headers.magic[row]) == MAGIC_V2
        and int(headers.base_offset[row]) == int(headers.last_offset[before]) + 1
        and int(headers.partition_leader_epoch[row]) == int(headers.partition_leader_epoch[before])
        and int(headers.attributes[row] ^ headers.attributes[before]) & TIMESTAMP_TYPE_BIT == 0
        and int(headers.last_offset[row] - headers.base_offset[first]) <= MAX_OFFSET_DELTA
    )


def _joined(headers: BatchHeaders, first: int, row: int) -> bytes:
    """One header without records for all of these."""
    return empty_batch(
        base_offset=int(headers.base_offset[first]),
        last_offset=int(headers.last_offset[row]),
        partition_leader_epoch=int(headers.partition_leader_epoch[row]),
        attributes=int(headers.attributes[row]) & TIMESTAMP_TYPE_BIT,
        max_timestamp_ms=int(headers.max_timestamp_ms[first : row + 1].max()),
    )


def _ending_at(batch: bytes, last_offset: int) -> bytes:
    """A v2 batch with another last offset."""
    changed = bytearray(batch)
    delta = last_offset - int.from_bytes(changed[:8], "big", signed=True)
    changed[_DELTA_POSITION : _DELTA_POSITION + 4] = delta.to_bytes(4, "big")
    changed[CRC_POSITION:ATTRIBUTES_POSITION] = crc32c(memoryview(changed)[ATTRIBUTES_POSITION:]).to_bytes(4, "big")
    return bytes(changed)


def _set_epoch(buffer: memoryview, headers: BatchHeaders, epoch: int) -> None:
    """It lies outside of the CRC."""
    positions = headers.position[headers.magic == MAGIC_V2]
    data = np.frombuffer(buffer, np.uint8)
    data[positions[:, None] + np.arange(_EPOCH_POSITION, _EPOCH_POSITION + 4)] = np.frombuffer(epoch.to_bytes(4, "big"), np.uint8)

"""What stays of a batch, and of a record: Kafka's rules of compaction as pure functions.

They know nothing of files, maps or threads, since not only the cleaner of a store asks them.

A tombstone goes in two steps. The first cleaning that keeps one stamps its batch with a delete horizon, `delete.retention.ms` from now;
a cleaning after the horizon drops it. So whoever reads the log within that time sees the deletion. Markers of transactions go the same way
once nothing is left of their transaction. Legacy batches have no horizon: their tombstones go by the time at which segments were written.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
LengthArray = NDArray[np.int32] | NDArray[np.int64]

MAGIC_V2 = 2


class LastRecord(NamedTuple):
    """The end of a producer that may go on: what tells its next sequence number and its epoch must stay."""

    last_data_offset: int
    """-1 if the log has only a marker of it."""
    producer_epoch: int


class BatchFacts(NamedTuple):
    """What the rules look at in a batch."""

    last_offset: int
    producer_id: int
    producer_epoch: int
    is_control: bool
    delete_horizon_ms: int | None
    magic: int = MAGIC_V2


class BatchRule(NamedTuple):
    """What becomes of a batch."""

    drops_records: bool
    """All of them, unseen: aborted data, and markers past their horizon."""
    keeps_empty: bool
    """Its header stays even if no record does."""
    stamps_marker: bool
    """It is a marker of no more use: it gets a horizon, if it has none."""


def rule_for_batch(
    batch: BatchFacts, *, is_discardable: bool, last_records: Mapping[int, LastRecord], bound: int, now_ms: int
) -> BatchRule:
    """What becomes of a batch, before its records are looked at.

    `is_discardable` is what `TransactionTracker` says. The batch that ends at the bound stays, so that the log keeps its end.
    """
    if batch.is_control:
        drops = is_discardable and batch.delete_horizon_ms is not None and batch.delete_horizon_ms <= now_ms
    else:
        drops = is_discardable
    keeps_empty = batch.last_offset + 1 == bound or is_last_of_producer(batch, last_records)
    return BatchRule(drops, keeps_empty, is_discardable and batch.is_control)


def is_last_of_producer(batch: BatchFacts, last_records: Mapping[int, LastRecord]) -> bool:
    """Whether the batch is where its producer left off: its last data, or its last marker if there is no data of it."""
    last = last_records.get(batch.producer_id) if batch.producer_id >= 0 else None
    if last is None:
        return False
    if last.last_data_offset >= 0:
        return batch.last_offset == last.last_data_offset
    return batch.is_control and batch.producer_epoch == last.producer_epoch


def keeps_tombstones(batch: BatchFacts, *, keeps_legacy: bool, now_ms: int) -> bool:
    """Whether tombstones of a batch stay. `keeps_legacy` is what `keeps_legacy_tombstones` says of its segment."""
    if batch.magic < MAGIC_V2:
        return keeps_legacy
    return batch.delete_horizon_ms is None or now_ms < batch.delete_horizon_ms


def keeps_legacy_tombstones(segment_mtime_ms: int, last_clean_mtime_ms: int | None, delete_retention_ms: int) -> bool:
    """Whether legacy tombstones of a segment stay: it was written less than `delete.retention.ms` before the last cleaned one, or after."""
    horizon_ms = 0 if last_clean_mtime_ms is None else last_clean_mtime_ms - delete_retention_ms
    return segment_mtime_ms > horizon_ms


def records_to_keep(
    offsets: Int64Array,
    key_lengths: LengthArray,
    value_lengths: LengthArray,
    found_offsets: Int64Array,
    *,
    latest_offset: int,
    tombstones_stay: bool,
) -> NDArray[np.bool_]:
    """Which data records of a batch stay; a length of -1 is a null.

    A found offset is the last one of the record's key, -1 if the map has none. The map knows offsets up to the latest one: what lies behind
    that stays.
    """
    keep: NDArray[np.bool_] = (key_lengths >= 0) & (offsets >= found_offsets)
    if not tombstones_stay:
        keep &= value_lengths >= 0
    keep |= offsets > latest_offset
    return keep


def new_horizon_ms(batch: BatchFacts, rule: BatchRule, *, keeps_tombstone: bool, now_ms: int, delete_retention_ms: int) -> int | None:
    """The delete horizon that a batch gets now; None if it needs none, or has one, which stays."""
    if batch.delete_horizon_ms is not None or not (keeps_tombstone or rule.stamps_marker):
        return None
    return now_ms + delete_retention_ms

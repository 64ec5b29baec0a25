"""Offsets of a range that no row has, and why.

    compacted   the cleaner took the record away, for a newer one of its key or because it was a tombstone
    marker      the end of a transaction, which is a record for the log and none for its readers
    aborted     a record of a transaction that was aborted; only readers of committed records miss it
    expired     below where the log starts by now: retention, or somebody who deleted records
    lost        nothing explains it: the log was cut off above, or a hole is where no cleaner has been

The first three take nothing from a reader; the last two are loss of data. From its headers alone a log does not say whether a hole between
two batches was made by its cleaner: `KeptAs` has what is known of that. Where nothing is known, holes are taken for the cleaner's.

    for gap in read_gaps("data/emails-0", 0, 1000):
        print(gap)
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from tidelog.disk.checkpoints import read_offsets
from tidelog.disk.file_pool import SHARED
from tidelog.disk.names import CLEANER_CHECKPOINT, TopicPartition
from tidelog.errors import OffsetOutOfRangeError, TidelogError
from tidelog.log.aborted import AbortedFilter
from tidelog.log.fetched import Fetched
from tidelog.log.log_reading import Isolation
from tidelog.log.read_only import ReadOnlyLog, open_read_only
from tidelog.log.reading import goes_back
from tidelog.record.headers import BatchHeaders, Int64Array, walk_headers
from tidelog.record.layout import CONTROL_BIT
from tidelog.spark.offset_bounds import latest_offset
from tidelog.store.broker_topics import BrokerTopics
from tidelog.store.store_file import read_store_file

GapKind = Literal["compacted", "marker", "aborted", "expired", "lost"]

_FETCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets without a row, from `start_offset` up to `end_offset`; of a summary, between the first of them and the last."""

    partition: TopicPartition
    kind: GapKind
    start_offset: int
    end_offset: int
    missing: int
    """How many offsets in there have no row."""

    @property
    def is_data_loss(self) -> bool:
        """Whether a reader should have had these records."""
        return self.kind in ("expired", "lost")

    def __str__(self) -> str:
        is_one = self.end_offset - self.start_offset == 1
        place = f"at {self.start_offset}" if is_one else f"from {self.start_offset} to {self.end_offset - 1}"
        return f"{self.partition}: {self.missing} offset{'' if self.missing == 1 else 's'} {place} {_SAID[self.kind]}"


_SAID = {
    "compacted": "compacted away",
    "marker": "taken by ends of transactions",
    "aborted": "aborted with their transaction",
    "expired": "expired: the log starts behind",
    "lost": "lost: neither retention nor compaction explains it",
}


@dataclass(frozen=True, slots=True)
class KeptAs:
    """What is known of how a partition is kept."""

    policy: Literal["compact", "delete"] | None = None
    """Whether its cleaner may take records away; None: nobody knows."""
    cleaned_to: int | None = None
    """Up to where a cleaner has been; None: none has."""

    def kind_of_hole(self, start_offset: int) -> GapKind:
        """What a hole between two batches is."""
        was_cleaned = self.cleaned_to is not None and start_offset < self.cleaned_to
        return "lost" if self.policy == "delete" and not was_cleaned else "compacted"


def read_gaps(
    directory: str | os.PathLike[str], start_offset: int = 0, end_offset: int | None = None, *, isolation: Isolation = "committed"
) -> Iterator[Gap]:
    """The gaps of a partition's directory in a range of offsets, in their order; without an end, up to where readers see."""
    with open_read_only(directory) as log:
        end = latest_offset(log, isolation) if end_offset is None else end_offset
        yield from find_gaps(log, start_offset, end, lambda: how_kept(log), isolation=isolation)


def find_gaps(log: ReadOnlyLog, start: int, end: int, kept: Callable[[], KeptAs], *, isolation: Isolation = "committed") -> Iterator[Gap]:
    """The gaps of a log between two offsets, by the headers of its batches. A batch of which records are left is counted where it ends.

    How the log is kept is asked for only where it has a hole.
    """
    stop = min(end, max(latest_offset(log, isolation), log.log_start_offset))
    offset = start
    while offset < stop:
        try:
            fetched = log.fetch(offset, _FETCH_BYTES, isolation=isolation)
        except OffsetOutOfRangeError as error:
            if offset >= error.log_start_offset:
                break  # it was cut off
            behind = min(error.log_start_offset, stop)
            yield Gap(log.partition, "expired", offset, behind, behind - offset)
            offset = behind
            continue
        headers = walk_headers(fetched.data)
        if len(headers) == 0:
            yield Gap(log.partition, kept().kind_of_hole(offset), offset, stop, stop - offset)
            offset = stop
            break
        if (last_offset := int(headers.last_offset[-1])) < offset:
            raise goes_back(log, fetched, offset, last_offset)
        yield from _gaps_of(log.partition, fetched, headers, offset, stop, kept)
        offset = min(stop, last_offset + 1)
    if offset < end:
        yield Gap(log.partition, "lost", offset, end, end - offset)


def _gaps_of(
    partition: TopicPartition, fetched: Fetched, headers: BatchHeaders, offset: int, stop: int, kept: Callable[[], KeptAs]
) -> Iterator[Gap]:
    """What the batches of one fetch leave out, between two offsets."""
    before, starts, ends = _bounds(headers, offset)
    is_data = (headers.magic == 2) & ((headers.attributes & CONTROL_BIT) == 0)
    is_marker = (headers.magic == 2) & ~is_data
    is_hollow = is_data & (headers.count < ends - starts) & (ends <= stop)
    rows: dict[int, list[tuple[GapKind, int, int, int]]] = {}

    def note(row: int, kind: GapKind, first: int, behind: int, missing: int | None = None) -> None:
        first, behind = max(first, offset), min(behind, stop)
        if first < behind:
            rows.setdefault(row, []).append((kind, first, behind, behind - first if missing is None else missing))

    for row in np.flatnonzero(starts > before).tolist():
        note(row, kept().kind_of_hole(int(before[row])), int(before[row]), int(starts[row]))
    for row in np.flatnonzero(is_marker).tolist():
        note(row, "marker", int(starts[row]), int(ends[row]))
    aborted = _aborted_rows(fetched) if len(fetched.aborted_transactions) else set()
    for row in aborted:
        note(row, "aborted", int(starts[row]), int(ends[row]))
    for row in np.flatnonzero(is_hollow).tolist():
        if row not in aborted:
            note(row, "compacted", int(starts[row]), int(ends[row]), _hollow(starts, ends, headers, row))
    for row in sorted(rows):
        for kind, first, behind, missing in rows[row]:
            yield Gap(partition, kind, first, behind, missing)


def _bounds(headers: BatchHeaders, offset: int) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Of each batch where the one before it ends, where it begins, and where it ends."""
    ends = headers.last_offset + 1
    before = np.concatenate([np.array([offset], np.int64), ends[:-1]])
    starts = np.where(headers.base_offset < 0, before, headers.base_offset)  # an old wrapper does not say where it begins
    return before, starts, ends


def holes_between(headers: BatchHeaders, offset: int, stop: int) -> list[tuple[int, int]]:
    """The offsets from one up to another that lie between these batches, or before them."""
    before, starts, _ = _bounds(headers, offset)
    rows = np.flatnonzero(starts > before).tolist()
    return [(int(before[row]), min(int(starts[row]), stop)) for row in rows if before[row] < stop]


def _hollow(starts: Int64Array, ends: Int64Array, headers: BatchHeaders, row: int) -> int:
    return int(ends[row] - starts[row] - headers.count[row])


def _aborted_rows(fetched: Fetched) -> set[int]:
    aborted = AbortedFilter(fetched.aborted_transactions)
    return {row for row, batch in enumerate(fetched.batches) if aborted.is_aborted(batch)}


def summarize(gaps: Iterable[Gap]) -> list[Gap]:
    """One gap for each partition and kind: from the first of its offsets to the last, and how many of them there are."""
    found: dict[tuple[TopicPartition, GapKind], Gap] = {}
    for gap in gaps:
        at = gap.partition, gap.kind
        known = found.get(at)
        found[at] = (
            gap
            if known is None
            else replace(
                known,
                start_offset=min(known.start_offset, gap.start_offset),
                end_offset=max(known.end_offset, gap.end_offset),
                missing=known.missing + gap.missing,
            )
        )
    return list(found.values())


def how_kept(log: ReadOnlyLog) -> KeptAs:
    """What the directory above a partition says about its cleaner."""
    disk = SHARED.disk
    home = str(Path(log.directory).parent)
    try:
        cleaned_to = read_offsets(disk, f"{home}/{CLEANER_CHECKPOINT}").get(log.partition)
    except TidelogError:
        return KeptAs()  # a cleaner may have been everywhere
    try:
        store = read_store_file(disk, home)
    except TidelogError:
        return KeptAs(None, cleaned_to)
    entry = None if store is None else store.topics.get(log.partition.topic)
    if entry is not None:
        if entry.config is None:
            return KeptAs(None, cleaned_to)
        policy = entry.config.get("cleanup.policy")
        # Without a policy of its own the topic has the store's, which is nowhere written down; but who cleans says so in the checkpoint.
        return KeptAs(_policy(policy) if policy or cleaned_to is not None else "delete", cleaned_to)
    described = BrokerTopics(disk, [home]).look()[0].get(log.partition.topic)
    return KeptAs(_policy(described.config.get("cleanup.policy") if described is not None else None), cleaned_to)


def _policy(text: str | None) -> Literal["compact", "delete"] | None:
    if text is None:
        return None
    return "compact" if "compact" in text else "delete"

"""Whether transaction indexes, snapshots and leader epochs are right, by what the batches say: pure functions, each with its reason."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from tidelog.disk.checkpoints import EpochEntry, parse_epochs
from tidelog.errors import CorruptFileError
from tidelog.inspection.repair_state import Epochs, fitting_epochs
from tidelog.log.leader_epoch_cache import truncated_start
from tidelog.log.producers import Marker, ProducerBatch
from tidelog.log.txn_index import ENTRY, VERSION, AbortedTxn


@dataclass(frozen=True, slots=True)
class Expected:
    """What the transaction index of a segment must have."""

    aborted: list[AbortedTxn]
    """By the batches."""
    base_offset: int
    next_offset: int
    is_certain: bool
    """Whether the batches tell everything. Not so in a compacted log, and in one whose beginning was deleted."""


def txn_index_fault(content: bytes | None, expected: Expected, producers: Iterable[ProducerBatch | Marker]) -> tuple[str, bytes]:
    """What is wrong with a transaction index (None: there is none), in words, and what it should hold."""
    wanted = {entry.last_offset: entry for entry in expected.aborted}
    fault = ""
    right: dict[int, AbortedTxn] = {}
    content = content or b""
    if len(content) % ENTRY.size:
        fault = f"its {len(content)} bytes are not a whole number of entries"
    whole = content[: len(content) - len(content) % ENTRY.size]
    markers = {batch.offset: batch for batch in producers if isinstance(batch, Marker)} if whole else {}
    last_offset = -1
    for version, *fields in ENTRY.iter_unpack(whole):
        entry = AbortedTxn(*fields)
        if version != VERSION or entry.last_offset <= last_offset or not _may_be(entry, expected, wanted, markers):
            fault = fault or "an entry is no transaction of this segment"
            continue
        last_offset = entry.last_offset
        right[last_offset] = entry
    missing = [entry for entry in expected.aborted if entry.last_offset not in right]
    if missing:
        fault = fault or ("an aborted transaction is missing" if content else "it is missing, and with it an aborted transaction")
    entries = right | {entry.last_offset: entry for entry in missing}
    return fault, b"".join(entries[offset].pack() for offset in sorted(entries))


def _may_be(entry: AbortedTxn, expected: Expected, wanted: dict[int, AbortedTxn], markers: dict[int, Marker]) -> bool:
    """Whether an entry that was found can be right."""
    known = wanted.get(entry.last_offset)
    if expected.is_certain:
        return entry == known
    if not expected.base_offset <= entry.last_offset < expected.next_offset or not 0 <= entry.first_offset <= entry.last_offset:
        return False
    if known is not None:
        # Of a compacted log the first batches of a transaction may be gone, and those of others that were open then.
        return entry.producer_id == known.producer_id and entry.first_offset <= known.first_offset
    marker = markers.get(entry.last_offset)
    return marker is None or (marker.is_abort and marker.producer_id == entry.producer_id)


@dataclass(frozen=True, slots=True)
class SnapshotNeeds:
    """What becomes of the producer snapshots."""

    rebuilt: tuple[int, ...]
    removed: tuple[int, ...]
    reason: str


def snapshot_needs(
    faults: dict[int, str], bases: list[int], log_start_offset: int, end_offset: int | None, *, has_producers: bool
) -> SnapshotNeeds:
    """By the offsets of the snapshots that there are, with what is wrong with each (nothing if it is sound).

    Those at a segment's base and at the end are written anew; `end_offset` is None where damage leaves it open what producers did, so that
    nothing can be.
    """
    bad = {offset: fault for offset, fault in faults.items() if fault}
    reasons = [f"{offset}: {fault}" for offset, fault in bad.items()]
    if end_offset is None:
        return SnapshotNeeds((), tuple(sorted(bad)), "; ".join(reasons))
    places = {offset for offset in (*bases, end_offset) if log_start_offset < offset <= end_offset}
    rebuilt = places & bad.keys()
    if not rebuilt and len(bad) == len(faults) and has_producers:
        rebuilt = places & {*bases[-2:], end_offset}
        if rebuilt:
            reasons.append("there is none, and after a clean stop a broker would not know the log's producers")
    return SnapshotNeeds(tuple(sorted(rebuilt)), tuple(sorted(bad.keys() - rebuilt)), "; ".join(reasons))


def epochs_fault(
    text: bytes | None, path: str, from_batches: Epochs, starts: list[tuple[int, int]], log_start_offset: int, end_offset: int
) -> tuple[str, Epochs]:
    """What is wrong with the epoch checkpoint (None: there is none), in words, and what it should hold.

    `starts` are the epochs of the batches, with the offsets at which each begins.
    """
    fault = ""
    found: list[EpochEntry] = []
    if text is None:
        fault = "it is missing" if from_batches else ""
    else:
        try:
            found = parse_epochs(text, path)
        except CorruptFileError as error:
            fault = error.what
    if not fault and any(a.epoch >= b.epoch or a.start_offset >= b.start_offset for a, b in pairwise(found)):
        fault = "its entries do not go up"
    if not fault and found and found[-1].start_offset > max(end_offset, log_start_offset):
        fault = f"an epoch starts behind the end of the log, {end_offset}"
    # Below the log start the file is cut; where that is not known, its first entry tells.
    lowest = max(log_start_offset, found[0].start_offset if found else 0)
    starts = _undisputed(starts)
    behind = [start for _, start in starts[1:]] + [end_offset]
    for (epoch, start), next_start in zip(starts, behind, strict=False):
        if not fault and next_start > lowest and _epoch_at(found, max(start, lowest)) != epoch:
            fault = f"it does not know that the batch at offset {start} has epoch {epoch}"
    return fault, truncated_start(fitting_epochs(found, from_batches, end_offset), log_start_offset)


def _undisputed(starts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Epochs that no later batch contradicts by having a lower one: Kafka forgets those that one does."""
    kept: list[tuple[int, int]] = []
    for epoch, start in starts:
        while epoch >= 0 and kept and kept[-1][0] > epoch:
            kept.pop()
        if epoch >= 0 and (not kept or kept[-1][0] < epoch):
            kept.append((epoch, start))
    return kept


def _epoch_at(entries: list[EpochEntry], offset: int) -> int:
    return max((entry.epoch for entry in entries if entry.start_offset <= offset), default=-1)

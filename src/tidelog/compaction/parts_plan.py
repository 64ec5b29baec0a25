"""How one log is compacted in parts: its pieces, its groups, and what workers have to know of it. Made on the owner's side, from facts."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tidelog.compaction.cleaning import aborted_from, log_mtime_ns
from tidelog.compaction.grouping import SegmentGroup, group_segments
from tidelog.compaction.key_scan import start_in
from tidelog.compaction.last_records import last_records_of
from tidelog.compaction.offset_map import BYTES_PER_ENTRY
from tidelog.compaction.piece_scan import ScanFacts
from tidelog.compaction.plan import CleaningPlan, sizes_of
from tidelog.compaction.rules import LastRecord, keeps_legacy_tombstones
from tidelog.log.log_reading import LogReading
from tidelog.log.segment import Segment
from tidelog.log.segment_piece import SegmentPiece, cut_segments
from tidelog.log.txn_index import AbortedTxn

BUCKET_BYTES = 24 << 20
"""Of entries, at most and about: what the search through a bucket takes of memory goes with it."""
MAX_BUCKETS = 1 << 16
_MIN_RECORD_BYTES = 8
_FEW_ENTRIES = 1 << 17


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What workers have to know of a segment."""

    end_offset: int
    """Where the next one begins."""
    mtime_ns: int
    keeps_legacy: bool
    aborted: tuple[AbortedTxn, ...]
    """The aborted transactions that are known from its beginning on."""


@dataclass(frozen=True, slots=True)
class LogParts:
    """One log, in parts."""

    plan: CleaningPlan
    segments: tuple[Segment, ...]
    """Those that are rewritten, the ones that were cleaned before too."""
    facts: dict[int, SegmentFacts]
    """By base offset."""
    pieces: tuple[SegmentPiece, ...]
    groups: tuple[SegmentGroup, ...]
    scan: ScanFacts
    scan_base: int
    scan_position: int
    """Where the cleaner would begin to look for keys."""
    scan_aborted: tuple[AbortedTxn, ...]
    last_records: dict[int, LastRecord]


def plan_parts(log: LogReading, plan: CleaningPlan, *, secret: bytes, piece_bytes: int, workers: int) -> LogParts:
    """Cut a log into parts. `workers` is how many there are to share it."""
    first, bound, start = plan.first_dirty_offset, plan.bound, log.log_start_offset
    every = log.segments
    segments = tuple(segment for segment in every[:-1] if segment.base_offset < bound)
    pieces = tuple(cut_segments(segments, piece_bytes))
    ends = {segment.base_offset: later.base_offset for segment, later in pairwise(every)}
    dirty = [segment for segment in segments if ends[segment.base_offset] > first]
    clean = [segment for segment in every if segment.base_offset < first]
    clean_mtime_ms = log_mtime_ns(clean[-1]) // 1_000_000 if clean else None
    has_txn_index = any(segment.txn_index.size_bytes for segment in every)
    facts = {}
    for segment in segments:
        mtime_ns = log_mtime_ns(segment)
        aborted = aborted_from(every, segment.base_offset, start, ends[segment.base_offset]) if has_txn_index else []
        keeps = keeps_legacy_tombstones(mtime_ns // 1_000_000, clean_mtime_ms, plan.config.delete_retention_ms)
        facts[segment.base_offset] = SegmentFacts(ends[segment.base_offset], mtime_ns, keeps, tuple(aborted))
    scan_aborted = tuple(aborted_from(every, first, start, bound)) if has_txn_index else ()
    return LogParts(
        plan,
        segments,
        facts,
        pieces,
        group_segments([sizes_of(segment) for segment in segments], plan.config, bound),
        ScanFacts(first, choose_buckets(segments, bound, workers), secret, bool(scan_aborted)),
        dirty[0].base_offset if dirty else bound,
        start_in(dirty[0], first) if dirty else 0,
        scan_aborted,
        last_records_of(log),
    )


def choose_buckets(segments: Sequence[Segment], bound: int, workers: int) -> int:
    """How many buckets: so many that none needs much memory, and enough for all workers if there is something to share."""
    if not segments:
        return 1
    most_records = min(bound - segments[0].base_offset, sum(segment.size_bytes for segment in segments) // _MIN_RECORD_BYTES)
    if most_records <= _FEW_ENTRIES:
        return 1
    return min(MAX_BUCKETS, max(workers, -(-most_records * BYTES_PER_ENTRY // BUCKET_BYTES)))

"""One log on its way through a compaction in parts: what is known of it so far, and what became of it in the end."""

from dataclasses import dataclass, field, fields

from tidelog.compaction.cleaned_segment import CleanedSizes
from tidelog.compaction.cleaning import CleanedLog
from tidelog.compaction.parts_plan import LogParts
from tidelog.compaction.parts_tasks import FollowedLog
from tidelog.compaction.piece_rewriting import RewrittenUnit, Unit
from tidelog.compaction.piece_scan import ScannedPiece
from tidelog.compaction.stats import CleanerStats, Counts
from tidelog.errors import NullKeysError, TidelogError
from tidelog.log.log import Log


@dataclass(slots=True)
class RunningLog:
    """One log on its way."""

    number: int
    log: Log
    parts: LogParts
    scanned: list[ScannedPiece] = field(default_factory=list)
    followed: FollowedLog | None = None
    kept_files: tuple[str, ...] = ()
    keys: int = 0
    kept: int = 0
    """Records that survive."""
    units: list[Unit] = field(default_factory=list)
    rewritten: list[RewrittenUnit] = field(default_factory=list)
    groups: dict[int, tuple[str, CleanedSizes]] = field(default_factory=dict)
    failure: TidelogError | None = None
    why_whole: str | None = None
    """Why it cannot be done in parts."""

    @property
    def goes_on(self) -> bool:
        """Whether nothing has stopped it."""
        return self.failure is None and self.why_whole is None

    @property
    def kept_share(self) -> float:
        """How much of it stays, by the number of records: about so much of its bytes."""
        records = sum(scanned.all_records for scanned in self.scanned)
        return min(1.0, self.kept / records) if records else 1.0


@dataclass(frozen=True, slots=True)
class NotInParts:
    """A log that has to be cleaned in one go, and why: its offsets do not rise, or are too far apart, or its index leads astray."""

    why: str


Outcome = CleanedLog | TidelogError | NotInParts


def null_keys(one: RunningLog) -> tuple[int, list[int]]:
    """How many records have no key, and the offsets of the first."""
    count = sum(scanned.null_keys for scanned in one.scanned)
    offsets = [offset for scanned in one.scanned for offset in scanned.null_key_offsets]
    if one.followed is not None and one.parts.scan.has_aborted:
        count += one.followed.keyless
        offsets += one.followed.keyless_offsets
    return count, sorted(offsets)[:100]


def check_null_keys(one: RunningLog, *, drop_null_keys: bool) -> None:
    """Records without a key stop a log, unless they may be dropped."""
    count, offsets = null_keys(one)
    if count and not drop_null_keys:
        one.failure = NullKeysError(one.parts.plan.partition, offsets=tuple(offsets), count=count, path=one.log.directory)


def outcome_of(one: RunningLog, elapsed_ms: float) -> Outcome:
    """What became of it."""
    plan = one.parts.plan
    if one.why_whole is not None:
        return NotInParts(one.why_whole)
    if one.failure is not None:
        return one.failure
    counts = Counts()
    for unit in one.rewritten:
        for name in (each.name for each in fields(Counts) if each.type is int or each.type == "int"):
            setattr(counts, name, getattr(counts, name) + getattr(unit.counts, name))
    stats = CleanerStats(
        bytes_read=counts.bytes_read,
        bytes_written=counts.bytes_written,
        messages_read=counts.messages_read,
        messages_written=counts.messages_written,
        map_bytes_read=sum(scanned.dirty_bytes for scanned in one.scanned),
        map_messages_read=sum(scanned.records for scanned in one.scanned),
        invalid_messages_read=counts.invalid_messages_read,
        tombstones_removed=counts.tombstones_removed,
        markers_removed=counts.markers_removed,
        aborted_messages_removed=counts.aborted_messages_removed,
        batches_kept_empty=counts.batches_kept_empty,
        segments_before=len(one.parts.segments),
        segments_after=len(one.parts.groups),
        map_entries=one.keys,
        peak_extra_bytes=sum(sum(size or 0 for size in sizes) for _, sizes in one.groups.values()),
        elapsed_ms=elapsed_ms,
    )
    return CleanedLog(plan.partition, plan.bound, plan, stats, False, tuple(null_keys(one)[1]))

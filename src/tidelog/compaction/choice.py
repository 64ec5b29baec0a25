"""Would a log be cleaned now, and why not? Kafka's choice of the log to clean, as pure functions over facts.

    log start      first dirty            bound   first uncleanable        active segment
        |  clean bytes  |   cleanable bytes  |          |                        |

Below the first dirty offset the log was cleaned before. The first uncleanable offset is where open transactions, records younger than
`min.compaction.lag.ms`, or the active segment begin. Cleaning takes whole segments, so it ends at the bound before that.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.config import LogConfig


class CleanableSegment(NamedTuple):
    """What the choice looks at in a segment."""

    base_offset: int
    end_offset: int
    size_bytes: int
    largest_timestamp_ms: int
    first_timestamp_ms: int | None
    """The largest timestamp of its first batch; None if it is empty."""
    is_active: bool


class CleanableLog(NamedTuple):
    """What the choice looks at in a log."""

    segments: Sequence[CleanableSegment]
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    checkpoint: int | None
    """The first dirty offset that `cleaner-offset-checkpoint` has for it."""


class CleaningChoice(NamedTuple):
    """Whether a log would be cleaned now, and why."""

    is_eligible: bool
    why: str
    first_dirty_offset: int = 0
    first_uncleanable_offset: int = 0
    clean_bytes: int = 0
    cleanable_bytes: int = 0
    must_compact: bool = False
    """Something is older than `max.compaction.lag.ms` allows."""

    @property
    def dirty_ratio(self) -> float:
        """Of the bytes that a cleaning would read, how many were never cleaned."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def choose(log: CleanableLog, config: LogConfig, now_ms: int) -> CleaningChoice:
    """Whether the log would be cleaned now. Among several that would, the one with the highest ratio goes first."""
    if not config.is_compacted:
        return CleaningChoice(False, f"cleanup.policy={','.join(config.cleanup_policy) or 'none'} does not have compact")
    first_dirty = first_dirty_offset(log)
    first_uncleanable, limit = first_uncleanable_offset(log, config, first_dirty, now_ms)
    bound = bound_below(log, first_uncleanable, first_dirty)
    clean_bytes = sum(segment.size_bytes for segment in log.segments if segment.base_offset < first_dirty)
    cleanable = [segment for segment in log.segments if segment.base_offset < bound and segment.end_offset > first_dirty]
    cleanable_bytes = sum(segment.size_bytes for segment in cleanable)
    oldest = [
        segment.first_timestamp_ms
        for segment in _dirty(log, first_dirty)
        if segment.first_timestamp_ms is not None and segment.first_timestamp_ms > 0
    ]
    must_compact = bool(oldest) and min(oldest) < now_ms - config.max_compaction_lag_ms
    found = CleaningChoice(False, "", first_dirty, first_uncleanable, clean_bytes, cleanable_bytes, must_compact)
    is_eligible, why = _verdict(log, config, found, limit)
    return found._replace(is_eligible=is_eligible, why=why)


def choose_bound(log: CleanableLog, choice: CleaningChoice) -> int:
    """Where a cleaning would end: whole segments only."""
    return bound_below(log, choice.first_uncleanable_offset, choice.first_dirty_offset)


def bound_below(log: CleanableLog, first_uncleanable: int, first_dirty: int) -> int:
    """The base of the segment that has the first uncleanable offset."""
    return max((segment.base_offset for segment in log.segments if segment.base_offset <= first_uncleanable), default=first_dirty)


def first_dirty_offset(log: CleanableLog) -> int:
    """Where the log was never cleaned. A checkpoint outside of the log does not count."""
    if log.checkpoint is None or not log.log_start_offset <= log.checkpoint <= log.log_end_offset:
        return log.log_start_offset
    return log.checkpoint


def first_uncleanable_offset(log: CleanableLog, config: LogConfig, first_dirty: int, now_ms: int) -> tuple[int, str]:
    """From where on nothing may be cleaned, and what is there."""
    limits = [(log.segments[-1].base_offset, "the active segment begins there")]
    if log.last_stable_offset < log.log_end_offset:
        limits.append((log.last_stable_offset, "what follows is not decided yet, or not below the high watermark"))
    if config.min_compaction_lag_ms > 0:
        for segment in _dirty(log, first_dirty):
            if segment.largest_timestamp_ms > now_ms - config.min_compaction_lag_ms:
                limits.append((segment.base_offset, f"what follows is younger than min.compaction.lag.ms={config.min_compaction_lag_ms}"))
                break
    offset, why = min(limits)
    return max(offset, first_dirty), why


def _dirty(log: CleanableLog, first_dirty: int) -> list[CleanableSegment]:
    return [segment for segment in log.segments if not segment.is_active and segment.end_offset > first_dirty]


def _verdict(log: CleanableLog, config: LogConfig, found: CleaningChoice, limit: str) -> tuple[bool, str]:
    if log.log_start_offset >= log.log_end_offset:
        return False, "it is empty"
    if found.cleanable_bytes == 0:
        if found.first_uncleanable_offset <= found.first_dirty_offset:
            return False, f"nothing is dirty below offset {found.first_uncleanable_offset}: {limit}"
        return False, "nothing is dirty"
    ratio = f"{found.dirty_ratio:.3f}"
    if found.must_compact:
        return True, f"its oldest dirty record is older than max.compaction.lag.ms={config.max_compaction_lag_ms}"
    if found.dirty_ratio > config.min_cleanable_dirty_ratio:
        return True, f"its dirty ratio {ratio} is above min.cleanable.dirty.ratio={config.min_cleanable_dirty_ratio}"
    return False, f"its dirty ratio {ratio} is not above min.cleanable.dirty.ratio={config.min_cleanable_dirty_ratio}"

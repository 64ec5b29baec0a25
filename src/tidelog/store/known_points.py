"""Which points of the past a log can still tell about: the rule, and nothing else.

A log that was never cleaned, and begins at offset 0, has every state it ever had. Where records were taken away it has not:

    cleaned up to F     below F only the last record of each key is left. The state as of offset F - 1, or of a later one, is whole: all
                        that is missing had a successor by then. As of an earlier offset a key may be missing whose value was replaced
                        between there and F. What is found is right all the same: what is left below F was the last of its key there
    starts at S > 0     retention, or somebody, took everything below S away. A point below S has nothing left of it

F is what the cleaner's checkpoint says. A gap in the offsets at or above it, or where there is no checkpoint, was made by a cleaner that
did not come to write it down, or whose checkpoint is lost; how far that one came nobody knows, but it never touches the active segment.

As of a time means: the records whose timestamp is not above it, in offset order. So a time can be told once it is not before the newest
record that is left below F. A tombstone that was removed does not count there: it had its time, and `delete.retention.ms` is over.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidelog.disk.names import TopicPartition
from tidelog.errors import UnknownPastError

ANY = -1
"""As a first known point: everything can be told."""


@dataclass(frozen=True, slots=True)
class PastFacts:
    """What a log shows of what was taken away from it."""

    partition: TopicPartition
    directory: str
    log_start_offset: int
    log_end_offset: int
    active_base_offset: int
    cleaned_to: int | None
    """The first dirty offset, as the cleaner's checkpoint has it; None without one."""
    gap_end: int | None
    """Behind the last offset that is missing at or above `cleaned_to`; None if none is."""
    first_timestamp_ms: int = ANY
    """Of the first batch that is there."""


@dataclass(frozen=True, slots=True)
class KnownFrom:
    """From which point on the states of a partition can be told."""

    partition: TopicPartition
    directory: str
    first_offset: int
    """The first offset as of which the state is whole; -1: all of them."""
    first_timestamp_ms: int
    """The same as a time."""
    why: str | None
    """What was taken away; None if nothing was."""

    def tells_offset(self, offset: int) -> bool:
        """Whether the state as of an offset, which counts itself, is whole."""
        return self.tells_all or offset >= self.first_offset

    def tells_time(self, timestamp_ms: int) -> bool:
        """The same as of a time."""
        return self.tells_all or timestamp_ms >= self.first_timestamp_ms

    @property
    def tells_all(self) -> bool:
        """Whether every state can be told, and with it the whole history."""
        return self.why is None


def compacted_to(facts: PastFacts) -> int:
    """Below this offset a cleaner may have taken records away; at most the start of the log if none has."""
    checkpointed = min(facts.cleaned_to or 0, facts.log_end_offset)
    if facts.gap_end is None:
        return checkpointed
    return max(checkpointed, facts.active_base_offset, facts.gap_end)


def known_from(facts: PastFacts, newest_below_ms: int) -> KnownFrom:
    """The rule. `newest_below_ms` is the largest timestamp of what is left below `compacted_to`."""
    start, cleaned = facts.log_start_offset, compacted_to(facts)
    if cleaned > start:
        last = cleaned - 1
        why = (
            f"was compacted up to offset {last}"
            if facts.gap_end is None
            else f"has gaps, so it may have been compacted up to offset {last}"
        )
        first = max(last, start)
        return KnownFrom(facts.partition, facts.directory, first, max(newest_below_ms, facts.first_timestamp_ms if start else ANY), why)
    if start > 0:
        why = f"starts at offset {start}, what was before is gone"
        return KnownFrom(facts.partition, facts.directory, start, facts.first_timestamp_ms, why)
    return KnownFrom(facts.partition, facts.directory, ANY, ANY, None)


def gap_end(spans: Iterable[tuple[int, int, int]], expected: int) -> int | None:
    """Behind the last gap, of spans of batches in their order: first offset, last offset, and how many records they have, markers too.

    `expected` is the first offset that should be there. Where a gap is inside of a span it ends where the span does. A first offset of -1
    is one that nobody knows, as of old formats: it is taken for the one that should be there.
    """
    found = None
    for start, last, count in spans:
        first = expected if start < 0 else start
        if last - first + 1 > count:
            found = last + 1
        elif first > expected:
            found = first
        expected = max(expected, last + 1)
    return found


def check_state(known: Sequence[KnownFrom], *, offsets: dict[TopicPartition, int] | None, timestamp_ms: int | None) -> None:
    """Raise if the state as of a point cannot be told: as of a time, or of an offset of each partition. Without either, that of now can."""
    for one in known:
        if timestamp_ms is not None and not one.tells_time(timestamp_ms):
            raise unknown_past(known, f"the state as of {timestamp_ms} ms cannot be told", one, timestamp_ms)
        at = None if offsets is None else offsets.get(one.partition)
        if at is not None and not one.tells_offset(at):
            raise unknown_past(known, f"the state as of offset {at} cannot be told", one, at)


def check_history(known: Sequence[KnownFrom]) -> None:
    """Raise if the history from the beginning cannot be told."""
    for one in known:
        if not one.tells_all:
            raise unknown_past(known, "the history from its beginning cannot be told", one, "the beginning")


def unknown_past(known: Sequence[KnownFrom], what: str, one: KnownFrom, asked: object) -> UnknownPastError:
    """The error that names the first point that can be told, of this partition and of all."""
    first_ms = max(other.first_timestamp_ms for other in known)
    return UnknownPastError(
        f"{what}: {one.partition} {one.why}",
        path=one.directory,
        expected=f"offset {one.first_offset} or later, or for all partitions {first_ms} ms or later",
        found=asked,
        first_offset=one.first_offset,
        first_timestamp_ms=first_ms,
        hint="allow_incomplete=True gives what is left",
    )

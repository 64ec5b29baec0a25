"""What has to be so of a log when a split of it was read: that nobody has taken records away which the plan counted on.

A cleaner swaps segments one group after the other, and writes its checkpoint when all are swapped. So the checkpoint tells too late: a task
that reads meanwhile finds some segments as they were and some without the records that have a successor. What tells at once is which files
the segments are. They travel with the plan, and are compared when the split was read:

    the same files                       nothing was taken away from what was read, whatever the checkpoint says
    removed below the start of the log   by retention: who came too late to read them has raised
    any other file                       a cleaner is, or was, at work, and may have come up to the active segment

Files are known by their inodes, which a file system gives away again. Two passes after each other may therefore look like none, but the
first of them has left its checkpoint.
"""

from typing import NamedTuple

from tidelog.disk.names import LOG
from tidelog.errors import UnknownPastError
from tidelog.log.read_only import ReadOnlyLog, open_read_only
from tidelog.log.read_only_segment import ReadOnlySegment
from tidelog.spark.splits import Split
from tidelog.store.known_points import KnownFrom
from tidelog.store.log_past import checkpointed, settled_outline

_END = 1 << 63


class SegmentSeen(NamedTuple):
    """A segment as it was found. Small: it travels with every split that reads of it."""

    base_offset: int
    end_offset: int
    """Where the next one begins; of the active segment beyond everything."""
    inode: int


class Guard(NamedTuple):
    """What a split counts on."""

    segments: tuple[SegmentSeen, ...]
    """That it reads of."""
    cleaned_to: int
    """The cleaner's checkpoint as it was."""
    offset: int | None = None
    """The state as of this offset has to be whole."""
    timestamp_ms: int | None = None
    """The same as of a time; neither: everything from the beginning."""

    @classmethod
    def of(
        cls, split: Split, segments: tuple[SegmentSeen, ...], cleaned_to: int, *, offset: int | None = None, timestamp_ms: int | None = None
    ) -> "Guard":
        """That of a split, given all segments of its log."""
        own = tuple(one for one in segments if one.base_offset < split.end_offset and one.end_offset > split.start_offset)
        return cls(own, cleaned_to, offset, timestamp_ms)

    def check(self, split: Split) -> None:
        """Raise if the log may have lost what the split was to read, while it was read or before."""
        with open_read_only(split.directory) as log:
            is_rewritten = self._is_rewritten(log)
            cleaned_to = checkpointed(log) or 0
            if not is_rewritten and cleaned_to <= self.cleaned_to:
                return
            found = settled_outline(log)
        known = found.known_if_rewritten() if is_rewritten else found.known(())
        if not self._tells(known):
            raise UnknownPastError(
                f"{split.topic}-{split.partition} was compacted since this was planned",
                path=split.directory,
                expected="the segments as they were, or nothing cleaned behind the point that is asked for",
                found="other segments" if is_rewritten else f"cleaned up to offset {cleaned_to}",
                first_offset=known.first_offset,
                first_timestamp_ms=known.first_timestamp_ms,
                hint="plan it again",
            )

    def _is_rewritten(self, log: ReadOnlyLog) -> bool:
        now = {one.base_offset: one.inode for one in seen_segments(log)}
        return any(now.get(one.base_offset) != one.inode and one.end_offset > log.log_start_offset for one in self.segments)

    def _tells(self, known: KnownFrom) -> bool:
        if self.timestamp_ms is not None:
            return known.tells_time(self.timestamp_ms)
        return known.tells_all if self.offset is None else known.tells_offset(self.offset)


def seen_segments(log: ReadOnlyLog) -> tuple[SegmentSeen, ...]:
    """The segments of a log as of its last look."""
    segments = [segment for segment in log.segments if isinstance(segment, ReadOnlySegment) and LOG in segment.files]
    ends = [*(segment.base_offset for segment in segments[1:]), _END]
    return tuple(SegmentSeen(segment.base_offset, end, segment.files[LOG].inode) for segment, end in zip(segments, ends, strict=True))

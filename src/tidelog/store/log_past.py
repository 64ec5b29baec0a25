"""Look what was taken away from a log: its start, the cleaner's checkpoint, and gaps in its offsets, by headers alone.

The looking for gaps goes over the part above the checkpoint only. It can be shared out: the pieces and what they have (`span_of`) are
small values, so that a job on Spark lets executors walk over them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tidelog.disk.checkpoints import read_offsets
from tidelog.disk.disk import OS, Disk
from tidelog.disk.names import CLEANER_CHECKPOINT, TopicPartition
from tidelog.errors import CorruptFileError
from tidelog.inspection.stats import piece_stats
from tidelog.log.log_reading import LogReading
from tidelog.log.segment_piece import SegmentPiece, cut_segment
from tidelog.log.storage_errors import storage_error
from tidelog.record.headers import walk_headers
from tidelog.store.known_points import KnownFrom, PastFacts, compacted_to, gap_end, known_from

Span = tuple[int, int, int]
"""First offset, or -1 if nobody knows, last offset, records with markers."""
_MAX_TRIES = 100
_WHOLE = 1 << 62
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogOutline:
    """What a log shows at once; what is missing for an answer is what its pieces have."""

    facts: PastFacts
    """As if there were no gaps."""
    newest_ms: tuple[tuple[int, int], ...]
    """The base offset of each segment, and its largest timestamp, by its time index."""
    pieces: tuple[SegmentPiece, ...]
    """To be looked through for gaps."""

    def known(self, spans: Iterable[Span | None]) -> KnownFrom:
        """The answer, given what the pieces have, in their order."""
        facts = self.facts
        expected = max(facts.cleaned_to or 0, facts.log_start_offset)
        own = [span for span in spans if span is not None and span[1] >= expected]
        return self._known(replace(facts, gap_end=gap_end(_from(own, expected), expected)))

    def known_if_rewritten(self) -> KnownFrom:
        """The answer where a cleaner was seen at work: it may have come up to the active segment.

        Its gaps do not tell that. Below the checkpoint nobody looks for any, and there a pass that is not over yet begins.
        """
        return self._known(replace(self.facts, gap_end=self.facts.active_base_offset))

    def _known(self, facts: PastFacts) -> KnownFrom:
        bound = compacted_to(facts)
        return known_from(facts, max((newest_ms for base, newest_ms in self.newest_ms if base < bound), default=-1))


def look_at_past(log: LogReading) -> KnownFrom:
    """From which point on the states of a log can be told. Walks over the headers of what the cleaner has not seen."""

    def look() -> KnownFrom:
        found = outline(log, _WHOLE)
        return found.known([span_of(piece, _disk_of(log)) for piece in found.pieces])

    return settled(log, look)


def settled_outline(log: LogReading) -> LogOutline:
    """What the log shows at once, of segments that were all there while it was looked at."""
    return settled(log, lambda: outline(log, _WHOLE))


def settled(log: LogReading, look: Callable[[], T]) -> T:
    """What a look at the files of a log gives. It is made again where a segment was swapped or removed meanwhile."""
    for attempt in range(_MAX_TRIES):
        try:
            return look()
        except FileNotFoundError:
            if attempt + 1 == _MAX_TRIES:
                raise
            log.refresh()
    raise AssertionError("the last try raises")


def outline(log: LogReading, piece_bytes: int) -> LogOutline:
    """What the log shows by names, checkpoints and indexes, and in pieces of about which size the rest is to be looked through."""
    cleaned_to, start = checkpointed(log), log.log_start_offset
    facts = PastFacts(
        log.partition,
        log.directory,
        start,
        log.log_end_offset,
        log.segments[-1].base_offset,
        cleaned_to,
        None,
        _first_timestamp_ms(log) if start else -1,
    )
    newest = tuple((segment.base_offset, segment.max_timestamp.timestamp_ms) for segment in log.segments)
    return LogOutline(facts, newest, tuple(_uncleaned(log, max(cleaned_to or 0, start), piece_bytes)))


def checkpointed(log: LogReading) -> int | None:
    """What the cleaner's checkpoint says about a log; None if it says nothing, or is damaged."""
    home = log.directory.rpartition("/")[0]
    try:
        return read_offsets(_disk_of(log), f"{home}/{CLEANER_CHECKPOINT}").get(TopicPartition(*log.partition))
    except CorruptFileError:
        return None  # a cleaner may have been anywhere: gaps tell
    except OSError as error:
        raise storage_error(error, home, "reading the cleaner's checkpoint failed") from error


def span_of(piece: SegmentPiece, disk: Disk = OS) -> Span | None:
    """What a piece has, by its headers; None if that is nothing."""
    found = piece_stats(piece, records=False, disk=disk)
    if found.first_offset is None or found.last_offset is None:
        return None
    is_known = all(magic >= 2 for magic in found.magics)  # a compressed message of an old format says only where it ends
    return found.first_offset if is_known else -1, found.last_offset, found.records + found.markers


def _uncleaned(log: LogReading, start: int, piece_bytes: int) -> Iterator[SegmentPiece]:
    """The segments that the cleaner's checkpoint does not speak for, in pieces."""
    for place, segment in enumerate(log.segments):
        behind = log.segments[place + 1].base_offset if place + 1 < len(log.segments) else log.log_end_offset
        if behind <= start:
            continue
        begin = 0
        if segment.base_offset < start and segment.index.entries:
            begin = max(0, segment.index.locate(start)[1])
        for piece in cut_segment(segment, piece_bytes):
            if piece.end > begin:
                yield replace(piece, start=max(begin, piece.start))


def _from(spans: Sequence[Span], expected: int) -> list[Span]:
    """Without what lies below: a batch, or an entry of the index, may begin before the offset that is asked about."""
    return [
        (expected, last, min(count, last - expected + 1)) if 0 <= first < expected else (first, last, count) for first, last, count in spans
    ]


def _first_timestamp_ms(log: LogReading) -> int:
    if log.log_start_offset >= log.log_end_offset:
        return -1
    headers = walk_headers(log.fetch(log.log_start_offset, 1, isolation="log_end").data)
    return int(headers.max_timestamp_ms[0]) if len(headers) else -1


def _disk_of(log: LogReading) -> Disk:
    return log.segments[-1].pool.disk

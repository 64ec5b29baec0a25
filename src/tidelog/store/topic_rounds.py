"""Read the partitions of a topic in rounds. A round gives what is visible when it begins; whoever follows asks for another one.

A round by itself never waits, so the same rounds serve a thread that sleeps between them and an event loop that must not.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Literal, NamedTuple

from tidelog.errors import LogClosedError, OffsetOutOfRangeError
from tidelog.log.log_reading import Isolation
from tidelog.log.positions import EARLIEST, LATEST, Time, epoch_ms
from tidelog.log.reading import DEFAULT_POLL_S, Overtaken, resolve
from tidelog.record.kernel.record import Record
from tidelog.store.merging import merge_by_time
from tidelog.store.topic_range import PartitionRange

Merge = Literal["time"]


class RoundSettings(NamedTuple):
    """How to read."""

    isolation: Isolation
    follow: bool = False
    merge: Merge | None = None
    when_overtaken: Overtaken = "raise"
    poll_s: float = DEFAULT_POLL_S

    def check(self) -> "RoundSettings":
        """These, if they are possible."""
        if self.merge not in (None, "time"):
            raise ValueError(f"merge is None or 'time', not {self.merge!r}")
        if self.when_overtaken not in ("raise", "skip"):
            raise ValueError(f"when_overtaken is 'raise' or 'skip', not {self.when_overtaken!r}")
        if not self.poll_s > 0:
            raise ValueError(f"poll_s is a time in seconds above 0, not {self.poll_s!r}")
        return self


class Rounds:
    """The ranges of some partitions, read a round at a time. One thread at a time."""

    def __init__(self, ranges: list[PartitionRange], settings: RoundSettings) -> None:
        self._left = ranges
        self._settings = settings.check()
        self._first: list[tuple[PartitionRange, int]] | None = self._bounds()

    @property
    def is_done(self) -> bool:
        """Whether no further round will bring anything."""
        return not self._left

    def next_round(self) -> Iterator[Record]:
        """What is visible now and was not given yet. The round before it has to be read to its end first.

        The bounds of the first round are those of the moment in which this object was made.
        """
        bounds, self._first = (self._bounds() if self._first is None else self._first), None
        settings = self._settings
        # A partition with nothing new is not read at all: of many that are followed, most have nothing new.
        parts = [
            part.log.read(part.start, stop, isolation=settings.isolation, when_overtaken=settings.when_overtaken)
            for part, stop in bounds
            if part.start is EARLIEST or (isinstance(part.start, int) and part.start < stop)
        ]
        for part, stop in bounds:
            # What the round brings ends here; if it is not read to its end nobody asks for another.
            part.start = max(stop, part.start) if isinstance(part.start, int) else stop
        self._left = [part for part, _ in bounds if settings.follow and not _has_ended(part)]
        if len(parts) == 1:
            return parts[0]
        return merge_by_time(parts) if settings.merge == "time" else chain.from_iterable(parts)

    def _bounds(self) -> list[tuple[PartitionRange, int]]:
        """Up to which offset each partition can be read now."""
        return [(part, self._bound(part)) for part in self._left]

    def _bound(self, part: PartitionRange) -> int:
        log, isolation = part.log, self._settings.isolation
        if log.is_closed:
            raise LogClosedError("the log is closed", path=log.directory)
        log.refresh()
        if not self._settings.follow:
            return min(resolve(log, part.end, isolation), resolve(log, LATEST, isolation))
        visible = resolve(log, LATEST, isolation)
        if isinstance(part.start, int) and part.start > log.log_end_offset:
            raise OffsetOutOfRangeError(
                offset=part.start, log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset, path=log.directory
            )
        if isinstance(part.end, (Time, datetime)):
            found = log.offset_for_time(max(0, epoch_ms(part.end)), isolation=isolation)
            if found is not None:
                part.end = found.offset  # from now on known: a record has reached the time
        elif part.end is EARLIEST:
            part.end = resolve(log, EARLIEST, isolation)
        return min(visible, part.end) if isinstance(part.end, int) else visible


def _has_ended(part: PartitionRange) -> bool:
    return isinstance(part.end, int) and isinstance(part.start, int) and part.start >= part.end


def follow_rounds(rounds: Rounds, poll_s: float) -> Iterator[Record]:
    """Round after round, until there will be nothing more; after one that brought nothing it waits."""
    while not rounds.is_done:
        is_empty = True
        for record in rounds.next_round():
            is_empty = False
            yield record
        if is_empty and not rounds.is_done:
            time.sleep(poll_s)

"""The segments of a log as one immutable value, replaced whole: who reads takes a view and needs no lock."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

from tidelog.errors import ForkedError
from tidelog.log.segment import Segment


class Bound(NamedTuple):
    """An offset with its place: nothing at or behind it is read."""

    offset: int
    base_offset: int
    """Of its segment."""
    position: int
    """Where in that segment it lies."""


class View(NamedTuple):
    """The segments in order. The last one is active."""

    segments: tuple[Segment, ...]
    base_offsets: tuple[int, ...]

    @classmethod
    def of(cls, segments: Iterable[Segment]) -> "View":
        """A view of these segments."""
        found = tuple(segments)
        return cls(found, tuple(segment.base_offset for segment in found))

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self.segments[-1]

    def floor(self, offset: int) -> int:
        """The place of the segment that holds an offset, if any does: the last whose base is not above it; -1 below the first."""
        return bisect_right(self.base_offsets, offset) - 1

    @property
    def end(self) -> Bound:
        """The log end offset with its place."""
        active = self.segments[-1]
        next_offset, size_bytes = active.end
        # Called by its name it would take twice as long, and every read up to the log end comes by here.
        return tuple.__new__(Bound, (next_offset, active.base_offset, size_bytes))


class ForkedView(View):
    """What a forked child has in place of its parent's view: whoever reads by it is told, and those who do not fork look for nothing."""

    def _refuse(self, *_: object) -> NoReturn:
        raise forked(self.directory)

    directory = ""
    segments: Any = property(_refuse)
    base_offsets: Any = property(_refuse)
    active: Any = property(_refuse)
    end: Any = property(_refuse)
    floor: Any = _refuse

    @classmethod
    def instead_of(cls, view: View, directory: str) -> "ForkedView":
        """In place of a view; the segments are in it, at 0, for who closes them."""
        forked_view = cls(*view)
        forked_view.directory = directory
        return forked_view


def forked(directory: str) -> ForkedError:
    """What a log says to a forked child."""
    return ForkedError("opened before this process was forked", path=directory, hint="open it in the child")

"""Which segments a directory has that somebody else renames and removes in.

One listing says little meanwhile: a file may be missed under its old name and its new one. So it is listed until two listings in a row have
the same names. And a segment's size is final only if it was asked for after its successor was seen.
"""

from itertools import islice, pairwise

from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import DELETED, LOG, OLD_DELETED, SNAPSHOT
from tidelog.log.leftovers import MAX_FILES, Files, relevant, resolve
from tidelog.log.read_only_segment import LearnedTxns, ReadOnlySegment
from tidelog.log.segment_base import SegmentEnd
from tidelog.log.segment_read import next_offset_of

_MAX_TRIES = 100
_MAX_SNAPSHOT_BYTES = 256 << 20
_NOT_TELLING = (SNAPSHOT, DELETED, OLD_DELETED)


class Listing:
    """The segments of a directory as of the last look. One thread at a time."""

    def __init__(self, pool: FilePool, directory: str, learned: LearnedTxns) -> None:
        self.pool = pool
        self.directory = directory
        self.segments: dict[int, ReadOnlySegment] = {}
        """By base offset, ascending. A segment whose files are the same stays the same object."""
        self.snapshots: frozenset[int] = frozenset()
        """Offsets of the producer snapshots."""
        self._learned = learned
        self._names: frozenset[str] = frozenset()

    def look(self) -> None:
        """Find the segments. What is known changes only when all of it is."""
        if not self._names:
            listed = (name for name in self.pool.disk.names(self.directory) if _matters(name))
            self._names = frozenset(islice(listed, MAX_FILES + 1))  # `relevant` refuses more
        for _ in range(_MAX_TRIES):
            found = relevant(self.directory, self.pool.disk.look(self.directory))
            names = frozenset(entry.name for _, entry in found if _matters(entry.name))
            is_settled = names == self._names
            self._names = names
            if is_settled:
                break
        files = resolve(found, self._next_offset_of)
        segments = {base: self._segment(base, files[base]) for base in sorted(files) if LOG in files[base]}
        bases = list(segments)
        for base, next_base in pairwise(bases):
            segment = segments[base]
            segment.next_base = next_base
            if segment.end[0] >= 0:
                segment.forget_newest()  # it was the last one
            segment.end = SegmentEnd(-1, files[base][LOG].size_bytes)
        for base, segment in self.segments.items():
            if segments.get(base) is not segment:
                segment.forget()
        self.segments = segments
        self.snapshots = frozenset(
            base for base in files if SNAPSHOT in files[base] and files[base][SNAPSHOT].size_bytes <= _MAX_SNAPSHOT_BYTES
        )

    def _segment(self, base_offset: int, files: Files) -> ReadOnlySegment:
        """The segment that these files are; the same object as before if they are the same files."""
        known = self.segments.get(base_offset)
        if known is not None and _identity(known.files) == _identity(files):
            return known
        return ReadOnlySegment(self.pool, self.directory, base_offset, files, self._learned)

    def _next_offset_of(self, base_offset: int, files: Files) -> int:
        segment = ReadOnlySegment(self.pool, self.directory, base_offset, files, self._learned)
        try:
            return next_offset_of(segment)
        finally:
            segment.forget()


def _matters(name: str) -> bool:
    """Whether a name tells which segments there are."""
    return name[0].isdigit() and not name.endswith(_NOT_TELLING)


def _identity(files: Files) -> dict[str, tuple[str, int]]:
    return {kind: (entry.name, entry.inode) for kind, entry in files.items() if kind != SNAPSHOT}

"""What a reader in another process knows of a log, and how it learns more. It changes no file, and takes no lock of the owner's.

One look is:

    1  what the owner has published, and the checkpoints above       so that the files are at least as far
    2  the names in the directory, if it has changed                 until two listings in a row have the same
    3  which files make up the segments                              (`leftovers`)
    4  the end of the last segment                                   (`read_only_tail`)
    5  start, end, and the bound up to which readers see

Two listings, since one says little while somebody renames: a file may be missed under its old name and its new one. And a segment's size is
final only if it was asked for after its successor was seen. A file that has gone since it was listed begins the look anew.
"""

import threading
import time
from itertools import pairwise

from tidelog.disk.checkpoints import parse_offsets
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import DELETED, LOG, LOG_START_OFFSET_CHECKPOINT, OLD_DELETED, REPLICATION_CHECKPOINT, SNAPSHOT, TopicPartition
from tidelog.disk.published_end import FlushedEnd, read_published_end
from tidelog.errors import CorruptFileError, DamagedLogError, LogClosedError, LogNotFoundError
from tidelog.log.leftovers import Files, relevant, resolve
from tidelog.log.read_only_files import Watch, open_plain
from tidelog.log.read_only_segment import LearnedTxns, ReadOnlySegment
from tidelog.log.read_only_tail import Tail
from tidelog.log.read_only_transactions import ReadOnlyTransactions
from tidelog.log.segment import SegmentEnd
from tidelog.log.segment_read import find_offset, next_offset_of
from tidelog.log.storage_errors import storage_error
from tidelog.log.view import Bound, View

_MAX_TRIES = 100
_MAX_CHECKPOINT_BYTES = 256 << 20
_MAX_SNAPSHOT_BYTES = 256 << 20

_NOT_TELLING = (SNAPSHOT, DELETED, OLD_DELETED)


class ReadOnlyState:
    """A `Readable` over somebody else's directory. Looks are made by one thread at a time; what is known may be read by any."""

    def __init__(self, pool: FilePool, directory: str, home: str, partition: TopicPartition) -> None:
        self.pool = pool
        self.directory = directory
        self.partition = partition
        self.is_closed = False
        self.view = View((), ())
        self.log_start_offset = 0
        self.high_watermark = Bound(0, 0, 0)
        self.published: FlushedEnd | None = None
        self._lock = threading.RLock()
        self._watch = Watch(pool.disk, directory)
        self._checkpoints = [
            _Checkpoint(pool, f"{home}/{name}", partition) for name in (LOG_START_OFFSET_CHECKPOINT, REPLICATION_CHECKPOINT)
        ]
        self._names: frozenset[str] = frozenset()
        self._segments: dict[int, ReadOnlySegment] = {}
        self._snapshots: frozenset[int] = frozenset()
        self._tail: Tail | None = None
        self._learned = LearnedTxns()
        self._transactions = ReadOnlyTransactions(pool.disk, directory, self._learned)
        self._stable: tuple[View, Bound, Bound] | None = None
        """The last stable offset, for a view and a high watermark."""

    # Looking

    def look(self, *, again: bool = False) -> None:
        """Learn what has changed. `again`: list the directory whatever its modification time says."""
        with self._lock:
            if self.is_closed:
                raise LogClosedError("the log is closed", path=self.directory)
            for attempt in range(_MAX_TRIES):
                try:
                    self._look(again=again or attempt > 0)
                except FileNotFoundError as error:
                    if not self.pool.disk.exists(self.directory):
                        raise LogNotFoundError("no such directory", path=self.directory) from error
                    last = error
                    self._watch.forget()
                    time.sleep(0.0005 * attempt)
                except OSError as error:
                    raise storage_error(error, self.directory, "reading failed") from error
                else:
                    return
            raise storage_error(last, self.directory, "a file stays away that the directory names") from last

    def wait_for_writer(self) -> None:
        """A file was not there any more: look which ones are."""
        self.look(again=True)

    def _look(self, *, again: bool) -> None:
        published = read_published_end(self.pool.disk, self.directory)
        start, watermark = (checkpoint.read() for checkpoint in self._checkpoints)
        is_behind = published is not None and bool(self._segments) and published.segment_base_offset > max(self._segments)
        if self._watch.has_changed() or again or is_behind or not self.view.segments:
            self._list()
        if self._segments:
            active = self._segments[max(self._segments)]
            if self._tail is None or self._tail.segment is not active:
                if self._tail is not None and self._segments.get(self._tail.segment.base_offset) is not self._tail.segment:
                    self._forget_transactions()  # what was the end is not even there any more
                self._tail = Tail(active)
            starts = self._tail.starts
            self._tail.look()
            if starts and self._tail.starts > starts:
                self._forget_transactions()  # it was cut
            if (
                published is not None
                and (published.segment_base_offset, published.position) == (active.base_offset, self._tail.position)
                and published.offset > self._tail.next_offset
            ):
                # A truncation took a batch whole, but the log goes on where it was told to: only its owner knows.
                active.end = SegmentEnd(published.offset, self._tail.position)
        self.published = published
        self._settle(start, watermark)

    def _forget_transactions(self) -> None:
        self._transactions.forget()
        self._stable = None

    def _list(self) -> None:
        """Find the segments. Their order in memory changes only when all of it is known."""
        if not self._names:
            self._names = frozenset(name for name in self.pool.disk.names(self.directory) if _matters(name))
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
        for base, segment in self._segments.items():
            if segments.get(base) is not segment:
                segment.forget()
        self._segments = segments
        self._snapshots = frozenset(
            base for base in files if SNAPSHOT in files[base] and files[base][SNAPSHOT].size_bytes <= _MAX_SNAPSHOT_BYTES
        )

    def _segment(self, base_offset: int, files: Files) -> ReadOnlySegment:
        """The segment that these files are; the same object as before if they are the same files."""
        known = self._segments.get(base_offset)
        if known is not None and _identity(known.files) == _identity(files):
            return known
        return ReadOnlySegment(self.pool, self.directory, base_offset, files, self._learned)

    def _next_offset_of(self, base_offset: int, files: Files) -> int:
        segment = ReadOnlySegment(self.pool, self.directory, base_offset, files, self._learned)
        try:
            return next_offset_of(segment)
        finally:
            segment.forget()

    # What follows from it

    def _settle(self, start: int | None, watermark: int | None) -> None:
        """Work out start, end and bound, and let readers have them."""
        published = self.published
        segments = tuple(self._segments.values())
        # A truncation below the start takes it along; what is published while it goes on has the end already.
        published_start = min(published.log_start_offset, published.offset) if published is not None else 0
        log_start_offset = max(start or 0, published_start, segments[0].base_offset if segments else 0)
        if not segments or segments[-1].end[0] < log_start_offset:
            # All of it was deleted, or never was: an empty log that begins there.
            empty = ReadOnlySegment(self.pool, self.directory, log_start_offset, {}, self._learned)
            empty.end = SegmentEnd(log_start_offset, 0)
            segments = (empty,)
        view = View.of(segments)
        bound = self._bound(view, log_start_offset, watermark)
        if [*segments] != [*self.view.segments]:
            if bound.offset < self.high_watermark.offset:
                self.high_watermark = bound  # never a bound beyond what the view has
            self.view = view
        self.log_start_offset = log_start_offset
        self.high_watermark = bound

    def _bound(self, view: View, log_start_offset: int, watermark: int | None) -> Bound:
        """Up to where readers see: what cannot be taken back."""
        published = self.published
        end = view.end
        target = max(log_start_offset, watermark or 0, published.offset if published is not None else 0)
        if published is not None and published.offset > end.offset:
            self._check_published(published, view)
        if target >= end.offset:
            return end
        if published is not None and published.offset == target and published.segment_base_offset == end.base_offset:
            return Bound(target, end.base_offset, min(published.position, end.position))
        return self.place(view, target)

    def _check_published(self, published: FlushedEnd, view: View) -> None:
        """Raise if the bytes are there that were flushed, but are bad: that is damage, and not to be passed over in silence."""
        tail = self._tail
        if tail is None or view.segments[-1] is not tail.segment or published.segment_base_offset != tail.segment.base_offset:
            return
        opened = tail.segment.file.open()
        size = self.pool.disk.size(opened.fd)
        is_there = tail.position < published.position <= size
        if is_there and read_published_end(self.pool.disk, self.directory) == published:
            raise DamagedLogError(
                "what its owner has flushed is damaged" if tail.stopped is None else f"what its owner has flushed: {tail.stopped.what}",
                path=tail.segment.file.path,
                position=tail.position,
                expected=f"sound batches up to byte {published.position}",
                found="others",
                hint='nothing was changed; isolation="log_end" does not help, "salvage" does',
            )

    def place(self, view: View, offset: int) -> Bound:
        """An offset with its place in a view."""
        for segment in view.segments[max(0, view.floor(offset)) :]:
            found = find_offset(segment, offset, segment.size_bytes) if segment.size_bytes else None
            if found is not None:
                return Bound(offset, segment.base_offset, found.position)
        return view.end._replace(offset=min(offset, view.end.offset))

    @property
    def last_stable(self) -> Bound:
        """The first offset that readers of committed records do not see, with its place."""
        with self._lock:
            watermark, view = self.high_watermark, self.view
            if self._stable is None or self._stable[0] is not view or self._stable[1] != watermark:
                first = self._transactions.first_open_offset(view, self._snapshots, self.log_start_offset, watermark)
                place = watermark
                if first is not None and first < watermark.offset:
                    place = self.place(view, max(first, self.log_start_offset))
                self._stable = view, watermark, place
            return self._stable[2]

    @property
    def has_files(self) -> bool:
        """Whether there is a segment at all; without one, an empty log has one without files."""
        return any(LOG in segment.files for segment in self.view.segments if isinstance(segment, ReadOnlySegment))

    def close(self) -> None:
        """Let go of all files."""
        with self._lock:
            self.is_closed = True
            for segment in self._segments.values():
                segment.forget()


def _matters(name: str) -> bool:
    """Whether a name tells which segments there are."""
    return name[0].isdigit() and not name.endswith(_NOT_TELLING)


def _identity(files: Files) -> dict[str, tuple[str, int]]:
    return {kind: (entry.name, entry.inode) for kind, entry in files.items() if kind != SNAPSHOT}


class _Checkpoint:
    """The entry of one partition in a checkpoint file of the directory above."""

    def __init__(self, pool: FilePool, path: str, partition: TopicPartition) -> None:
        self._pool = pool
        self._path = path
        self._partition = partition
        self._watch = Watch(pool.disk, path)
        self._offset: int | None = None

    def read(self) -> int | None:
        """What it says now; None if nothing. A file that does not parse counts as empty, as for Kafka."""
        if self._watch.has_changed():
            self._offset = self._read()
        return self._offset

    def _read(self) -> int | None:
        try:
            opened = open_plain(self._pool, self._path)
            if (size := self._pool.disk.size(opened.fd)) > _MAX_CHECKPOINT_BYTES:
                return None
            return parse_offsets(self._pool.disk.read(opened.fd, size, 0), self._path).get(self._partition)
        except (OSError, CorruptFileError):
            return None

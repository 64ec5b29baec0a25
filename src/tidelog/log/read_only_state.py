"""What a reader in another process knows of a log, and how it learns more. It changes no file, and takes no lock of the owner's.

One look is:

    1  what the owner has published, and the checkpoints above       so that the files are at least as far
    2  the names in the directory, if it has changed                 (`read_only_listing`)
    3  which files make up the segments                              (`leftovers`)
    4  the end of the last segment                                   (`read_only_tail`)
    5  start, end, and the bound up to which readers see

A file that has gone since it was listed begins the look anew.
"""

import logging
import threading
import time

from tidelog.disk.clean_shutdown import marker_exists
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import LOG, LOG_START_OFFSET_CHECKPOINT, REPLICATION_CHECKPOINT, TopicPartition
from tidelog.disk.published_end import FlushedEnd, Published, look_at_published_end, read_published_end
from tidelog.errors import DamagedLogError, LogClosedError, LogNotFoundError
from tidelog.log.producers import ProducerEntry
from tidelog.log.read_only_checkpoint import Checkpoint
from tidelog.log.read_only_files import Watch
from tidelog.log.read_only_listing import Listing
from tidelog.log.read_only_segment import LearnedTxns, ReadOnlySegment
from tidelog.log.read_only_tail import Tail
from tidelog.log.read_only_transactions import ReadOnlyTransactions
from tidelog.log.segment_base import SegmentEnd
from tidelog.log.segment_read import find_offset
from tidelog.log.storage_errors import storage_error
from tidelog.log.view import Bound, View

_MAX_TRIES = 100
_logger = logging.getLogger(__name__)


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
        self._start = Checkpoint(pool, f"{home}/{LOG_START_OFFSET_CHECKPOINT}", partition)
        self._watermark = Checkpoint(pool, f"{home}/{REPLICATION_CHECKPOINT}", partition)
        self._tail: Tail | None = None
        self._was_end_told = False
        """Whether the end was not that of the last batch, but what the owner said."""
        self._told: tuple[str, int] | None = None
        """The damage at the end that was told of: file and position."""
        self._learned = LearnedTxns()
        self._listing = Listing(pool, directory, self._learned)
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
        found = self._look_at_published_end()
        start, watermark = self._start.read(), self._watermark.read()
        is_behind = found is not None and bool(self._listing.segments) and found.end.segment_base_offset > max(self._listing.segments)
        if self._watch.has_changed() or again or is_behind or not self.view.segments:
            self._listing.look()
        published = found.end if found is not None and self._still_counts(found, watermark) else None
        if self._listing.segments:
            active = self._listing.segments[max(self._listing.segments)]
            if self._tail is None or self._tail.segment is not active:
                known = self._tail
                if known is not None and (
                    self._listing.segments.get(known.segment.base_offset) is not known.segment or not known.is_still_there()
                ):
                    self._forget_transactions()  # what was the end is not even there any more
                self._tail = Tail(active)
            starts = self._tail.starts
            self._tail.look()
            if starts and self._tail.starts > starts:
                self._forget_transactions()  # it was cut
            is_end_told = (
                published is not None
                and (published.segment_base_offset, published.position) == (active.base_offset, self._tail.position)
                and published.offset > self._tail.next_offset
            )
            if published is not None and is_end_told:
                # A truncation took a batch whole, but the log goes on where it was told to: only its owner knows.
                active.end = SegmentEnd(published.offset, self._tail.position)
            elif self._was_end_told:
                self._forget_transactions()  # it may have been told again to go on somewhere below, where nobody has looked
            self._was_end_told = is_end_told
        self.published = published
        self._settle(start, watermark)

    def _look_at_published_end(self) -> Published | None:
        try:
            return look_at_published_end(self.pool.disk, self.directory)
        except OSError:
            self.pool.drop_all()  # perhaps the process has no descriptor left, but for these
            return look_at_published_end(self.pool.disk, self.directory)

    def _still_counts(self, found: Published, watermark: int | None) -> bool:
        """Whether what was published says something about this log still.

        While its owner lives it does. Of one that was killed, what is flushed stays flushed until somebody takes over, which shows in
        two things: a high watermark that was checkpointed since, and bytes that were written since. Each by itself proves nothing:
        the checkpoint is shared by all partitions, and the last write of an owner may not have come to be published.
        """
        if found.is_owned or watermark is None or self._watermark.written_ns <= found.written_ns:
            return True
        segment = self._listing.segments.get(found.end.segment_base_offset)
        return segment is not None and self.pool.disk.mtime_ns(segment.path_of(LOG)) <= found.written_ns

    def _forget_transactions(self) -> None:
        self._transactions.forget()
        self._stable = None

    # What follows from it

    def _settle(self, start: int | None, watermark: int | None) -> None:
        """Work out start, end and bound, and let readers have them."""
        published = self.published
        segments = tuple(self._listing.segments.values())
        # A truncation below the start takes it along; what is published while it goes on has the end already.
        published_start = min(published.log_start_offset, published.offset) if published is not None else 0
        log_start_offset = max(start or 0, published_start, segments[0].base_offset if segments else 0)
        if not segments or segments[-1].end[0] < log_start_offset:
            # All of it was deleted, or never was: an empty log that begins there.
            empty = ReadOnlySegment(self.pool, self.directory, log_start_offset, {}, self._learned)
            empty.end = SegmentEnd(log_start_offset, 0)
            segments = (empty,)
        view = View.of(segments)
        try:
            bound = self._bound(view, log_start_offset, watermark)
        except DamagedLogError:
            # What is sound can be read; whoever asks for more looks again, and is told.
            self.high_watermark, self.view = min(self.high_watermark, view.end), view
            raise
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
        if published is None and (watermark or 0) > end.offset:
            self._check_closed(view)
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

    def _check_closed(self, view: View) -> None:
        """Raise if the log was closed in order, and has bytes where it ends that are no batches: no crash has left them.

        If it was not, or its owner runs, a power cut may have: then it is told, once.
        """
        tail = self._tail
        if tail is None or view.segments[-1] is not tail.segment or tail.stopped is None:
            return
        path, position = tail.segment.file.path, tail.position
        if not marker_exists(self.pool.disk, self.directory.rpartition("/")[0]):
            if self._told != (path, position):
                self._told = path, position
                _logger.warning(
                    "%s: the log ends at byte %d (offset %d), below its high watermark: %s; verify says more",
                    path,
                    position,
                    view.end.offset,
                    tail.stopped.what,
                )
            return
        raise DamagedLogError(
            f"it was closed in order, but is damaged: {tail.stopped.what}",
            path=path,
            position=position,
            expected="sound batches up to its end",
            found="others",
            hint='nothing was changed; "salvage" keeps what is sound',
        )

    def place(self, view: View, offset: int) -> Bound:
        """An offset with its place in a view."""
        for segment in view.segments[max(0, view.floor(offset)) :]:
            if offset <= segment.base_offset:
                return Bound(offset, segment.base_offset, 0)  # not looked for: what a crash left behind the bound may be no batch
            found = find_offset(segment, offset, segment.size_bytes) if segment.size_bytes else None
            if found is not None:
                return Bound(offset, segment.base_offset, found.position)
            if isinstance(segment, ReadOnlySegment) and segment.size_bytes > segment.sound_bytes:
                # The batch that holds it is cut off: what is there of it lies behind the bound, though segments follow.
                return Bound(offset, segment.base_offset, segment.sound_bytes)
        return view.end._replace(offset=min(offset, view.end.offset))

    @property
    def last_stable(self) -> Bound:
        """The first offset that readers of committed records do not see, with its place."""
        with self._lock:
            watermark, view = self.high_watermark, self.view
            if self._stable is None or self._stable[0] is not view or self._stable[1] != watermark:
                first = self._transactions.first_open_offset(view, self._listing.snapshots, self.log_start_offset, watermark)
                place = watermark
                if first is not None and first < watermark.offset:
                    place = self.place(view, max(first, self.log_start_offset))
                self._stable = view, watermark, place
            return self._stable[2]

    def open_transactions(self) -> tuple[ProducerEntry, ...]:
        """The producers that have a transaction open below the high watermark, by where it begins."""
        with self._lock:
            _ = self.last_stable  # brings what is known up to there
            return self._transactions.producers()

    @property
    def has_files(self) -> bool:
        """Whether there is a segment at all; without one, an empty log has one without files."""
        return any(LOG in segment.files for segment in self.view.segments if isinstance(segment, ReadOnlySegment))

    def close(self) -> None:
        """Let go of all files."""
        with self._lock:
            self.is_closed = True
            for segment in self._listing.segments.values():
                segment.forget()

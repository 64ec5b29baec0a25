"""The reading side of a log: fetch by offset, look up by time, iterate. It takes no lock and changes nothing.

What it works on is a `Readable`: a view of the segments, bounds and a start, each replaced whole by whoever owns the log. Up to which bound
it goes is the isolation:

    high_watermark   what cannot be taken back
    committed        as far as every transaction is decided; aborted ones are named, and left out of records
    log_end          whatever is there
"""

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

from tidelog.disk.names import TopicPartition
from tidelog.errors import CorruptBatchError, LogClosedError, OffsetOutOfRangeError
from tidelog.log import time_lookup
from tidelog.log.aborted import aborted_in
from tidelog.log.fetched import Fetched
from tidelog.log.positions import EARLIEST, LATEST, Position
from tidelog.log.reading import DEFAULT_POLL_S, Reading, iterate_batches, iterate_records
from tidelog.log.segment import Segment
from tidelog.log.segment_read import Slice, read_slice
from tidelog.log.storage_errors import storage_error
from tidelog.log.time_lookup import OffsetAndTimestamp
from tidelog.log.txn_index import AbortedTxn
from tidelog.log.view import Bound, View
from tidelog.record.batch import RecordBatch
from tidelog.record.kernel.record import Record
from tidelog.record.legacy import LegacyBatch

Isolation = Literal["log_end", "high_watermark", "committed"]

DEFAULT_MAX_BATCH_BYTES = 0x7FFFFFFF
_MAX_TRIES = 100


class Readable(Protocol):
    """What reading needs to know of a log."""

    view: View
    log_start_offset: int
    partition: TopicPartition
    directory: str
    is_closed: bool

    @property
    def high_watermark(self) -> Bound:
        """The first offset that readers do not see, with its place."""

    @property
    def last_stable(self) -> Bound:
        """The first offset that readers of committed records do not see, with its place."""

    def wait_for_writer(self) -> None:
        """Return when nobody is renaming files."""


class LogReading:
    """The reading half of `Log`."""

    _state: Readable
    partition: TopicPartition

    @property
    def directory(self) -> str:
        """Its directory."""
        return self._state.directory

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._state.is_closed

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Its segments as they are now, in order."""
        return self._state.view.segments

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self._state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The next offset to be assigned."""
        return self._state.view.active.end[0]

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def high_watermark(self) -> int:
        """The first offset that readers do not see yet."""
        return self._state.high_watermark.offset

    @property
    def last_stable_offset(self) -> int:
        """The first offset that readers of committed records do not see yet."""
        return self._bound("committed", self._state.view).offset

    def _bound(self, isolation: Isolation, view: View) -> Bound:
        """Up to where an isolation goes. A log opened for reading may have to read batches to know."""
        if isolation == "high_watermark":
            return self._state.high_watermark
        if isolation == "log_end":
            return view.end
        if isolation != "committed":
            raise ValueError(f"isolation is 'high_watermark', 'committed' or 'log_end', not {isolation!r}")
        for tries in range(1, _MAX_TRIES + 2):
            try:
                return self._state.last_stable
            except OSError as error:
                self._look_again(self._state.view, error, tries)
        raise AssertionError("looking again raises in the end")

    def refresh(self) -> None:
        """Look what others have done to the log. The owner of a log knows."""

    def is_outdated(self, fetched: Fetched) -> bool:
        """Whether what was fetched is no longer what the log has there: it was cut while it was read, and went on differently."""
        try:
            again = self.fetch(fetched.offset, max(1, len(fetched.data)), isolation="log_end")
        except OffsetOutOfRangeError:
            return True
        return again.data != fetched.data

    def fetch(
        self,
        offset: int,
        max_bytes: int,
        *,
        isolation: Isolation = "high_watermark",
        min_one: bool = True,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    ) -> Fetched:
        """Bytes from the batch that holds `offset` on, at most `max_bytes`, of one segment.

        With `min_one` the first batch is whole even if it is larger, up to `max_batch_bytes`. With isolation "committed" the
        answer names the aborted transactions that overlap it.
        """
        state = self._state
        tries = 0
        while True:
            if state.is_closed:
                raise LogClosedError("the log is closed", path=self.directory)
            view = state.view
            watermark = state.high_watermark
            # A call less for what most ask for.
            bound = watermark if isolation == "high_watermark" else view.end if isolation == "log_end" else self._bound(isolation, view)
            start, end_offset = state.log_start_offset, view.segments[-1].end[0]
            place = view.floor(offset)
            if offset < start or offset > end_offset or place < 0:
                raise OffsetOutOfRangeError(offset=offset, log_start_offset=start, log_end_offset=end_offset, path=self.directory)
            aborted: Sequence[AbortedTxn] = ()
            try:
                found = _fetch(view, place, offset, max_bytes, bound, min_one, max_batch_bytes)
                if isolation == "committed" and found is not None:
                    aborted = aborted_in(view, found[0], offset, found[1].position + len(found[1].data))
            except OSError as error:
                tries += 1
                self._look_again(view, error, tries)
                continue
            except CorruptBatchError:
                tries += 1
                if state.view is view or tries > _MAX_TRIES:
                    raise
                continue  # it was cut under the reader, who looked at what is not there any more
            if found is None:
                return Fetched(b"", offset, bound.base_offset, bound.position, False, start, watermark.offset, end_offset)
            segment, (data, position, is_incomplete) = found
            return Fetched(data, offset, segment.base_offset, position, is_incomplete, start, watermark.offset, end_offset, aborted)

    def offset_for_time(self, timestamp_ms: int, *, isolation: Isolation = "high_watermark") -> OffsetAndTimestamp | None:
        """The first record at or after a time. Negative values ask for Kafka's special offsets (`tidelog.log.time_lookup`).

        None if there is none below the bound of the isolation.
        """
        state = self._state
        tries = 0
        while True:
            if state.is_closed:
                raise LogClosedError("the log is closed", path=self.directory)
            view = state.view
            bound = self._bound(isolation, view)
            try:
                found = time_lookup.list_offset(view, timestamp_ms, state.log_start_offset, bound)
            except OSError as error:
                tries += 1
                self._look_again(view, error, tries)
                continue
            return found

    def _look_again(self, view: View, error: OSError, tries: int) -> None:
        """A segment of the view was renamed or deleted before it was opened: try again. Anything else is the disk's refusal to read.

        A file that is not there under any of its names, with nobody renaming, is gone; a writer that does nothing but rename is not
        believed for ever.
        """
        if not isinstance(error, FileNotFoundError) or tries > _MAX_TRIES:
            raise storage_error(error, self.directory, "reading failed") from error
        if self._state.view is view:
            self._state.wait_for_writer()

    @property
    def earliest(self) -> OffsetAndTimestamp:
        """The beginning of the log."""
        return OffsetAndTimestamp(self.log_start_offset, -1)

    @property
    def latest(self) -> OffsetAndTimestamp:
        """What comes next, for readers."""
        return OffsetAndTimestamp(self.high_watermark, -1)

    @property
    def max_timestamp(self) -> OffsetAndTimestamp | None:
        """The first record with the largest timestamp."""
        return self.offset_for_time(time_lookup.MAX_TIMESTAMP)

    def batches(
        self,
        start: Position = EARLIEST,
        end: Position = LATEST,
        *,
        isolation: Isolation = "high_watermark",
        when_overtaken: Literal["raise", "skip"] = "raise",
        follow: bool = False,
        poll_s: float = DEFAULT_POLL_S,
    ) -> Iterator[RecordBatch | LegacyBatch]:
        """The batches of data from one position to another, each as a view. See `read`; a fetch has control batches too."""
        return iterate_batches(self, start, end, Reading(isolation, when_overtaken, poll_s if follow else None))

    def read(
        self,
        start: Position = EARLIEST,
        end: Position = LATEST,
        *,
        isolation: Isolation = "high_watermark",
        when_overtaken: Literal["raise", "skip"] = "raise",
        follow: bool = False,
        poll_s: float = DEFAULT_POLL_S,
    ) -> Iterator[Record]:
        """The records from one position up to, not including, another: offsets, times, EARLIEST, LATEST.

        With `follow` it goes on at the end, and looks for more every `poll_s` seconds: up to `end`, or for ever if that is LATEST.
        If the log start offset overtakes the reading, `OffsetOutOfRangeError` says where the log starts now; with "skip" it goes on there.
        """
        return iterate_records(self, start, end, Reading(isolation, when_overtaken, poll_s if follow else None))


def _fetch(
    view: View, place: int, offset: int, max_bytes: int, bound: Bound, min_one: bool, max_batch_bytes: int
) -> tuple[Segment, Slice] | None:
    """Look in the segment at `place` and, where it has nothing at or above the offset, in those behind it."""
    bound_offset, bound_base, bound_position = bound
    if offset >= bound_offset:
        return None
    for segment in view.segments[place:]:
        base_offset = segment.base_offset
        if base_offset > bound_base:
            break
        max_position = bound_position if base_offset == bound_base else segment.end[1]
        found = read_slice(segment, offset, max_bytes, max_position, min_one, max_batch_bytes)
        if found is not None:
            return segment, found
    return None

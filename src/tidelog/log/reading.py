"""Iterate over a log: fetch after fetch, each from a view of its own, so that roll, retention and compaction may go on meanwhile."""

import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from tidelog.disk.names import LOG, segment_file
from tidelog.errors import CorruptBatchError, OffsetOutOfRangeError, TidelogError, UnsupportedMagicError
from tidelog.log.aborted import AbortedFilter
from tidelog.log.positions import EARLIEST, LATEST, Position, Time, epoch_ms
from tidelog.record.batch import RecordBatch
from tidelog.record.kernel.record import Record
from tidelog.record.legacy import LegacyBatch

if TYPE_CHECKING:
    from tidelog.log.fetched import Fetched
    from tidelog.log.log_reading import Isolation, LogReading

FETCH_BYTES = 1 << 20
DEFAULT_POLL_S = 0.1
Overtaken = Literal["raise", "skip"]
_Located = TypeVar("_Located", bound=TidelogError)


class Reading(NamedTuple):
    """How to read."""

    isolation: "Isolation"
    when_overtaken: Overtaken
    poll_s: float | None
    """How often to look for more at the end; None: the end is the end."""


def resolve(log: "LogReading", position: Position, isolation: "Isolation") -> int:
    """The offset of a position; of a time, that of the first record not before it, or the end where there is none."""
    if position is EARLIEST:
        return log.log_start_offset
    if isinstance(position, (Time, datetime)):
        found = log.offset_for_time(max(0, epoch_ms(position)), isolation=isolation)
        return _end(log, isolation) if found is None else found.offset
    if position is LATEST:
        return _end(log, isolation)
    if isinstance(position, bool) or not isinstance(position, int):
        raise TypeError(f"a position is an offset, a Time, a datetime, EARLIEST or LATEST, not {position!r}")
    return position


def _end(log: "LogReading", isolation: "Isolation") -> int:
    if isolation == "committed":
        return log.last_stable_offset
    return log.log_end_offset if isolation == "log_end" else log.high_watermark


def _stop(log: "LogReading", end: Position, reading: Reading) -> int | None:
    """The offset before which to stop; None while it is not known: following the end, or up to a time that no record has reached."""
    if reading.poll_s is None:
        return resolve(log, end, reading.isolation)
    if end is LATEST:
        return None
    if isinstance(end, (Time, datetime)):
        found = log.offset_for_time(max(0, epoch_ms(end)), isolation=reading.isolation)
        return None if found is None else found.offset
    return resolve(log, end, reading.isolation)


def iterate_batches(log: "LogReading", start: Position, end: Position, reading: Reading) -> Iterator[RecordBatch | LegacyBatch]:
    """Batches of data with a record in the range; the first and the last may reach beyond it."""
    for batch, _, _ in _iterate(log, start, end, reading, is_checked=False):
        yield batch


def iterate_records(log: "LogReading", start: Position, end: Position, reading: Reading) -> Iterator[Record]:
    """Data records in the range; every CRC is checked."""
    topic, partition = log.partition
    for batch, offset, stop in _iterate(log, start, end, reading, is_checked=True):
        for record in batch.records(topic=topic, partition=partition):
            if stop is not None and record.offset >= stop:
                return
            if record.offset >= offset:
                yield record


def _iterate(
    log: "LogReading", start: Position, end: Position, reading: Reading, *, is_checked: bool
) -> Iterator[tuple[RecordBatch | LegacyBatch, int, int | None]]:
    """Each batch of data with the first offset in it that is wanted, and the first that is not any more."""
    if reading.when_overtaken not in ("raise", "skip"):
        raise ValueError(f"when_overtaken is 'raise' or 'skip', not {reading.when_overtaken!r}")
    log.refresh()
    stop = _stop(log, end, reading)
    offset = resolve(log, start, reading.isolation)
    while stop is None or offset < stop:
        try:
            fetched = log.fetch(offset, FETCH_BYTES, isolation=reading.isolation)
        except OffsetOutOfRangeError as error:
            if reading.when_overtaken == "skip" and offset < error.log_start_offset:
                offset = error.log_start_offset
                continue
            raise
        if not fetched.data:
            if reading.poll_s is None:
                return
            time.sleep(reading.poll_s)
            log.refresh()
            stop = _stop(log, end, reading) if stop is None else stop
            continue
        if stop is None:
            stop = _stop(log, end, reading)  # what was fetched may be the first to reach the time
        before = offset
        aborted = AbortedFilter(fetched.aborted_transactions)
        try:
            for batch in fetched.batches:
                if batch.last_offset < offset:
                    raise goes_back(log, fetched, offset, batch.last_offset)
                if stop is not None and batch.base_offset >= stop:
                    return
                if is_checked:
                    batch.ensure_valid()
                if not aborted.is_aborted(batch) and not batch.is_control:
                    yield batch, offset, stop
                offset = batch.last_offset + 1
            if offset == before:
                raise cut_off(log, fetched)
        except (CorruptBatchError, UnsupportedMagicError) as error:
            # The bytes of a log that somebody else cuts and writes on may change while they are read.
            if not log.is_outdated(fetched):
                raise placed(error, log, fetched)  # noqa: B904 - the same error


def goes_back(log: "LogReading", fetched: "Fetched", offset: int, found: int) -> CorruptBatchError:
    """What a fetch brings begins with the batch that was asked for, and goes up from there: anything else is damage."""
    return CorruptBatchError(
        f"offsets of batches go back in segment {fetched.segment_base_offset}",
        path=log.directory,
        expected=f"a last offset of {offset} or more",
        found=found,
    )


def cut_off(log: "LogReading", fetched: "Fetched") -> CorruptBatchError:
    """A fetch begins with a whole batch."""
    return CorruptBatchError(
        f"a batch of segment {fetched.segment_base_offset} is cut off",
        path=log.directory,
        position=fetched.position,
        expected=f"a whole batch with offset {fetched.offset} or a later one",
        found=f"{len(fetched.data)} bytes",
    )


def placed(error: _Located, log: "LogReading", fetched: "Fetched") -> _Located:
    """The same error, with the segment it is about; what is known in the bytes of a fetch becomes a place in the file."""
    if error.path is None:
        error.path = f"{log.directory}/{segment_file(fetched.segment_base_offset, LOG)}"
        if error.position is not None:
            error.position += fetched.position
    return error

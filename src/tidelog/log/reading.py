"""Iterate over a log: fetch after fetch, each from a view of its own, so that roll, retention and compaction may go on meanwhile."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from tidelog.errors import OffsetOutOfRangeError
from tidelog.log.positions import EARLIEST, LATEST, Position, Time, epoch_ms
from tidelog.record.batch import RecordBatch
from tidelog.record.kernel.record import Record
from tidelog.record.legacy import LegacyBatch

if TYPE_CHECKING:
    from tidelog.log.log_reading import Isolation, LogReading

FETCH_BYTES = 1 << 20
Overtaken = Literal["raise", "skip"]


def resolve(log: "LogReading", position: Position, isolation: "Isolation") -> int:
    """The offset of a position; of a time, that of the first record not before it, or the end where there is none."""
    end = log.log_end_offset if isolation == "log_end" else log.high_watermark
    if position is EARLIEST:
        return log.log_start_offset
    if position is LATEST:
        return end
    if isinstance(position, (Time, datetime)):
        found = log.offset_for_time(max(0, epoch_ms(position)), isolation=isolation)
        return end if found is None else found.offset
    if isinstance(position, bool) or not isinstance(position, int):
        raise TypeError(f"a position is an offset, a Time, a datetime, EARLIEST or LATEST, not {position!r}")
    return position


def iterate_batches(
    log: "LogReading", start: Position, end: Position, isolation: "Isolation", when_overtaken: Overtaken
) -> Iterator[RecordBatch | LegacyBatch]:
    """Batches with a record in the range; the first and the last may reach beyond it."""
    for batch, _ in _iterate(log, resolve(log, start, isolation), resolve(log, end, isolation), isolation, when_overtaken):
        yield batch


def iterate_records(
    log: "LogReading", start: Position, end: Position, isolation: "Isolation", when_overtaken: Overtaken
) -> Iterator[Record]:
    """Data records in the range; every CRC is checked."""
    stop = resolve(log, end, isolation)
    topic, partition = log.partition
    for batch, offset in _iterate(log, resolve(log, start, isolation), stop, isolation, when_overtaken):
        batch.ensure_valid()
        if batch.is_control:
            continue
        for record in batch.records(topic=topic, partition=partition):
            if record.offset >= stop:
                return
            if record.offset >= offset:
                yield record


def _iterate(
    log: "LogReading", offset: int, stop: int, isolation: "Isolation", when_overtaken: Overtaken
) -> Iterator[tuple[RecordBatch | LegacyBatch, int]]:
    """Each batch with the first offset in it that is wanted."""
    if when_overtaken not in ("raise", "skip"):
        raise ValueError(f"when_overtaken is 'raise' or 'skip', not {when_overtaken!r}")
    while offset < stop:
        try:
            fetched = log.fetch(offset, FETCH_BYTES, isolation=isolation)
        except OffsetOutOfRangeError as error:
            if when_overtaken == "skip" and offset < error.log_start_offset:
                offset = error.log_start_offset
                continue
            raise
        if not fetched.data:
            return
        for batch in fetched.batches:
            if batch.last_offset < offset:
                continue
            first = batch.base_offset
            if first >= stop:
                return
            yield batch, offset
            offset = batch.last_offset + 1

"""Find records, and where they lie: by offset, by time, by key."""

from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.disk.names import LOG, segment_file
from tidelog.errors import CorruptBatchError
from tidelog.inspection.record_object import Object, record_object
from tidelog.log.aborted import AbortedFilter
from tidelog.log.fetched import Fetched
from tidelog.log.log_reading import Isolation, LogReading
from tidelog.log.reading import placed
from tidelog.record.batch import RecordBatch
from tidelog.record.kernel.record import Record
from tidelog.record.legacy import LegacyBatch

FETCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record with the batch that holds it, and where that is."""

    record: Record
    path: str
    """Of the segment's `.log`."""
    position: int
    """Of the batch, in the file."""
    batch_base_offset: int
    batch_last_offset: int
    batch_size_bytes: int
    compression: str

    def to_json(self, *, raw: bool = False) -> Object:
        """The record, and its place."""
        return record_object(self.record, raw=raw) | {
            "path": self.path,
            "position": self.position,
            "batch_base_offset": self.batch_base_offset,
            "batch_last_offset": self.batch_last_offset,
            "batch_size_bytes": self.batch_size_bytes,
            "compression": self.compression,
        }


def find_offset(log: LogReading, offset: int, isolation: Isolation) -> FoundRecord | None:
    """The record at an offset; None if compaction has taken it, or nobody wrote it yet. Control records have offsets too."""
    log.refresh()
    fetched = log.fetch(offset, 1, isolation=isolation)
    for batch, record in _records(log, fetched):
        if record.offset == offset:
            return _found(log, fetched, batch, record)
        if record.offset > offset:
            break
    return None


def find_time(log: LogReading, timestamp_ms: int, isolation: Isolation) -> FoundRecord | None:
    """The first record of that time or a later one."""
    found = log.offset_for_time(max(0, timestamp_ms), isolation=isolation)
    return None if found is None else find_offset(log, found.offset, isolation)


def find_key(log: LogReading, key: bytes, isolation: Isolation) -> Iterator[FoundRecord]:
    """All records of a key, oldest first, but for those that were aborted.

    Bytes in which the key does not occur are passed over without being parsed.
    """
    log.refresh()
    offset = log.log_start_offset
    while True:
        fetched = log.fetch(offset, FETCH_BYTES, isolation=isolation)
        if not fetched.data:
            return
        if _may_hold(fetched, key):
            aborted = AbortedFilter(fetched.aborted_transactions)
            for batch, record in _records(log, fetched, aborted):
                if record.key == key and record.offset >= offset:
                    yield _found(log, fetched, batch, record)
        if fetched.next_offset <= offset:
            return
        offset = fetched.next_offset


def _may_hold(fetched: Fetched, key: bytes) -> bool:
    """Whether a key can be in there: compressed bytes say nothing."""
    return key in fetched.data or any(batch.attributes & 7 for batch in fetched.batches)


def _records(log: LogReading, fetched: Fetched, aborted: AbortedFilter | None = None) -> Iterator[tuple[RecordBatch | LegacyBatch, Record]]:
    topic, partition = log.partition
    try:
        for batch in fetched.batches:
            batch.ensure_valid()
            if aborted is not None and (aborted.is_aborted(batch) or batch.is_control):
                continue
            for record in batch.records(topic=topic, partition=partition):
                yield batch, record
    except CorruptBatchError as error:
        raise placed(error, log, fetched)  # noqa: B904 - the same error


def _found(log: LogReading, fetched: Fetched, batch: RecordBatch | LegacyBatch, record: Record) -> FoundRecord:
    return FoundRecord(
        record,
        f"{log.directory}/{segment_file(fetched.segment_base_offset, LOG)}",
        fetched.position + batch.position,
        batch.base_offset,
        batch.last_offset,
        batch.size_bytes,
        str(batch.compression),
    )

"""Where the producers of a log left off: the batches that tell it stay, even without a record."""

from contextlib import suppress

from tidelog.compaction.rules import LastRecord
from tidelog.disk.names import SNAPSHOT, parse_segment_file
from tidelog.errors import CorruptFileError
from tidelog.log.log import Log
from tidelog.log.log_reading import LogReading
from tidelog.log.producer_snapshot import parse_snapshot
from tidelog.log.producers import ProducerEntry


def last_records_of(log: LogReading) -> dict[int, LastRecord]:
    """By producer. Of a log that is only read it is what its newest snapshot says, which after a clean stop is all there is to know."""
    entries = log.producer_entries.values() if isinstance(log, Log) else _in_newest_snapshot(log)
    return {entry.producer_id: LastRecord(entry.batches[-1].last_offset if entry.batches else -1, entry.epoch) for entry in entries}


def _in_newest_snapshot(log: LogReading) -> list[ProducerEntry]:
    disk = log.segments[-1].pool.disk
    offsets = []
    for name in disk.names(log.directory):
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.kind == SNAPSHOT and not parsed.stage and parsed.base_offset <= log.log_end_offset:
            offsets.append((parsed.base_offset, name))
    for _, name in sorted(offsets, reverse=True):
        path = f"{log.directory}/{name}"
        with suppress(CorruptFileError, OSError):
            return list(parse_snapshot(disk.read_file(path), path))
    return []

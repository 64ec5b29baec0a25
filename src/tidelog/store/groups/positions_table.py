"""What one partition of `__consumer_offsets` says about its groups: the records, read once, then from where that ended.

It is folded as a group coordinator does it. The record with the highest offset counts, a tombstone takes back, and what a transaction has
written counts from its commit marker on; an open one holds up nobody else's positions. Only what is left is kept in memory: of the fetch
that is being read the last record of each key, and of open transactions what they have written.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from tidelog.disk.names import TopicPartition
from tidelog.errors import CorruptBatchError, OffsetOutOfRangeError, TidelogError
from tidelog.log.fetched import Fetched
from tidelog.log.log_reading import LogReading
from tidelog.log.reading import FETCH_BYTES, cut_off, placed
from tidelog.record.batch import RecordBatch
from tidelog.record.control import ControlType, parse_control_record
from tidelog.record.kernel.record import Record
from tidelog.record.legacy import LegacyBatch
from tidelog.schema.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OtherKey,
    parse_group_value,
    parse_key,
    parse_offset_value,
)
from tidelog.schema.fields import FieldReader

_logger = logging.getLogger(__name__)

Latest = dict[bytes, tuple[int, bytes | None]]
"""By key the offset and the value of its last record."""
_KINDS = {**dict.fromkeys(range(3, 9), "consumer"), **dict.fromkeys(range(9, 16), "share"), 16: "consumer"}
_KINDS |= dict.fromkeys(range(17, 24), "streams")
"""Which newer kind of group a record is about, by the version of its key."""


@dataclass(slots=True)
class Stored:
    """A position as it is in the log."""

    value: OffsetCommitValue
    record_offset: int
    key: bytes


@dataclass(slots=True)
class GroupRecords:
    """What is known of a group."""

    positions: dict[TopicPartition, Stored] = field(default_factory=dict)
    metadata: GroupMetadataValue | None = None
    """Of a classic group."""
    metadata_key: bytes | None = None
    """The key of that record, also where its value could not be read."""
    others: dict[bytes, str] = field(default_factory=dict)
    """Records of the newer kinds of group: their keys, and which kind they tell of."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of it."""
        return not (self.positions or self.metadata_key or self.others)

    @property
    def kind(self) -> str:
        """`simple`: it has positions, and nobody ever joined it; `classic`, or one of the newer ones."""
        if self.others:
            return next(iter(self.others.values()))
        return "simple" if self.metadata_key is None else "classic"


class PositionsTable:
    """The groups of one partition, as of the last `refresh`. One thread at a time."""

    def __init__(self, log: LogReading) -> None:
        self.log = log
        self.groups: dict[str, GroupRecords] = {}
        self._next_offset = -1
        self._pending: dict[int, Latest] = {}
        """What open transactions have written, by producer id."""

    def refresh(self) -> None:
        """Read what came since the last time. If that fails, the next time begins from the beginning."""
        log = self.log
        log.refresh()
        if log.log_end_offset < self._next_offset:  # it was cut
            self._forget()
        while (offset := max(self._next_offset, log.log_start_offset)) < log.high_watermark:
            try:
                fetched = log.fetch(offset, FETCH_BYTES)
            except OffsetOutOfRangeError:
                if offset >= log.log_start_offset:
                    raise
                continue  # compacted and cut meanwhile
            if not fetched.data:
                break
            try:
                self._fold(fetched)
            except CorruptBatchError as error:
                self._forget()
                if not log.is_outdated(fetched):  # otherwise somebody else has cut the log and written on
                    raise placed(error, log, fetched)  # noqa: B904 - the same error
            except BaseException:
                self._forget()
                raise

    def _forget(self) -> None:
        self.groups, self._pending, self._next_offset = {}, {}, -1

    def _fold(self, fetched: Fetched) -> None:
        latest: Latest = {}
        offset = fetched.offset
        for batch in fetched.batches:
            batch.ensure_valid()
            self._read(batch, offset, latest)
            offset = batch.last_offset + 1
        if offset == fetched.offset:
            raise cut_off(self.log, fetched)
        self._apply(latest)
        self._next_offset = offset

    def pending(self, group: str) -> set[TopicPartition]:
        """Where an open transaction is about to replace a position of a group: it was not committed anew behind what that has written."""
        known = (self.groups.get(group) or GroupRecords()).positions
        found = [(TopicPartition(key.topic, key.partition), offset) for key, _, offset in self._written() if key.group == group]
        return {partition for partition, offset in found if partition not in known or known[partition].record_offset < offset}

    def names(self) -> set[str]:
        """The groups that something is known of, or will be if an open transaction is committed."""
        return {*self.groups, *(key.group for key, _, _ in self._written())}

    def keys_in(self, topic: str, group: str) -> list[bytes]:
        """The keys of all positions of a group in a topic, of those too that open transactions have written."""
        known = (self.groups.get(group) or GroupRecords()).positions
        keys = [stored.key for partition, stored in known.items() if partition.topic == topic]
        return list(dict.fromkeys([*keys, *(data for key, data, _ in self._written() if (key.topic, key.group) == (topic, group))]))

    def _written(self) -> Iterator[tuple[OffsetCommitKey, bytes, int]]:
        """The positions that open transactions have written: what they are about, the keys, and where."""
        for written in self._pending.values():
            for data, (offset, _) in written.items():
                key = _parsed(data)
                if isinstance(key, OffsetCommitKey):
                    yield key, data, offset

    def _read(self, batch: RecordBatch | LegacyBatch, first_offset: int, latest: Latest) -> None:
        if isinstance(batch, RecordBatch):
            if batch.is_control:
                self._end_transaction(batch, latest)
                return
            if batch.is_transactional:
                latest = self._pending.setdefault(batch.producer_id, {})
        for record in batch:
            if record.key is not None and record.offset >= first_offset:
                latest[record.key] = record.offset, record.value
                if record.value is None:  # also what transactions have written before it: their end must not bring it back
                    for written in self._pending.values():
                        written.pop(record.key, None)

    def _end_transaction(self, batch: RecordBatch, latest: Latest) -> None:
        for record in batch:
            kind = _marker(record)
            if kind in (ControlType.ABORT, ControlType.COMMIT):
                written = self._pending.pop(batch.producer_id, {})
                if kind is ControlType.COMMIT:
                    for key, found in written.items():
                        if key not in latest or latest[key][0] < found[0]:
                            latest[key] = found

    def _apply(self, latest: Latest) -> None:
        for data, (offset, value) in latest.items():
            key = _parsed(data)
            if isinstance(key, OffsetCommitKey):
                self._put_position(key, data, offset, value)
            elif isinstance(key, GroupMetadataKey):
                self._put_metadata(key.group, data, offset, value)
            elif isinstance(key, OtherKey) and key.version in _KINDS:
                self._put_other(key, value)

    def _put_position(self, key: OffsetCommitKey, data: bytes, offset: int, value: bytes | None) -> None:
        partition, group = TopicPartition(key.topic, key.partition), self._group(key.group)
        known = group.positions.get(partition)
        if known is None or known.record_offset < offset:
            if value is None:
                group.positions.pop(partition, None)
            else:
                try:
                    group.positions[partition] = Stored(parse_offset_value(value), offset, data)
                except TidelogError as error:
                    _skipped(self.log, offset, error)
        self._drop_empty(key.group)

    def _put_metadata(self, name: str, data: bytes, offset: int, value: bytes | None) -> None:
        group = self._group(name)
        group.metadata, group.metadata_key = None, None if value is None else data
        if value is not None:
            try:
                group.metadata = parse_group_value(value)
            except TidelogError as error:
                _skipped(self.log, offset, error)
        self._drop_empty(name)

    def _put_other(self, key: OtherKey, value: bytes | None) -> None:
        try:
            name = FieldReader(key.data, 2).string()
        except TidelogError:
            return
        group = self._group(name)
        if value is None:
            group.others.pop(key.data, None)
        else:
            group.others[key.data] = _KINDS[key.version]
        self._drop_empty(name)

    def _group(self, name: str) -> GroupRecords:
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = GroupRecords()
        return group

    def _drop_empty(self, name: str) -> None:
        if self.groups[name].is_empty:
            del self.groups[name]


def _parsed(data: bytes) -> OffsetCommitKey | GroupMetadataKey | OtherKey | None:
    """What a key says; None if nobody can read it."""
    try:
        return parse_key(data)
    except TidelogError as error:
        _logger.warning("a record of __consumer_offsets is left out: %s", error)
        return None


def _skipped(log: LogReading, offset: int, error: TidelogError) -> None:
    _logger.warning("the record at offset %d of %s is left out: %s", offset, log.partition, error)


def _marker(record: Record) -> ControlType | None:
    try:
        return parse_control_record(record).type
    except TidelogError as error:
        _logger.warning("a marker in __consumer_offsets is left out: %s", error)
        return None

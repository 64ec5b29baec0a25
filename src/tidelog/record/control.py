"""Control records: transaction markers, and what KRaft writes into the metadata log.

      key     version i16 = 0, type i16                     longer keys and higher versions are read as version 0
      value   of ABORT and COMMIT: version i16 = 0, coordinator epoch i32

A marker is a batch of its own: 78 bytes, transactional and control bits, the producer's id and epoch, no sequence.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

from tidelog.errors import InvalidRecordError
from tidelog.record.kernel.record import Record

_KEY = struct.Struct(">hh")
_END_TRANSACTION = struct.Struct(">hi")


class ControlType(IntEnum):
    """What a control record says. Types that are not defined yet are to be skipped."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """A parsed control record."""

    type: ControlType
    type_id: int
    """The number behind `type`, also where that is UNKNOWN."""
    coordinator_epoch: int | None
    """Of ABORT and COMMIT."""


def parse_control_record(record: Record) -> ControlRecord:
    """Parse the record of a control batch."""
    key = record.key
    if key is None or len(key) < _KEY.size:
        raise InvalidRecordError(
            f"the key of the control record at offset {record.offset} is too short",
            expected=f"at least {_KEY.size} bytes",
            found="null" if key is None else len(key),
        )
    version, type_id = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"the version of the control record at offset {record.offset}", expected="0 or more", found=version)
    is_known = type_id in ControlType._value2member_map_ and type_id >= 0
    control_type = ControlType(type_id) if is_known else ControlType.UNKNOWN
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return ControlRecord(control_type, type_id, None)
    value = record.value
    if value is None or len(value) < _END_TRANSACTION.size:
        raise InvalidRecordError(
            f"the value of the transaction marker at offset {record.offset} is too short",
            expected=f"at least {_END_TRANSACTION.size} bytes",
            found="null" if value is None else len(value),
        )
    return ControlRecord(control_type, type_id, _END_TRANSACTION.unpack_from(value)[1])


def marker_record(control_type: ControlType, *, coordinator_epoch: int, timestamp_ms: int) -> Record:
    """The record of an ABORT or COMMIT marker."""
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        raise ValueError(f"a transaction ends with ABORT or COMMIT, not {control_type.name}")
    return Record(_END_TRANSACTION.pack(0, coordinator_epoch), key=_KEY.pack(0, control_type), timestamp_ms=timestamp_ms)

"""What can be wrong with bytes, as the kernel reports it, and the error each becomes.

The kernel works without Python objects, so it answers with a number, a position and two figures (found, expected). This module is
the only place that knows what they mean in words.
"""

from enum import IntEnum
from typing import NoReturn

from tidelog.errors import CorruptBatchError, InvalidRecordError, TidelogError, UnsupportedMagicError


class Fault(IntEnum):
    """The kernel's fault numbers. `found` and `expected` are what the texts below name."""

    NONE = 0
    TRUNCATED_VARINT = 1
    VARINT_TOO_LONG = 2
    RECORD_LENGTH = 3
    RECORD_SIZE_MISMATCH = 4
    KEY_LENGTH = 5
    VALUE_LENGTH = 6
    HEADER_COUNT = 7
    HEADER_KEY_LENGTH = 8
    HEADER_VALUE_LENGTH = 9
    PAYLOAD_TOO_SHORT = 10
    PAYLOAD_TOO_LONG = 11
    BATCH_TOO_SMALL = 12
    UNKNOWN_MAGIC = 13
    MESSAGE_SIZE = 14
    MESSAGE_MAGIC = 15
    MESSAGE_TRUNCATED = 16
    NESTED_COMPRESSION = 17
    NEGATIVE_COUNT = 18
    RECORD_COUNT = 19
    COLUMN_FULL = 20  # not about the bytes: the caller makes room and calls again


# fault -> (what is wrong, what was expected); {expected} is filled in by the kernel's figure.
_TEXTS: dict[Fault, tuple[str, str]] = {
    Fault.TRUNCATED_VARINT: ("a varint runs past the end of its record", "its last byte within the record"),
    Fault.VARINT_TOO_LONG: ("bad varint", "at most {expected} bits"),
    Fault.RECORD_LENGTH: ("a record's length is out of range", "1 to {expected} bytes, what is left of the payload"),
    Fault.RECORD_SIZE_MISMATCH: ("a record's fields do not fill its declared length", "{expected} bytes"),
    Fault.KEY_LENGTH: ("a key's length is out of range", "-1 (null) to {expected}, what is left of the record"),
    Fault.VALUE_LENGTH: ("a value's length is out of range", "-1 (null) to {expected}, what is left of the record"),
    Fault.HEADER_COUNT: ("a record's header count is out of range", "0 to {expected}, what is left of the record"),
    Fault.HEADER_KEY_LENGTH: ("a header key's length is out of range", "0 to {expected}, what is left of the record"),
    Fault.HEADER_VALUE_LENGTH: ("a header value's length is out of range", "-1 (null) to {expected}, what is left of the record"),
    Fault.PAYLOAD_TOO_SHORT: ("the payload ends before the declared record count", "{expected} records"),
    Fault.PAYLOAD_TOO_LONG: ("bytes are left in the payload after the declared record count", "the payload to end at byte {expected}"),
    Fault.BATCH_TOO_SMALL: ("a batch's size is too small", "at least {expected} bytes"),
    Fault.UNKNOWN_MAGIC: ("unknown magic", "0, 1 or 2"),
    Fault.MESSAGE_SIZE: ("a message's fields do not fill its declared size", "{expected} bytes"),
    Fault.MESSAGE_MAGIC: ("a message inside a compressed wrapper has another magic", "magic {expected}, the wrapper's"),
    Fault.MESSAGE_TRUNCATED: ("a message inside a compressed wrapper is cut off", "{expected} bytes"),
    Fault.NEGATIVE_COUNT: ("negative record count", "0 or more"),
    Fault.RECORD_COUNT: ("the payload ends before the declared record count", "at most {expected} records in a payload of its size"),
    Fault.NESTED_COMPRESSION: ("a message inside a compressed wrapper is compressed itself", "codec 0 (none)"),
}

_TYPES: dict[Fault, type[TidelogError]] = {
    Fault.BATCH_TOO_SMALL: CorruptBatchError,
    Fault.UNKNOWN_MAGIC: UnsupportedMagicError,
}


def raise_fault(fault: int, position: int, found: int, expected: int, batch_position: int = -1) -> NoReturn:
    """Raise `fault_error`."""
    raise fault_error(fault, position, found, expected, batch_position)


def fault_error(fault: int, position: int, found: int, expected: int, batch_position: int = -1) -> TidelogError:
    """The error for what the kernel reported.

    `position` is one in the caller's buffer, or, if `batch_position` is given, in the decompressed payload of the batch there.
    """
    kind = Fault(fault)
    what, expectation = _TEXTS[kind]
    if batch_position >= 0:
        what += f" (byte {position} of the decompressed payload)"
        position = batch_position
    return _TYPES.get(kind, InvalidRecordError)(what, position=position, expected=expectation.format(expected=expected), found=found)

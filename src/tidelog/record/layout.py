"""The bytes of a v2 record batch: positions, bits, and the small enumerations they encode.

Batch, all integers big-endian (the numbers are byte positions):

       0  base offset                                          i64
       8  batch length, bytes after this field                 i32      12  partition leader epoch  i32
      16  magic = 2  i8   17  CRC-32C of all from 21 on  u32   21  attributes  i16
      23  last offset delta                                    i32      27  base timestamp          i64
      35  max timestamp                                        i64      43  producer id             i64
      51  producer epoch  i16   53  base sequence  i32   57  record count  i32
      61  the records, or one compressed stream that holds them all

Attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon; the rest zero.

Record; varints are zigzag, seven bits a byte, least significant first:

      length                       varint, bytes after this field
      attributes                   i8, zero
      timestamp delta              varlong, against the base timestamp
      offset delta                 varint, against the base offset
      key length, key              varint, -1 for null
      value length, value          varint, -1 for null
      header count                 varint
      each header                  name length, name, value length (-1 for null), value

The base offset and the leader epoch lie outside the CRC, so that a leader assigns them without touching the rest.
"""

import struct
from enum import IntEnum

HEADER = struct.Struct(
    ">"
    "q"  # base offset
    "i"  # batch length
    "i"  # partition leader epoch
    "b"  # magic
    "I"  # crc
    "h"  # attributes
    "i"  # last offset delta
    "q"  # base timestamp
    "q"  # max timestamp
    "q"  # producer id
    "h"  # producer epoch
    "i"  # base sequence
    "i"  # record count
)
HEADER_SIZE = 61
assert HEADER.size == HEADER_SIZE

LENGTH_POSITION = 8
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
LOG_OVERHEAD = 12
"""Bytes of base offset and length, which the length itself does not count; the same in every format."""

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

MIN_RECORD_SIZE = 7
"""The smallest record: seven fields of one byte. It bounds how many records a payload can hold."""

NO_SEQUENCE = -1

MAX_SEQUENCE = 0x7FFFFFFF


class TimestampType(IntEnum):
    """Who stamped a record. Legacy magic 0 has no timestamps at all."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    def __str__(self) -> str:
        """Kafka's own spelling."""
        return {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}[self.value]


def sequence_after(sequence: int, increment: int) -> int:
    """A sequence number `increment` later: after 2147483647 comes 0. Without a sequence (-1) there is none later either."""
    if sequence < 0:
        return NO_SEQUENCE
    return (sequence + increment) & MAX_SEQUENCE


def signed64(number: int) -> int:
    """Fold into a signed 64-bit integer, as Java's arithmetic does; only bytes that lie about their offsets need it."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)

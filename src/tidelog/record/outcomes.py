"""How searches and index runs of the kernel end; the numbers by which it says so."""

from enum import IntEnum


class Seek(IntEnum):
    """The status of `find_batch` and `find_batch_by_time`. A negative one is a `tidelog.record.faults.Fault` with its sign changed."""

    RAN_OUT = 0
    FOUND = 1


class IndexStop(IntEnum):
    """Why batches were left out of an index run."""

    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    """The batch's last offset is below the segment's base, or too far above it for 31 bits."""
    OFFSET_INDEX_FULL = 2
    TIME_INDEX_FULL = 3
    POSITION_OUT_OF_RANGE = 4
    """The batch starts too far into the file for 31 bits, and is due for an entry."""
    OFFSET_NOT_INCREASING = 5
    """The batch is due for an entry, and its last offset is not above that of the last entry."""


class RetainRule(IntEnum):
    """What `retain_batches` is told."""

    BY_BITS = 0
    """1: a bit an offset says what stays; 0: a byte a record."""
    BITS_FIRST = 1
    BITS_END = 2
    LATEST_OFFSET = 3
    """Records behind it stay, whatever the bits say."""
    NOW = 4
    NEW_HORIZON = 5
    COUNTS_ALL = 6
    """1: records without key or value are to be counted, so that no batch is passed over unseen."""


class RetainAnswer(IntEnum):
    """What `retain_batches` answers; all but the last are carried on from call to call."""

    OUTPUT_END = 0
    CHECKSUMS = 1
    """How many batches of the output need a CRC."""
    MESSAGES_READ = 2
    MESSAGES_WRITTEN = 3
    INVALID_MESSAGES = 4
    TOMBSTONES_REMOVED = 5
    KEPT_EMPTY = 6
    STOP = 7


class RetainStop(IntEnum):
    """Why `retain_batches` ended before the last batch."""

    NONE = 0
    OUTPUT_FULL = 1
    """The output, or the scratch memory, has no room for the next batch."""
    OUT_OF_WINDOW = 2
    """An offset of the next batch has no bit, or a record no byte."""
    BAD_BYTES = 3

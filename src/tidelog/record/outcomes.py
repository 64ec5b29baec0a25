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

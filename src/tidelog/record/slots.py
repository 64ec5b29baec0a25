"""Numbers by which the kernel and its callers understand each other: bits, and places in the small arrays handed over.

The kernel modules copy them into C globals of their own; this is where they are defined.
"""

from enum import IntEnum, IntFlag

BATCH_FIELDS = 7
"""Numbers that describe a batch to `decode_batches`: payload start, payload end, record count, base offset, base timestamp,
1 if append time else 0, append time."""


class Want(IntFlag):
    """What `decode_batches` is to fill, beside offsets and timestamps."""

    KEYS = 1
    VALUES = 2
    SLICES = 4


class Totals(IntEnum):
    """What `decode_batches` counted."""

    DONE = 0
    KEY_BYTES = 1
    KEY_NULLS = 2
    VALUE_BYTES = 3
    VALUE_NULLS = 4


class Plan(IntEnum):
    """What `encode_rows` and `encode_columns` are told, and (from NEXT_OFFSET on) what they carry from batch to batch."""

    BATCH_BYTES = 0
    ATTRIBUTES = 1
    LEADER_EPOCH = 2
    PRODUCER_ID = 3
    PRODUCER_EPOCH = 4
    APPEND_TIME = 5  # -1: create time
    DEFAULT_TIMESTAMP = 6
    BASE_TIMESTAMP = 7  # -1: the first record's
    KEEP_OFFSETS = 8  # 1: records bring their offsets, and gaps stay
    NEXT_OFFSET = 9
    NEXT_SEQUENCE = 10  # -1: none
    OUTPUT_END = 11

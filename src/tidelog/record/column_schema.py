"""Which columns records have as Arrow columns, of what types, and those that every record has from its batch.

offset timestamp_ms timestamp_type key value headers        of the record
sequence producer_id producer_epoch partition_leader_epoch is_transactional is_control        of its batch
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tidelog.record.headers import BatchHeaders, Int64Array
from tidelog.record.layout import CONTROL_BIT, MAX_SEQUENCE, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT

if TYPE_CHECKING:
    import pyarrow as pa

RECORD_COLUMNS = ("offset", "timestamp_ms", "timestamp_type", "key", "value", "headers")
BATCH_COLUMNS = ("sequence", "producer_id", "producer_epoch", "partition_leader_epoch", "is_transactional", "is_control")
COLUMNS = RECORD_COLUMNS + BATCH_COLUMNS


def arrow_schema(columns: Sequence[str] = RECORD_COLUMNS) -> "pa.Schema":
    """The Arrow schema of these columns."""
    import pyarrow as pa

    types = {
        "offset": pa.int64(),
        "timestamp_ms": pa.int64(),
        "timestamp_type": pa.int8(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])),
        "sequence": pa.int32(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int16(),
        "partition_leader_epoch": pa.int32(),
        "is_transactional": pa.bool_(),
        "is_control": pa.bool_(),
    }
    unknown = [column for column in columns if column not in types]
    if unknown or not columns:
        raise ValueError(f"unknown column {unknown[0]!r}: choose from {', '.join(COLUMNS)}" if unknown else "no columns were asked for")
    return pa.schema([pa.field(column, types[column], nullable=column in ("key", "value")) for column in columns])


def batch_column(column: str, headers: BatchHeaders, counts: Int64Array, offsets: Int64Array) -> "pa.Array":
    """A column whose values are the batch's, repeated for its records."""
    import pyarrow as pa

    if column == "sequence":
        base = np.repeat(headers.base_sequence, counts)
        sequences = (base + offsets - np.repeat(headers.base_offset, counts)) & MAX_SEQUENCE
        return pa.array(np.where(base < 0, -1, sequences).astype(np.int32))
    if column == "timestamp_type":
        return pa.array(np.repeat((headers.attributes & TIMESTAMP_TYPE_BIT) >> 3, counts).astype(np.int8))
    if column in ("is_transactional", "is_control"):
        # Legacy messages have neither; their attribute byte means other things.
        bit = TRANSACTIONAL_BIT if column == "is_transactional" else CONTROL_BIT
        return pa.array(np.repeat((headers.magic == 2) & ((headers.attributes & bit) != 0), counts))
    types = {"producer_id": np.int64, "producer_epoch": np.int16, "partition_leader_epoch": np.int32}
    return pa.array(np.repeat(getattr(headers, column), counts).astype(types[column]))

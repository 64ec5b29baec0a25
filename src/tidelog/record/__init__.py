"""What a batch is: layout, codecs, columns, kernel. No files, no clock.

Reading: `read_batches` gives views, `walk_headers` arrays of headers, `to_arrow` and `iter_arrow` columns.
Writing: `encode_batches` and `encode_arrow` in one call, `BatchEncoder` again and again, `NewBatch` for a single batch.
Rewriting: `retain_records` keeps some records of a batch, as compaction does.
"""

from tidelog.record.batch import RecordBatch
from tidelog.record.column_schema import COLUMNS, RECORD_COLUMNS, arrow_schema
from tidelog.record.columns import ColumnDecoder, iter_arrow, to_arrow
from tidelog.record.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, LEVEL_RANGES, Compression
from tidelog.record.control import ControlRecord, ControlType, parse_control_record
from tidelog.record.encoding import BatchEncoder, BatchSettings, Row, encode_arrow, encode_batches
from tidelog.record.hashing import murmur2, partitions_for_keys, siphash128
from tidelog.record.headers import BatchHeaders, checksums_match, verify_checksums, walk_headers
from tidelog.record.kernel import kernel_mode
from tidelog.record.kernel.record import Record
from tidelog.record.layout import TimestampType
from tidelog.record.legacy import LegacyBatch
from tidelog.record.new_batch import NewBatch, empty_batch, transaction_marker
from tidelog.record.reading import count_records, read_batches
from tidelog.record.retain import retain_records

__all__ = [
    "COLUMNS",
    "DEFAULT_MAX_DECOMPRESSED_BYTES",
    "LEVEL_RANGES",
    "RECORD_COLUMNS",
    "BatchEncoder",
    "BatchHeaders",
    "BatchSettings",
    "ColumnDecoder",
    "Compression",
    "ControlRecord",
    "ControlType",
    "LegacyBatch",
    "NewBatch",
    "Record",
    "RecordBatch",
    "Row",
    "TimestampType",
    "arrow_schema",
    "checksums_match",
    "count_records",
    "empty_batch",
    "encode_arrow",
    "encode_batches",
    "iter_arrow",
    "kernel_mode",
    "murmur2",
    "parse_control_record",
    "partitions_for_keys",
    "read_batches",
    "retain_records",
    "siphash128",
    "to_arrow",
    "transaction_marker",
    "verify_checksums",
    "walk_headers",
]

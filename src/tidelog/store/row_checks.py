"""A record that is gathered to be written later: as a row, and refused at once if the log would refuse it, while the caller is there."""

from crc32c import crc32c

from tidelog.errors import InvalidTimestampError, MessageTooLargeError, RefusedBatchError
from tidelog.log.leader import timestamp_range
from tidelog.record.compression import Compression
from tidelog.record.encoding import Headers
from tidelog.record.kernel.gathering import ROW_OVERHEAD
from tidelog.record.kernel.single_batch import NO_HEADERS, encode_single
from tidelog.store.append_targets import AppendTargets
from tidelog.store.record_values import NO_TIMESTAMP, bytes_of, headers_of, partition_of, timestamp_of
from tidelog.store.write_batch import Row
from tidelog.store.write_buffer import BATCH_OVERHEAD

SURELY_SMALL_BYTES = 1 << 10
"""Up to here a record is not asked whether the topic takes it: what `max.message.bytes` is about is larger, or the log says so."""


def checked_row(
    targets: AppendTargets,
    now_ms: int,
    compression: Compression | str | None,
    value: bytes | None,
    key: bytes | None,
    headers: Headers,
    timestamp_ms: int | None,
    partition: int | None,
) -> tuple[Row, int, int]:
    """The record as a row, about its size, and its partition."""
    key, value = bytes_of(key, "key"), bytes_of(value, "value")
    pairs, encoded = headers_of(headers) if headers else (None, NO_HEADERS)
    given_ms = NO_TIMESTAMP if timestamp_ms is None else timestamp_of(timestamp_ms)
    row = (key, value, pairs, now_ms if given_ms == NO_TIMESTAMP else given_ms)
    size = len(key or b"") + len(value or b"") + len(encoded) + ROW_OVERHEAD
    place = targets.partitioner.partition(key, size) if partition is None else partition_of(partition)
    log = targets.logs.get(place) or targets.log(place)
    config = log.config
    if key is None and config.is_compacted:
        raise RefusedBatchError("a compacted topic takes no records without a key", path=log.directory)
    if given_ms != NO_TIMESTAMP:
        lowest_ms, highest_ms = timestamp_range(config, now_ms)
        if not lowest_ms <= given_ms <= highest_ms:
            raise InvalidTimestampError(
                "a timestamp that the log does not take",
                path=log.directory,
                expected=f"{lowest_ms} to {highest_ms}",
                found=given_ms,
                hint="message.timestamp.before.max.ms and message.timestamp.after.max.ms set the limits",
            )
    if size > config.max_message_bytes - BATCH_OVERHEAD and compression is None:
        exact = len(encode_single(crc32c, key, value, encoded, row[3], 0, -1))
        if exact > config.max_message_bytes:
            raise MessageTooLargeError(
                "a record is larger than max.message.bytes",
                path=log.directory,
                expected=f"at most {config.max_message_bytes}",
                found=exact,
            )
    return row, size, place

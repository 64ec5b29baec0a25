"""What a leader does with a batch before it is written: Kafka's checks, offsets and timestamps.

A batch is stored as it came, but for its offset, its leader epoch, and, where they are not right, its timestamp type and largest
timestamp. Only another codec makes it necessary to build it anew. Every record is visited either way: one bad record refuses the batch.
"""

import crc32c

from tidelog.config import LogConfig
from tidelog.disk.disk import Buffer
from tidelog.errors import (
    ChecksumError,
    CorruptBatchError,
    InvalidTimestampError,
    MessageTooLargeError,
    RefusedBatchError,
    UnsupportedMagicError,
)
from tidelog.record.assign import assign_header
from tidelog.record.batch import RecordBatch
from tidelog.record.compression import LEVEL_RANGES, Compression, codec_of
from tidelog.record.encoding import BatchSettings
from tidelog.record.layout import (
    ATTRIBUTES_POSITION,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from tidelog.record.new_batch import NewBatch
from tidelog.record.survey import Scratch, survey_one

_MIN_INT64 = -(1 << 63)
_MAX_INT64 = (1 << 63) - 1


Prepared = tuple[tuple[Buffer, ...], int, int, int, int]
"""A batch as it will be stored: its bytes in parts, their size, first offset, last offset, largest timestamp.

A plain tuple: a named one takes longer to make than some of the checks."""


def prepare(
    batch: memoryview, config: LogConfig, *, next_offset: int, leader_epoch: int, now_ms: int, is_client: bool, scratch: Scratch
) -> Prepared:
    """Check one batch and assign offsets to it, from `next_offset` on. Raises if it must not be appended."""
    header = check_header(batch, config, is_client=is_client)
    attributes, count, max_timestamp_ms = header[5], header[12], header[8]
    lowest_ms, highest_ms = timestamp_range(config, now_ms)
    surveyed_ms, keyless, out_of_range, _, is_dense = survey_one(
        batch, 0, len(batch), attributes, count, header[7], lowest_ms, highest_ms, scratch
    )
    is_control = bool(attributes & CONTROL_BIT)
    if attributes & TIMESTAMP_TYPE_BIT:
        # The sender claims append time, so that every record has the batch's largest timestamp.
        is_misstamped = config.is_append_time or max_timestamp_ms == -1 or not lowest_ms <= max_timestamp_ms <= highest_ms
    else:
        is_misstamped = out_of_range > 0
        max_timestamp_ms = surveyed_ms
    if is_misstamped or (keyless and config.is_compacted and not is_control):
        raise _refused_records(batch, config, lowest_ms, highest_ms)
    codec = codec_of(attributes, ATTRIBUTES_POSITION)
    target = codec if config.compression_type == "producer" or (is_control and codec is Compression.NONE) else _target_codec(config)
    if config.is_append_time:
        max_timestamp_ms = now_ms
    if target is not codec:
        return _rebuild(batch, config, target, next_offset=next_offset, leader_epoch=leader_epoch, now_ms=now_ms)
    if not is_dense and codec is not Compression.NONE:
        raise RefusedBatchError(
            "offsets inside a compressed batch have gaps", expected=f"0 to {count - 1}", kafka_error="UNKNOWN_SERVER_ERROR"
        )
    new_header = assign_header(
        batch,
        0,
        len(batch),
        next_offset=next_offset,
        leader_epoch=leader_epoch,
        is_append_time=config.is_append_time,
        max_timestamp_ms=max_timestamp_ms,
    )
    return (new_header, batch[HEADER_SIZE:]), len(batch), next_offset, next_offset + count - 1, max_timestamp_ms


def check_header(batch: memoryview, config: LogConfig, *, is_client: bool) -> tuple[int, ...]:
    """The checks that need no record, in Kafka's order; gives back the header fields."""
    size = len(batch)
    if size > 16 and batch[16] != 2:
        raise UnsupportedMagicError(
            "a leader takes batches of magic 2 only", position=16, expected=2, found=batch[16], hint="encode it again with NewBatch"
        )
    if size < HEADER_SIZE:
        raise CorruptBatchError("a batch is cut off", expected=f"at least {HEADER_SIZE} bytes", found=size)
    header = HEADER.unpack_from(batch)
    if header[1] + LOG_OVERHEAD != size:
        claimed = header[1] + LOG_OVERHEAD
        if claimed < HEADER_SIZE:
            raise CorruptBatchError("a batch's size is too small", position=0, expected=f"at least {HEADER_SIZE}", found=claimed)
        if claimed < size:
            _check_crc(batch[:claimed], header)
            raise RefusedBatchError(
                "bytes follow the batch", expected=f"{header[1] + LOG_OVERHEAD} bytes", found=size, hint="append_run takes several batches"
            )
        raise CorruptBatchError("a batch is cut off", expected=f"{header[1] + LOG_OVERHEAD} bytes", found=size)
    if is_client and header[0] != 0:
        raise RefusedBatchError("a batch to append has offsets already", expected="base offset 0", found=header[0])
    if size > config.max_message_bytes:
        raise MessageTooLargeError("a batch is larger than max.message.bytes", expected=f"at most {config.max_message_bytes}", found=size)
    _check_crc(batch, header)
    if is_client:
        if header[5] & CONTROL_BIT:
            raise RefusedBatchError("a control batch from a client", hint="markers are the coordinator's")
        if header[12] <= 0 or header[6] + 1 != header[12]:
            raise RefusedBatchError(
                "offsets and record count do not agree", expected=f"{header[6] + 1} records, 1 or more", found=header[12]
            )
        if header[9] >= 0 and header[11] < 0:
            raise RefusedBatchError("a producer id without a sequence", expected="base sequence 0 or more", found=header[11])
    return header


def _check_crc(batch: memoryview, header: tuple[int, ...]) -> None:
    checksum = crc32c.crc32c(batch[ATTRIBUTES_POSITION:])
    if checksum != header[4]:
        raise ChecksumError(
            "the CRC of a batch does not match", position=0, expected=f"{header[4]:#010x} as its header says", found=f"{checksum:#010x}"
        )


def timestamp_range(config: LogConfig, now_ms: int) -> tuple[int, int]:
    """Between which timestamps a record may be, both included; an append-time log takes any."""
    if config.is_append_time:
        return _MIN_INT64, _MAX_INT64
    # 2^63-1 stands for no limit; a time since the epoch minus that still fits 64 bits, plus that does not.
    highest_ms = now_ms + config.message_timestamp_after_max_ms
    return now_ms - config.message_timestamp_before_max_ms, highest_ms if highest_ms < _MAX_INT64 else _MAX_INT64


def _target_codec(config: LogConfig) -> Compression:
    return Compression.of(config.compression_type)


def _level(config: LogConfig, codec: Compression) -> int | None:
    if codec not in LEVEL_RANGES:
        return None
    level: int = getattr(config, f"compression_{codec}_level")
    return level


def _rebuild(batch: memoryview, config: LogConfig, codec: Compression, *, next_offset: int, leader_epoch: int, now_ms: int) -> Prepared:
    """The same records in another codec: consecutive offsets, the producer's fields kept."""
    source = RecordBatch(batch, 0, len(batch))
    settings = BatchSettings(
        compression=codec,
        level=_level(config, codec),
        partition_leader_epoch=leader_epoch,
        producer_id=source.producer_id,
        producer_epoch=source.producer_epoch,
        base_sequence=source.base_sequence,
        is_transactional=bool(source.attributes & TRANSACTIONAL_BIT),
        is_control=source.is_control,
        append_time_ms=now_ms if config.is_append_time else None,
    )
    encoded = NewBatch(list(source), base_offset=next_offset, settings=settings).encode()
    if len(encoded) > config.max_message_bytes:
        raise MessageTooLargeError(
            f"a batch is larger than max.message.bytes once it is compressed with {codec}",
            expected=f"at most {config.max_message_bytes}",
            found=len(encoded),
        )
    rebuilt = HEADER.unpack_from(encoded)
    return (encoded,), len(encoded), next_offset, next_offset + rebuilt[6], rebuilt[8]


def _refused_records(batch: memoryview, config: LogConfig, lowest_ms: int, highest_ms: int) -> RefusedBatchError:
    """Which records are the reason, and why. A bad timestamp names the error, as in Kafka."""
    errors: list[tuple[int, str]] = []
    has_bad_time = False
    source = RecordBatch(batch, 0, len(batch))
    is_stamped = bool(source.attributes & TIMESTAMP_TYPE_BIT)
    for index, record in enumerate(source):
        timestamp_ms = record.timestamp_ms
        if config.is_compacted and record.key is None and not source.is_control:
            errors.append((index, "no key, and the topic is compacted"))
        elif is_stamped and (config.is_append_time or timestamp_ms == -1):
            errors.append((index, "stamped with append time by its sender, which only the log may do"))
            has_bad_time = True
        elif timestamp_ms != -1 and not lowest_ms <= timestamp_ms <= highest_ms:
            errors.append((index, f"timestamp {timestamp_ms} is not between {lowest_ms} and {highest_ms}"))
            has_bad_time = True
    if has_bad_time:
        return InvalidTimestampError(
            "timestamps that the log does not take",
            record_errors=tuple(errors),
            hint="message.timestamp.before.max.ms and message.timestamp.after.max.ms set the limits",
        )
    return RefusedBatchError("a compacted topic takes no records without a key", record_errors=tuple(errors))

"""Many batches at once as a leader: the checks and assignments of `leader`, over arrays.

Only what is plain sailing is done here: batches that are all as they should be and go into one segment. Anything else is left to the
path for single batches, which has the words for what is wrong and the order in which things happen.
"""

from collections.abc import Sequence

import numpy as np

from tidelog.config import LogConfig
from tidelog.disk.disk import Buffer
from tidelog.errors import TidelogError
from tidelog.log.leader import timestamp_range
from tidelog.record.compression import Compression
from tidelog.record.headers import BatchHeaders, Int64Array, first_bad_checksum, walk_headers
from tidelog.record.layout import CODEC_MASK, CONTROL_BIT, TIMESTAMP_TYPE_BIT
from tidelog.record.survey import Scratch, survey_batches


def joined(batches: Sequence[Buffer] | Buffer) -> tuple[bytearray, BatchHeaders] | None:
    """A copy of all batches one behind the other, and their headers; None if it is not exactly whole batches, one an item."""
    if isinstance(batches, (bytes, bytearray, memoryview)):
        sizes, together = None, bytearray(batches)
    else:
        sizes, together = [len(batch) for batch in batches], bytearray().join(batches)
    try:
        headers = walk_headers(together)
    except TidelogError:
        return None
    if headers.end_position != len(together) or (headers.magic != 2).any():
        return None
    if sizes is not None and sizes != headers.size_bytes.tolist():
        return None
    return together, headers


def check_run(batches: memoryview, headers: BatchHeaders, config: LogConfig, now_ms: int, scratch: Scratch) -> Int64Array | None:
    """The largest timestamps of the batches, if every one of them can be stored as it is but for offset, epoch and timestamp."""
    attributes, counts = headers.attributes, headers.count
    refused = (
        (headers.base_offset != 0)
        | (headers.size_bytes > config.max_message_bytes)
        | ((attributes & (CONTROL_BIT | TIMESTAMP_TYPE_BIT)) != 0)
        | (counts <= 0)
        | (headers.last_offset + 1 != counts)
        | ((headers.producer_id >= 0) & (headers.base_sequence < 0))
        | ((attributes & CODEC_MASK) > 4)
    )
    if config.compression_type != "producer":
        refused |= (attributes & CODEC_MASK) != int(Compression.of(config.compression_type))
    if refused.any():
        return None
    _, bad_crc = first_bad_checksum(batches, headers)
    if bad_crc is not None:
        return None
    lowest_ms, highest_ms = timestamp_range(config, now_ms)
    try:
        surveys = survey_batches(batches, headers, lowest_ms=lowest_ms, highest_ms=highest_ms, scratch=scratch)
    except TidelogError:
        return None
    if config.is_append_time:
        max_timestamps = np.full(len(headers), now_ms, np.int64)
    elif surveys.out_of_range.any():
        return None
    else:
        max_timestamps = surveys.max_timestamp_ms
    if (config.is_compacted and surveys.keyless.any()) or (~surveys.is_dense & ((attributes & CODEC_MASK) != 0)).any():
        return None
    return max_timestamps

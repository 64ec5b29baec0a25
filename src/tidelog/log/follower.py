"""What a follower checks before it appends batches with the offsets they have."""

import numpy as np

from tidelog.disk.checkpoints import MAX_INT64
from tidelog.errors import RefusedBatchError, UnexpectedOffsetError
from tidelog.log.roll import MAX_RELATIVE_OFFSET
from tidelog.record.headers import BatchHeaders, verify_checksums, walk_headers


def check_batches(batches: memoryview, log_end_offset: int, leader_epoch: int | None) -> BatchHeaders:
    """The headers of what may be appended: whole batches, every CRC right, offsets going up from the end of the log, gaps allowed.

    A batch of an epoch above `leader_epoch` is left out, and all that follow it: it comes from a newer leader than the one followed.
    """
    headers = walk_headers(batches)
    if leader_epoch is not None:
        newer = (headers.partition_leader_epoch > leader_epoch).nonzero()[0]
        if len(newer):
            headers = headers[: int(newer[0])]
    if len(headers) == 0:
        return headers
    verify_checksums(batches, headers)
    if ((headers.partition_leader_epoch < 0) & (headers.magic == 2)).any():
        raise RefusedBatchError("a batch without a leader epoch", kafka_error="UNKNOWN_SERVER_ERROR", hint="only leaders assign epochs")
    last_offsets = headers.last_offset
    # A legacy wrapper does not say where it begins. The very last offset has none behind it, where the log could go on.
    impossible = (((last_offsets < headers.base_offset) & (headers.magic == 2)) | (last_offsets == MAX_INT64)).nonzero()[0]
    if len(impossible):
        at = int(impossible[0])
        raise UnexpectedOffsetError(
            "a batch ends before it begins, or behind the last offset that there can be",
            position=int(headers.position[at]),
            expected=f"a last offset from {int(headers.base_offset[at])} on, below {MAX_INT64}",
            found=int(last_offsets[at]),
        )
    out_of_order = (last_offsets[1:] <= last_offsets[:-1]).nonzero()[0]
    if len(out_of_order):
        at = int(out_of_order[0]) + 1
        raise UnexpectedOffsetError(
            "offsets of batches go back",
            position=int(headers.position[at]),
            expected=f"a last offset above {int(last_offsets[at - 1])}",
            found=int(last_offsets[at]),
        )
    first = first_offset(headers)
    if first < log_end_offset:
        raise UnexpectedOffsetError(
            "a batch begins below the end of the log",
            position=int(headers.position[0]),
            expected=f"offset {log_end_offset} or more",
            found=first,
        )
    return headers


def check_range(headers: BatchHeaders, log_end_offset: int, active_base_offset: int) -> None:
    """Refuse a call whose offsets are too far apart for any segment, the active one or one that begins with it."""
    last = int(headers.last_offset[-1])
    base = roll_base(headers, log_end_offset)
    if last - active_base_offset > MAX_RELATIVE_OFFSET and last - base > MAX_RELATIVE_OFFSET:
        raise RefusedBatchError(
            "one call spans more offsets than a segment can have",
            expected=f"at most {base + MAX_RELATIVE_OFFSET}",
            found=last,
            kafka_error="UNKNOWN_SERVER_ERROR",
        )


def epoch_starts(headers: BatchHeaders) -> list[tuple[int, int]]:
    """The leader epochs of the batches, each with the base offset of the first batch it has in a row."""
    epochs = headers.partition_leader_epoch
    changes = np.flatnonzero(np.concatenate(([True], epochs[1:] != epochs[:-1]))).tolist()
    return [(int(epochs[at]), int(headers.base_offset[at])) for at in changes if epochs[at] >= 0]


def first_offset(headers: BatchHeaders) -> int:
    """The first offset; of a compressed legacy wrapper, whose first offset is only known inside, its last."""
    base = int(headers.base_offset[0])
    return base if base >= 0 else int(headers.last_offset[0])


def roll_base(headers: BatchHeaders, log_end_offset: int) -> int:
    """The base offset of a segment that would begin with these batches. Of a legacy format Kafka never asks for the first offset."""
    base = int(headers.base_offset[0])
    if int(headers.magic[0]) < 2:
        base = int(headers.last_offset[-1]) - MAX_RELATIVE_OFFSET
    return max(base, log_end_offset)

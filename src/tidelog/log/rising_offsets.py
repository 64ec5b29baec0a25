"""Whether the offsets of batches rise, as they do in every sound log. No CRC covers them."""

import numpy as np

from tidelog.errors import CorruptBatchError
from tidelog.record.headers import BatchHeaders


def rising(
    headers: BatchHeaders, next_offset: int, file_position: int, *, base_offset: int = -1
) -> tuple[BatchHeaders, CorruptBatchError | None]:
    """The batches up to the first whose last offset is not above that of the one before it, and what is wrong with that one.

    `next_offset` is the one behind the batches before them, `file_position` where in the file their positions count from. Batches below
    `base_offset` are passed over: that is another fault.
    """
    if len(headers) == 0:
        return headers, None
    last_offsets = headers.last_offset
    previous = np.concatenate(([next_offset - 1], last_offsets[:-1]))
    falling = np.flatnonzero((last_offsets <= previous) & (last_offsets >= base_offset))
    if len(falling) == 0:
        return headers, None
    at = int(falling[0])
    error = CorruptBatchError(
        "offsets of batches go back",
        position=file_position + int(headers.position[at]),
        expected=f"a last offset above {int(previous[at])}",
        found=int(last_offsets[at]),
    )
    return headers[:at], error

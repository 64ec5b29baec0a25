"""Batch headers as arrays: walk a buffer once, ask everything about its batches afterwards, without touching a record.

Works on batches of every format back to back, as in a `.log` file or a fetch response.
"""

import zlib

import numpy as np
from numpy.typing import NDArray

from tidelog.errors import ChecksumError, InvalidRecordError
from tidelog.record.faults import raise_fault
from tidelog.record.kernel import headers as kernel
from tidelog.record.layout import ATTRIBUTES_POSITION, CODEC_MASK, MAGIC_POSITION
from tidelog.record.views import Buffer, byte_view, view

FIELDS = (
    "position",
    "size_bytes",
    "magic",
    "attributes",
    "base_offset",
    "last_offset",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "partition_leader_epoch",
    "count",
    "crc",
)
"""Rows of the header array, in the kernel's order.

Of a compressed legacy wrapper, base_offset and count are -1: they are known only inside. What a legacy message does not have is -1.
"""

_FIRST_CAPACITY = 1024
_GIL_FREE_BYTES = 4096  # from this size on, letting other threads run is worth what it costs

Int64Array = NDArray[np.int64]


class BatchHeaders:
    """Headers of consecutive batches; each field is an int64 array with an entry a batch."""

    __slots__ = ("end_position", "fields")

    def __init__(self, fields: Int64Array, end_position: int) -> None:
        self.fields = fields
        self.end_position = end_position
        """Where the batch after the last one would start; less than the buffer's size where the tail is not a whole batch."""

    def __len__(self) -> int:
        return int(self.fields.shape[1])

    def __getattr__(self, name: str) -> Int64Array:
        try:
            field: Int64Array = self.fields[FIELDS.index(name)]
        except ValueError:
            raise AttributeError(name) from None
        return field

    def __getitem__(self, batches: slice) -> "BatchHeaders":
        part = self.fields[:, batches]
        end = int(part[0, -1] + part[1, -1]) if part.shape[1] else self.end_position
        return BatchHeaders(part, end)

    @property
    def compression(self) -> Int64Array:
        """Codec ids; 5 to 7 do not exist."""
        return self.attributes & CODEC_MASK


def walk_headers(buffer: Buffer, position: int = 0, *, max_bytes: int | None = None, max_batches: int | None = None) -> BatchHeaders:
    """The headers of the batches from `position` on.

    Ends in peace where no whole batch follows (`end_position` tells where). A size or magic that cannot be raises; the batches before
    it can be walked by giving the buffer up to the error's position. `max_bytes` ends the walk at the first batch that starts that far in.
    """
    buffer = byte_view(buffer)
    stop = len(buffer) if max_bytes is None else min(len(buffer), position + max(1, max_bytes))
    left = max_batches if max_batches is not None else len(buffer)
    blocks: list[Int64Array] = []
    start = position
    capacity = min(_FIRST_CAPACITY, left)
    fault = np.zeros(5, np.int64)
    while left > 0:
        fields = np.empty(len(FIELDS) * capacity, np.int64)
        done, position = kernel.walk_headers(buffer, position, stop, view(fields), capacity, view(fault))
        blocks.append(fields.reshape(len(FIELDS), capacity)[:, :done])
        left -= done
        if fault[0]:
            raise_fault(*(int(number) for number in fault[:4]))
        if done < capacity:
            break
        # The next block is as large as the rest would need at the size the batches had so far.
        walked = sum(block.shape[1] for block in blocks)
        capacity = min(left, max(_FIRST_CAPACITY, (stop - position) * walked // (position - start) + 16))
    if len(blocks) == 1:
        return BatchHeaders(blocks[0], position)
    return BatchHeaders(np.concatenate([np.empty((len(FIELDS), 0), np.int64), *blocks], axis=1), position)


def checksums(buffer: Buffer, headers: BatchHeaders) -> Int64Array:
    """The CRC of every batch as its bytes have it: CRC-32C of v2 batches, CRC-32 of legacy messages."""
    import crc32c

    buffer = byte_view(buffer)
    computed = np.zeros(len(headers), np.int64)
    is_v2 = headers.magic == 2
    for wanted, function, skipped in ((is_v2, crc32c.crc32c, ATTRIBUTES_POSITION), (~is_v2, zlib.crc32, MAGIC_POSITION)):
        if not wanted.any():
            continue
        starts = np.ascontiguousarray(headers.position[wanted] + skipped)
        sizes = np.ascontiguousarray(headers.size_bytes[wanted] - skipped)
        found = np.empty(len(starts), np.int64)
        gil_free = function is crc32c.crc32c and int(sizes.max()) >= _GIL_FREE_BYTES
        kernel.checksum_spans(function, gil_free, buffer, view(starts), view(sizes), view(found))
        computed[wanted] = found
    return computed


def checksums_match(buffer: Buffer, headers: BatchHeaders) -> NDArray[np.bool_]:
    """For every batch, whether its CRC matches its bytes."""
    matches: NDArray[np.bool_] = checksums(buffer, headers) == headers.crc
    return matches


def verify_checksums(buffer: Buffer, headers: BatchHeaders) -> None:
    """Raise for the first batch whose CRC does not match."""
    computed = checksums(buffer, headers)
    wrong = np.flatnonzero(computed != headers.crc)
    if len(wrong):
        first = int(wrong[0])
        raise ChecksumError(
            "the CRC of a batch does not match",
            position=int(headers.position[first]),
            expected=f"{int(headers.crc[first]):#010x} as its header says",
            found=f"{int(computed[first]):#010x}",
        )


def check_counts(headers: BatchHeaders) -> None:
    """Raise for the first v2 batch with a negative record count."""
    negative = np.flatnonzero((headers.count < 0) & (headers.magic == 2))
    if len(negative):
        first = int(negative[0])
        raise InvalidRecordError(
            "negative record count", position=int(headers.position[first]), expected="0 or more", found=int(headers.count[first])
        )

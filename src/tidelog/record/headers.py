"""Batch headers as arrays: walk a buffer once, ask everything about its batches afterwards, without touching a record.

Works on batches of every format back to back, as in a `.log` file or a fetch response.
"""

import zlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tidelog.errors import ChecksumError, TidelogError
from tidelog.record.faults import Fault, fault_error, raise_fault
from tidelog.record.kernel import headers as kernel
from tidelog.record.kernel import joined_crc
from tidelog.record.layout import CODEC_MASK
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
_MIN_JOINED = 4
_MIN_JOINED_BYTES = 2048
"""Batches, and bytes a batch, from which one CRC over all of them is quicker than one for each."""
_ROWS = {name: row for row, name in enumerate(FIELDS)}

Int64Array = NDArray[np.int64]


class BatchHeaders:
    """Headers of consecutive batches; each field is an int64 array with an entry a batch."""

    __slots__ = ("capacity", "count_of_batches", "end_position", "first", "flat", "may_be_compressed", "may_be_legacy")

    def __init__(self, flat: Int64Array, capacity: int, first: int, count: int, end_position: int) -> None:
        self.flat = flat
        """All fields, `capacity` numbers each, as the kernel takes them; this is the part from `first` on."""
        self.capacity = capacity
        self.first = first
        self.count_of_batches = count
        self.end_position = end_position
        """Where the batch after the last one would start; less than the buffer's size where the tail is not a whole batch."""
        self.may_be_legacy = self.may_be_compressed = True
        """False where it is known that no batch is; spares looking at each."""

    def __len__(self) -> int:
        return self.count_of_batches

    def __getattr__(self, name: str) -> Int64Array:
        row = _ROWS.get(name)
        if row is None:
            raise AttributeError(name)
        start = row * self.capacity + self.first
        return self.flat[start : start + self.count_of_batches]

    def __getitem__(self, batches: slice) -> "BatchHeaders":
        first, last, step = batches.indices(self.count_of_batches)
        if step != 1:
            raise ValueError("headers are sliced without a step")
        count = max(0, last - first)
        if count:
            at = self.first + first + count - 1
            end = int(self.flat[at] + self.flat[self.capacity + at])
        else:
            end = int(self.position[first]) if first < len(self) else self.end_position
        return BatchHeaders(self.flat, self.capacity, self.first + first, count, end)

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
    if position < 0:
        raise ValueError(f"a position is 0 or more, not {position}")
    stop = len(buffer) if max_bytes is None else min(len(buffer), position + max(1, max_bytes))
    left = max_batches if max_batches is not None else len(buffer)
    blocks: list[BatchHeaders] = []
    start = position
    capacity = min(_FIRST_CAPACITY, left)
    while left > 0:
        headers, error = walk_block(buffer, position, stop, np.empty(len(FIELDS) * capacity, np.int64))
        if error is not None:
            raise error
        blocks.append(headers)
        left -= len(headers)
        if len(headers) < capacity:
            break
        # The next block is as large as the rest would need at the size the batches had so far.
        position = headers.end_position
        walked = sum(len(block) for block in blocks)
        capacity = min(left, max(_FIRST_CAPACITY, (stop - position) * walked // (position - start) + 16))
    if len(blocks) == 1:
        return blocks[0]
    total = sum(len(block) for block in blocks)
    joined = [getattr(block, name) for name in FIELDS for block in blocks]
    end = blocks[-1].end_position if blocks else position
    return BatchHeaders(np.concatenate([np.empty(0, np.int64), *joined]), total, 0, total, end)


def walk_block(buffer: memoryview, position: int, stop: int, flat: Int64Array) -> tuple[BatchHeaders, TidelogError | None]:
    """The headers of batches that start before `stop`, as many as `flat` has room for; and the error that ended the walk, if one did."""
    capacity = len(flat) // len(FIELDS)
    fault = np.zeros(5, np.int64)
    kinds = np.zeros(2, np.int64)
    done, end = kernel.walk_headers(buffer, position, stop, view(flat), capacity, view(kinds), view(fault))
    headers = BatchHeaders(flat, capacity, 0, done, end)
    legacy, compressed = kinds.tolist()
    headers.may_be_legacy, headers.may_be_compressed = legacy > 0, compressed > 0
    return headers, fault_error(*fault[:4].tolist()) if fault[0] else None


def checksums(buffer: Buffer, headers: BatchHeaders) -> Int64Array:
    """The CRC of every batch as its bytes have it: CRC-32C of v2 batches, CRC-32 of legacy messages."""
    computed = np.empty(len(headers), np.int64)
    _checksum(buffer, headers, computed)
    return computed


def checksums_match(buffer: Buffer, headers: BatchHeaders) -> NDArray[np.bool_]:
    """For every batch, whether its CRC matches its bytes."""
    matches: NDArray[np.bool_] = checksums(buffer, headers) == headers.crc
    return matches


def verify_checksums(buffer: Buffer, headers: BatchHeaders) -> None:
    """Raise for the first batch whose CRC does not match."""
    _, error = first_bad_checksum(buffer, headers)
    if error is not None:
        raise error


def first_bad_checksum(buffer: Buffer, headers: BatchHeaders) -> tuple[int, ChecksumError | None]:
    """How many batches from the first one on have a CRC that matches; and the error for the one after them, if there is one."""
    if _match_as_a_whole(buffer, headers):
        return len(headers), None
    computed = np.empty(len(headers), np.int64)
    good = _checksum(buffer, headers, computed)
    if good == len(headers):
        return good, None
    return good, ChecksumError(
        "the CRC of a batch does not match",
        position=int(headers.position[good]),
        expected=f"{int(headers.crc[good]):#010x} as its header says",
        found=f"{int(computed[good]):#010x}",
    )


def _match_as_a_whole(buffer: Buffer, headers: BatchHeaders) -> bool:
    """Whether one CRC over all batches is what their headers make it. False also where there is nothing to gain by asking."""
    import crc32c

    count = len(headers)
    if headers.may_be_legacy or not joined_crc.IS_COMPILED or count < _MIN_JOINED:
        return False
    start = int(headers.flat[headers.first])
    if headers.end_position - start < count * _MIN_JOINED_BYTES:
        return False
    whole = _within(buffer, headers)
    expected = joined_crc.joined_crc(whole, view(headers.flat), headers.capacity, headers.first, count, view(crc_table()))
    # So many bytes are summed up without the interpreter, which other threads have meanwhile.
    return expected >= 0 and crc32c.crc32c(whole[start : headers.end_position]) == expected


@cache
def crc_table() -> NDArray[np.uint32]:
    """What the kernel needs to move CRCs."""
    table = np.empty(joined_crc.TABLE_SIZE, np.uint32)
    joined_crc.fill_table(view(table))
    return table


def _within(buffer: Buffer, headers: BatchHeaders) -> memoryview:
    whole = byte_view(buffer)
    if headers.end_position > len(whole):
        raise ValueError(f"the headers go on to byte {headers.end_position} of another buffer, this one has {len(whole)}")
    return whole


def _checksum(buffer: Buffer, headers: BatchHeaders, computed: Int64Array) -> int:
    import crc32c

    if len(headers) == 0:
        return 0
    return kernel.checksum_batches(
        crc32c.crc32c,
        zlib.crc32,
        _within(buffer, headers),
        view(headers.flat),
        headers.capacity,
        headers.first,
        len(headers),
        view(computed),
    )


def check_counts(headers: BatchHeaders) -> None:
    """Raise for the first v2 batch with a negative record count."""
    negative = np.flatnonzero((headers.count < 0) & (headers.magic == 2))
    if len(negative):
        first = int(negative[0])
        raise_fault(Fault.NEGATIVE_COUNT, int(headers.position[first]), int(headers.count[first]), 0)

"""The memory of Arrow columns: made with pyarrow's allocator, filled by the kernel, handed over without a copy."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidelog.record.kernel import columns as kernel
from tidelog.record.views import byte_view, view

if TYPE_CHECKING:
    import pyarrow as pa

_SLACK = 1024


class BinaryColumn:
    """A binary column that is filled chunk after chunk.

    How many bytes a chunk will need is guessed from the share that they had of the payload in the chunk before: exact room would cost a
    second pass, and room for the worst case would keep memory that nobody uses.
    """

    __slots__ = ("_data", "_offsets", "_validity", "share", "views", "wanted")

    def __init__(self, *, wanted: bool, share: float) -> None:
        self.wanted = wanted
        self.share = share
        self._validity = bytearray()  # all ones, unless the column has nulls
        self.views: tuple[memoryview, memoryview, memoryview] = (_EMPTY_INT32, _EMPTY_BYTE, _EMPTY_BYTE)
        """Offsets, data and validity, for the kernel to fill."""

    def allocate(self, count: int, payload_bytes: int) -> None:
        """Make room for `count` values of a payload of this size."""
        if not self.wanted:
            return
        import pyarrow as pa

        self._offsets = pa.allocate_buffer(4 * (count + 1))
        self._data = pa.allocate_buffer(max(1, min(payload_bytes, int(self.share * payload_bytes) + _SLACK)))
        if count // 8 >= len(self._validity):
            self._validity = bytearray(b"\xff" * (count // 4 + 1))
        self.views = (byte_view(self._offsets).cast("i"), byte_view(self._data), memoryview(self._validity))

    def start_again(self) -> None:
        """Filling it has ended early. The guess may have been too small; all there is will do."""
        self.share = 1.0
        self._validity = bytearray()

    def finish(self, count: int, data_bytes: int, nulls: int, payload_bytes: int) -> "pa.Array":
        """The column, and the guess for the next chunk: a tenth more than this one had."""
        import pyarrow as pa

        if payload_bytes:
            self.share = min(1.0, 1.1 * data_bytes / payload_bytes)
        self.views[0][count] = data_bytes
        validity = None
        if nulls:
            size = count // 8 + 1
            validity = pa.py_buffer(bytes(self.views[2][:size]))
            self._validity = bytearray(b"\xff" * len(self._validity))
        return pa.Array.from_buffers(pa.binary(), count, [validity, self._offsets, self._data], nulls)

    @staticmethod
    def gather(payload: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32], kind: "pa.DataType | None" = None) -> "pa.Array":
        """A column of slices of `payload`; a length of -1 is a null."""
        import pyarrow as pa

        count = len(starts)
        offsets = pa.allocate_buffer(4 * (count + 1))
        data = pa.allocate_buffer(max(1, int(np.maximum(lengths, 0).sum(dtype=np.int64))))
        validity = pa.allocate_buffer(count // 8 + 1)
        np.frombuffer(validity, np.uint8)[:] = 0xFF
        offset_view = byte_view(offsets).cast("i")
        offset_view[0] = 0
        nulls = kernel.gather(
            payload,
            view(np.ascontiguousarray(starts)),
            view(np.ascontiguousarray(lengths)),
            offset_view,
            byte_view(data),
            byte_view(validity),
        )
        return pa.Array.from_buffers(kind or pa.binary(), count, [validity if nulls else None, offsets, data], nulls)


def int64_buffer(count: int) -> "tuple[pa.Buffer, memoryview]":
    """Room for `count` 64-bit integers, and a view to fill it."""
    import pyarrow as pa

    buffer = pa.allocate_buffer(8 * max(1, count))
    return buffer, byte_view(buffer).cast("q")


def fixed_array(buffer: "pa.Buffer", count: int) -> "pa.Array":
    """An int64 column over a filled buffer."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), count, [None, buffer])


def header_array(payload: memoryview, starts: NDArray[np.int32], counts: NDArray[np.int32]) -> "pa.Array":
    """The headers column: a list of (key, value) for each record."""
    import pyarrow as pa

    total = int(counts.sum(dtype=np.int64))
    slices = np.empty(4 * max(1, total), np.int32)
    kernel.locate_headers(payload, view(np.ascontiguousarray(starts)), view(np.ascontiguousarray(counts)), view(slices))
    name_starts, name_lengths, value_starts, value_lengths = (row[:total] for row in slices.reshape(4, -1))
    names = _valid_text(BinaryColumn.gather(payload, name_starts, name_lengths, pa.string()))
    values = BinaryColumn.gather(payload, value_starts, value_lengths)
    fields = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
    items = pa.StructArray.from_arrays([names, values], fields=fields)
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), items)


def _valid_text(names: "pa.Array") -> "pa.Array":
    """Header names that are not UTF-8 are read as Kafka reads them, with replacement characters."""
    import pyarrow as pa

    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.cast(pa.binary()).to_pylist()], pa.string())
    return names


_EMPTY_INT32 = view(np.zeros(1, np.int32))
_EMPTY_BYTE = view(np.zeros(1, np.uint8))

"""The records of many batches at once, as columns, for lines that are made by the million.

A run is what can be shown alike: batches of format v2 one behind the other with the same type of timestamp, or a single compressed one.
Nothing is copied: columns say where keys and values lie. Whatever is odd is no run (old formats, control batches, damage, records that do
not parse), and is shown batch by batch, by who has the words for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.errors import TidelogError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tidelog.cli.sound_segment import SoundPiece
    from tidelog.inspection.walk_parts import Piece
    from tidelog.record.headers import BatchHeaders

    Int64Array = NDArray[np.int64]
    Int32Array = NDArray[np.int32]

MARK = "\x01"
"""Stands before the first record of each batch."""
_CODEC, _APPEND_TIME, _CONTROL = 0x07, 0x08, 0x20
_ODD = -1
_RUN_RECORDS = 2048
"""A run ends with the batch that has this one: so its lines stay in the cache of the processor, from one step to the next."""
_MAX_INT32 = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Records of batches of one kind, an entry each."""

    payload: bytes
    """Where keys, values and headers lie."""
    counts: "Int64Array"
    """Of the batches: how many records each has."""
    timestamp_type: str
    offsets: "Int64Array"
    timestamps_ms: "Int64Array"
    sequences: "Int64Array"
    slices: "Int32Array"
    """Six rows, those of `tidelog.record.kernel.records`."""

    @property
    def key_sizes(self) -> "Int32Array":
        """-1 of those that have none."""
        sizes: Int32Array = self.slices[1]
        return sizes

    @property
    def value_sizes(self) -> "Int32Array":
        """-1 of those that have none."""
        sizes: Int32Array = self.slices[3]
        return sizes

    @property
    def has_headers(self) -> bool:
        """Whether one of them has any."""
        return bool(self.slices[5].any())

    def marks(self) -> "NDArray[np.uint8]":
        """`MARK` for the first record of each batch, nothing for the others."""
        import numpy as np

        marks = np.zeros(len(self.offsets), np.uint8)
        marks[(np.cumsum(self.counts) - self.counts)[self.counts > 0]] = ord(MARK)
        return marks

    def keys(self) -> list[bytes | None]:
        """The bytes of each key."""
        return self._fields(0)

    def values(self) -> list[bytes | None]:
        """The bytes of each value."""
        return self._fields(2)

    def _fields(self, row: int) -> list[bytes | None]:
        starts, sizes, payload = self.slices[row], self.slices[row + 1], self.payload
        found: list[bytes | None] = [
            payload[start:end] for start, end in zip(starts.tolist(), (starts + sizes.clip(0)).tolist(), strict=True)
        ]
        for absent in (sizes < 0).nonzero()[0].tolist():
            found[absent] = None
        return found

    def headers(self) -> list[tuple[tuple[str, bytes | None], ...]]:
        """Names and values of the headers of each record."""
        import numpy as np

        from tidelog.record.kernel import columns as kernel
        from tidelog.record.views import view

        starts, counts = np.ascontiguousarray(self.slices[4]), np.ascontiguousarray(self.slices[5])
        places = np.empty((4, int(counts.sum())), np.int32)
        kernel.locate_headers(memoryview(self.payload), view(starts), view(counts), view(places.reshape(-1)))
        payload = self.payload
        found = iter(
            (payload[name : name + name_size].decode("utf-8", "replace"), None if size < 0 else payload[value : value + size])
            for name, name_size, value, size in zip(*places.tolist(), strict=True)
        )
        return [tuple(next(found) for _ in range(count)) for count in counts.tolist()]

    def by_batch(self, text: str) -> Iterator[str]:
        """The lines of each batch, of lines that have `MARK`s."""
        chunks = iter(text.split(MARK)[1:])
        for count in self.counts.tolist():
            yield next(chunks) if count else ""


def stretches(piece: "Piece | SoundPiece") -> Iterator[tuple[int, int, RecordRun | None]]:
    """From which batch to which, and their records; None where they have to be shown one by one."""
    import numpy as np

    headers = piece.headers
    is_plain = (headers.magic == 2) & (headers.attributes & _CONTROL == 0)
    is_plain[piece.bad] = False
    kinds = np.where(is_plain & (piece.view is not None), headers.attributes & (_CODEC | _APPEND_TIME), _ODD).tolist()
    counts = headers.count.tolist()
    first = 0
    while first < len(kinds):
        kind, last, records = kinds[first], first + 1, counts[first]
        while kind in (0, _APPEND_TIME) and last < len(kinds) and kinds[last] == kind and records < _RUN_RECORDS:
            records += counts[last]
            last += 1
        yield first, last, None if kind == _ODD else _decode(piece.view, headers[first:last])
        first = last


def _decode(view: Any, headers: "BatchHeaders") -> RecordRun | None:
    try:
        payload, batches = _described(view, headers)
    except TidelogError:
        return None
    total = int(batches[:, 2].sum())
    if total == 0 or len(payload) > _MAX_INT32:
        return None
    return _decode_payload(payload, batches, headers, total)


def _described(source: memoryview, headers: "BatchHeaders") -> "tuple[memoryview, Int64Array]":
    """The bytes of records, and what the kernel wants to know about their batches."""
    import numpy as np

    from tidelog.record.batch import RecordBatch, check_count
    from tidelog.record.faults import raise_fault
    from tidelog.record.kernel import headers as kernel
    from tidelog.record.slots import BATCH_FIELDS
    from tidelog.record.views import view

    start = int(headers.position[0])
    batches = np.empty((len(headers), BATCH_FIELDS), np.int64)
    totals, fault = np.zeros(3, np.int64), np.zeros(5, np.int64)
    is_good = kernel.describe_batches(
        view(headers.flat), headers.capacity, headers.first, len(headers), start, view(batches.reshape(-1)), view(totals), view(fault)
    )
    if not is_good:
        raise_fault(*fault[:4].tolist())
    if not totals[2]:
        return source[start : headers.end_position], batches
    payload = RecordBatch(source, start, int(headers.size_bytes[0])).payload()
    check_count(int(headers.count[0]), len(payload), start)
    batches[0, :2] = 0, len(payload)
    return payload, batches


def _decode_payload(payload: memoryview, batches: "Int64Array", headers: "BatchHeaders", total: int) -> RecordRun | None:
    import numpy as np

    from tidelog.record.kernel import records as kernel
    from tidelog.record.slots import Totals, Want
    from tidelog.record.views import view

    offsets, timestamps = np.empty(total, np.int64), np.empty(total, np.int64)
    slices = np.empty((6, total), np.int32)
    unused, no_bytes = view(np.empty(1, np.int32)), view(np.empty(1, np.uint8))
    is_good = kernel.decode_batches(
        payload,
        view(batches.reshape(-1)),
        int(Want.SLICES),
        view(offsets),
        view(timestamps),
        unused,
        no_bytes,
        no_bytes,
        unused,
        no_bytes,
        no_bytes,
        view(slices.reshape(-1)),
        view(np.zeros(len(Totals), np.int64)),
        view(np.zeros(5, np.int64)),
    )
    if not is_good:
        return None
    counts = batches[:, 2]
    timestamp_type = "LogAppendTime" if int(headers.attributes[0]) & _APPEND_TIME else "CreateTime"
    return RecordRun(bytes(payload), counts, timestamp_type, offsets, timestamps, _sequences(headers, counts, offsets), slices)


def _sequences(headers: "BatchHeaders", counts: "Int64Array", offsets: "Int64Array") -> "Int64Array":
    """Of each record; -1 without one."""
    import numpy as np

    if int(headers.base_sequence.max()) < 0:
        return np.full(len(offsets), -1, np.int64)
    base = np.repeat(headers.base_sequence, counts)
    return np.where(base < 0, -1, (base + offsets - np.repeat(headers.base_offset, counts)) & 0x7FFFFFFF)

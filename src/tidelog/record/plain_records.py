"""Scan the records of many plain batches in one go, into memory that is used again: where their keys and values lie, nothing copied.

Plain is a v2 batch that is not compressed: its records lie in the buffer as they are.
"""

import numpy as np
from numpy.typing import NDArray

from tidelog.record.faults import raise_fault
from tidelog.record.headers import BatchHeaders, Int64Array
from tidelog.record.kernel import headers as header_kernel
from tidelog.record.kernel import records as kernel
from tidelog.record.layout import CODEC_MASK, CONTROL_BIT
from tidelog.record.slots import BATCH_FIELDS, Totals, Want
from tidelog.record.views import view

_NO_BYTES = view(np.zeros(1, np.uint8))
_NO_OFFSETS = view(np.zeros(1, np.int32))
_FIRST_RECORDS = 16_384
_SLICE_ROWS = 6

MAGIC_V2 = 2


def are_plain(headers: BatchHeaders) -> NDArray[np.bool_]:
    """Which batches are plain, and hold data."""
    plain: NDArray[np.bool_] = (headers.attributes & (CODEC_MASK | CONTROL_BIT)) == 0
    if headers.may_be_legacy:
        plain &= headers.magic == MAGIC_V2
    return plain


class PlainRecords:
    """The columns of the batches that were scanned last. One thread at a time."""

    def __init__(self) -> None:
        self._described = np.empty(0, np.int64)
        self._fault = np.zeros(5, np.int64)
        self._totals = np.zeros(len(Totals), np.int64)
        self._make_room(_FIRST_RECORDS)
        self.count = 0

    def _make_room(self, records: int) -> None:
        self._offsets = np.empty(records, np.int64)
        self._timestamps = np.empty(records, np.int64)
        self._slices = np.empty((_SLICE_ROWS, records), np.int32)

    def scan(self, buffer: memoryview, headers: BatchHeaders) -> None:
        """Scan batches, which are plain; bad records raise."""
        count = len(headers)
        if len(self._described) < BATCH_FIELDS * count:
            self._described = np.empty(BATCH_FIELDS * count, np.int64)
        if headers.end_position > len(buffer):
            raise ValueError(f"the headers go on to byte {headers.end_position} of another buffer, this one has {len(buffer)}")
        self.count = 0
        if count == 0:
            return
        described = view(self._described)[: BATCH_FIELDS * count]
        totals, fault = view(self._totals), view(self._fault)
        is_good = header_kernel.describe_batches(view(headers.flat), headers.capacity, headers.first, count, 0, described, totals, fault)
        if is_good:
            records = int(self._totals[0])
            if records > len(self._offsets):
                self._make_room(records + records // 4)
            is_good = kernel.decode_batches(
                buffer,
                described,
                int(Want.SLICES),
                view(self._offsets),
                view(self._timestamps),
                _NO_OFFSETS,
                _NO_BYTES,
                _NO_BYTES,
                _NO_OFFSETS,
                _NO_BYTES,
                _NO_BYTES,
                view(self._slices.reshape(-1)),
                totals,
                fault,
            )
        if not is_good:
            kind, position, found, expected = self._fault[:4].tolist()
            raise_fault(kind, position, found, expected)
        self.count = int(self._totals[Totals.DONE])

    @property
    def offsets(self) -> Int64Array:
        """Of the records."""
        return self._offsets[: self.count]

    @property
    def key_starts(self) -> NDArray[np.int32]:
        """Where the keys begin in the buffer."""
        return self._slices[0, : self.count]

    @property
    def key_lengths(self) -> NDArray[np.int32]:
        """-1 of a null."""
        return self._slices[1, : self.count]

    @property
    def value_lengths(self) -> NDArray[np.int32]:
        """-1 of a null."""
        return self._slices[3, : self.count]

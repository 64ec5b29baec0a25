"""Every record of every batch: decompressed, parsed, counted, and held against the header. The slowest level of verify."""

from collections.abc import Iterator

import numpy as np

from tidelog.errors import TidelogError
from tidelog.inspection.batch_checks import Bounds
from tidelog.inspection.finding import NOTHING, SALVAGE, Finding
from tidelog.inspection.walk_parts import Piece
from tidelog.record.batch import RecordBatch
from tidelog.record.headers import Int64Array
from tidelog.record.layout import TIMESTAMP_TYPE_BIT
from tidelog.record.legacy import flatten
from tidelog.record.scanning import scan_records
from tidelog.record.survey import Scratch, survey_one

_LOWEST_MS, _HIGHEST_MS = -(1 << 63), (1 << 63) - 1


class RecordChecks:
    """The records of the batches of a log; keeps its memory from batch to batch."""

    def __init__(self) -> None:
        self._scratch = Scratch()

    def check(self, piece: Piece, bounds: Bounds) -> Iterator[Finding]:
        """The records of a run of batches; those with a wrong CRC are left out."""
        headers, view = piece.headers, piece.view
        bad = set(piece.bad.tolist())
        if view is None:
            what = "a batch so large, or so odd, that its records were not looked at"
            yield Finding("note", "records-skipped", bounds.path, what, NOTHING, piece.start, int(headers.base_offset[0]))
            return
        columns = (headers.position, headers.size_bytes, headers.magic, headers.attributes, headers.count, headers.base_timestamp_ms)
        for row, fields in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            if row in bad:
                continue
            try:
                yield from self._check_batch(piece, view, row, *fields, bounds=bounds)
            except TidelogError as error:
                what = f"the records of a batch cannot be read: {error.what}"
                expected = None if error.expected is None else str(error.expected)
                found = None if error.found is None else str(error.found)
                place, offset = fields[0] + piece.shift, int(headers.base_offset[row])
                yield Finding("error", "records-unreadable", bounds.path, what, SALVAGE, place, offset, expected, found)

    def _check_batch(
        self,
        piece: Piece,
        view: memoryview,
        row: int,
        position: int,
        size_bytes: int,
        magic: int,
        attributes: int,
        count: int,
        base_timestamp_ms: int,
        *,
        bounds: Bounds,
    ) -> Iterator[Finding]:
        headers = piece.headers
        if magic < 2:
            flatten(view, headers[row : row + 1], check_crcs=True)
            return
        largest, _, _, _, is_dense = survey_one(
            view, position, size_bytes, attributes, count, base_timestamp_ms, _LOWEST_MS, _HIGHEST_MS, self._scratch
        )
        if count == 0:
            return
        place, first, last = position + piece.shift, int(headers.base_offset[row]), int(headers.last_offset[row])
        if not is_dense or count > last - first + 1:
            yield from _check_offsets(scan_records(RecordBatch(view, position, size_bytes)).offsets, place, first, last, bounds)
        stamped = int(headers.max_timestamp_ms[row])
        if not attributes & TIMESTAMP_TYPE_BIT and largest != stamped:
            what = "the largest timestamp of the records is not that of their batch: searches by time go wrong"
            yield Finding("warning", "record-timestamps", bounds.path, what, NOTHING, place, first, largest, stamped)


def _check_offsets(offsets: Int64Array, place: int, first: int, last: int, bounds: Bounds) -> Iterator[Finding]:
    if int(offsets[0]) >= first and int(offsets[-1]) <= last and not (np.diff(offsets) <= 0).any():
        return
    # A leader does not look at the deltas of a batch that comes uncompressed.
    what = "the offsets of records do not rise, or lie outside of their batch"
    found = f"{int(offsets.min())} to {int(offsets.max())}"
    yield Finding("warning", "record-offsets", bounds.path, what, SALVAGE, place, first, f"rising from {first} to {last}", found)

"""Walk a `.log` file by its headers alone: large batches are stepped over without being read.

One small read a batch is faster than reading everything as soon as batches are larger than a few kibibytes. A file of smaller ones, of old
formats, or with damage is read whole from there on, as `SegmentWalk` does it.
"""

import struct
from collections.abc import Iterator

import numpy as np

from tidelog.inspection.segment_walk import WALK_BATCHES, SegmentWalk
from tidelog.inspection.walk_parts import NO_ROWS, Piece, Stretch
from tidelog.record.headers import FIELDS, BatchHeaders
from tidelog.record.layout import HEADER_SIZE, LOG_OVERHEAD

WORTH_STEPPING_BYTES = 6144
"""Batches below that, on the average, are read whole."""
_FIRST_RUN = 64

_LAYOUT = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("partition_leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
assert _LAYOUT.itemsize == HEADER_SIZE
_SIZE_AND_MAGIC = struct.Struct(">8xi4xb44x")
assert _SIZE_AND_MAGIC.size == HEADER_SIZE
_MIN_LENGTH = HEADER_SIZE - LOG_OVERHEAD


class HeaderWalk(SegmentWalk):
    """A walk that checks no CRC."""

    def __iter__(self) -> Iterator[Piece | Stretch]:
        wanted = _FIRST_RUN
        while self.position < self.size_bytes:
            start = self.position
            headers = self._step(wanted)
            if headers:
                self.end = self.position
                rows = _rows(headers, start)
                self.last_offset = max(self.last_offset, int(rows.last_offset[-1]))
                yield Piece(rows, 0, None, NO_ROWS)
            if len(headers) < wanted or (self.position - start) < WORTH_STEPPING_BYTES * len(headers):
                break
            wanted = WALK_BATCHES
        yield from super().__iter__()

    def _step(self, wanted: int) -> list[bytes]:
        """The headers of up to `wanted` batches; fewer where something else than a whole v2 batch comes."""
        headers: list[bytes] = []
        read, fd, most = self.disk.read, self.fd, self.size_bytes - LOG_OVERHEAD
        append, unpack = headers.append, _SIZE_AND_MAGIC.unpack
        position = self.position
        try:
            for _ in range(wanted):
                header = read(fd, HEADER_SIZE, position)
                length, magic = unpack(header)
                if magic != 2 or length < _MIN_LENGTH or length > most - position:
                    break
                append(header)
                position += length + LOG_OVERHEAD
        except struct.error:
            pass  # the file ends: fewer bytes than a header has
        self.position = position
        return headers


def _rows(headers: list[bytes], start: int) -> BatchHeaders:
    """As the kernel's walk would have them."""
    count = len(headers)
    parsed = np.frombuffer(b"".join(headers), _LAYOUT)
    columns = {name: parsed[name].astype(np.int64) for name in _LAYOUT.names or ()}
    columns["size_bytes"] = columns["length"] + LOG_OVERHEAD
    ends = start + np.cumsum(columns["size_bytes"])
    columns["position"] = ends - columns["size_bytes"]
    columns["last_offset"] = columns["base_offset"] + columns["last_offset_delta"]
    return BatchHeaders(np.concatenate([columns[name] for name in FIELDS]), count, 0, count, int(ends[-1]))

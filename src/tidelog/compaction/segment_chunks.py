"""Read a segment in pieces of whole batches, into one buffer that is used again and again.

Every batch is checked against its CRC: what compaction writes gets a new one, and must not give damaged bytes a good name.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tidelog.errors import CorruptBatchError, DamagedLogError, TidelogError
from tidelog.log.segment import Segment
from tidelog.log.storage_errors import storage_error
from tidelog.record.headers import FIELDS, BatchHeaders, first_bad_checksum, walk_block
from tidelog.record.layout import LOG_OVERHEAD

CHUNK_BYTES = 4 << 20
"""Small ones take longer, and two cleaners stand in each other's way: what is done between two chunks needs the interpreter."""
_CHUNK_BATCHES = 4096
_HEAD_BYTES = 17


class Chunk(NamedTuple):
    """Whole batches of a segment. Good until the next one is asked for."""

    buffer: memoryview
    headers: BatchHeaders
    """Positions are those in the buffer."""
    file_position: int
    """Of the buffer's first byte."""

    def located(self, error: TidelogError, path: str) -> TidelogError:
        """An error about this buffer, as one about the file."""
        error.path = path
        if error.position is not None:
            error.position += self.file_position
        return error


def check_offsets(chunk: Chunk, segment: Segment, end_offset: int) -> None:
    """Raise if a batch has offsets that belong behind its segment, where the next one begins.

    No CRC covers a base offset. One that is too large would make its records the last of their keys, and the real ones would go.
    """
    headers = chunk.headers
    if int(headers.last_offset.max()) < end_offset:
        return
    place = int(np.argmax(headers.last_offset >= end_offset))
    raise DamagedLogError(
        "a batch has offsets that belong behind its segment",
        path=segment.file.path,
        position=chunk.file_position + int(headers.position[place]),
        expected=f"offsets below {end_offset}, where the next segment begins",
        found=int(headers.last_offset[place]),
        hint="tidelog verify tells what is wrong, tidelog salvage copies what is sound",
    )


class ChunkReader:
    """Reads chunks. One thread at a time, one segment after the other."""

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes
        self._buffer = bytearray(chunk_bytes)
        self._fields = np.empty(len(FIELDS) * _CHUNK_BATCHES, np.int64)

    def read(
        self, segment: Segment, position: int = 0, skip: Callable[[int], int] | None = None, end: int | None = None
    ) -> Iterator[Chunk]:
        """The batches of a rolled segment from `position` on, to its end or to another position. One that is damaged, or not whole, raises.

        `skip` says how many bytes at a position, whole batches, are not wanted.
        """
        opened = segment.file.open()
        disk = segment.pool.disk
        end = segment.size_bytes if end is None else end
        buffer = self._buffer
        held = 0  # bytes at the beginning of the buffer that were read and not given out
        while position < end:
            skipped = skip(position) if skip is not None else 0
            if skipped:
                position += skipped
                kept = max(0, held - skipped)
                buffer[:kept] = buffer[held - kept : held]
                held = kept
                continue
            wanted = min(len(buffer) - held, end - position - held)
            if wanted > 0:
                try:
                    held += disk.read_into(opened.fd, memoryview(buffer)[held : held + wanted], position + held)
                except OSError as refused:
                    raise storage_error(refused, segment.file.path, "reading failed") from refused
            view = memoryview(buffer)[:held]
            given = 0
            while True:
                headers, error = walk_block(view, given, held, self._fields)
                chunk = Chunk(view, headers, position)
                if len(headers):
                    _, bad = first_bad_checksum(view, headers)
                    if bad is not None:
                        raise chunk.located(bad, segment.file.path)
                    yield chunk
                    given = headers.end_position
                if error is not None:
                    raise chunk.located(error, segment.file.path)
                if len(headers) < _CHUNK_BATCHES:
                    break
            if given == 0:
                buffer = self._grown(buffer, view, end - position, segment, position)
                continue
            buffer[: held - given] = buffer[given:held]
            position += given
            held -= given

    def _grown(self, buffer: bytearray, view: memoryview, left: int, segment: Segment, position: int) -> bytearray:
        """A buffer for a batch that is larger than this one. It is not kept: such batches are few."""
        size = int.from_bytes(view[8:12], "big", signed=True) + LOG_OVERHEAD if len(view) >= _HEAD_BYTES else left + 1
        if size > left or size <= len(buffer):
            raise CorruptBatchError(
                "a segment ends inside of a batch",
                path=segment.file.path,
                position=position,
                expected=f"{size} bytes" if len(view) >= _HEAD_BYTES else "a whole batch",
                found=f"{left} bytes",
            )
        return bytearray(view) + bytearray(size - len(view))

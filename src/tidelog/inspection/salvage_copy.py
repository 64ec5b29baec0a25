"""Write what salvage keeps into the new directory.

Segments are written under the suffix `.cleaned`, so that a salvage that was interrupted is no log that somebody takes for whole; once all
files are durable they get their names, as a compaction's do (`tidelog.log.swap`). Sound batches are copied as they are. What was
restored in one (a base offset, a magic, a leader epoch: fields that no CRC covers) is all that differs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tidelog.disk.disk import Disk
from tidelog.disk.names import CLEANED, LOG, OWN_SUFFIX, segment_file
from tidelog.errors import TidelogError
from tidelog.inspection.salvage_reader import SalvageReader
from tidelog.inspection.salvage_scan import READ_BYTES, Run, WalkedSegment
from tidelog.inspection.walk_parts import header_row, size_at
from tidelog.log.batch_checksum import MAGIC_POSITION
from tidelog.log.roll import MAX_RELATIVE_OFFSET
from tidelog.record.headers import FIELDS, BatchHeaders, walk_block
from tidelog.record.layout import HEADER, HEADER_SIZE
from tidelog.record.reading import count_records

_WALK_BATCHES = 4096
_MAX_LOG_BYTES = (1 << 31) - 1


class Piece(NamedTuple):
    """A run, or the part of it that is wanted."""

    walked: WalkedSegment
    run: Run
    first_offset: int
    last_offset: int

    @property
    def is_part(self) -> bool:
        """Whether some of the run's batches are not wanted."""
        return (self.first_offset, self.last_offset) != (self.run.first_offset, self.run.last_offset)


@dataclass(slots=True)
class Copier:
    """Writes the `.log.cleaned` files, one after the other."""

    disk: Disk
    target: str
    findings: list[str]
    sizes: dict[int, int] = field(default_factory=dict)
    """Of the new files, by base offset."""
    kept_bytes: dict[int, int] = field(default_factory=dict)
    """Of the files of the source, by their base offset."""
    batch_count: int = 0
    record_count: int = 0
    _fd: int = -1
    _base_offset: int = -1
    _epoch: int = -1
    """Of the batch before."""
    _epoch_before: int = -1
    """Of the one before that."""
    _flat: "np.ndarray[tuple[int], np.dtype[np.int64]]" = field(default_factory=lambda: np.empty(len(FIELDS) * _WALK_BATCHES, np.int64))

    def begin(self, base_offset: int) -> None:
        """Begin a new segment."""
        self.close()
        self._fd = self.disk.create(f"{self.target}/{segment_file(base_offset, LOG, CLEANED)}")
        self._base_offset = base_offset
        self.sizes[base_offset] = 0

    def close(self) -> None:
        """The segment is complete: make it durable."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            try:
                self.disk.sync(fd)
            finally:
                self.disk.close(fd)

    def copy(self, reader: SalvageReader, piece: Piece) -> None:
        """Append the batches of a piece to the segment that was begun."""
        run = piece.run
        if run.is_magic_rotten or run.moved_to is not None:
            self._copy_one(reader, piece.walked, run.position, run.size_bytes, run)
            return
        position = run.position
        while position < run.end_position:
            window = bytearray(reader.read(position, min(READ_BYTES, run.end_position - position)))
            headers, _ = walk_block(memoryview(window), 0, len(window), self._flat)
            if len(headers) > 1 and position + headers.end_position < run.end_position:
                headers = headers[: len(headers) - 1]  # the epoch of the last one is judged by the one behind it
            if len(headers) == 0:
                large = large_batch(window, run.end_position - position)
                if large is None:
                    return  # it was sound a moment ago; the new segment is read again, and it will be told there
                for part in wanted_parts(large, piece):
                    self._copy_one(reader, piece.walked, position, part.end_position, None)
                position += large.end_position
                continue
            self._mend_epochs(window, headers, piece.walked, position)
            for part in wanted_parts(headers, piece):
                self._write_batches(memoryview(window), part, piece.walked)
            position += headers.end_position

    def _write_batches(self, window: memoryview, headers: BatchHeaders, walked: WalkedSegment) -> None:
        start, end = int(headers.position[0]), headers.end_position
        if int(headers.last_offset[-1]) - self._base_offset > MAX_RELATIVE_OFFSET or self._size + end - start > _MAX_LOG_BYTES:
            fits = np.flatnonzero(headers.last_offset - self._base_offset > MAX_RELATIVE_OFFSET)
            at = int(fits[0]) if len(fits) else 0
            if at:
                self._write_batches(window, headers[:at], walked)
            self.begin(max(int(headers.base_offset[at]), 0) or int(headers.last_offset[at]))
            self._write_batches(window, headers[at:], walked)
            return
        self._write(window[start:end], walked)
        self.batch_count += len(headers)
        try:
            self.record_count += count_records(window, headers)
        except TidelogError as error:
            self.findings.append(f"{walked.path}: a batch of the new log cannot be counted: {error.what}")

    def _copy_one(self, reader: SalvageReader, walked: WalkedSegment, position: int, size: int, restored: Run | None) -> None:
        """A batch that does not fit into memory at once, or whose header needs mending."""
        head = bytearray(reader.read(position, HEADER_SIZE))
        if restored is not None and restored.moved_to is not None:
            found = int.from_bytes(head[:8], "big", signed=True)
            self.findings.append(
                f"{walked.path}: the base offset of the batch at byte {position} was rotten: {found}, restored to {restored.moved_to}"
            )
            head[:8] = restored.moved_to.to_bytes(8, "big")
        if restored is not None and restored.is_magic_rotten:
            self.findings.append(f"{walked.path}: the magic of the batch at byte {position} was rotten: {head[16]}, restored to 2")
            head[16] = 2
        fields = HEADER.unpack(head)
        last_offset = fields[0] + fields[6] if head[16] == 2 else fields[0]
        if last_offset - self._base_offset > MAX_RELATIVE_OFFSET or self._size + size > _MAX_LOG_BYTES:
            self.begin(fields[0])
        self._write(head, walked)
        done = len(head)
        while done < size:
            part = reader.read(position + done, min(READ_BYTES, size - done))
            self._write(part, walked)
            done += len(part)
        self.batch_count += 1
        self.record_count += max(0, fields[12]) if head[16] == 2 else 1
        self._epoch_before, self._epoch = self._epoch, fields[2] if head[16] == 2 else -1

    def _mend_epochs(self, window: bytearray, headers: BatchHeaders, walked: WalkedSegment, file_position: int) -> None:
        """Leader epochs never fall, so one that differs from its neighbours, which are equal and at least three, is rotten."""
        epochs, magic = headers.partition_leader_epoch, headers.magic
        before = np.concatenate(([self._epoch], epochs[:-1]))
        behind = np.concatenate((epochs[1:], [-1]))
        is_steady = (np.concatenate(([self._epoch_before], before[:-1])) == before) | (np.concatenate((behind[1:], [-2])) == behind)
        odd = np.flatnonzero((epochs != before) & (before == behind) & is_steady & (before >= 0) & (epochs != -1) & (magic == 2))
        for row in odd.tolist():
            position = int(headers.position[row])
            self.findings.append(
                f"{walked.path}: the leader epoch of the batch at byte {file_position + position} was rotten: "
                f"{int(epochs[row])}, restored to {int(before[row])}"
            )
            window[position + 12 : position + 16] = int(before[row]).to_bytes(4, "big", signed=True)
            epochs[row] = before[row]
        self._epoch_before, self._epoch = int(before[-1]), int(epochs[-1])

    @property
    def _size(self) -> int:
        return self.sizes[self._base_offset]

    def _write(self, data: bytes | bytearray | memoryview, walked: WalkedSegment) -> None:
        self.disk.write(self._fd, [data], self._size)
        self.sizes[self._base_offset] += len(data)
        self.kept_bytes[walked.base_offset] = self.kept_bytes.get(walked.base_offset, 0) + len(data)


def large_batch(window: bytes | bytearray, left: int) -> BatchHeaders | None:
    """The header of a batch that begins with the window and does not fit into it; None if it does not end within what is left."""
    size = size_at(window)
    return header_row(bytes(window[:HEADER_SIZE]), 0, size, window[MAGIC_POSITION]) if HEADER_SIZE <= size <= left else None


def wanted_parts(headers: BatchHeaders, piece: Piece) -> Iterator[BatchHeaders]:
    """The batches of a piece among these, as few stretches."""
    if not piece.is_part:
        yield headers
        return
    first = np.where(headers.base_offset < 0, headers.last_offset, headers.base_offset)
    rows = np.flatnonzero((first >= piece.first_offset) & (headers.last_offset <= piece.last_offset))
    if len(rows):
        for part in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
            yield headers[int(part[0]) : int(part[-1]) + 1]


def keep_bad_bytes(disk: Disk, target: str, reader: SalvageReader, base_offset: int, start: int, end: int) -> str | None:
    """Copy a stretch of the source into a file of the target: its name, or None if it is nothing but zeros."""
    name = f"bad-{base_offset:020d}-at-{start}{LOG}{OWN_SUFFIX}"
    fd = -1
    try:
        position = start
        while position < end:
            part = reader.read(position, min(READ_BYTES, end - position))
            if fd < 0 and any(part):
                fd = disk.create(f"{target}/{name}")
            if fd >= 0:
                disk.write(fd, [part], position - start)
            position += len(part)
        if fd >= 0:
            disk.sync(fd)
    finally:
        if fd >= 0:
            disk.close(fd)
    return name if fd >= 0 else None

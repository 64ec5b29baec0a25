"""Staged files: batches that a task has encoded, in blocks of one partition each, and what the task has told about them.

A file is nothing but batches, back to back; which block belongs where stands in what the task gives back. One with batches of a single
partition can become a segment. Every other file is checked as a whole before anything is appended: sizes, headers, CRCs. A file that was
cut off, or is another one, is an error while nothing has happened. Of one that can become a segment only the size is looked at then: the
rest is looked at by the log, as it is appended, and what is wrong with it aborts the transaction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from tidelog.disk.disk import Disk
from tidelog.disk.names import TopicPartition
from tidelog.errors import CorruptError, StagingError
from tidelog.log.storage_errors import storage_error, typed_refusals
from tidelog.record.headers import verify_checksums, walk_headers

Block = tuple[TopicPartition, int, int, int]
"""Where it belongs, and its position, bytes and records."""
_NO_PRODUCER = -1
_COLUMNS = 4


@dataclass(frozen=True, slots=True)
class StagedTopic:
    """What a task has taken for granted about a topic."""

    name: str
    partitions: int
    topic_id: UUID | None
    """None: it was not there, and is to be made."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """What a task has written. Small: it travels to the driver."""

    path: str
    topics: tuple[StagedTopic, ...]
    blocks: bytes
    """Of each block four int64: place of the topic, partition, bytes, records."""

    @classmethod
    def of(cls, path: str, topics: Sequence[StagedTopic], blocks: Sequence[tuple[int, int, int, int]]) -> "StagedFile":
        """From rows: place of the topic, partition, bytes, records."""
        return cls(path, tuple(topics), np.array(blocks, np.int64).tobytes())

    def _rows(self) -> NDArray[np.int64]:
        return np.frombuffer(self.blocks, np.int64).reshape(-1, _COLUMNS)

    def positions(self) -> list[Block]:
        """The blocks in their order: partition, position, bytes, records."""
        rows = self._rows()
        starts = (np.cumsum(rows[:, 2]) - rows[:, 2]).tolist()
        return [
            (TopicPartition(self.topics[place].name, partition), start, size_bytes, count)
            for start, (place, partition, size_bytes, count) in zip(starts, rows.tolist(), strict=True)
        ]

    @property
    def size_bytes(self) -> int:
        """Of the whole file."""
        return int(self._rows()[:, 2].sum())

    @property
    def count(self) -> int:
        """Records."""
        return int(self._rows()[:, 3].sum())

    @property
    def is_of_one_partition(self) -> bool:
        """Whether all its records go to the same one."""
        places = self._rows()[:, :2]
        return bool((places == places[0]).all())

    def partitions(self) -> set[TopicPartition]:
        """Where its records go."""
        found = np.unique(self._rows()[:, :2], axis=0).tolist()
        return {TopicPartition(self.topics[place].name, partition) for place, partition in found}


def by_partition(files: Sequence[StagedFile]) -> dict[TopicPartition, list[tuple[StagedFile, list[Block]]]]:
    """The blocks for each partition: in the order of the files, and in each as they lie there."""
    found: dict[TopicPartition, list[tuple[StagedFile, list[Block]]]] = {}
    for file in files:
        own: dict[TopicPartition, list[Block]] = {}
        for block in file.positions():
            own.setdefault(block[0], []).append(block)
        for partition, blocks in own.items():
            found.setdefault(partition, []).append((file, blocks))
    return found


class StagedReader:
    """Reads blocks into memory that is used again. One thread at a time."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._buffer = bytearray()

    def blocks(self, file: StagedFile, blocks: Sequence[Block]) -> Iterator[memoryview]:
        """The batches of some blocks of a file, in that order; each good until the next is asked for."""
        for _, block, _ in self._read_blocks(file, blocks):
            yield block

    def check(self, file: StagedFile, *, only_size: bool = False) -> None:
        """Raise unless the file is what its task has said."""
        for partition, block, count in self._read_blocks(file, [] if only_size else file.positions()):
            try:
                headers = walk_headers(block)
                verify_checksums(block, headers)
            except CorruptError as error:
                raise StagingError(f"a staged file is damaged, in a block of {partition}: {error}", path=file.path) from error
            if headers.end_position != len(block) or (headers.magic != 2).any() or int(headers.count.sum()) != count:
                raise StagingError(
                    f"a staged file has another block of {partition} than its task has written",
                    path=file.path,
                    expected=f"{count} records in {len(block)} bytes",
                    found=f"{int(headers.count.sum())} records in {headers.end_position} bytes",
                )
            if (headers.producer_id != _NO_PRODUCER).any():
                raise StagingError("a staged batch has a producer already", path=file.path)

    def _read_blocks(self, file: StagedFile, blocks: Sequence[Block]) -> Iterator[tuple[TopicPartition, memoryview, int]]:
        try:
            fd = self._disk.open(file.path)
        except FileNotFoundError as error:
            raise StagingError("a staged file is gone", path=file.path, hint="was the job given up meanwhile?") from error
        except OSError as error:
            raise storage_error(error, file.path, "opening a staged file failed") from error
        try:
            with typed_refusals(file.path, "looking at a staged file failed"):
                found = self._disk.size(fd)
            if found != file.size_bytes:
                raise StagingError(
                    "a staged file of another size than its task has written",
                    path=file.path,
                    expected=f"{file.size_bytes} bytes",
                    found=f"{found} bytes",
                    hint="the executor may not share the directory with the driver, or its disk was full",
                )
            for partition, position, size_bytes, count in blocks:
                yield partition, self._read(fd, position, size_bytes, file), count
        finally:
            self._disk.close(fd)

    def _read(self, fd: int, position: int, size_bytes: int, file: StagedFile) -> memoryview:
        if len(self._buffer) < size_bytes:
            self._buffer = bytearray(size_bytes)
        block = memoryview(self._buffer)[:size_bytes]
        try:
            done = self._disk.read_into(fd, block, position)
        except OSError as error:
            raise storage_error(error, file.path, "reading a staged file failed") from error
        if done != size_bytes:
            raise StagingError("a staged file is cut off", path=file.path, expected=f"{position + size_bytes} bytes", found=position + done)
        return block

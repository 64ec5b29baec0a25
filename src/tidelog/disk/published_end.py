"""How far a log is flushed, for readers in other processes: a file of fixed size that its owner overwrites in place after each commit.

    flushed-end.tidelog, in the partition directory

      0  magic               4 bytes   "tide"
      4  version             u32       1
      8  flushed end         i64       everything below survives a power cut, and may be shown
     16  segment             i64       base offset of the segment in which that end lies
     24  position            i64       at which byte of it
     32  log start offset    i64
     40  crc                 u32       CRC-32C of everything before it

It is one small write, not synced: the batches are, before it is made, so after a crash it says too little at worst. What may go down, on a
truncation, is published as durable, since a crash must not bring a higher end back. A reader that meets a write half done sees that by the
CRC and reads again. The owner takes the file away when it closes the log in order: from then on the checkpoint of the high watermark says
the same, and goes on to be right when a broker takes over.
"""

import struct
import time
from contextlib import suppress
from typing import NamedTuple

from crc32c import crc32c

from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import OpenFile
from tidelog.disk.names import OWN_SUFFIX

PUBLISHED_END = f"flushed-end{OWN_SUFFIX}"
MAGIC = b"tide"
VERSION = 1
_BODY = struct.Struct(">4sIqqqq")
_CRC = struct.Struct(">I")
SIZE = _BODY.size + _CRC.size
_TRIES = 5


class FlushedEnd(NamedTuple):
    """What an owner has published."""

    offset: int
    segment_base_offset: int
    position: int
    log_start_offset: int


def format_flushed_end(end: FlushedEnd) -> bytes:
    """The file."""
    body = _BODY.pack(MAGIC, VERSION, *end)
    return body + _CRC.pack(crc32c(body))


def parse_flushed_end(content: bytes) -> FlushedEnd | None:
    """What the file says; None if it is not whole, or of another version."""
    if len(content) != SIZE or _CRC.unpack_from(content, _BODY.size)[0] != crc32c(content[: _BODY.size]):
        return None
    magic, version, *fields = _BODY.unpack_from(content)
    return FlushedEnd(*fields) if magic == MAGIC and version == VERSION and min(fields) >= 0 else None


class PublishedEnd:
    """The owner's side. One thread at a time."""

    __slots__ = ("_disk", "_opened", "path")

    def __init__(self, disk: Disk, path: str, opened: OpenFile) -> None:
        self._disk = disk
        self._opened = opened
        self.path = path

    @classmethod
    def open_for_writing(cls, disk: Disk, directory: str) -> "PublishedEnd":
        """Open the file, or make it; one that is there keeps its content until the first call of `publish`."""
        path = f"{directory}/{PUBLISHED_END}"
        try:
            fd = disk.open(path, write=True)
        except FileNotFoundError:
            fd = disk.create(path)
        return cls(disk, path, OpenFile(disk, fd))

    def publish(self, offset: int, segment_base_offset: int, position: int, log_start_offset: int, *, is_durable: bool = False) -> None:
        """Say how far the log is flushed. `is_durable` where the end or the start goes down."""
        body = _BODY.pack(MAGIC, VERSION, offset, segment_base_offset, position, log_start_offset)
        self._disk.write(self._opened.fd, (body + _CRC.pack(crc32c(body)),), 0)
        if is_durable:
            self._disk.sync(self._opened.fd)

    def withdraw(self) -> None:
        """Take the file away: the log is closed, and its checkpoints are written."""
        with suppress(FileNotFoundError):
            self._disk.remove(self.path)


def read_published_end(disk: Disk, directory: str) -> FlushedEnd | None:
    """What the owner of a log says, or said when it went; None if there is nothing that could be right."""
    path = f"{directory}/{PUBLISHED_END}"
    try:
        opened = OpenFile(disk, disk.open_plain(path))
    except OSError:
        return None  # none, or something else by that name: whatever it is, it vouches for nothing
    for attempt in range(_TRIES):
        found = parse_flushed_end(disk.read(opened.fd, SIZE + 1, 0))
        if found is not None:
            return found
        time.sleep(0.0001 * attempt)
    return None

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

An owner that was killed leaves the file. What it flushed stays flushed, but a broker that takes over may cut it, and does not know the
file. So the owner holds a lock on it for as long as it lives (flock, which goes with the process), and a reader asks for that too.
"""

import errno
import struct
import time
from contextlib import suppress
from typing import NamedTuple

from crc32c import crc32c

from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import OpenFile
from tidelog.disk.names import OWN_SUFFIX
from tidelog.errors import DamagedLogError

PUBLISHED_END = f"flushed-end{OWN_SUFFIX}"
MAGIC = b"tide"
VERSION = 1
_BODY = struct.Struct(">4sIqqqq")
_CRC = struct.Struct(">I")
SIZE = _BODY.size + _CRC.size
MAX_OFFSET = (1 << 63) - 1
UNREADABLE = (errno.EIO, errno.EMFILE, errno.ENFILE)
"""Refusals behind which there may well be a file: a reader that took it for not there would see less than there is."""
_TRIES = 5
_HOLD_TRIES = 20


class FlushedEnd(NamedTuple):
    """What an owner has published."""

    offset: int
    segment_base_offset: int
    position: int
    log_start_offset: int


class Published(NamedTuple):
    """What was found of it."""

    end: FlushedEnd
    is_owned: bool
    """Whether who published it is still there."""
    written_ns: int
    """When that was."""


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


def fault_of(content: bytes) -> str:
    """Why `parse_flushed_end` makes nothing of it, in words."""
    if len(content) != SIZE:
        return "it has another size"
    if _CRC.unpack_from(content, _BODY.size)[0] != crc32c(content[: _BODY.size]):
        return "its CRC does not match"
    magic, version, *_ = _BODY.unpack_from(content)
    if magic != MAGIC:
        return "it does not begin as it should"
    return f"version {version} is not known" if version != VERSION else "a number in it is negative"


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
        opened = OpenFile(disk, fd)
        for _ in range(_HOLD_TRIES):
            if disk.hold(fd):
                break
            time.sleep(0.0001)  # a reader asks at this moment whether it is held; a file system without such locks has its answer soon
        return cls(disk, path, opened)

    def publish(self, offset: int, segment_base_offset: int, position: int, log_start_offset: int, *, is_durable: bool = False) -> None:
        """Say how far the log is flushed. `is_durable` where the end or the start goes down."""
        if offset > MAX_OFFSET:
            raise DamagedLogError(
                "the log ends behind the last offset that there can be", path=self.path, expected=f"at most {MAX_OFFSET}", found=offset
            )
        end = FlushedEnd(offset, segment_base_offset, position, log_start_offset)
        self._disk.write(self._opened.fd, (format_flushed_end(end),), 0)
        if is_durable:
            self._disk.sync(self._opened.fd)

    def withdraw(self) -> None:
        """Take the file away: the log is closed, and its checkpoints are written."""
        with suppress(FileNotFoundError):
            self._disk.remove(self.path)


def look_at_published_end(disk: Disk, directory: str) -> Published | None:
    """What the owner of a log says, or said when it went; None if there is nothing that could be right."""
    path = f"{directory}/{PUBLISHED_END}"
    try:
        opened = OpenFile(disk, disk.open_plain(path))
        for attempt in range(_TRIES):
            written_ns = disk.mtime_ns(path)  # before the content, so that it is never younger than that
            found = parse_flushed_end(disk.read(opened.fd, SIZE + 1, 0))
            if found is not None:
                return Published(found, disk.is_held(opened.fd), written_ns)
            time.sleep(0.0001 * attempt)
    except OSError as error:
        if error.errno in UNREADABLE:
            raise
        # None, or something else by that name: whatever it is, it vouches for nothing.
    return None


def read_published_end(disk: Disk, directory: str) -> FlushedEnd | None:
    """The same, whoever has said it."""
    found = look_at_published_end(disk, directory)
    return None if found is None else found.end

"""The transaction index of a segment: transactions whose abort marker lies in it.

      0  version              i16   0
      2  producer id          i64
     10  first offset         i64   of the transaction
     18  last offset          i64   that of the abort marker; strictly ascending
     26  last stable offset   i64   right after the abort

34 bytes an entry, no preallocation; the file is made with the first entry. A reader of committed records takes the entries that overlap
what it reads, and stops looking once an entry's last stable offset lies at or behind the end of that.
"""

import errno
import struct
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.disk.disk import MAX_SMALL_FILE_BYTES
from tidelog.disk.file_pool import FilePool, OpenFile

ENTRY = struct.Struct(">hqqqq")
VERSION = 0


class AbortedTxn(NamedTuple):
    """One aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def pack(self) -> bytes:
        """The entry."""
        return ENTRY.pack(VERSION, *self)


class CollectedTxns(NamedTuple):
    """Entries that overlap a range of offsets, and whether no later segment can have more."""

    found: list[AbortedTxn]
    is_complete: bool


def parse_entries(content: bytes) -> list[AbortedTxn]:
    """All whole entries; a trailing part of one is no entry yet."""
    whole = len(content) - len(content) % ENTRY.size
    return [AbortedTxn(*fields[1:]) for fields in ENTRY.iter_unpack(content[:whole])]


def collect_aborted(entries: Iterable[AbortedTxn], from_offset: int, to_offset: int) -> CollectedTxns:
    """The transactions with records in [from_offset, to_offset)."""
    found = []
    for entry in entries:
        if entry.last_offset >= from_offset and entry.first_offset < to_offset:
            found.append(entry)
        if entry.last_stable_offset >= to_offset:
            return CollectedTxns(found, True)
    return CollectedTxns(found, False)


class TxnIndex:
    """One `.txnindex` file. The log's lock is held for what changes it; reading may be done from any thread."""

    __slots__ = ("_is_unsettled", "_pool", "_writer", "path", "size_bytes")

    def __init__(self, pool: FilePool, path: str, *, size_bytes: int | None) -> None:
        self._pool = pool
        self.path = path
        self.size_bytes = size_bytes
        """Of the file; None where there is none."""
        self._writer: OpenFile | None = None
        self._is_unsettled = False
        """Whether bytes of a failed append may lie behind the last entry."""

    def entries(self) -> list[AbortedTxn]:
        """All of them."""
        if not self.size_bytes:
            return []
        if self.size_bytes > MAX_SMALL_FILE_BYTES:
            raise OSError(errno.EFBIG, f"a transaction index of {self.size_bytes} bytes, which no segment has", self.path)
        opened = self._writer or self._pool.open_own(self)
        return parse_entries(self._pool.disk.read(opened.fd, self.size_bytes, 0))

    def append(self, entry: AbortedTxn) -> None:
        """Add an entry. It counts once it is written whole."""
        writer = self._open_or_create()
        size = self.size_bytes or 0
        start = size - size % ENTRY.size  # a part of an entry that a crash left is written over
        self._is_unsettled = True
        self._pool.disk.write(writer.fd, [entry.pack()], start)
        self.size_bytes = start + ENTRY.size
        self._is_unsettled = False

    def _open_or_create(self) -> OpenFile:
        if self._writer is None:
            if self.size_bytes is None:
                self._writer = self._pool.create(self.path, exclusive=False)
                self.size_bytes = 0
            else:
                self._writer = self._pool.open_for_writing(self.path)
        return self._writer

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose abort marker lies at or above `offset`."""
        entries = self.entries()
        kept = sum(entry.last_offset < offset for entry in entries)
        if kept < len(entries) or self._is_unsettled:
            self._cut(kept * ENTRY.size)

    def reset(self) -> None:
        """Drop all entries; a file that is there stays, without bytes."""
        if self.size_bytes is not None:
            self._cut(0)

    def remove(self) -> None:
        """Drop all entries, and the file with them: of a segment that is begun anew, as if it had never been."""
        if self.size_bytes is not None:
            self._writer = None
            self._pool.disk.remove(self.path)
            self.size_bytes = None
            self._is_unsettled = False

    def _cut(self, size_bytes: int) -> None:
        """Durably: the transaction may be committed now where it was to be aborted, and readers believe what they find here."""
        writer = self._open_or_create()
        self._pool.disk.truncate(writer.fd, size_bytes)
        self.size_bytes = size_bytes
        self._is_unsettled = False
        self._pool.disk.sync(writer.fd)

    def sync(self) -> None:
        """Make what is written durable."""
        if self.size_bytes is None:
            return
        opened = self._writer
        if opened is None:
            try:
                opened = self._pool.open_file(self.path)
            except FileNotFoundError:
                return  # the segment was deleted
        self._pool.disk.sync(opened.fd)

    def close_writer(self) -> None:
        """Nothing more will be written."""
        self._writer = None

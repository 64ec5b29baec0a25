"""What the two sparse indexes of a segment have in common: a file of equal entries, preallocated while its segment is active.

On disk, entries one behind the other, in ascending order; behind them zeros up to `segment.index.bytes` (rounded down to whole entries)
as long as the segment is active, nothing once it is rolled or closed. The zeros are a hole: they take no space.

In memory, the number of entries that were written, and a few entries that were not yet: writing each by itself would cost a system call
a batch. They are written when there are `PENDING_ENTRIES` of them, and on flush, roll and close. An entry that a crash takes away costs
a longer scan and nothing else, and recovery puts it back. Written part and pending part are one tuple, replaced whole, so a reader needs
no lock. Entries are written to the file and read through a map that is never written to.
"""

from typing import ClassVar

from tidelog.disk.file_pool import FilePool, OpenFile, PooledMap

PENDING_ENTRIES = 64


class Index:
    """One index file. Reading may be done from any thread; the log's lock is held for everything that changes it."""

    entry_size: ClassVar[int]

    __slots__ = ("_map", "_pool", "_tail", "_writer", "base_offset", "found_bytes", "is_crowded", "slots")

    def __init__(self, pool: FilePool, path: str, base_offset: int, *, size_bytes: int = 0) -> None:
        self._pool = pool
        self._map = PooledMap(pool, path)
        self._writer: OpenFile | None = None
        self.base_offset = base_offset
        self.found_bytes = size_bytes
        """The size of the file when it was found."""
        self.slots = size_bytes // self.entry_size
        """Room for entries: all there is in a file that was found, `segment.index.bytes` in an active one."""
        self._tail: tuple[int, bytes] = (self.slots, b"")
        self.is_crowded = False
        """Whether so many entries are pending that they should be written before another append."""

    @property
    def path(self) -> str:
        """Where the file is, if it was made yet: a segment without batches may have none."""
        return self._map.path

    @property
    def entries(self) -> int:
        """Entries, written and pending."""
        written, pending = self._tail
        return written + len(pending) // self.entry_size

    @property
    def size_bytes(self) -> int:
        """Bytes of all entries, without what is preallocated."""
        return self.entries * self.entry_size

    def _written_view(self, written: int) -> memoryview:
        return self._map.view(written * self.entry_size)

    def read_last_entry(self) -> bytes:
        """The last entry that was found in the file, read without mapping it; nothing if there is none."""
        entries = self.found_bytes // self.entry_size
        if entries == 0:
            return b""
        opened = self._pool.open_file(self.path)
        return self._pool.disk.read(opened.fd, self.entry_size, (entries - 1) * self.entry_size)

    def entry_bytes(self) -> bytes:
        """All entries as they are, or will be, on disk."""
        written, pending = self._tail
        return bytes(self._written_view(written)[: written * self.entry_size]) + pending if written else pending

    def preallocate(self, max_bytes: int) -> None:
        """Make this the index of an active segment: open or create the file and give it its full size."""
        self.slots = max_bytes // self.entry_size
        if self._writer is None:
            self._writer = self._open_or_create()
        size = max(self.slots, self.entries) * self.entry_size
        if self._pool.disk.size(self._writer.fd) != size:
            self._pool.disk.truncate(self._writer.fd, size)

    def _open_or_create(self) -> OpenFile:
        try:
            return self._pool.open_for_writing(self.path)
        except FileNotFoundError:
            return self._pool.create(self.path)

    def write_pending(self) -> None:
        """Write what is pending. If it fails it stays pending."""
        written, pending = self._tail
        if pending:
            if self._writer is None:
                self._writer = self._open_or_create()
            self._pool.disk.write(self._writer.fd, [pending], written * self.entry_size)
            self._tail = (written + len(pending) // self.entry_size, b"")
        self.is_crowded = False

    def _append(self, entry: bytes) -> None:
        written, pending = self._tail
        self._tail = (written, pending + entry)
        self.is_crowded = len(pending) + len(entry) >= PENDING_ENTRIES * self.entry_size

    def make_room(self) -> None:
        """Write what is pending if there is much of it; called before an append, which a full disk then refuses whole."""
        if self.is_crowded:
            self.write_pending()

    def _keep(self, entries: int) -> None:
        """Drop all entries from number `entries` on. The file keeps its size, so that no reader falls off the end of its map."""
        written, pending = self._tail
        self.is_crowded = False
        if entries >= written:
            self._tail = (written, pending[: (entries - written) * self.entry_size])
            return
        if self._writer is None:
            self._writer = self._open_or_create()
        self._tail = (entries, b"")
        self._pool.disk.write(self._writer.fd, [bytes((written - entries) * self.entry_size)], entries * self.entry_size)

    def trim(self) -> None:
        """Write what is pending and cut off what is preallocated: the segment is no longer active, or closed."""
        self.write_pending()
        if self._writer is None:
            self._writer = self._open_or_create()
        self.slots = self._tail[0]
        self._pool.disk.truncate(self._writer.fd, self.slots * self.entry_size)

    def sync(self) -> None:
        """Make what is written durable."""
        opened = self._writer
        if opened is None:
            try:
                opened = self._pool.open_file(self.path)
            except FileNotFoundError:
                return  # there is nothing to sync, or the segment was deleted
        self._pool.disk.sync(opened.fd)

    def close_writer(self) -> None:
        """Nothing more will be written."""
        self._writer = None

    def renamed(self, path: str) -> None:
        """The file has another name now."""
        self._map.path = path

    def close(self) -> None:
        """Let go of the file."""
        self._writer = None
        self._map.drop()

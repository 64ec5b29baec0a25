"""The leader epochs of a partition, and where each starts: `leader-epoch-checkpoint`, kept in memory.

Epochs and start offsets both rise strictly. An entry is durable before the first record of its epoch is written, so the file never lacks
one; entries at or above the end of the log, left by a crash, go when the log is opened.
"""

from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter

from tidelog.disk.checkpoints import EpochEntry, format_epochs, parse_epochs
from tidelog.disk.disk import Disk
from tidelog.disk.names import LEADER_EPOCH_CHECKPOINT
from tidelog.errors import RefusedBatchError

Entries = tuple[EpochEntry, ...]


class LeaderEpochCache:
    """One writer at a time (the log's lock); `entries` is replaced whole, so readers need no lock.

    Every change is written and synced before it is made in memory. If that raises, nothing has changed in memory; the file may have, and is
    written again by the next call, whatever it changes.
    """

    __slots__ = ("_is_unsure", "_latest_epoch", "_latest_start", "directory", "disk", "entries", "latest_epoch", "read_only")

    def __init__(self, disk: Disk, directory: str, entries: Entries = (), *, read_only: bool = False) -> None:
        self.disk = disk
        self.directory = directory
        self.read_only = read_only
        """Nothing is written; for a log that was opened for reading."""
        self._is_unsure = False
        """Whether the last write raised."""
        self.latest_epoch: int | None = None
        """The epoch that is written to; None if there is none yet."""
        self._latest_epoch: int | None = None
        """None also where the next `assign` must not be let through unwritten."""
        self._set(entries)

    @classmethod
    def load(cls, disk: Disk, directory: str, *, read_only: bool = False) -> "LeaderEpochCache":
        """Read a partition directory; no file, no entries. Entries that contradict each other are resolved as if assigned in turn."""
        path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        try:
            text = disk.read_file(path)
        except FileNotFoundError:
            text = b""
        entries: Entries = ()
        for epoch, start_offset in parse_epochs(text, path):
            entries = assigned(entries, epoch, start_offset)
        return cls(disk, directory, entries, read_only=read_only)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """An epoch has a record at this offset: whether that is news. Called for every batch."""
        if epoch == self._latest_epoch and start_offset >= self._latest_start:
            return False
        return self._replace(assigned(self.entries, epoch, start_offset))

    def assign_many(self, starts: Iterable[tuple[int, int]]) -> bool:
        """Assign pairs of epoch and start offset in turn, and write once."""
        entries = self.entries
        for epoch, start_offset in starts:
            entries = assigned(entries, epoch, start_offset)
        return self._replace(entries)

    def truncate_end(self, offset: int) -> bool:
        """The log ends at `offset` now: drop the epochs that start there or above."""
        return self._replace(truncated_end(self.entries, offset))

    def truncate_start(self, offset: int) -> bool:
        """The log starts at `offset` now: drop what lies below; the epoch of `offset` starts there."""
        return self._replace(truncated_start(self.entries, offset))

    def clear(self) -> bool:
        """Drop all epochs."""
        return self._replace(())

    def restore(self, entries: Entries) -> None:
        """Go back to `entries` as they were, after an append that failed. In memory also if the file cannot be written."""
        try:
            if entries != self.entries or self._is_unsure:
                self._write(entries)
        finally:
            self._set(entries)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int] | None:
        """The greatest known epoch up to `epoch` and where it ends; None if `epoch` is undefined or above all known ones."""
        entries = self.entries
        if epoch < 0 or not entries or epoch > entries[-1].epoch:
            return None
        if epoch == entries[-1].epoch:
            return epoch, log_end_offset
        higher = bisect_right(entries, epoch, key=attrgetter("epoch"))
        return entries[higher - 1].epoch if higher else epoch, entries[higher].start_offset

    def _replace(self, entries: Entries) -> bool:
        changed = entries != self.entries
        if changed or self._is_unsure:
            self._write(entries)
            self._set(entries)
        return changed

    def _write(self, entries: Entries) -> None:
        if self.read_only:
            return
        self._is_unsure = True
        self._latest_epoch = None
        self.disk.replace_file(self.directory, LEADER_EPOCH_CHECKPOINT, format_epochs(entries))
        self._is_unsure = False

    def _set(self, entries: Entries) -> None:
        self.entries = entries
        self.latest_epoch = entries[-1].epoch if entries else None
        self._latest_epoch, self._latest_start = None, 0
        if entries and not self._is_unsure:
            self._latest_epoch, self._latest_start = entries[-1]


def assigned(entries: Entries, epoch: int, start_offset: int) -> Entries:
    """The entries with an epoch that has a record at `start_offset`. Later ones, and those that start there or above, were wrong."""
    if epoch < 0 or start_offset < 0:
        raise RefusedBatchError(
            "a leader epoch that cannot be",
            expected="epoch and offset from 0",
            found=f"{epoch}, {start_offset}",
            kafka_error="UNKNOWN_SERVER_ERROR",
        )
    if entries and epoch == entries[-1].epoch and start_offset >= entries[-1].start_offset:
        return entries
    kept = len(entries)
    while kept and (entries[kept - 1].epoch >= epoch or entries[kept - 1].start_offset >= start_offset):
        kept -= 1
    return (*entries[:kept], EpochEntry(epoch, start_offset))


def truncated_end(entries: Entries, offset: int) -> Entries:
    """The entries of a log that ends at `offset`."""
    return tuple(entry for entry in entries if entry.start_offset < offset)


def truncated_start(entries: Entries, offset: int) -> Entries:
    """The entries of a log that starts at `offset`."""
    above = bisect_right(entries, offset, key=attrgetter("start_offset"))
    return (EpochEntry(entries[above - 1].epoch, offset), *entries[above:]) if above else entries

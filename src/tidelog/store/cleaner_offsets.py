"""How far each log was cleaned: the file `cleaner-offset-checkpoint` of each log directory.

Who owns the directory is the only one to write it, so it is read once. A change drops the partitions that are not there any more, as Kafka
does, and replaces the file. What it says is a hint that must never be too high: before a log is cut, its entry is lowered, or records that
are appended behind the cut would be taken for cleaned.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidelog.compaction.states import Cleanings
from tidelog.disk.checkpoints import read_offsets, write_offsets
from tidelog.disk.disk import Disk
from tidelog.disk.names import CLEANER_CHECKPOINT, TopicPartition
from tidelog.errors import CorruptFileError
from tidelog.log.storage_errors import storage_error

Offsets = dict[TopicPartition, int]


class CleanerOffsets:
    """The first dirty offset of each log, by log directory. May be shared between threads."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._lock = threading.Lock()
        self._known: dict[str, Offsets] = {}

    def get(self, directory: str, partition: TopicPartition) -> int | None:
        """Up to where a log was cleaned; None if nothing says so."""
        with self._lock:
            return self._read(directory).get(partition)

    def set(self, directory: str, partition: TopicPartition, offset: int, is_there: Callable[[TopicPartition], bool]) -> None:
        """Write down up to where a log was cleaned. Those that are not there any more are forgotten."""
        with self._lock:
            known = self._read(directory)
            changed = {other: at for other, at in known.items() if is_there(other)} | {partition: offset}
            self._write(directory, known, changed)

    def lower(self, directory: str, partition: TopicPartition, offset: int) -> None:
        """From `offset` on a log is not clean."""
        with self._lock:
            known = self._read(directory)
            if known.get(partition, 0) > offset:
                self._write(directory, known, known | {partition: offset})

    def forget(self, directory: str, partition: TopicPartition) -> None:
        """Take out a partition."""
        with self._lock:
            known = self._read(directory)
            if partition in known:
                self._write(directory, known, {other: at for other, at in known.items() if other != partition})

    def _read(self, directory: str) -> Offsets:
        """What the file says. One that cannot be parsed is taken for empty, as Kafka does: the log is cleaned from its start."""
        if directory not in self._known:
            try:
                self._known[directory] = read_offsets(self._disk, f"{directory}/{CLEANER_CHECKPOINT}")
            except CorruptFileError:
                self._known[directory] = {}
            except OSError as error:
                raise storage_error(error, directory, "reading the cleaner's checkpoint failed") from error
        return self._known[directory]

    def _write(self, directory: str, known: Offsets, changed: Offsets) -> None:
        if changed == known:
            return
        del self._known[directory]  # if the writing fails nobody knows which of the two it is, until it is read again
        try:
            write_offsets(self._disk, directory, CLEANER_CHECKPOINT, changed)
        except OSError as error:
            raise storage_error(error, directory, "writing the cleaner's checkpoint failed") from error
        self._known[directory] = changed


@contextmanager
def cutting(cleanings: Cleanings, offsets: CleanerOffsets, directory: str, partition: TopicPartition, offset: int) -> Iterator[None]:
    """While a log is truncated to an offset nobody cleans it, and nothing above is taken for clean."""
    if cleanings.is_inherited:
        yield  # the log is the parent's, and says so
        return
    with cleanings.keeping_off([partition]):
        offsets.lower(directory, partition, offset)
        yield

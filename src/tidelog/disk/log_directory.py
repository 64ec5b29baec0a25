"""A log directory that this process owns: its lock, its checkpoints, its clean shutdown marker.

One object per directory and process, shared by all logs that are open in it. The first claim takes it over, the last release lets it go:

    lock .lock              a broker, or another process, is kept out; what they hold is left alone
    read the checkpoints    and the marker
    remove the marker       durably, before any log is touched
    ...                     logs are opened, written, checkpointed, closed
    write the marker        if every log here is known to be closed in order
    unlock

A crash in between leaves no marker, and every log is recovered from its recovery point. A log whose opening failed before it changed
anything gives its claim back with `abandon`; if that is all that happened, the marker comes back as it was.

The lock is POSIX's, as Java's is. It does not hold against the own process, hence the registry. Closing any descriptor of the file drops
it, hence nothing but this module opens `.lock`; what others do, who copy the directory, is survived by a part of it that belongs to the
descriptor alone (`Disk.lock`). A forked child inherits the objects but not the lock: it can claim nothing that its parent holds, and what
it does with an inherited object changes no file.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping

from tidelog.disk.checkpoints import check_topic, write_offsets
from tidelog.disk.clean_shutdown import remove_marker, write_marker
from tidelog.disk.directory_state import DirectoryState, Offsets, logs_in
from tidelog.disk.disk import OS, Disk
from tidelog.disk.names import LOCK, LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT, TopicPartition
from tidelog.errors import LockedError


class LogDirectory:
    """Made by `claim`. All methods may be called from any thread."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.disk = disk
        self.path = path
        self.warnings: list[str] = []
        """What was wrong with the checkpoint files."""
        self._pid = os.getpid()
        self._lock_fd = -1
        self._found = DirectoryState()
        self._offsets: dict[str, Offsets] = {}
        """By the file's name. The maps are replaced whole, when their file was."""
        self._unsure: set[str] = set()
        """Files whose last replacement raised: they may hold the old content or the new."""
        self._checkpointing = threading.Lock()
        self._claimed: set[TopicPartition] = set()
        self._is_held = False
        """Whether a store has it as a whole."""
        self._closed: dict[TopicPartition, bool] = {}
        """Whether the logs that were open here were closed in order, by their last time."""

    @classmethod
    def claim(cls, path: str, partition: TopicPartition, *, disk: Disk = OS, held: "LogDirectory | None" = None) -> "LogDirectory":
        """Own a partition of a log directory, and the directory with it; it is made if need be. `LockedError` if someone else does.

        `held` is the directory, if who asks has it as a whole.
        """
        check_topic(partition.topic)
        with _registry_lock:
            directory = cls._registered(path, disk)
            if directory._is_held and directory is not held:
                raise LockedError("a store of this process has the directory", path=directory.path, hint="ask it for the log")
            if partition in directory._claimed:
                raise LockedError("already open in this process", path=f"{directory.path}/{partition}")
            directory._claimed.add(partition)
            return directory

    @classmethod
    def hold(cls, path: str, *, disk: Disk = OS) -> "LogDirectory":
        """Own a log directory as a whole, until `let_go`; it is made if need be. `LockedError` if someone else has it or a part of it."""
        with _registry_lock:
            directory = cls._registered(path, disk)
            if directory._is_held or directory._claimed:
                hint = "close it there; what was dropped without close() stays open until the process ends"
                raise LockedError("already open in this process", path=directory.path, hint=hint)
            directory._is_held = True
            return directory

    @classmethod
    def _registered(cls, path: str, disk: Disk) -> "LogDirectory":
        key = (disk, os.path.realpath(path))
        directory = _registry.get(key)
        if directory is None:
            directory = cls(disk, key[1])
            directory._take_over()
            _registry[key] = directory
        return directory

    @classmethod
    def find_owner(cls, path: str, *, disk: Disk = OS) -> LockedError | None:
        """What `hold` would raise about who owns the directory now; None if nobody is known to. Nothing is taken, or changed."""
        resolved = os.path.realpath(path)
        with _registry_lock:
            if (disk, resolved) in _registry:
                return LockedError("already open in this process", path=resolved)
            return disk.find_lock(f"{resolved}/{LOCK}")

    def let_go(self) -> None:
        """Give back what `hold` gave, when every log here is closed."""
        if not self._is_owner or not self._is_held:
            return
        with _registry_lock:
            self._is_held = False
            self._leave_if_unused()

    def release(self, partition: TopicPartition, *, clean: bool) -> None:
        """The log was closed; clean: without an error, and all of it is flushed and checkpointed."""
        self._unclaim(partition, clean)

    def abandon(self, partition: TopicPartition) -> None:
        """The log could not be opened, and nothing of it was changed."""
        self._unclaim(partition, None)

    @property
    def was_closed_in_order(self) -> bool:
        """Whether all logs were, when the directory was taken over; also where it is new."""
        return self._found.was_clean

    def was_clean(self, partition: TopicPartition) -> bool:
        """Whether the log was closed in order the last time. True where the whole directory is new."""
        return self._closed.get(partition, self._found.was_clean)

    def recovery_point(self, partition: TopicPartition) -> int | None:
        """The first offset not known to be flushed; None if no checkpoint says."""
        return self._offsets[RECOVERY_POINT_CHECKPOINT].get(partition)

    def log_start_offset(self, partition: TopicPartition) -> int | None:
        """Where the log starts; None if that is where its first segment does."""
        return self._offsets[LOG_START_OFFSET_CHECKPOINT].get(partition)

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """The high watermark when it was last written; None if no checkpoint says."""
        return self._offsets[REPLICATION_CHECKPOINT].get(partition)

    def checkpoint(self, partition: TopicPartition, *, recovery_point: int, log_start_offset: int | None, high_watermark: int) -> None:
        """Write down where a log stands: the files that say otherwise are replaced. No `log_start_offset`: the first segment's base.

        The start goes first: a recovery point moves up with it over batches that were never flushed and do not count any more.
        """
        self._write(
            partition,
            {
                LOG_START_OFFSET_CHECKPOINT: log_start_offset,
                RECOVERY_POINT_CHECKPOINT: recovery_point,
                REPLICATION_CHECKPOINT: high_watermark,
            },
        )

    def checkpoint_recovery_point(self, partition: TopicPartition, recovery_point: int) -> None:
        """Write down the recovery point alone."""
        self._write(partition, {RECOVERY_POINT_CHECKPOINT: recovery_point})

    def checkpoint_high_watermark(self, partition: TopicPartition, high_watermark: int) -> None:
        """Write down the high watermark alone."""
        self._write(partition, {REPLICATION_CHECKPOINT: high_watermark})

    def checkpoint_high_watermarks(self, ask: Callable[[], Mapping[TopicPartition, int]]) -> bool:
        """Write down many high watermarks in one replacement: whether there was anything new.

        They are asked for when nobody else writes: a log that takes its own back lowers it first and writes it then, after this.
        """
        if not self._is_owner:
            return False
        with self._checkpointing:
            known = self._offsets[REPLICATION_CHECKPOINT]
            offsets = {**known, **ask()}
            if offsets == known and REPLICATION_CHECKPOINT not in self._unsure:
                return False
            self._replace(REPLICATION_CHECKPOINT, offsets)
            return True

    def checkpoint_log_start(self, partition: TopicPartition, log_start_offset: int | None) -> None:
        """Write down the start alone; None: the first segment's base."""
        self._write(partition, {LOG_START_OFFSET_CHECKPOINT: log_start_offset})

    def is_checkpointed(self, partition: TopicPartition, *, log_start_offset: int | None, recovery_point: int | None) -> bool:
        """Whether the files are known to say so; no `recovery_point`: about the start alone."""
        names = {LOG_START_OFFSET_CHECKPOINT: log_start_offset}
        if recovery_point is not None:
            names[RECOVERY_POINT_CHECKPOINT] = recovery_point
        return all(self._offsets[name].get(partition) == offset and name not in self._unsure for name, offset in names.items())

    def partition_removed(self, partition: TopicPartition) -> None:
        """Forget a partition whose directory is gone, or waits to be deleted."""
        self._write(partition, dict.fromkeys(self._offsets))
        with _registry_lock:
            self._closed.pop(partition, None)

    def _write(self, partition: TopicPartition, changes: dict[str, int | None]) -> None:
        if not self._is_owner:
            raise LockedError("another process owns the directory", path=self.path, hint="it was opened before this process was forked")
        with self._checkpointing:
            for name, offset in changes.items():
                if self._offsets[name].get(partition) == offset and name not in self._unsure:
                    continue
                offsets = self._offsets[name].copy()
                if offset is None:
                    offsets.pop(partition, None)
                else:
                    offsets[partition] = offset
                self._replace(name, offsets)

    def _replace(self, name: str, offsets: Offsets) -> None:
        self._unsure.add(name)
        write_offsets(self.disk, self.path, name, offsets)
        self._unsure.remove(name)
        self._offsets[name] = offsets

    @property
    def _is_owner(self) -> bool:
        return self._pid == os.getpid()

    def _take_over(self) -> None:
        make_durable_directory(self.disk, self.path)
        lock = f"{self.path}/{LOCK}"
        self._lock_fd = self.disk.lock(lock)
        while not self.disk.is_named(self._lock_fd, lock):
            # A broker deletes the file when it stops. Locking what it has deleted keeps nobody out.
            self.disk.close(self._lock_fd)
            self._lock_fd = self.disk.lock(lock)
        try:
            self._found = found = DirectoryState.read(self.disk, self.path)
            try:
                remove_marker(self.disk, self.path)
            except OSError:
                self._put_back_marker()
                raise
        except BaseException:  # an interrupt too: nobody would ever give the lock back
            self.disk.close(self._lock_fd)
            raise
        self.warnings.extend(found.warnings)
        self._offsets = {
            RECOVERY_POINT_CHECKPOINT: found.recovery_points,
            LOG_START_OFFSET_CHECKPOINT: found.log_start_offsets,
            REPLICATION_CHECKPOINT: found.high_watermarks,
        }

    def _unclaim(self, partition: TopicPartition, clean: bool | None) -> None:
        if not self._is_owner:
            return
        with _registry_lock:
            self._claimed.remove(partition)
            if clean is not None:
                self._closed[partition] = clean
            self._leave_if_unused()

    def _leave_if_unused(self) -> None:
        if not self._claimed and not self._is_held:
            del _registry[self.disk, self.path]
            try:
                self._write_marker()
            finally:
                self.disk.close(self._lock_fd)

    def _write_marker(self) -> None:
        if not self._closed:
            if self._found.marker is not None:
                write_marker(self.disk, self.path, self._found.marker)
        elif all(self._closed.values()) and (self._found.marker is not None or self._closed_all()):
            write_marker(self.disk, self.path)

    def _closed_all(self) -> bool:
        """Whether every log in the directory was open here, so that none is left whose last shutdown was not clean."""
        partitions, others = logs_in(self.disk, self.path)
        return not others and partitions <= self._closed.keys()

    def _put_back_marker(self) -> None:
        if self._found.marker is not None:
            with contextlib.suppress(OSError):  # The first error is the one to tell.
                write_marker(self.disk, self.path, self._found.marker)


def make_durable_directory(disk: Disk, path: str) -> None:
    """Make a directory and those above it that are missing, so that a crash does not take them away again."""
    to_sync = []
    missing = path
    while not disk.exists(missing):
        missing = os.path.dirname(missing)
        to_sync.append(missing)
    if to_sync:
        disk.make_directory(path)
    for parent in to_sync:
        disk.sync_directory(parent)


_registry: dict[tuple[Disk, str], LogDirectory] = {}
_registry_lock = threading.Lock()


def _forget_parent() -> None:
    """In a forked child: the directories are its parent's, and the lock may be held by a thread that does not exist here."""
    global _registry_lock
    for directory in _registry.values():
        with contextlib.suppress(OSError):
            OS.close(directory._lock_fd)  # or the lock would outlive the parent
    _registry.clear()
    _registry_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_parent)

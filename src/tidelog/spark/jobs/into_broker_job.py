"""`copy(into_broker=True)`: into the data directory of a broker that does not run, so that it serves the records when it starts.

A broker knows a topic by its id, and takes a partition with another one for a stray. The ids are those in its own metadata log, or in the
`partition.metadata` of a directory that it has made. What is copied has to be assigned to this broker and this directory already: topics
are made with Kafka's own tools, the broker is stopped, the copy is made, and the broker started.

    step                                                           after a crash
    the broker's lock is taken, its marker of a clean stop goes    the broker recovers its logs, as after any crash
    a copied directory is brought here under a name that brokers   the broker removes it when it starts
    have for what is to be deleted
    an empty partition directory gets such a name, and the         the partition is empty, or as copied and marked as such by
    copied one is renamed to its place                             `copied-in.tidelog`; the broker makes one that is missing
    checkpoints of recovery points, starts and high watermarks     the broker works them out again
    the marks are removed, then what was set aside; the lock is    the broker removes what was set aside
    let go

What fails before the checkpoints is undone: every directory is what it was. A marked partition to which nothing was appended since is
replaced by the next copy: running it again is safe. A data directory may be a file system of its own, where nothing can be renamed to from
the staging folder beside it: what is copied is then written there once more.
"""

import errno
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from tidelog.disk.disk import Disk
from tidelog.disk.log_directory import LogDirectory
from tidelog.disk.names import LOG, OWN_SUFFIX, TopicPartition, deleted_directory, parse_segment_file
from tidelog.errors import NotAStoreError, TidelogError
from tidelog.log.storage_errors import storage_error
from tidelog.store.broker_directory import META_PROPERTIES, check_assigned, topic_id_for
from tidelog.store.cluster_metadata import MetadataLog, metadata_directory
from tidelog.store.copy_commit import build_partition, starts_inside
from tidelog.store.copying import CopiedLog
from tidelog.store.staging import Staging

COPIED_IN = f"copied-in{OWN_SUFFIX}"
_OURS = b"tidelog".hex()
"""What the ids begin with under which we set directories aside: a broker's own are nothing to us."""
_SET_ASIDE = re.compile(rf"\.{_OURS}[0-9a-f]{{18}}-delete\Z")
_CARRY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class BrokerTarget:
    """A broker's data directory that was looked at, with the ids of the topics that are to be copied into it."""

    disk: Disk
    path: str
    topic_ids: Mapping[str, UUID]

    @classmethod
    def check(cls, disk: Disk, path: str, partitions: Sequence[TopicPartition]) -> "BrokerTarget":
        """Look before anything is copied: raises for what is no broker's, for a live broker, an unknown topic, or data that is there."""
        if not disk.exists(f"{path}/{META_PROPERTIES}"):
            raise NotAStoreError(
                "not a broker's data directory",
                path=path,
                expected=META_PROPERTIES,
                found="none",
                hint="format it with kafka-storage first",
            )
        locked = LogDirectory.find_owner(path, disk=disk)
        if locked is not None:
            raise locked
        directory = metadata_directory(disk, [path])
        described = {} if directory is None else MetadataLog(disk, directory).topics()
        ids = {partition.topic: topic_id_for(disk, path, partition, described) for partition in partitions}
        target = cls(disk, path, ids)
        for partition in partitions:
            check_assigned(disk, path, partition, described)
            target._check_empty(partition)
        return target

    def commit(self, staging: Staging, logs: Sequence[CopiedLog]) -> None:
        """Put copied logs in place, and write down where they stand."""
        disk, path = self.disk, self.path
        built = {}
        try:
            for log in logs:
                partition = log.source.partition
                built[partition] = staging.file(f"{partition}-built")
                build_partition(disk, built[partition], log, self.topic_ids[partition.topic])
                _mark(disk, built[partition])
            home = LogDirectory.hold(path, disk=disk)
        except OSError as error:
            if isinstance(error, TidelogError):
                raise
            raise storage_error(error, path, "preparing the copy failed; nothing was changed") from error
        try:
            self._sweep()
            for log in logs:
                self._check_empty(log.source.partition)  # again: the broker may have run meanwhile
            asides = self._put_in_place(built)
            for log in logs:
                start = log.source.log_start_offset if starts_inside(log) else None
                end = log.settled.next_offset
                home.checkpoint(log.source.partition, recovery_point=end, log_start_offset=start, high_watermark=end)
            for log in logs:
                disk.remove(f"{path}/{log.source.partition}/{COPIED_IN}")
                disk.sync_directory(f"{path}/{log.source.partition}")
            with suppress(OSError):  # all is done, and the broker removes them, too
                for aside in asides:
                    disk.remove_tree(aside)
        except OSError as error:
            if isinstance(error, TidelogError):
                raise
            raise storage_error(error, path, "putting the copy in place failed; running it again is safe") from error
        finally:
            home.let_go()

    def _put_in_place(self, built: Mapping[TopicPartition, str]) -> list[str]:
        """All directories, or none: what was set aside for them."""
        disk, done = self.disk, list[tuple[TopicPartition, str | None]]()
        brought = ""
        try:
            for partition, source in built.items():
                directory, brought = f"{self.path}/{partition}", self._aside(partition)
                _carry(disk, source, brought)
                self._give_away(brought)
                aside = self._aside(partition) if disk.exists(directory) or disk.is_link(directory) else None
                if aside is not None:
                    disk.rename(directory, aside)
                done.append((partition, aside))
                disk.rename(brought, directory)
                disk.sync_directory(self.path)
        except BaseException:
            for partition, aside in reversed(done):
                with suppress(OSError):  # what cannot be undone either is marked, or was empty: the next copy goes on from there
                    self._take_back(partition, aside)
            with suppress(OSError):
                disk.remove_tree(brought)
            raise
        return [aside for _, aside in done if aside is not None]

    def _take_back(self, partition: TopicPartition, aside: str | None) -> None:
        disk, directory = self.disk, f"{self.path}/{partition}"
        if disk.exists(directory):
            copied = self._aside(partition)
            disk.rename(directory, copied)
            disk.remove_tree(copied)
        if aside is not None:
            disk.rename(aside, directory)
        disk.sync_directory(self.path)

    def _aside(self, partition: TopicPartition) -> str:
        """A new name for a directory that does not count: brokers, and we, take it for one that is to be removed."""
        return f"{self.path}/{deleted_directory(partition, _OURS + secrets.token_hex(9))}"

    def _sweep(self) -> None:
        """Remove what a copy that was cut off has set aside."""
        for name in [name for name in self.disk.names(self.path) if _SET_ASIDE.search(name)]:
            self.disk.remove_tree(f"{self.path}/{name}")

    def _give_away(self, directory: str) -> None:
        """The broker may run as somebody else, and has to write to what it gets."""
        for name in list(self.disk.names(directory)):
            self.disk.keep_rights(f"{directory}/{name}", f"{self.path}/{META_PROPERTIES}")
        self.disk.keep_rights(directory, self.path)

    def _check_empty(self, partition: TopicPartition) -> None:
        """Raise if a partition has, or had, records."""
        directory = f"{self.path}/{partition}"
        if not self.disk.exists(directory) or _is_marked(self.disk, directory):
            return
        for entry in self.disk.entries(directory):
            parsed = parse_segment_file(entry.name)
            if parsed is not None and parsed.kind == LOG and (entry.size_bytes or parsed.base_offset):
                raise NotAStoreError(
                    "the broker has data in this partition",
                    path=directory,
                    expected="a partition that is empty, and always was",
                    found=f"{entry.name} of {entry.size_bytes} bytes",
                    hint="nothing is ever overwritten: make a new topic",
                )


def _carry(disk: Disk, source: str, target: str) -> None:
    """Move a directory of files, to another file system too: there it is durable before this returns."""
    try:
        disk.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        disk.make_directory(target)
        for entry in list(disk.entries(source)):
            _write_again(disk, f"{source}/{entry.name}", f"{target}/{entry.name}")
            disk.set_mtime_ns(f"{target}/{entry.name}", entry.mtime_ns)
        disk.sync_directory(target)


def _write_again(disk: Disk, source: str, target: str) -> None:
    read_from, write_to = disk.open(source), disk.create(target)
    try:
        position = 0
        while content := disk.read(read_from, _CARRY_BYTES, position):
            disk.write(write_to, [content], position)
            position += len(content)
        disk.sync(write_to)
    finally:
        disk.close(read_from)
        disk.close(write_to)


def _mark(disk: Disk, directory: str) -> None:
    """Write down what was copied, so that a copy that was cut off is known again."""
    files = {entry.name: entry.size_bytes for entry in disk.entries(directory)}
    disk.replace_file(directory, COPIED_IN, json.dumps(files, sort_keys=True).encode())


def _is_marked(disk: Disk, directory: str) -> bool:
    """Whether all of a directory is from a copy that was cut off, and nothing came to it since."""
    with suppress(FileNotFoundError, ValueError):
        said = json.loads(disk.read_file(f"{directory}/{COPIED_IN}"))
        found = {entry.name: entry.size_bytes for entry in disk.entries(directory) if entry.name != COPIED_IN}
        return bool(said == found)
    return False

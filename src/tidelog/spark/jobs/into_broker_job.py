"""`copy(into_broker=True)`: into the data directory of a broker that does not run, so that it serves the records when it starts.

A broker knows a topic by its id, and takes a partition with another one for a stray. The ids are those in its own metadata log, or in the
`partition.metadata` of a directory that it has made. What is copied has to be assigned to this broker and this directory already: topics
are made with Kafka's own tools, the broker is stopped, the copy is made, and the broker started.

    step                                                           after a crash
    the broker's lock is taken, its marker of a clean stop goes    the broker recovers its logs, as after any crash
    files of an empty partition directory are removed, and the     the partition is empty, or as copied and marked as such by
    copied directory is renamed to its place                       `copied-in.tidelog`
    checkpoints of recovery points, starts and high watermarks     the broker works them out again
    the marks are removed, the lock let go

A marked partition to which nothing was appended since is replaced by the next copy: running it again is safe.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from tidelog.disk.disk import Disk
from tidelog.disk.log_directory import LogDirectory
from tidelog.disk.names import LOG, OWN_SUFFIX, TopicPartition, parse_segment_file
from tidelog.disk.partition_metadata import format_topic_id, read_metadata
from tidelog.errors import InconsistentTopicIdError, NotAStoreError, TidelogError, UnknownTopicError
from tidelog.log.storage_errors import storage_error
from tidelog.store.cluster_metadata import DescribedTopic, MetadataLog, metadata_directory
from tidelog.store.copy_commit import build_partition, starts_inside
from tidelog.store.copying import CopiedLog
from tidelog.store.staging import Staging

META_PROPERTIES = "meta.properties"
COPIED_IN = f"copied-in{OWN_SUFFIX}"


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
        ids = {partition.topic: _topic_id(disk, path, partition, described) for partition in partitions}
        target = cls(disk, path, ids)
        for partition in partitions:
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
            for log in logs:
                self._check_empty(log.source.partition)  # again: the broker may have run meanwhile
            for log in logs:
                partition = log.source.partition
                directory = f"{path}/{partition}"
                self._give_away(built[partition])
                disk.remove_tree(directory)
                disk.rename(built[partition], directory)
                disk.sync_directory(path)
            for log in logs:
                start = log.source.log_start_offset if starts_inside(log) else None
                end = log.settled.next_offset
                home.checkpoint(log.source.partition, recovery_point=end, log_start_offset=start, high_watermark=end)
            for log in logs:
                disk.remove(f"{path}/{log.source.partition}/{COPIED_IN}")
                disk.sync_directory(f"{path}/{log.source.partition}")
        except OSError as error:
            if isinstance(error, TidelogError):
                raise
            raise storage_error(error, path, "putting the copy in place failed; running it again is safe") from error
        finally:
            home.let_go()

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


def _topic_id(disk: Disk, path: str, partition: TopicPartition, described: Mapping[str, DescribedTopic]) -> UUID:
    known = described.get(partition.topic)
    here = read_metadata(disk, f"{path}/{partition}")
    if known is not None and here is not None and here != known.topic_id:
        raise InconsistentTopicIdError(
            "the partition belongs to another topic of this name",
            path=f"{path}/{partition}",
            expected=format_topic_id(known.topic_id),
            found=format_topic_id(here),
        )
    if known is not None and partition.partition < known.partitions:
        return known.topic_id
    if known is None and here is not None:
        return here
    raise UnknownTopicError(
        f"the broker knows no {'topic ' + repr(partition.topic) if known is None else f'partition {partition}'}",
        path=path,
        hint="make it with Kafka's own tools while the broker runs, then stop the broker",
    )


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

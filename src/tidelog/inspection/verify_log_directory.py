"""Verify a whole log directory: its partitions, and the files at its root held against them."""

import re
from collections.abc import Collection, Iterable, Iterator
from os import PathLike, fspath

from tidelog.disk.directory_state import CLUSTER_METADATA
from tidelog.disk.disk import OS, Disk
from tidelog.disk.names import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    TEMPORARY_SUFFIX,
    TopicPartition,
    is_set_aside,
    parse_partition,
)
from tidelog.disk.store_content import STORE_FILE
from tidelog.errors import NO_DIRECTORY, LogNotFoundError, TidelogError
from tidelog.inspection.finding import NOTHING, RECOVERY, REPAIR, Finding, Severity, limited
from tidelog.inspection.partition_checks import Progress
from tidelog.inspection.side_file_checks import load_checkpoint, read_side_file, unreadable
from tidelog.inspection.store_checks import check_partitions_there
from tidelog.inspection.verify import Level, PartitionVerify, check_level

META_PROPERTIES = "meta.properties"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
REMOTE_INDEX_CACHE = "remote-log-index-cache"

_CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, REPLICATION_CHECKPOINT, CLEANER_CHECKPOINT)
_KNOWN_FILES = {*_CHECKPOINTS, CLEAN_SHUTDOWN, LOCK, META_PROPERTIES, BOOTSTRAP_CHECKPOINT, STORE_FILE}
_UUID = re.compile(r"[A-Za-z0-9_-]{22}\Z")
_NUMBER = re.compile(r"[0-9]{1,10}\Z")
_REQUIRED = {0: (), 1: ("cluster.id", "node.id")}


def verify_log_directory(
    path: str | PathLike[str],
    *,
    level: Level = "everything",
    now_ms: int | None = None,
    disk: Disk = OS,
    progress: Progress | None = None,
    beside: Iterable[str | PathLike[str]] = (),
) -> Iterator[Finding]:
    """What is wrong with a log directory and with all partitions in it.

    `beside` are other log directories of the same store, which may have the partitions that this one has not. Raises `LogNotFoundError`
    if it is not there; whatever is wrong inside of it is a finding.
    """
    check_level(level)
    return _verify(RootVerify(fspath(path).rstrip("/") or "/", disk, beside), level, now_ms, progress)


def _verify(root: "RootVerify", level: Level, now_ms: int | None, progress: Progress | None) -> Iterator[Finding]:
    yield from root.begin()
    for name in root.partition_names:
        checks = PartitionVerify(f"{root.path}/{name}", level=level, now_ms=now_ms, disk=root.disk, progress=progress)
        try:
            yield from checks.run()
        except LogNotFoundError:
            continue  # deleted meanwhile, or a link that leads nowhere, which is told above
        root.note_end(name, checks.first_base, checks.end_offset)
    yield from root.finish()


class RootVerify:
    """What lies at the root of a log directory. The partitions in between are looked at by whoever asks, in any order."""

    def __init__(self, path: str, disk: Disk, beside: Iterable[str | PathLike[str]] = ()) -> None:
        self.path = path
        self.disk = disk
        self.beside = tuple(fspath(other).rstrip("/") or "/" for other in beside)
        """Other log directories of the same store."""
        self.partition_names: list[str] = []
        """Directories of partitions, also of those that are on their way out; known after `begin`."""
        self._ends: dict[TopicPartition, tuple[int | None, int]] = {}
        self._before: dict[str, dict[TopicPartition, int]] = {}
        """The checkpoints as they were before the logs were walked, by file: their owner goes on."""

    def begin(self) -> Iterator[Finding]:
        """Names, and the files that say something about the directory."""
        partitions: list[TopicPartition] = []
        others: list[str] = []
        names: set[str] = set()
        yield from limited(_sort_out(self.path, self.disk, partitions, others, names), by_file=False)
        if META_PROPERTIES in names:
            yield from _check_meta_properties(self.disk, f"{self.path}/{META_PROPERTIES}")
        if CLEAN_SHUTDOWN in names:
            yield from _check_clean_shutdown(self.disk, f"{self.path}/{CLEAN_SHUTDOWN}")
        self.partition_names = [*sorted(map(str, partitions)), *sorted(others)]
        self._before = {name: load_checkpoint(self.disk, f"{self.path}/{name}")[0] for name in _CHECKPOINTS}

    def note_end(self, name: str, first_base: int | None, end_offset: int) -> None:
        """Where the log of a partition begins and ends."""
        partition = parse_partition(name)
        if partition is not None:
            self._ends[partition] = first_base, end_offset

    def finish(self) -> Iterator[Finding]:
        """The checkpoints, held against where the logs end, and what a store says that there is."""
        for name in _CHECKPOINTS:
            yield from limited(_check_checkpoint(self.disk, self.path, name, self._ends, self._before.get(name, {})))
        yield from self.missing()

    def missing(self, topics: Collection[str] | None = None) -> Iterator[Finding]:
        """The partitions that a store has by its file, of all topics or of some, and that are not there."""
        yield from limited(check_partitions_there(self.disk, self.path, self.beside, topics), by_file=False)


def _sort_out(root: str, disk: Disk, partitions: list[TopicPartition], others: list[str], names: set[str]) -> Iterator[Finding]:
    try:
        for seen in disk.look(root):
            path = f"{root}/{seen.name}"
            if seen.kind == "link":
                yield Finding("note", "symbolic-link", path, "a symbolic link: it is read as what it leads to", NOTHING)
            partition = parse_partition(seen.name) if seen.name.isascii() else None
            if seen.kind == "file":
                names.add(seen.name)
                yield from _other_file(path, seen.name)
            elif seen.kind == "other":
                yield Finding("warning", "not-a-file", path, "neither a file nor a directory", "removing it")
            elif partition is not None and partition.topic != CLUSTER_METADATA and str(partition) == seen.name:
                partitions.append(partition)
            elif is_set_aside(seen.name):
                others.append(seen.name)
                yield Finding("note", "set-aside", path, "a partition on its way out, or between directories", NOTHING)
            elif partition is None and seen.kind == "directory" and seen.name != REMOTE_INDEX_CACHE:
                what = "a directory that is no partition: a broker does not start on it"
                yield Finding("error", "unknown-directory", path, what, "moving it elsewhere")
            elif partition is not None and partition.topic != CLUSTER_METADATA:
                yield Finding("warning", "partition-name", path, "a partition's number is not written as Kafka does", "renaming it")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise LogNotFoundError("no such directory", path=root, hint=NO_DIRECTORY) from error
    except OSError as error:
        yield unreadable(error, root)


def _other_file(path: str, name: str) -> Iterator[Finding]:
    if name.endswith(TEMPORARY_SUFFIX):
        yield Finding("note", "leftover-tmp", path, "a small file that was not finished", NOTHING)
    elif name not in _KNOWN_FILES:
        yield Finding("note", "foreign-file", path, "a file that is none of a log directory", NOTHING)


def _check_checkpoint(
    disk: Disk, root: str, name: str, ends: dict[TopicPartition, tuple[int | None, int]], before: dict[TopicPartition, int]
) -> Iterator[Finding]:
    """Offsets of partitions that are not there, or outside of their logs.

    What an owner has written down since the logs were walked is about longer logs; what he cut meanwhile, about others.
    """
    path = f"{root}/{name}"
    offsets, findings = load_checkpoint(disk, path)
    yield from findings
    for partition, offset in sorted(offsets.items()):
        if partition not in ends:
            if partition.topic != CLUSTER_METADATA:
                what = f"an entry of {partition}, which is not in this directory"
                yield Finding("note", "checkpoint-partition", path, what, "a broker drops it when it writes the file")
            continue
        first_base, end = ends[partition]
        if offset > end and before.get(partition) == offset:
            what = f"the offset of {partition} lies behind the end of its log"
            if name == LOG_START_OFFSET_CHECKPOINT:
                what += ": opening it throws all of its records away"
            severity: Severity = (
                "error" if name == LOG_START_OFFSET_CHECKPOINT and first_base is not None and end > first_base else "warning"
            )
            yield Finding(severity, "checkpoint-beyond-end", path, what, RECOVERY, None, offset, f"at most {end}", offset)
        elif name == LOG_START_OFFSET_CHECKPOINT and first_base is not None and offset < first_base:
            what = f"the log of {partition} is said to start below its first segment, which may be missing"
            yield Finding("note", "checkpoint-below-start", path, what, NOTHING, None, offset, f"{first_base} or more", offset)


def _check_clean_shutdown(disk: Disk, path: str) -> Iterator[Finding]:
    """That the marker exists is what counts; what it says is of no use if it does not parse."""
    try:
        content = read_side_file(disk, path)
    except FileNotFoundError:
        return
    except (TidelogError, OSError) as error:
        yield unreadable(error, path)
        return
    if content and not re.match(rb'\s*\{.*"brokerEpoch"\s*:\s*-?\d+.*\}\s*\Z', content, re.DOTALL):
        what = "the clean shutdown marker does not say which broker wrote it; that it exists is what counts"
        yield Finding("warning", "clean-shutdown", path, what, NOTHING)


def _check_meta_properties(disk: Disk, path: str) -> Iterator[Finding]:
    """`meta.properties`: Java's format, of which Kafka uses `key=value` lines and comments."""
    try:
        text = read_side_file(disk, path).decode("latin-1")
    except FileNotFoundError:
        return
    except (TidelogError, OSError) as error:
        yield unreadable(error, path)
        return
    lines = [line.strip() for line in text.splitlines()]
    pairs = dict(re.split(r"\s*[=:]\s*", line, maxsplit=1) for line in lines if line[:1] not in ("", "#", "!") and re.search("[=:]", line))
    version = pairs.get("version", "0")
    if version not in ("0", "1"):
        what = "a version of meta.properties that a broker does not know"
        yield Finding("error", "meta-properties", path, what, REPAIR, None, None, "0 or 1", version)
        return
    for key in _REQUIRED[int(version)]:
        if key not in pairs:
            yield Finding("error", "meta-properties", path, f"{key} is missing: a broker does not start", REPAIR)
    for key in ("node.id", "broker.id"):
        if key in pairs and not _NUMBER.match(pairs[key]):
            yield Finding("error", "meta-properties", path, f"{key} is not a number", REPAIR, None, None, None, pairs[key])
    for key in ("directory.id",):
        if key in pairs and not _UUID.match(pairs[key]):
            yield Finding("error", "meta-properties", path, f"{key} is not an id", REPAIR, None, None, "22 characters", pairs[key])

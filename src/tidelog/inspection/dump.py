"""Everything that lies in files of a log, one plain object after the other: batches, records, entries, and what is damaged.

Files are taken as they are, by their names: whose they are does not matter, nor whether somebody is writing. Nothing is changed. Damage is
an object among the others (`finding`), and what lies behind it is shown too, or the file ends there. Memory is bounded: a segment is walked
in pieces.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.disk.disk import OS, Disk
from tidelog.disk.names import LOG, OWN_SUFFIX, TopicPartition, is_set_aside, parse_partition, parse_segment_file
from tidelog.errors import NO_DIRECTORY, LogNotFoundError, StorageError, TidelogError
from tidelog.inspection.dump_entries import BY_NAME, BY_SUFFIX, Entries
from tidelog.inspection.dump_segment import SegmentDump
from tidelog.inspection.finding import printable
from tidelog.inspection.record_object import Object
from tidelog.inspection.side_file_checks import unreadable
from tidelog.log.storage_errors import storage_error

_KRAFT_SNAPSHOT = re.compile(r"(\d{20})-\d{10}\.checkpoint\Z")
_BOOTSTRAP = "bootstrap.checkpoint"
_OWN_SEGMENT = re.compile(rf"[a-z]+-(\d{{20}})(?:-at-\d+)?(?:-\d+)?{re.escape(LOG + OWN_SUFFIX)}\Z")
"""Batches that recovery or salvage has put aside."""
_OWN_INDEX = re.compile(rf"(?:rebuilt-(\d{{20}})\.|)(index|timeindex|txnindex|snapshot)(?:-(\d{{20}})(?:-\d+)?)?{re.escape(OWN_SUFFIX)}\Z")
"""An index while it is built anew, or one that repair has put aside."""
_KNOWN = "a segment's .log, .index, .timeindex, .txnindex or .snapshot, a checkpoint, partition.metadata, meta.properties, tidelog.json"


@dataclass(frozen=True, slots=True)
class DumpedFile:
    """A file with something in it to show."""

    path: str
    base_offset: int = 0
    partition: TopicPartition | None = None
    entries: Entries | None = None
    """What reads it; None if it has batches."""
    has_offset_of: int | None = None
    """Of a snapshot of the metadata log: which offset it stands for."""

    @property
    def shown_path(self) -> str:
        """As it is printed."""
        return printable(self.path)

    @property
    def log_start(self) -> int:
        """What its name says about its first offset."""
        return self.base_offset if self.has_offset_of is None else self.has_offset_of


def dump(path: str, *, records: bool = False, raw: bool = False, skip_damage: bool = True, disk: Disk = OS) -> Iterator[Object]:
    """All that is in a file, in a partition's directory, or in a whole data directory. Each object has the `path` it is from."""
    for file in dumped_files(path, disk):
        yield from dump_file(file, records=records, raw=raw, skip_damage=skip_damage, disk=disk)


def dump_file(file: DumpedFile, *, records: bool, raw: bool, skip_damage: bool = True, disk: Disk = OS) -> Iterator[Object]:
    """All that is in one file."""
    shown = {"path": file.shown_path}
    try:
        if file.entries is not None:
            for found in file.entries(disk, file.path, file.base_offset):
                yield found | shown
            return
        yield {"type": "segment", "base_offset": file.log_start} | shown
        segment = SegmentDump(disk, file.path, file.base_offset, file.partition, skip_damage=skip_damage)
        for found in segment.objects(records=records, raw=raw):
            yield found | shown
    except FileNotFoundError:
        return  # its owner has removed it meanwhile
    except (TidelogError, OSError) as error:
        yield dict(unreadable(error, file.path).to_json())


def dumped_files(path: str, disk: Disk = OS) -> Iterator[DumpedFile]:
    """The files that a path stands for: itself, those of a partition, or those of a data directory and of its partitions."""
    path = path.rstrip("/") or "/"
    if not disk.exists(path):
        raise LogNotFoundError("no such file or directory", path=path, hint=NO_DIRECTORY)
    try:
        names = sorted(seen.name for seen in disk.look(path))
    except NotADirectoryError:
        file = dumped_file(path)
        if file is None:
            raise LogNotFoundError("no file of a log, by its name", path=path, expected=_KNOWN, found=path.rpartition("/")[2]) from None
        yield file
        return
    except OSError as error:
        raise storage_error(error, path, "reading the directory failed") from error
    for name in names:
        file = dumped_file(f"{path}/{name}")
        if file is not None:
            yield file
    if parse_partition(_name(path)) is None:
        for name in names:
            if (parse_partition(name) or is_set_aside(name)) and not is_dumped(name):
                try:
                    yield from dumped_files(f"{path}/{name}", disk)
                except StorageError:
                    continue  # one that cannot be entered does not hide the others


def dumped_file(path: str) -> DumpedFile | None:
    """What there is to show in a file, by its name; None if nothing."""
    name = path.rpartition("/")[2]
    parsed, match = parse_segment_file(name), _KRAFT_SNAPSHOT.match(name)
    if match is not None or name == _BOOTSTRAP:
        return DumpedFile(path, 0, TopicPartition("__cluster_metadata", 0), has_offset_of=int(match[1]) if match else 0)
    own = _OWN_SEGMENT.match(name)
    if own is not None or (parsed is not None and parsed.kind == LOG):
        base_offset = int(own[1]) if own is not None else parsed.base_offset if parsed is not None else 0
        return DumpedFile(path, base_offset, parse_partition(_name(f"{path}/..")))
    if parsed is not None:
        return DumpedFile(path, parsed.base_offset, entries=BY_SUFFIX[parsed.kind])
    index = _OWN_INDEX.match(name)
    if index is not None and (index[1] or index[3]):
        return DumpedFile(path, int(index[1] or index[3]), entries=BY_SUFFIX[f".{index[2]}"])
    return DumpedFile(path, entries=BY_NAME[name]) if name in BY_NAME else None


def is_dumped(name: str) -> bool:
    """Whether there is something to show in a file of this name."""
    return dumped_file(f"./{name}") is not None


def _name(path: str) -> str:
    """The name of a directory, also of one that is given as `.`; what is printed is the path as it was given."""
    return os.path.abspath(path).rpartition("/")[2]  # noqa: PTH100 - links are not followed: they have the name that counts

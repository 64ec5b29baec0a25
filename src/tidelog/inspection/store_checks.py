"""What a store says in `tidelog.json` that there is, held against the directories.

A partition is missing if none of the store's log directories has it. The file says how many directories the store has, but not which of
them has which partition: as long as not all are looked at, the others may have what is not here, and nobody is alarmed.

The owner may make and delete topics meanwhile. A topic is written down as incomplete before its directories are made, and struck out
before they are renamed: what the file says both before and after the directories were looked at should have been there.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tidelog.disk.disk import Disk
from tidelog.disk.names import parse_partition
from tidelog.disk.store_content import STORE_FILE, StoreFile, parse_store_file
from tidelog.errors import TidelogError
from tidelog.inspection.finding import MOST_ALIKE, Finding
from tidelog.inspection.side_file_checks import read_side_file, unreadable

_RESTORE = "restoring it from a backup, or deleting the topic"
_NAME_ALL = "verify with all directories of the store"

Found = dict[str, set[int]]
"""The partitions of topics."""


class _Lost(NamedTuple):
    """What of a topic is missing."""

    first: tuple[int, ...]
    """No more than are told: nobody vouches for how many partitions a file says that there are."""
    how_many: int


def check_partitions_there(disk: Disk, path: str, beside: Sequence[str] = (), topics: Collection[str] | None = None) -> Iterator[Finding]:
    """What the store in a directory has by its file, and is not there; nothing for a directory without that file.

    Of the directories `beside` those count that are the same store's, or have lost their file. With `topics` it is about these only.
    """
    file = f"{path}/{STORE_FILE}"
    try:
        own = _read(disk, path)
    except (TidelogError, OSError) as error:
        if topics is None:
            yield _unusable(error, file)
        return
    if own is None:
        return
    paths = _of_one_store(disk, path, own, beside)
    first = min(paths)  # whichever of them is verified, it is told in the same words
    before = _newest(disk, paths, own)
    try:
        here = _here(disk, paths)
    except OSError:
        return  # one that cannot be listed is told by who verifies it
    lost = _lost(before, here, topics)
    if not lost:
        return
    after = _newest(disk, paths, own)
    lost = {name: numbers for name, numbers in lost.items() if _is_as_before(before, after, name)}
    if len(paths) < before.directories:
        if lost:
            name, one = next(iter(lost.items()))
            what = f"partitions of the store are not here, {name}-{one.first[0]} for one; it has {before.directories} directories"
            yield Finding(
                "note", "partition-elsewhere", f"{first}/{STORE_FILE}", what, _NAME_ALL, None, None, before.directories, len(paths)
            )
        return
    for name, one in lost.items():
        what = f"the directory of a partition is missing, which topic {name} has by {STORE_FILE}: its records are gone"
        for number in one.first:
            yield Finding("error", "partition-missing", f"{first}/{name}-{number}", what, _RESTORE)
        if one.how_many > len(one.first):
            what = f"{one.how_many - len(one.first)} more partitions of topic {name} are missing"
            yield Finding("error", "partition-missing", f"{first}/{STORE_FILE}", what, _RESTORE)


def _unusable(error: TidelogError | OSError, file: str) -> Finding:
    found = unreadable(error, file)
    mend = getattr(error, "hint", None) or found.mend
    return Finding("error", "store-file", file, f"nobody can open the store: {found.what}", mend, None, None, found.expected, found.found)


def _read(disk: Disk, path: str) -> StoreFile | None:
    try:
        return parse_store_file(read_side_file(disk, f"{path}/{STORE_FILE}"), f"{path}/{STORE_FILE}")
    except FileNotFoundError:
        return None


def _of_one_store(disk: Disk, path: str, own: StoreFile, beside: Sequence[str]) -> list[str]:
    """The directories that belong together, the first one first; each once, by whatever name."""
    paths = {os.path.realpath(path): path}
    for other in beside:
        try:
            content = _read(disk, other)
        except (TidelogError, OSError):
            content = None
        if content is None or content.store_id == own.store_id:
            paths.setdefault(os.path.realpath(other), other)
    return list(paths.values())


def _newest(disk: Disk, paths: Sequence[str], own: StoreFile) -> StoreFile:
    """What counts: after a crash some of the directories may have the file as it was before."""
    newest = own
    for path in paths:
        try:
            content = _read(disk, path)
        except (TidelogError, OSError):
            continue
        if content is not None and content.revision > newest.revision:
            newest = content
    return newest


def _here(disk: Disk, paths: Sequence[str]) -> Found:
    here: Found = {}
    for path in paths:
        for entry in disk.entries(path):
            partition = parse_partition(entry.name) if entry.is_directory else None
            if partition is not None and str(partition) == entry.name:
                here.setdefault(partition.topic, set()).add(partition.partition)
    return here


def _lost(content: StoreFile, here: Found, topics: Collection[str] | None) -> dict[str, _Lost]:
    """What is missing, by topic."""
    lost = {}
    for name, entry in content.topics.items():
        if (topics is not None and name not in topics) or entry.is_incomplete:
            continue
        found = here.get(name, set())
        numbers = (number for number in range(entry.partitions) if entry.is_due(number) and number not in found)
        first = tuple(islice(numbers, MOST_ALIKE))
        if first:
            count = entry.partitions - len(entry.absent) - sum(map(entry.is_due, found))
            lost[name] = _Lost(first, count)
    return lost


def _is_as_before(before: StoreFile, after: StoreFile, name: str) -> bool:
    """Whether a topic was neither deleted nor made meanwhile."""
    entry = after.topics.get(name)
    return entry is not None and not entry.is_incomplete and entry.topic_id == before.topics[name].topic_id

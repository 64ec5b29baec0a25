"""Which files of a partition directory count, as loading would see it: read only, shared by repair and salvage.

Leftovers of a replacement stand for what they will be once it is finished or undone: a complete set of `.swap` files for the segments it
replaces, everything else that has a suffix for nothing. The steps are told in `tidelog.log.swap`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.disk.disk import Disk, Entry
from tidelog.disk.names import (
    CLEANED,
    DELETED,
    LOG,
    SNAPSHOT,
    SWAP,
    TEMPORARY_SUFFIX,
    SegmentFile,
    is_foreign_segment_file,
    is_rebuilt_file,
    parse_segment_file,
    segment_file,
)
from tidelog.errors import LogNotFoundError, StorageError
from tidelog.inspection.directory_checks import MAX_OFFSET


class Leftover(NamedTuple):
    """A file that does not count any more."""

    name: str
    size_bytes: int
    reason: str


class Swapped(NamedTuple):
    """A file that has to get its final name."""

    name: str
    final: str
    size_bytes: int


@dataclass(slots=True)
class PartitionFiles:
    """The files of a partition directory."""

    directory: str
    entries: list[Entry]
    """All there is."""
    segments: dict[int, dict[str, Entry]] = field(default_factory=dict)
    """By base offset and kind; the entry has the name that the file has now. Without a `.log` it is an orphan."""
    undone: list[Leftover] = field(default_factory=list)
    """What loading removes first, in this order."""
    replaced: list[Leftover] = field(default_factory=list)
    """What a complete replacement makes obsolete."""
    swapped: list[Swapped] = field(default_factory=list)
    orphans: list[Leftover] = field(default_factory=list)
    """Index files without a `.log`."""
    foreign: list[str] = field(default_factory=list)
    """Named like a segment's, but no such name."""

    @property
    def base_offsets(self) -> list[int]:
        """Of the segments that have a `.log`, in order."""
        return sorted(base for base, files in self.segments.items() if LOG in files)

    @property
    def orphan_bases(self) -> list[int]:
        """Base offsets of which there are indexes, but no `.log`."""
        return sorted(base for base, files in self.segments.items() if LOG not in files and set(files) - {SNAPSHOT})

    @property
    def snapshots(self) -> dict[int, Entry]:
        """Producer snapshots by their offset."""
        return {base: files[SNAPSHOT] for base, files in self.segments.items() if SNAPSHOT in files}

    def path_of(self, base_offset: int, kind: str) -> str | None:
        """Where a file of a segment is now, if there is one."""
        entry = self.segments.get(base_offset, {}).get(kind)
        return None if entry is None else f"{self.directory}/{entry.name}"


def look_at(disk: Disk, directory: str, end_of: Callable[[str, int], int]) -> PartitionFiles:
    """Look at a directory. `end_of` gives the next offset of a `.log.swap`, by its path and base offset."""
    try:
        entries = sorted(disk.entries(directory))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise LogNotFoundError("no such partition directory", path=directory) from error
    except OSError as error:
        raise StorageError(f"the directory cannot be read: {error.strerror}", path=directory) from error
    files = PartitionFiles(directory, entries)
    staged: dict[str, list[tuple[SegmentFile, Entry]]] = {"": [], CLEANED: [], SWAP: [], DELETED: []}
    for entry in entries:
        parsed = parse_segment_file(entry.name)
        if entry.is_directory:
            continue
        if parsed is not None and parsed.base_offset <= MAX_OFFSET:
            staged[parsed.stage].append((parsed, entry))
        elif parsed is not None or is_foreign_segment_file(entry.name):
            files.foreign.append(entry.name)
        elif is_rebuilt_file(entry.name) or entry.name.endswith(TEMPORARY_SUFFIX):
            files.undone.append(Leftover(entry.name, entry.size_bytes, "a file that was not finished"))
    swaps = _undo(files, staged)
    _finish(files, staged[""], swaps, end_of)
    for base_offset in files.orphan_bases:
        for kind, entry in sorted(files.segments[base_offset].items()):
            if kind != SNAPSHOT:
                files.orphans.append(Leftover(entry.name, entry.size_bytes, "there is no .log beside it"))
    return files


def _undo(files: PartitionFiles, staged: dict[str, list[tuple[SegmentFile, Entry]]]) -> list[tuple[SegmentFile, Entry]]:
    """What of a replacement is to be undone; gives back the swaps that are complete.

    Swaps go before the `.cleaned` files, which say that they have to.
    """
    files.undone += [Leftover(entry.name, entry.size_bytes, "its deletion had begun") for _, entry in staged[DELETED]]
    lowest_cleaned = min((parsed.base_offset for parsed, _ in staged[CLEANED]), default=None)
    complete = []
    for parsed, entry in staged[SWAP]:
        if lowest_cleaned is not None and parsed.base_offset >= lowest_cleaned:
            files.undone.append(Leftover(entry.name, entry.size_bytes, "its replacement was not complete"))
        else:
            complete.append((parsed, entry))
    files.undone += [Leftover(entry.name, entry.size_bytes, "its replacement was not complete") for _, entry in staged[CLEANED]]
    return complete


def _finish(
    files: PartitionFiles,
    plain: list[tuple[SegmentFile, Entry]],
    swaps: list[tuple[SegmentFile, Entry]],
    end_of: Callable[[str, int], int],
) -> None:
    logs = [(parsed.base_offset, entry) for parsed, entry in swaps if parsed.kind == LOG]
    low = min((base_offset for base_offset, _ in logs), default=0)
    high = max((end_of(f"{files.directory}/{entry.name}", base_offset) for base_offset, entry in logs), default=0)
    finals = {(parsed.base_offset, parsed.kind) for parsed, _ in swaps}
    for parsed, entry in plain:
        if low <= parsed.base_offset < high or (parsed.base_offset, parsed.kind) in finals:
            files.replaced.append(Leftover(entry.name, entry.size_bytes, "it has been replaced"))
        else:
            files.segments.setdefault(parsed.base_offset, {})[parsed.kind] = entry
    for parsed, entry in sorted(swaps):
        files.segments.setdefault(parsed.base_offset, {})[parsed.kind] = entry
        files.swapped.append(Swapped(entry.name, segment_file(parsed.base_offset, parsed.kind), entry.size_bytes))

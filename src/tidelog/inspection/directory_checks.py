"""What lies in a partition directory, by the names alone."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tidelog.disk.disk import Seen
from tidelog.disk.names import (
    CLEANED,
    DELETED,
    INDEX,
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    OWN_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT,
    SWAP,
    TEMPORARY_SUFFIX,
    TIME_INDEX,
    TXN_INDEX,
    is_foreign_segment_file,
    is_rebuilt_file,
    parse_segment_file,
)
from tidelog.inspection.finding import NOTHING, RECOVERY, Finding

MAX_OFFSET = (1 << 63) - 1
QUORUM_STATE = "quorum-state"
"""Of the metadata log of KRaft, whose directory also has snapshots named `….checkpoint`."""
KRAFT_SNAPSHOT = ".checkpoint"

ORPHAN_INDEX = "orphan-index"
_MOVE = "moving it elsewhere"
_STAGES = {
    CLEANED: ("leftover-cleaned", "a segment whose rewriting was not finished", "opening removes it"),
    SWAP: ("leftover-swap", "a rewritten segment on its way in", "opening finishes or undoes it"),
    DELETED: ("leftover-deleted", "a deleted segment that is still there", "opening removes it"),
}


@dataclass(slots=True)
class PartitionFiles:
    """The files of a partition that count."""

    directory: str
    segments: dict[int, set[str]] = field(default_factory=dict)
    """Kinds of files by base offset, where there is a `.log`."""
    snapshots: list[int] = field(default_factory=list)
    others: set[str] = field(default_factory=set)
    """The leader epochs and the topic's id."""
    logs: dict[int, Seen] = field(default_factory=dict)
    """The `.log` of each segment, as it was listed."""


def sort_out(directory: str, names: Iterable[Seen], files: PartitionFiles) -> Iterator[Finding]:
    """Fill `files`, and tell of everything that is not in it."""
    kinds: dict[int, set[str]] = {}
    for seen in names:
        name, path = seen.name, f"{directory}/{seen.name}"
        if seen.kind == "directory":
            yield Finding("note", "directory-inside", path, "a directory inside of a partition: nobody looks into it", NOTHING)
            continue
        parsed = parse_segment_file(name) if name.isascii() else None
        if seen.kind == "link":
            yield Finding("note", "symbolic-link", path, "a symbolic link: it is read as the file it leads to, if that is one", NOTHING)
        elif seen.kind == "other":
            yield Finding("warning", "not-a-file", path, "neither a file nor a directory", "removing it")
            continue
        if parsed is not None and parsed.base_offset > MAX_OFFSET:
            what = "a segment file named by an offset that cannot be"
            expected = f"up to {MAX_OFFSET}"
            yield Finding("error", "segment-name", path, what, _MOVE, expected=expected, found=parsed.base_offset)
        elif parsed is not None and parsed.stage:
            code, what, mend = _STAGES[parsed.stage]
            yield Finding("note", code, path, what, mend)
        elif parsed is not None and parsed.kind == SNAPSHOT:
            files.snapshots.append(parsed.base_offset)
        elif parsed is not None:
            kinds.setdefault(parsed.base_offset, set()).add(parsed.kind)
            if parsed.kind == LOG:
                files.logs[parsed.base_offset] = seen
        elif name in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA):
            files.others.add(name)
        else:
            finding = _other(path, name)
            if finding is not None:
                yield finding
    files.snapshots.sort()
    for base_offset in sorted(kinds):
        if LOG in kinds[base_offset]:
            files.segments[base_offset] = kinds[base_offset]
        else:
            yield from _orphans(directory, base_offset, kinds[base_offset])
    yield from _stray_snapshots(files)


def _other(path: str, name: str) -> Finding | None:
    if is_foreign_segment_file(name):
        what = "a file that is named like a segment's but by no offset of 20 digits: a broker does not start on it"
        return Finding("error", "segment-name", path, what, _MOVE)
    if is_rebuilt_file(name):
        return Finding("note", "leftover-rebuilt", path, "an index that was not finished", "opening removes it")
    if name.endswith(TEMPORARY_SUFFIX):
        return Finding("note", "leftover-tmp", path, "a small file that was not finished", "opening removes it")
    if name.endswith(OWN_SUFFIX) and name.startswith("cut-"):
        return Finding("note", "kept-aside", path, "bytes that were taken out of the log and kept", "yours to look at and remove")
    if name.endswith(OWN_SUFFIX):
        return Finding("note", "own-file", path, "a file of Tidelog's beside those of the log", NOTHING)
    if name == QUORUM_STATE or KRAFT_SNAPSHOT in name:
        return None
    return Finding("note", "foreign-file", path, "a file that is none of a log", NOTHING)


def _orphans(directory: str, base_offset: int, kinds: set[str]) -> Iterator[Finding]:
    for kind in sorted(kinds & {INDEX, TIME_INDEX, TXN_INDEX}):
        what = "an index without its .log: that was deleted, or lost"
        yield Finding("warning", ORPHAN_INDEX, f"{directory}/{base_offset:020d}{kind}", what, "opening removes it", offset=base_offset)


def _stray_snapshots(files: PartitionFiles) -> Iterator[Finding]:
    """Of the snapshots that belong to no segment the newest may stay, behind the last base; a broker removes the others when it opens."""
    strays = [offset for offset in files.snapshots if offset not in files.segments and offset <= MAX_OFFSET]
    if strays and strays[-1] > max(files.segments, default=-1):
        strays.pop()
    for offset in strays:
        path = f"{files.directory}/{offset:020d}{SNAPSHOT}"
        yield Finding("note", "stray-snapshot", path, "a producer snapshot that belongs to no segment", RECOVERY, offset=offset)

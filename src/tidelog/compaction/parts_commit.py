"""Swap in the segments that workers have made.

    step                                                after a crash
    staged, synced by who made them                     the log is as it was
    the decision is written into the staging directory  as all that follow: whoever owns the store next finishes (`finish_groups`)
    files of a group are named N.*.cleaned too          the next load removes these names; the staged ones stay
    the swap, as `tidelog.log.swap` tells               the next load finishes or undoes it
    the caller writes the cleaner's checkpoint          all groups are found to be done, and it is written again
    the caller removes the decision                     there is nothing to do

Groups follow each other, oldest first: in between some of them are cleaned and others not, which is a sound log. If it is not finished, as
when others have changed it meanwhile, or where the system gives no file a second name, the next run cleans all groups again.
"""

import errno
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tidelog.compaction.cleaned_segment import CleanedSegment, CleanedSizes, cleaned_segment
from tidelog.compaction.commit_decision import CommitDecision, FileFacts, GroupDecision, UnfinishedGroup, format_decision
from tidelog.compaction.parts_plan import LogParts
from tidelog.compaction.stats import Counts
from tidelog.disk.disk import Disk
from tidelog.disk.names import CLEANED, LOG, SEGMENT_KINDS, TXN_INDEX, segment_file
from tidelog.errors import CleaningAbortedError, LogClosedError, LogFailedError
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.log.storage_errors import storage_error, typed_refusals
from tidelog.log.swap import remove_cleaned

_COPY_BYTES = 8 << 20


def commit_groups(log: Log, parts: LogParts, made: Mapping[int, tuple[str, CleanedSizes]], decision_path: str | None = None) -> None:
    """Replace the segments of every group by the one that was made of them: how the paths of its files begin, and their sizes.

    All lie in one directory. `decision_path` is a file in it, which is to say what is to be done until all is done; None: nothing says so.
    """
    segments = {segment.base_offset: segment for segment in parts.segments}
    _remove_left_over(log)
    if decision_path is not None:
        _decide(log, parts, made, decision_path)
    for number, group in enumerate(parts.groups):
        members = [segments[base_offset] for base_offset in group.base_offsets]
        mtime_ns = parts.facts[group.base_offsets[-1]].mtime_ns
        _replace_group(log, members, made.get(number), mtime_ns, keep=decision_path is not None)


def finish_groups(log: Log, staging: str, groups: Sequence[UnfinishedGroup]) -> None:
    """Do what is left of a commit that was cut off, all of whose staged files are there."""
    segments = {segment.base_offset: segment for segment in log.segments}
    _remove_left_over(log)
    for group, base_offsets, is_in_place in groups:
        members = [segments[base_offset] for base_offset in base_offsets]
        if is_in_place:
            log.replace_segments([], members)
        else:
            staged = None if group.staged is None else (f"{staging}/{group.staged}", group.sizes)
            _replace_group(log, members, staged, group.mtime_ns, keep=True)


def file_facts(disk: Disk, directory: str) -> dict[str, FileFacts]:
    """By which each plain file of a directory is known again; a link, as to a segment that was put elsewhere, is by itself."""
    facts = ((seen.name, FileFacts(seen.size_bytes, seen.inode, seen.mtime_ns), seen.kind) for seen in disk.look(directory))
    return {name: known for name, known, kind in facts if kind in ("file", "link")}


def _decide(log: Log, parts: LogParts, made: Mapping[int, tuple[str, CleanedSizes]], path: str) -> None:
    """Write down, durably, what is to be done: with it the names of all staged files are durable, which lie in the same directory."""
    disk, (staging, _, name) = log.segments[0].pool.disk, path.rpartition("/")
    with typed_refusals(path, "writing down what is to be committed failed; nothing was changed"):
        facts = file_facts(disk, log.directory)
        groups = []
        for number, group in enumerate(parts.groups):
            staged, sizes = made.get(number, (None, CleanedSizes(0, 0, 0, None)))
            members = tuple((base_offset, facts[segment_file(base_offset, LOG)]) for base_offset in group.base_offsets)
            mtime_ns = parts.facts[group.base_offsets[-1]].mtime_ns
            groups.append(GroupDecision(members, None if staged is None else staged.removeprefix(staging + "/"), sizes, mtime_ns))
        decision = CommitDecision(log.directory, log.topic_id, parts.plan.bound, tuple(groups))
        with suppress(PermissionError):  # it may be somebody's whose names nobody else may list
            disk.sync_directory(staging.rpartition("/")[0] or "/")
        disk.replace_file(staging, name, format_decision(decision))


def _remove_left_over(log: Log) -> None:
    with typed_refusals(log.directory, "removing what an earlier pass has left failed"):
        remove_cleaned(log.segments[0].pool.disk, log.directory)


def _replace_group(log: Log, members: Sequence[Segment], staged: tuple[str, CleanedSizes] | None, mtime_ns: int, *, keep: bool) -> None:
    if staged is not None:
        swap_in(log, members, *staged, keep=keep)
        return
    disk, directory, base_offset = log.segments[0].pool.disk, log.directory, members[0].base_offset
    try:  # there is no batch in any of them
        sizes = CleanedSegment(members[0], log.config, Counts()).seal(mtime_ns)
        disk.sync_directory(directory)
    except OSError as error:
        _remove_cleaned(disk, directory, base_offset)
        raise storage_error(error, directory, "putting a new segment in place failed; nothing of its group was changed") from error
    _replace(log, members, sizes)


def swap_in(log: Log, members: Sequence[Segment], path: str, sizes: CleanedSizes, *, keep: bool = False) -> None:
    """Replace segments by one that was made of them: how the paths of its files begin, and their sizes. It is named after the first.

    With `keep` the files keep their names too, if the system gives them second ones: a load may take the new ones for left over.
    """
    disk, directory, base_offset = members[0].pool.disk, log.directory, members[0].base_offset
    try:
        for kind in sizes.kinds:
            _name(disk, path + kind, f"{directory}/{segment_file(base_offset, kind, CLEANED)}", kind, keep=keep)
        disk.sync_directory(directory)
    except OSError as error:
        _remove_cleaned(disk, directory, base_offset)
        raise storage_error(error, directory, "putting a new segment in place failed; nothing of its group was changed") from error
    _replace(log, members, sizes)


def _replace(log: Log, members: Sequence[Segment], sizes: CleanedSizes) -> None:
    pool, directory, base_offset = members[0].pool, log.directory, members[0].base_offset
    try:
        log.replace_segments([cleaned_segment(pool, directory, base_offset, sizes)], members)
    except (CleaningAbortedError, LogClosedError, LogFailedError):
        _remove_cleaned(pool.disk, directory, base_offset)
        raise


def _name(disk: Disk, source: str, target: str, kind: str, *, keep: bool) -> None:
    """Give a file another name, or with `keep` a second one; what lies on another file system is copied."""
    if keep:
        with suppress(OSError):  # another file system, one without second names, a file of somebody else: then as without
            disk.link(source, target)
            return
    try:
        disk.rename(source, target)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    reading, writing = disk.open(source), disk.create(target, exclusive=False)
    try:
        position = 0
        while data := disk.read(reading, _COPY_BYTES, position):
            disk.write(writing, [data], position)
            position += len(data)
        disk.sync(writing)
    finally:
        disk.close(reading)
        disk.close(writing)
    if kind != TXN_INDEX:
        disk.set_mtime_ns(target, disk.mtime_ns(source))


def _remove_cleaned(disk: Disk, directory: str, base_offset: int) -> None:
    for kind in SEGMENT_KINDS:
        with suppress(OSError):
            disk.remove(f"{directory}/{segment_file(base_offset, kind, CLEANED)}")

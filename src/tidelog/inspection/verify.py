"""Verify: read a log and say what is wrong with it, without changing anything.

`verify` looks at one partition directory, `verify_files` at single files, `verify_log_directory` at everything below a log directory. All
of them give findings one by one, take no lock and work on a directory that a broker or we are writing to.

    headers      framing, offsets, header fields, indexes, side files; large batches are not read
    everything   and the CRC of every batch (the default)
    records      and every record: decompressed, parsed, counted
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike, fspath
from typing import Literal, get_args

from tidelog.disk.checkpoints import parse_offsets
from tidelog.disk.disk import OS, Disk
from tidelog.disk.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    is_foreign_segment_file,
    parse_segment_file,
    segment_file,
)
from tidelog.disk.published_end import PUBLISHED_END
from tidelog.errors import NO_DIRECTORY, LogNotFoundError, TidelogError
from tidelog.inspection.directory_checks import MAX_OFFSET, ORPHAN_INDEX, PartitionFiles, sort_out
from tidelog.inspection.finding import Finding, limited
from tidelog.inspection.flushed_end_checks import load_flushed_end
from tidelog.inspection.partition_checks import PartitionChecks, Progress, only_about
from tidelog.inspection.proofs import Proven
from tidelog.inspection.recovery_point_checks import LogEnd, check_recovery_point, look_up
from tidelog.inspection.side_file_checks import check_metadata, load_epochs, load_snapshot, read_side_file, unreadable

Level = Literal["headers", "everything", "records"]
_RENAMES_S = 0.01
"""More than the few renames of a segment's files take."""


def verify(
    directory: str | PathLike[str],
    *,
    level: Level = "everything",
    now_ms: int | None = None,
    disk: Disk = OS,
    progress: Progress | None = None,
) -> Iterator[Finding]:
    """What is wrong with a partition directory, or worth knowing; nothing for a log in order.

    `progress` is called with the size of every segment that is done. Raises `LogNotFoundError` for a directory that is not there; whatever
    is wrong inside of it is a finding.
    """
    check_level(level)
    return PartitionVerify(fspath(directory), level=level, now_ms=now_ms, disk=disk, progress=progress).run()


class PartitionVerify:
    """One partition directory. After `run` it knows where the log begins and ends."""

    def __init__(
        self,
        directory: str,
        *,
        level: Level,
        now_ms: int | None,
        disk: Disk,
        progress: Progress | None = None,
        proven: Mapping[int, Proven] | None = None,
    ) -> None:
        """`proven` says what of which segment somebody else has read, at the same level, and found in order."""
        self.directory = directory.rstrip("/") or "/"
        self.level = level
        self.now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        self.disk = disk
        self.progress = progress
        self.proven = proven or {}
        self.first_base: int | None = None
        self.end_offset = 0
        """The last one that there can be where some of the log could not be read: then nothing is known to lie behind its end."""
        self._is_listed = True
        self._has_waited = False

    def run(self) -> Iterator[Finding]:
        """All findings."""
        files = PartitionFiles(self.directory)
        before = look_up(self.disk, self.directory)
        yield from limited(self._list(files), by_file=False)
        if not self._is_listed:
            self.end_offset = MAX_OFFSET
            return
        checks = PartitionChecks(self.disk, files, self.level, self.now_ms, self.progress, proven=self.proven)
        yield from checks.run()
        self.first_base, self.end_offset = checks.first_base, checks.end_offset if checks.is_end_known else MAX_OFFSET
        if checks.vanished:
            yield from self._look_again(files, checks.vanished)
        elif checks.is_end_known:
            last = checks.last
            end = LogEnd(self.directory, None, 0, None)
            if last is not None:
                end = LogEnd(last.path, last.end, self.end_offset, last.torn_offset)
            yield from check_recovery_point(self.disk, self.directory, before, end)

    def _list(self, files: PartitionFiles) -> Iterator[Finding]:
        try:
            for finding in sort_out(self.directory, self.disk.look(self.directory), files):
                if finding.code != ORPHAN_INDEX or self._is_still_orphan(finding):
                    yield finding
        except (FileNotFoundError, NotADirectoryError) as error:
            raise LogNotFoundError("no such directory", path=self.directory, hint=NO_DIRECTORY) from error
        except OSError as error:
            self._is_listed = False
            yield unreadable(error, self.directory)

    def _is_still_orphan(self, finding: Finding) -> bool:
        """Whether an index has no `.log` for good. Who replaces or deletes a segment renames its files one by one, the `.log` first."""
        if not self._has_waited:
            time.sleep(_RENAMES_S)
            self._has_waited = True
        return self.disk.exists(finding.path) and not self.disk.exists(f"{self.directory}/{segment_file(finding.offset or 0, LOG)}")

    def _look_again(self, files: PartitionFiles, base_offsets: list[int]) -> Iterator[Finding]:
        """Segments were gone when it came to them. Most were deleted meanwhile; compaction may have put new ones into their place."""
        names = {seen.name for seen in self.disk.look(self.directory)}
        for base_offset in base_offsets:
            name = segment_file(base_offset, LOG)
            if name not in names:
                continue
            again = PartitionFiles(self.directory, {base_offset: files.segments[base_offset]}, [], {LEADER_EPOCH_CHECKPOINT})
            checks = PartitionChecks(self.disk, again, self.level, self.now_ms)
            yield from (finding for finding in checks.run() if parse_segment_file(finding.path.rpartition("/")[2]) is not None)
            if checks.vanished:
                what = "the name of a segment leads nowhere"
                yield Finding("error", "file-unreadable", f"{self.directory}/{name}", what, "access to the file", offset=base_offset)


def verify_files(
    paths: Iterable[str | PathLike[str]], *, level: Level = "everything", now_ms: int | None = None, disk: Disk = OS
) -> Iterator[Finding]:
    """What is wrong with single files: `.log`, indexes, snapshots, checkpoints, `partition.metadata`.

    An index is held against the `.log` beside it, if there is one.
    """
    check_level(level)
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    for path in paths:
        yield from limited(_verify_file(fspath(path), level, now, disk))


def _verify_file(path: str, level: Level, now_ms: int, disk: Disk) -> Iterator[Finding]:
    directory, _, name = path.rpartition("/")
    directory = directory or ("/" if path.startswith("/") else ".")
    if not disk.exists(path):
        raise LogNotFoundError("no such file", path=path)
    parsed = parse_segment_file(name) if name.isascii() else None
    if parsed is not None and not parsed.stage and parsed.base_offset <= MAX_OFFSET:
        if parsed.kind == SNAPSHOT:
            yield from load_snapshot(disk, path)[1]
            return
        kinds = {kind for kind in (LOG, parsed.kind) if disk.exists(f"{directory}/{segment_file(parsed.base_offset, kind)}")}
        files = PartitionFiles(directory, {parsed.base_offset: kinds | {LOG}}, [], {LEADER_EPOCH_CHECKPOINT})
        checks = PartitionChecks(disk, files, level, now_ms)
        yield from only_about(checks.run(), {f"{directory}/{name}"})
    elif name == LEADER_EPOCH_CHECKPOINT:
        epochs, findings = load_epochs(disk, path)
        yield from findings
        yield from epochs.check_order()
    elif name == PUBLISHED_END:
        yield from load_flushed_end(disk, path)[1]
    elif name == PARTITION_METADATA:
        yield from check_metadata(disk, path)
    elif name.endswith("-checkpoint"):
        try:
            parse_offsets(read_side_file(disk, path), path)
        except (TidelogError, OSError) as error:
            yield unreadable(error, path, "checkpoint-unreadable")
    elif is_foreign_segment_file(name):
        yield Finding("error", "segment-name", path, "a segment's file is named by an offset of 20 digits", "renaming it")
    else:
        yield Finding("note", "foreign-file", path, "a kind of file that verify does not know", "nothing to do")


def check_level(level: str) -> None:
    """Refuse a level that there is not."""
    if level not in get_args(Level):
        raise ValueError(f"a level is one of {', '.join(get_args(Level))}, not {level!r}")

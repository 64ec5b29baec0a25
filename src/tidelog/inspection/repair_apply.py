"""Carry out a repair, so that a crash at any step leaves of every file the old one or the new one.

    own the directory           as an open log does; who has it open is not disturbed
    compare                     with what the plan has seen
    leftovers                   renamed aside, one by one, in the order in which loading would remove them
    segments behind a cut       renamed aside, from the end; only then
    the cut                     the bytes are copied aside and synced, then the file is cut
    splits                      as loading does them
    what is built anew          the old file is copied aside, the new one written beside it, both synced; then it is renamed

Each step is durable before the next begins. What a crash leaves is a directory that can be planned for again.
"""

import os

from tidelog.config import LogConfig
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.disk.log_directory import LogDirectory
from tidelog.disk.names import (
    LOG,
    OWN_SUFFIX,
    TopicPartition,
    cut_file,
    parse_partition,
    parse_segment_file,
    segment_file,
)
from tidelog.errors import LogNotFoundError, RepairError, TidelogError
from tidelog.inspection.repair_examine import examine
from tidelog.inspection.repair_plan import (
    Action,
    CutSegment,
    FinishSwap,
    RemoveLeftover,
    RepairPlan,
    RepairReport,
    SetSegmentAside,
    SplitSegment,
)
from tidelog.log.recovery import keep_aside
from tidelog.log.segment import Segment
from tidelog.log.split import split_segment
from tidelog.log.storage_errors import storage_error

_COPY_BYTES = 1 << 20


def carry_out(plan: RepairPlan, disk: Disk) -> RepairReport:
    """See `tidelog.inspection.repair.apply_repair`."""
    partition = parse_partition(os.path.basename(plan.directory))  # noqa: PTH119
    if partition is None:
        raise LogNotFoundError("not the name of a partition directory", path=plan.directory, expected="topic-partition, as in emails-0")
    try:
        home = LogDirectory.claim(os.path.dirname(plan.directory), partition, disk=disk)  # noqa: PTH120
    except OSError as error:
        if isinstance(error, TidelogError):
            raise
        raise storage_error(error, plan.directory, "taking over the log directory failed") from error
    work = _Repair(plan, disk)
    was_clean = home.was_clean(partition)
    try:
        work.run(home, partition, was_clean=was_clean)
    except BaseException as error:  # an interrupt too: the directory must be let go of
        if work.has_changed:
            home.release(partition, clean=False)
        else:
            home.abandon(partition)
        if isinstance(error, OSError) and not isinstance(error, TidelogError):
            raise storage_error(error, plan.directory, "repairing failed") from error
        raise
    try:
        # Everything was read, checked and synced. With damage left the log is what it was before.
        home.release(partition, clean=was_clean or not work.unrepaired)
    except OSError as error:
        raise storage_error(error, plan.directory, "the repair is done, but letting go of the log directory failed") from error
    return RepairReport(plan.directory, tuple(work.done), tuple(work.kept_aside), work.unrepaired)


class _Repair:
    """One repair under way."""

    def __init__(self, plan: RepairPlan, disk: Disk) -> None:
        self.plan = plan
        self.disk = disk
        self.directory = plan.directory
        self.done: list[Action] = []
        self.kept_aside: list[str] = []
        self.has_changed = False
        self.unrepaired = plan.unrepaired

    def run(self, home: LogDirectory, partition: TopicPartition, *, was_clean: bool) -> None:
        """All steps."""
        found = tuple(sorted(self.disk.entries(self.directory)))
        if found != self.plan.seen:
            changed = sorted({entry.name for entry in set(found) ^ set(self.plan.seen)})
            raise RepairError(
                "the directory is not as it was when the repair was planned",
                path=self.directory,
                hint=f"plan again; changed: {', '.join(changed)}",
            )
        for action in self.plan.actions:
            self._restructure(action)
        examined = examine(self.disk, self.directory, None, self.plan.index_interval_bytes, replace=self._replace)
        self.done += examined.actions
        self.unrepaired = tuple(examined.unrepaired)
        if examined.end_offset is not None:
            if not was_clean:
                self._sync_segments(examined.files.base_offsets)
            recovery_point = home.recovery_point(partition)
            if recovery_point is not None and recovery_point > examined.end_offset:
                home.checkpoint_recovery_point(partition, examined.end_offset)

    def _restructure(self, action: Action) -> None:
        """The steps that change which segments there are."""
        if isinstance(action, RemoveLeftover):
            self._move_aside(action.files[0], f"leftover-{action.files[0]}")
        elif isinstance(action, FinishSwap):
            self._rename(*action.files)
        elif isinstance(action, SetSegmentAside):
            self._set_aside(action)
        elif isinstance(action, CutSegment):
            self._cut(action)
        elif isinstance(action, SplitSegment):
            self._split(action)
        else:
            return
        self.done.append(action)

    def _set_aside(self, action: SetSegmentAside) -> None:
        log = segment_file(action.base_offset, LOG)
        self._move_aside(log, cut_file(action.base_offset, 0))
        for name in action.files:
            if name != log:
                self._move_aside(name, _aside_name(name))

    def _cut(self, action: CutSegment) -> None:
        pool = FilePool(self.disk)
        size = action.position + action.size_bytes
        segment = Segment(pool, self.directory, action.base_offset, size_bytes=size, index_bytes=0, time_index_bytes=0)
        name = self._free_name(cut_file(action.base_offset, action.position))
        self.has_changed = True
        if keep_aside(pool, segment, action.position, name):
            self.kept_aside.append(name)
        segment.cut_file(action.position)
        segment.forget()

    def _split(self, action: SplitSegment) -> None:
        """The batches all stay, in the new segments; of the old indexes a copy is kept."""
        for name in action.files:
            if not name.endswith(LOG):
                self._copy_aside(name)
        pool = FilePool(self.disk)
        segment = Segment(pool, self.directory, action.base_offset, size_bytes=action.size_bytes, index_bytes=0, time_index_bytes=0)
        self.has_changed = True
        split_segment(pool, segment, LogConfig.of({"index.interval.bytes": self.plan.index_interval_bytes}))

    def _replace(self, name: str, content: bytes | None) -> None:
        """Put new content in the place of a file."""
        if content is None:
            self._move_aside(name, _aside_name(name))
            return
        if self.disk.exists(f"{self.directory}/{name}"):
            self._copy_aside(name)
        new = f"{self.directory}/rebuilt-{name}{OWN_SUFFIX}"
        self.has_changed = True
        fd = self.disk.create(new, exclusive=False)
        try:
            self.disk.keep_rights(new, f"{self.directory}/{name}")
            self.disk.write(fd, [content], 0)
            self.disk.sync(fd)
        finally:
            self.disk.close(fd)
        self.disk.sync_directory(self.directory)
        self._rename(f"rebuilt-{name}{OWN_SUFFIX}", name)

    def _rename(self, name: str, new_name: str) -> None:
        self.has_changed = True
        self.disk.rename(f"{self.directory}/{name}", f"{self.directory}/{new_name}")
        self.disk.sync_directory(self.directory)

    def _move_aside(self, name: str, aside: str) -> None:
        aside = self._free_name(aside if aside.endswith(OWN_SUFFIX) else aside + OWN_SUFFIX)
        self._rename(name, aside)
        self.kept_aside.append(aside)

    def _copy_aside(self, name: str) -> None:
        """Keep the bytes of a file, which stays in its place until the new one takes it."""
        aside = self._free_name(_aside_name(name))
        content = self.disk.read_file(f"{self.directory}/{name}")
        self.has_changed = True
        fd = self.disk.create(f"{self.directory}/{aside}")
        try:
            self.disk.write(fd, [content], 0)
            self.disk.sync(fd)
        finally:
            self.disk.close(fd)
        self.kept_aside.append(aside)

    def _free_name(self, name: str) -> str:
        """The name, or one like it that nothing has taken."""
        candidate, number = name, 2
        while self.disk.exists(f"{self.directory}/{candidate}"):
            candidate = f"{name.removesuffix(OWN_SUFFIX)}-{number}{OWN_SUFFIX}"
            number += 1
        return candidate

    def _sync_segments(self, base_offsets: list[int]) -> None:
        """After a crash what was read may be in memory only; it is about to be called clean."""
        for base_offset in base_offsets:
            fd = self.disk.open(f"{self.directory}/{segment_file(base_offset, LOG)}", write=True)
            try:
                self.disk.sync(fd)
            finally:
                self.disk.close(fd)
        self.disk.sync_directory(self.directory)


def _aside_name(name: str) -> str:
    """Where the old bytes of a file go: `index-00000000000000000000.tidelog`."""
    parsed = parse_segment_file(name)
    return f"epochs-{name}{OWN_SUFFIX}" if parsed is None else f"{parsed.kind[1:]}-{parsed.base_offset:020d}{OWN_SUFFIX}"

"""Compact logs in parts: the same outcome as the cleaner's, byte by byte, by as many workers as there are.

    scan       workers read pieces and hash keys: entries in buckets, events of transactions
    follow     where there are transactions: what they discard, and how they stand at the beginning of each piece
    search     each bucket is looked through for the last offset of its keys: the offsets that survive
    rewrite    workers copy what stays of pieces; small groups are complete then
    assemble   larger groups are put together
    commit     the owner of the log swaps the new segments in, group by group

All files up to the commit lie in a folder of the run, under names of their own. Nothing is seen of it before, and a crash leaves the log as
it was. No memory goes with the keys of a log: one pass cleans it all. The owner has the log for itself meanwhile, so what was planned
holds until the commit: nobody else appends, rolls or truncates. A commit that is cut off is finished by the next owner of the store.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, Protocol

from tidelog.compaction import parts_tasks
from tidelog.compaction.commit_decision import DECISION_END, DECISION_START
from tidelog.compaction.parts_commit import commit_groups
from tidelog.compaction.parts_outcome import Outcome, RunningLog, check_null_keys, null_keys, outcome_of
from tidelog.compaction.parts_plan import plan_parts
from tidelog.compaction.parts_space import check_assembly, check_rewrite, discard_keys
from tidelog.compaction.parts_tasks import AssembleItem, FollowItem, RewriteItem, ScanItem, SearchItem, TooFarApart
from tidelog.compaction.piece_rewriting import RewriteFacts, SourcePiece, Unit, discard_units
from tidelog.compaction.piece_scan import ScannedPiece
from tidelog.compaction.plan import CleaningPlan
from tidelog.errors import CorruptError, TidelogError
from tidelog.log.log import Log
from tidelog.log.segment_piece import SegmentPiece, pack

FEW_BYTES = 16 << 20
"""So much is put together at once, without asking workers: that costs more than it saves."""


class RunTasks(Protocol):
    """Whoever has workers. Tasks may be tried several times, at the same time too."""

    workers: int

    def run(self, what: str, function: Callable[[Any, str], Any], tasks: Sequence[Any], *, here: bool = False) -> list[Any]:
        """Call the function for each task, with a name for its files that no other call gets: the answers in the order of the tasks.

        What is little is done `here`, by whoever asks.
        """


def clean_in_parts(
    logs: Sequence[tuple[Log, CleaningPlan]],
    tasks: RunTasks,
    *,
    secret: bytes,
    piece_bytes: int,
    task_bytes: int,
    unit_bytes: int | None = None,
    drop_null_keys: bool = False,
    staging: str | None = None,
) -> list[Outcome]:
    """One pass over each log, as planned: what was done to each, or why nothing. Each has something to clean.

    Groups of segments up to `unit_bytes` are rewritten by one worker, which spares putting them together; without it, those of a task.
    `staging` is the folder of the run: what does not fit there is not begun, and what is committed is written down there before, in
    `decision_path`. Who asks removes that when he has written his checkpoint.
    """
    started = time.perf_counter()
    running = [
        RunningLog(number, log, plan_parts(log, plan, secret=secret, piece_bytes=piece_bytes, workers=tasks.workers))
        for number, (log, plan) in enumerate(logs)
    ]
    stages = _Stages(running, tasks, task_bytes, task_bytes if unit_bytes is None else unit_bytes, staging)
    stages.scan()
    stages.follow()
    for one in stages.left():
        check_null_keys(one, drop_null_keys=drop_null_keys)
    stages.search()
    stages.rewrite()
    stages.assemble()
    for one in stages.left():
        try:
            commit_groups(one.log, one.parts, one.groups, None if staging is None else decision_path(staging, one.number))
        except TidelogError as error:
            one.failure = error
    return [outcome_of(one, (time.perf_counter() - started) * 1000) for one in running]


def decision_path(staging: str, number: int) -> str:
    """The file that says, until it is done, what the commit of a log of the run does."""
    return f"{staging}/{DECISION_START}{number}{DECISION_END}"


class _Stages:
    def __init__(self, running: list[RunningLog], tasks: RunTasks, task_bytes: int, unit_bytes: int, staging: str | None) -> None:
        self._running = running
        self._staging = staging
        self._tasks = tasks
        self._task_bytes = task_bytes
        self._unit_bytes = unit_bytes

    def left(self) -> Iterator[RunningLog]:
        return (one for one in self._running if one.goes_on)

    def _ask(
        self, what: str, function: Callable[[Any, str], Any], items: list[Any], weights: list[int], *, here: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Share items out, and give each with its answer; what is wrong with a log is noted with it."""
        packs = pack(items, weights, self._task_bytes, self._tasks.workers)
        for items_of_task, answers in zip(packs, self._tasks.run(what, function, packs, here=here) if packs else (), strict=True):
            for item, answer in zip(items_of_task, answers, strict=True):
                one = self._running[item.log]
                if isinstance(answer, TooFarApart):
                    one.why_whole = answer.what
                elif isinstance(answer, CorruptError) and isinstance(item, ScanItem) and not item.piece.is_whole:
                    # Damage, or an index that leads astray: who reads the segment from its beginning can tell.
                    one.why_whole = f"reading it in pieces failed: {answer}"
                elif isinstance(answer, TidelogError):
                    one.failure = one.failure or answer
                else:
                    yield item, answer

    def scan(self) -> None:
        items = [ScanItem(one.number, place, piece, one.parts.scan) for one in self.left() for place, piece in enumerate(one.parts.pieces)]
        for item, answer in self._ask("hash keys", parts_tasks.scan, items, [item.piece.size_bytes for item in items]):
            self._running[item.log].scanned.append(answer)
        for one in self.left():
            last = -1
            for piece, scanned in zip(one.parts.pieces, one.scanned, strict=False):
                if not scanned.is_ordered or 0 <= scanned.first_offset <= last:
                    one.why_whole = "its offsets do not rise"
                elif scanned.last_offset >= one.parts.facts[piece.base_offset].end_offset:
                    one.why_whole = "it has offsets that belong behind their segment"
                last = max(last, scanned.last_offset)

    def follow(self) -> None:
        for one in self.left():
            one.units = _units(one, self._unit_bytes, self._task_bytes)
        items = []
        for one in self.left():
            if all(scanned.events_path is None for scanned in one.scanned):
                continue
            parts = one.parts
            pieces = tuple(
                (piece, scanned.events_path, parts.facts[piece.base_offset].aborted if piece.start == 0 else ())
                for piece, scanned in zip(parts.pieces, one.scanned, strict=True)
            )
            wanted = tuple(unit.first_piece for unit in one.units)
            items.append(
                FollowItem(one.number, pieces, parts.scan_base, parts.scan_position, parts.scan_aborted, parts.scan.first_dirty, wanted)
            )
        for item, answer in self._ask("follow transactions", parts_tasks.follow_transactions, items, [self._task_bytes] * len(items)):
            self._running[item.log].followed = answer

    def search(self) -> None:
        items, weights = [], []
        for one in self.left():
            files, firsts = tuple(dict.fromkeys(scanned.path for scanned in one.scanned)), firsts_of(one.scanned, one.parts.plan.bound)
            uncounted = one.followed.uncounted_path if one.followed is not None else None
            entries = sum(scanned.dirty_entries + scanned.clean_entries for scanned in one.scanned)
            buckets = one.parts.scan.buckets
            items += [SearchItem(one.number, bucket, files, firsts, uncounted) for bucket in range(buckets)]
            weights += [24 * entries // buckets] * buckets
        for item, answer in self._ask("find the last of each key", parts_tasks.search, items, weights):
            one = self._running[item.log]
            one.kept_files += (answer.path,)
            one.keys += answer.keys
            one.kept += answer.kept
        for one in self._running:
            discard_keys(one)

    def rewrite(self) -> None:
        check_rewrite(self._staging, list(self.left()))
        items = []
        for one in self.left():
            facts = _rewrite_facts(one)
            trackers = one.followed.trackers if one.followed is not None else [None] * len(one.units)
            for place, (unit, tracker) in enumerate(zip(one.units, trackers, strict=True)):
                placed = Unit(unit.group, unit.first, unit.first_piece, unit.pieces, unit.is_whole_group, unit.mtime_ns, tracker)
                items.append(RewriteItem(one.number, place, placed, facts))
        weights = [sum(source.piece.size_bytes for source in item.unit.pieces) for item in items]
        for item, answer in self._ask("rewrite segments", parts_tasks.rewrite, items, weights):
            one = self._running[item.log]
            one.rewritten.append(answer)
            if item.unit.is_whole_group:
                one.groups[item.unit.group] = answer.path, answer.sizes

    def assemble(self) -> None:
        items, weights = [], []
        for one in self.left():
            pairs = [(unit, done) for unit, done in zip(one.units, one.rewritten, strict=True) if not unit.is_whole_group]
            for group, members in groupby(pairs, key=lambda pair: pair[0].group):
                done = [(unit, rewritten) for unit, rewritten in members]
                units = tuple(rewritten for _, rewritten in done)
                items.append(AssembleItem(one.number, group, units, done[0][0].first, one.parts.plan.config, done[0][0].mtime_ns))
                weights.append(sum(rewritten.sizes.size_bytes for rewritten in units))
        check_assembly(self._staging, sum(weights))
        is_little = sum(weights) <= FEW_BYTES
        for item, answer in self._ask("put segments together", parts_tasks.put_together, items, weights, here=is_little):
            self._running[item.log].groups[item.group] = answer
        for item in items:  # not before: until all have answered, a task may be tried again
            discard_units(item.units)


def firsts_of(scanned: Sequence[ScannedPiece], bound: int) -> tuple[int, ...]:
    """The lowest offset that each piece may have; a piece without records has none of its own."""
    firsts: list[int] = []
    following = bound
    for piece in reversed(scanned):
        following = piece.first_offset if piece.first_offset >= 0 else following
        firsts.append(following)
    return tuple(reversed(firsts))


def _units(one: RunningLog, unit_bytes: int, piece_bytes: int) -> list[Unit]:
    """What is rewritten by one worker: a whole group if it is small, otherwise a piece, or several that are small themselves."""
    parts = one.parts
    firsts = firsts_of(one.scanned, parts.plan.bound)
    sources = [
        SourcePiece(
            piece,
            first,
            parts.facts[piece.base_offset].aborted if piece.start == 0 else (),
            parts.facts[piece.base_offset].keeps_legacy,
            scanned.spans,
        )
        for piece, first, scanned in zip(parts.pieces, firsts, one.scanned, strict=True)
    ]
    group_of = {base_offset: number for number, group in enumerate(parts.groups) for base_offset in group.base_offsets}
    units: list[Unit] = []
    for number, members in groupby(enumerate(sources), key=lambda member: group_of[member[1].piece.base_offset]):
        group = parts.groups[number]
        first = SegmentPiece(one.log.directory, group.base_offset, 0, 0, 0)
        mtime_ns = parts.facts[group.base_offsets[-1]].mtime_ns
        of_group = list(members)
        if group.size_bytes <= unit_bytes:
            units.append(Unit(number, first, of_group[0][0], tuple(source for _, source in of_group), True, mtime_ns, None))
        else:
            for few in pack(of_group, [source.piece.size_bytes for _, source in of_group], piece_bytes, 1):
                units.append(Unit(number, first, few[0][0], tuple(source for _, source in few), False, mtime_ns, None))
    return units


def _rewrite_facts(one: RunningLog) -> RewriteFacts:
    plan = one.parts.plan
    return RewriteFacts(
        plan.config,
        plan.now_ms,
        plan.bound,
        plan.first_dirty_offset,
        any(scanned.has_tombstones for scanned in one.scanned),
        null_keys(one)[0] > 0,
        one.followed is not None and one.followed.uncounted_path is not None,
        one.parts.last_records,
        one.kept_files,
    )

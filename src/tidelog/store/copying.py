"""Copy logs by workers: everything up to the commit. What comes out lies in the staging folder, complete, durable, and seen by nobody.

    copy       workers read pieces, check them, and write what goes on
    again      a segment in which a piece did not end where the next one begins is read once more, as a whole: its index led astray
    join       segments that were copied in several pieces are put together
    follow     one task a log: transaction indexes, snapshots and leader epochs of the batches that were copied
    aside      of a backup, the bytes behind the last sound batch

A copy that ends within a transaction is done again up to where that begins, unless it may stay open.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from tidelog.compaction.cleaned_segment import CleanedSizes
from tidelog.compaction.parts_cleaning import RunTasks
from tidelog.compaction.piece_rewriting import discard_units
from tidelog.disk.names import LOG, cut_file, segment_file
from tidelog.errors import DamagedLogError, TidelogError
from tidelog.log.load_report import Cut
from tidelog.log.segment_piece import SegmentPiece, pack
from tidelog.store.batch_selection import NO_END, SelectionRules
from tidelog.store.copied_logs import SettledLog, SettleItem, settle_logs
from tidelog.store.copied_pieces import copy_pieces, join_pieces
from tidelog.store.copy_plan import LogSource, SourceSegment
from tidelog.store.copy_space import check_copy_space, discard_segments
from tidelog.store.copy_values import CopiedPiece, CopyItem, JoinItem, NewSegment
from tidelog.store.cut_stretches import AsideItem, put_aside

Damage = Literal["refuse", "cut"]
_FEW_BYTES = 16 << 20
_LITTLE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CopiedLog:
    """A log that was copied into staging."""

    source: LogSource
    segments: tuple[NewSegment, ...]
    settled: SettledLog
    batches: int
    records: int
    removed: int
    cuts: tuple[Cut, ...] = ()
    kept_aside: tuple[tuple[str, str], ...] = ()
    """Names of files with what was cut, and where they are."""
    ends_at_damage: bool = False
    """Not so where only second copies of offsets were cut."""

    @property
    def size_bytes(self) -> int:
        """Of the new segments."""
        return sum(segment.sizes.size_bytes for segment in self.segments)


@dataclass(slots=True)
class _Running:
    number: int
    source: LogSource
    copied: dict[int, list[CopiedPiece]] = field(default_factory=dict)
    """By base offset."""
    made: dict[int, NewSegment] = field(default_factory=dict)
    settled: SettledLog | None = None
    cuts: list[Cut] = field(default_factory=list)
    kept_aside: list[tuple[str, str]] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    """Segments that lie behind damage."""
    ends_at_damage: bool = False
    next_bases: dict[int, int] = field(init=False)
    """By base offset where the next segment begins that has something: nothing at or behind that is a segment's own."""

    def __post_init__(self) -> None:
        bases = [segment.base_offset for segment in self.source.segments if segment.size_bytes]
        self.next_bases = dict(pairwise(bases))

    def kept_bases(self) -> list[int]:
        """What is empty goes, but for the first segment, with which the log begins, and a last one that alone tells where it ends."""
        bases = sorted(self.made)
        end = max((piece.next_offset for base in bases for piece in self.copied.get(base, ())), default=-1)
        return [base for base in bases if base in (bases[0], *(bases[-1:] if bases[-1] > end else ())) or self.made[base].sizes.size_bytes]

    def left(self) -> list[SourceSegment]:
        return [segment for segment in self.source.segments if segment.base_offset not in self.gone]


def copy_logs(
    sources: Sequence[LogSource],
    rules: SelectionRules,
    tasks: RunTasks,
    task_bytes: int,
    *,
    replan: Callable[[LogSource, int], LogSource] | None = None,
    damage: Damage | None = None,
    staging: str | None = None,
) -> list[CopiedLog]:
    """Copy logs. `replan` is asked for a plan that ends earlier, where a transaction would be cut in two; without it they stay open.

    `damage` is for backups: a torn end is cut, and damage with data behind it is refused or cut too. Without it any damage raises.
    What does not fit into the folder `staging` is not begun.
    """
    running = [_Running(number, source) for number, source in enumerate(sources)]
    if staging is not None and rules.keeps is None:  # otherwise nobody knows how much it is
        check_copy_space(staging, sources)
    _Stages(running, rules, tasks, task_bytes, damage).run()
    if replan is not None:
        again = [one for one in running if one.settled is not None and one.settled.stable_end < one.settled.next_offset]
        for one in again:
            assert one.settled is not None
            discard_segments(one.made.values())
            running[one.number] = _Running(one.number, replan(one.source, one.settled.stable_end))
        _Stages([running[one.number] for one in again], rules, tasks, task_bytes, damage, ", before a transaction").run()
    return [_outcome(one) for one in running]


def _outcome(one: _Running) -> CopiedLog:
    assert one.settled is not None
    pieces = [piece for base, own in one.copied.items() if base not in one.gone for piece in own]
    kept = [one.made[base] for base in one.kept_bases()]
    batches, records, removed = (sum(getattr(piece, name) for piece in pieces) for name in ("batches", "records", "removed"))
    cuts = tuple(one.cuts), tuple(one.kept_aside), one.ends_at_damage
    return CopiedLog(one.source, tuple(kept), one.settled, batches, records, removed, *cuts)


class _Stages:
    def __init__(
        self, running: list[_Running], rules: SelectionRules, tasks: RunTasks, task_bytes: int, damage: Damage | None, which: str = ""
    ) -> None:
        self._running = running
        self._which = which
        self._by_number = {one.number: one for one in running}
        self._rules = rules
        self._tasks = tasks
        self._task_bytes = task_bytes
        self._damage = damage

    def run(self) -> None:
        self._copy("copy batches", [(one, segment) for one in self._running for segment in one.source.segments])
        astray = [
            (one, replace(segment, pieces=segment.as_one_piece()))
            for one in self._running
            for segment in one.source.segments
            if len(segment.pieces) > 1 and _is_astray(one.copied[segment.base_offset], segment.pieces)
        ]
        for one, segment in astray:
            one.copied[segment.base_offset] = []
        self._copy("copy segments again", astray)
        for one in self._running:
            self._judge(one)
        self._keep_aside()
        self._join()
        self._settle()

    def _ask(
        self, what: str, function: Callable[[Any, str], Any], items: list[Any], weights: list[int], *, here: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        packs = pack(items, weights, self._task_bytes, self._tasks.workers)
        for own, answers in zip(packs, self._tasks.run(what + self._which, function, packs, here=here) if packs else (), strict=True):
            yield from zip(own, answers, strict=True)

    def _copy(self, what: str, segments: list[tuple[_Running, SourceSegment]]) -> None:
        items = []
        for one, segment in segments:
            end = min(one.source.end_offset, one.next_bases.get(segment.base_offset, NO_END))
            rules = replace(self._rules, end_offset=end)
            one.copied.setdefault(segment.base_offset, [])
            for piece in segment.pieces:
                stops = self._damage is not None or not piece.is_whole
                items.append(
                    CopyItem(
                        one.number, piece, rules, one.source.config, segment.mtime_ns, segment.stage, segment.inode, stops_at_damage=stops
                    )
                )
        for item, answer in self._ask(what, copy_pieces, items, [item.piece.size_bytes for item in items]):
            if isinstance(answer, TidelogError):
                raise answer
            self._by_number[item.log].copied[item.piece.base_offset].append(answer)

    def _judge(self, one: _Running) -> None:
        """Find where the sound part of a log ends, and within it what segments have of the offsets of the next."""
        segments = one.source.segments
        for place, segment in enumerate(segments):
            copied = one.copied[segment.base_offset]
            pieces = segment.pieces if len(copied) == len(segment.pieces) else segment.as_one_piece()
            reaches_on = one.next_bases.get(segment.base_offset, NO_END) < one.source.end_offset
            for made, piece in zip(copied, pieces, strict=True):
                if made.has_stopped(piece):
                    self._end_at_damage(one, place, made)
                    return
                if made.is_over and reaches_on:
                    self._cut_second_copy(one, segment, made.valid_end)
                    break

    def _cut_second_copy(self, one: _Running, segment: SourceSegment, position: int) -> None:
        """Leave out what a segment has of offsets of the next one.

        A backup that was taken around a merge has what came of it, and beside it segments that went into it. Those have all of it.
        """
        next_base = one.next_bases[segment.base_offset]
        if self._damage != "cut":
            raise DamagedLogError(
                "a segment reaches into the offsets of the next one, as in a backup that was taken while it was compacted",
                path=_path(one, segment),
                position=position,
                expected=f"offsets below {next_base}",
                found="a batch that ends at or above it",
                hint='damage="cut" puts what is there twice aside; salvage makes one of both copies'
                if self._damage is not None
                else "nothing was made; salvage makes one of both copies",
            )
        reason = f"offsets that are those of segment {next_base}"
        one.cuts.append(Cut(segment.base_offset, position, segment.size_bytes - position, reason, None))

    def _end_at_damage(self, one: _Running, place: int, stopped: CopiedPiece) -> None:
        segment, later = one.source.segments[place], one.source.segments[place + 1 :]
        behind = [other for other in later if other.size_bytes]
        reason = stopped.damage or "the last batch is cut off"
        if self._damage is None or (behind and self._damage == "refuse"):
            lost = sum(other.size_bytes for other in behind)
            raise DamagedLogError(
                f"damage with {len(behind)} segments and {lost} bytes behind it: {reason}" if behind else reason,
                path=_path(one, segment),
                position=stopped.valid_end,
                hint='damage="cut" keeps what is before it, and puts the rest aside; salvage keeps what is sound behind it too'
                if self._damage is not None
                else "nothing was made; verify says more, repair and salvage keep what is sound",
            )
        one.cuts.append(Cut(segment.base_offset, stopped.valid_end, segment.size_bytes - stopped.valid_end, reason, None))
        for other in behind:
            one.cuts.append(Cut(other.base_offset, 0, other.size_bytes, f"behind the damage in segment {segment.base_offset}", None))
        one.gone.update(other.base_offset for other in later)
        one.ends_at_damage = True

    def _keep_aside(self) -> None:
        items = []
        for one in self._running:
            stages = {segment.base_offset: segment.stage for segment in one.source.segments}
            for cut in one.cuts:
                path = f"{one.source.directory}/{segment_file(cut.base_offset, LOG, stages[cut.base_offset])}"
                name = cut_file(cut.base_offset, cut.position)
                items.append(AsideItem(one.number, path, cut.position, cut.position + cut.size_bytes, name))
        weights = [item.end - item.start for item in items]
        for item, staged in self._ask("keep what is cut", put_aside, items, weights, here=sum(weights) <= _LITTLE_BYTES):
            if staged is not None:
                one = self._by_number[item.log]
                one.kept_aside.append((item.name, staged))
                names = [cut_file(cut.base_offset, cut.position) for cut in one.cuts]
                one.cuts = [replace(cut, kept_in=name) if name == item.name else cut for cut, name in zip(one.cuts, names, strict=True)]

    def _join(self) -> None:
        items, weights = [], []
        for one in self._running:
            for segment in one.left():
                copied = one.copied[segment.base_offset]
                if not copied:
                    one.made[segment.base_offset] = NewSegment(segment.base_offset, None, CleanedSizes(0, 0, 0, None))
                elif len(copied) == 1:
                    one.made[segment.base_offset] = NewSegment(segment.base_offset, copied[0].path, copied[0].sizes)
                else:
                    items.append(JoinItem(one.number, segment.pieces[0], tuple(copied), one.source.config, segment.mtime_ns))
                    weights.append(sum(piece.sizes.size_bytes for piece in copied))
        is_little = sum(weights) <= _FEW_BYTES
        for item, (path, sizes) in self._ask("put segments together", join_pieces, items, weights, here=is_little):
            self._by_number[item.log].made[item.piece.base_offset] = NewSegment(item.piece.base_offset, path, sizes)
        for item in items:  # not before: until all have answered, a task may be tried again
            discard_units(item.copied)
        for one in self._running:
            if not one.made:
                one.made[one.source.log_start_offset] = NewSegment(one.source.log_start_offset, None, CleanedSizes(0, 0, 0, None))

    def _settle(self) -> None:
        items = []
        for one in self._running:
            segments = tuple((base, tuple(one.copied.get(base, ()))) for base in one.kept_bases())
            epochs = one.source.epochs if self._rules.leader_epoch is None else ()
            items.append(SettleItem(one.number, one.source.directory, segments, epochs))
        weights = [max(1, one.source.size_bytes // 64) for one in self._running]
        for item, answer in self._ask("follow producers", settle_logs, items, weights):
            self._by_number[item.log].settled = answer


def _path(one: _Running, segment: SourceSegment) -> str:
    return f"{one.source.directory}/{segment_file(segment.base_offset, LOG, segment.stage)}"


def _is_astray(copied: Sequence[CopiedPiece], pieces: Sequence[SegmentPiece]) -> bool:
    """Whether pieces do not fit together: one did not come to its end, or goes back behind the one before it."""
    ends = [piece for piece in copied if piece.next_offset >= 0]
    goes_back = any(later.first_offset < before.next_offset for before, later in pairwise(ends))
    return goes_back or any(map(CopiedPiece.has_stopped, copied, pieces))

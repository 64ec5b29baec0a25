"""The work of a compaction in parts, as functions of small values: what workers are asked to do, and what they answer.

A worker gets a task and a name of its own, which no other attempt at the same task has; every file it makes has it in its name. It answers
for each item of the task: with a result, or with the error that is about it. So one damaged log does not stop the others. Anything else
that goes wrong is raised, and may be tried again.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

import numpy as np

from tidelog.compaction.cleaned_segment import CleanedSizes, OffsetOverflowError
from tidelog.compaction.last_offset_search import SearchedBucket, search_bucket
from tidelog.compaction.piece_rewriting import RewriteFacts, RewrittenUnit, Unit, assemble, rewrite_unit
from tidelog.compaction.piece_scan import ScanFacts, ScannedPiece, scan_pieces
from tidelog.compaction.segment_chunks import ChunkReader
from tidelog.compaction.transaction_events import FIELDS, PieceEvents, follow
from tidelog.config import LogConfig
from tidelog.disk.file_pool import SHARED
from tidelog.errors import StorageError, TidelogError
from tidelog.log.segment_piece import SegmentPiece
from tidelog.log.txn_index import AbortedTxn

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ScanItem:
    """A piece to be read for its keys."""

    log: int
    place: int
    piece: SegmentPiece
    facts: ScanFacts


@dataclass(frozen=True, slots=True)
class FollowItem:
    """The transactions of a log, to be followed through all its pieces."""

    log: int
    pieces: tuple[tuple[SegmentPiece, str | None, tuple[AbortedTxn, ...]], ...]
    """Each with the file of its events, if it has any, and the aborted transactions to be known from its beginning on."""
    scan_base: int
    scan_position: int
    scan_aborted: tuple[AbortedTxn, ...]
    first_dirty: int
    wanted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FollowedLog:
    """What came out of it."""

    uncounted_path: str | None
    trackers: tuple[tuple[str, int, int], ...]
    """File, position and size of each that was wanted."""
    keyless: int
    keyless_offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SearchItem:
    """A bucket of a log."""

    log: int
    bucket: int
    files: tuple[str, ...]
    firsts: tuple[int, ...]
    uncounted_path: str | None


@dataclass(frozen=True, slots=True)
class RewriteItem:
    """A unit of a log."""

    log: int
    place: int
    unit: Unit
    facts: RewriteFacts


@dataclass(frozen=True, slots=True)
class AssembleItem:
    """A group whose units were rewritten one by one."""

    log: int
    group: int
    units: tuple[RewrittenUnit, ...]
    first: SegmentPiece
    config: LogConfig
    mtime_ns: int


class TooFarApart(TidelogError):  # noqa: N818 - an answer, not a failure: the log is cleaned in one go instead
    """Offsets that do not fit into one segment."""


def scan(items: Sequence[ScanItem], name: str) -> list[ScannedPiece | TidelogError]:
    """Read pieces for their keys. Those of a log are its next ones: they were shared out in order."""
    reader, answers = ChunkReader(), []
    for log, members in groupby(items, key=lambda item: item.log):
        own = list(members)
        answers += scan_pieces([item.piece for item in own], own[0].facts, f"{name}-keys-{log}-{own[0].place}", reader)
    return [_travelling(answer) if isinstance(answer, TidelogError) else answer for answer in answers]


def follow_transactions(items: Sequence[FollowItem], name: str) -> list[FollowedLog | TidelogError]:
    """Follow the transactions of logs."""
    return _answers(items, lambda item: _follow(item, f"{name}-transactions-{item.log}"))


def search(items: Sequence[SearchItem], name: str) -> list[SearchedBucket | TidelogError]:
    """Find the last offsets of keys."""
    disk = SHARED.disk

    def one(item: SearchItem) -> SearchedBucket:
        uncounted = None
        if item.uncounted_path is not None:
            uncounted = np.frombuffer(disk.read_file(item.uncounted_path), np.int64).reshape(-1, 2)
        return search_bucket(disk, item.files, item.firsts, item.bucket, uncounted, f"{name}-kept-{item.log}-{item.bucket}")

    return _answers(items, one)


def rewrite(items: Sequence[RewriteItem], name: str) -> list[RewrittenUnit | TidelogError]:
    """Copy what stays."""
    reader = ChunkReader()

    def one(item: RewriteItem) -> RewrittenUnit:
        try:
            return rewrite_unit(item.unit, item.facts, f"{name}-unit-{item.log}-{item.place}", reader)
        except OffsetOverflowError:
            raise TooFarApart("offsets too far apart for one segment") from None

    return _answers(items, one)


def put_together(items: Sequence[AssembleItem], name: str) -> list[tuple[str, CleanedSizes] | TidelogError]:
    """Make segments of units."""

    def one(item: AssembleItem) -> tuple[str, CleanedSizes]:
        path = f"{name}-group-{item.log}-{item.group}"
        try:
            return path, assemble(item.units, item.first, item.config, item.mtime_ns, path)
        except OffsetOverflowError:
            raise TooFarApart("offsets too far apart for one segment") from None

    return _answers(items, one)


def _events(item: FollowItem) -> Iterator[PieceEvents]:
    """Piece by piece: those of a whole log may be more than a worker has memory for."""
    disk = SHARED.disk
    for piece, events_of, aborted in item.pieces:
        content = b"" if events_of is None else disk.read_file(events_of)
        yield PieceEvents(piece, np.frombuffer(content, np.int64).reshape(-1, FIELDS), aborted)


def _follow(item: FollowItem, path: str) -> FollowedLog:
    followed = follow(
        _events(item),
        scan_base=item.scan_base,
        scan_position=item.scan_position,
        scan_aborted=item.scan_aborted,
        first_dirty=item.first_dirty,
        wanted=item.wanted,
    )
    places, position = [], 0
    for tracker in followed.trackers:
        places.append((path, position, len(tracker)))
        position += len(tracker)
    _write(path, b"".join(followed.trackers))
    uncounted_path = None
    if len(followed.uncounted):
        uncounted_path = path + "-uncounted"
        _write(uncounted_path, followed.uncounted.tobytes())
    return FollowedLog(uncounted_path, tuple(places), followed.keyless, tuple(followed.keyless_offsets))


def _write(path: str, content: bytes) -> None:
    disk = SHARED.disk
    fd = disk.create(path)
    try:
        disk.write(fd, [content], 0)
    finally:
        disk.close(fd)


def _answers(items: Sequence[T], work: Callable[[T], R]) -> list[R | TidelogError]:
    answers: list[R | TidelogError] = []
    for item in items:
        try:
            answers.append(work(item))
        except StorageError:
            raise  # the operating system refused: another attempt may have more luck
        except TidelogError as error:
            answers.append(_travelling(error))
    return answers


def _travelling(error: TidelogError) -> TidelogError:
    """An answer that is sent home."""
    pickle.loads(pickle.dumps(error))  # noqa: S301 - an error that does not travel is raised here, where it can be seen
    return error.with_traceback(None)

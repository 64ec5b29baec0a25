"""The values of a copy that travel between the driver and its workers. All are small, and pickled."""

from dataclasses import dataclass

from tidelog.compaction.cleaned_segment import CleanedSizes
from tidelog.config import LogConfig
from tidelog.log.segment_piece import SegmentPiece
from tidelog.log.txn_index import AbortedTxn
from tidelog.store.batch_selection import SelectionRules


@dataclass(frozen=True, slots=True)
class CopyItem:
    """A piece to be copied."""

    log: int
    piece: SegmentPiece
    rules: SelectionRules
    config: LogConfig
    mtime_ns: int
    """That the new segment gets."""
    stage: str = ""
    """The suffix that the source's `.log` has."""
    inode: int = 0
    """Of the source's `.log`; 0: nobody else changes it."""
    aborted: tuple[AbortedTxn, ...] = ()
    """What the transaction index of the new segment gets, where it is known before."""
    stops_at_damage: bool = False
    """Damage is where the copy ends, and is told; otherwise it is an error."""


@dataclass(frozen=True, slots=True)
class CopiedPiece:
    """What became of it. The path is how the names of its files begin."""

    path: str
    sizes: CleanedSizes
    """Of a piece that is not a whole segment only the batches."""
    valid_end: int
    """As far as the source was read and is sound; up to the first batch that reaches the end that was asked for, if one does."""
    first_offset: int
    """Of the first batch that was copied, or where it ends if that is not known from outside; -1 if none was."""
    next_offset: int
    """Behind the last batch that was copied; -1 if none was."""
    batches: int = 0
    records: int = 0
    """That went on, without markers."""
    removed: int = 0
    """That were left out for their keys."""
    has_producers: bool = False
    epoch_starts: tuple[tuple[int, int], ...] = ()
    damage: str | None = None
    is_over: bool = False
    """The end that was asked for was reached."""

    def has_stopped(self, piece: SegmentPiece) -> bool:
        """Whether reading has ended before the end of the piece, though more was wanted."""
        return not self.is_over and (self.damage is not None or self.valid_end != piece.end)


@dataclass(frozen=True, slots=True)
class JoinItem:
    """Pieces of one segment, to be put together."""

    log: int
    piece: SegmentPiece
    """The first of them."""
    copied: tuple[CopiedPiece, ...]
    config: LogConfig
    mtime_ns: int
    aborted: tuple[AbortedTxn, ...] = ()


@dataclass(frozen=True, slots=True)
class NewSegment:
    """A segment that was made: how the paths of its files begin, and their sizes; no path if it is to be made empty."""

    base_offset: int
    path: str | None
    sizes: CleanedSizes

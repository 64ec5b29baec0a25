"""What belongs to a log beside its batches, worked out from those that were copied: transaction indexes, snapshots, leader epochs.

One task a log follows its producers through all segments, as a recovery of the whole log would. It also says up to where no transaction
is left open: who copies less than everything may have cut one in two.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidelog.disk.checkpoints import EpochEntry, format_epochs
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import SHARED
from tidelog.disk.names import LEADER_EPOCH_CHECKPOINT, SNAPSHOT, TXN_INDEX, segment_file
from tidelog.inspection.repair_state import LogReplay, fitting_epochs
from tidelog.log.producer_state import ProducerState
from tidelog.log.producers import Marker, ProducerBatch
from tidelog.log.recovery import ScannedSegment
from tidelog.store.copied_pieces import read_producers
from tidelog.store.copy_values import CopiedPiece

_NEVER_EXPIRES_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class SettleItem:
    """A log whose batches were copied."""

    log: int
    directory: str
    segments: tuple[tuple[int, tuple[CopiedPiece, ...]], ...]
    """Base offsets, and what was copied to each."""
    epochs: tuple[EpochEntry, ...]
    """What the source's own file says: an epoch may have no batch."""


@dataclass(frozen=True, slots=True)
class SettledLog:
    """What came out of it."""

    files: tuple[tuple[str, str], ...]
    """The name that each file is to have, and where it is."""
    next_offset: int
    open_transactions: tuple[tuple[int, int], ...]
    """Producer and first offset of those that no marker has ended."""
    stable_end: int
    """Below it there is none."""


def settle_logs(items: Sequence[SettleItem], name: str) -> list[SettledLog]:
    """Work of a task."""
    return [_settle(item, f"{name}-log-{item.log}") for item in items]


def stable_end(batches: Iterable[ProducerBatch | Marker], end_offset: int) -> int:
    """The highest offset up to `end_offset` below which every transaction that begins also ends."""
    known = list(batches)
    while True:
        opened: dict[int, int] = {}
        for batch in known:
            if isinstance(batch, Marker):
                if batch.offset < end_offset:
                    opened.pop(batch.producer_id, None)
            elif batch.is_transactional and batch.first_offset < end_offset:
                opened.setdefault(batch.producer_id, batch.first_offset)
        if not opened:
            return end_offset
        # What others have ended behind it is open again from there: look once more.
        end_offset = min(opened.values())


def _settle(item: SettleItem, path: str) -> SettledLog:
    disk = SHARED.disk
    bases = [base for base, _ in item.segments]
    state = ProducerState(disk, item.directory, (), expiration_ms=_NEVER_EXPIRES_MS, is_read_only=True)
    end = max([bases[-1], *(piece.next_offset for _, pieces in item.segments for piece in pieces)])
    replay = LogReplay(state, frozenset({*bases[1:], end}), next_offset=bases[0])
    files = []
    for base, pieces in item.segments:
        scanned = ScannedSegment(base, 0, next_offset=max([base, *(piece.next_offset for piece in pieces)]))
        for piece in pieces:
            scanned.producers += read_producers(piece)
            scanned.epoch_starts += piece.epoch_starts
        replay.add(scanned)
        aborted = replay.aborted.pop(base)
        if aborted:
            files.append(_put(disk, path, segment_file(base, TXN_INDEX), b"".join(entry.pack() for entry in aborted)))
    replay.finish()
    for offset, content in sorted(replay.snapshots.items()):
        if offset > bases[0] or offset == end > 0:
            files.append(_put(disk, path, segment_file(offset, SNAPSHOT), content))
    epochs = fitting_epochs(item.epochs, replay.epochs, end)
    if epochs:
        files.append(_put(disk, path, LEADER_EPOCH_CHECKPOINT, format_epochs(epochs)))
    opened = tuple(replay.open_transactions)
    stable = end
    if opened:
        stable = stable_end((batch for _, pieces in item.segments for piece in pieces for batch in read_producers(piece)), end)
    return SettledLog(tuple(files), end, opened, stable)


def _put(disk: Disk, path: str, name: str, content: bytes) -> tuple[str, str]:
    """Write a file, durably but for its name."""
    staged = f"{path}-{name}"
    fd = disk.create(staged)
    try:
        disk.write(fd, [content], 0)
        disk.sync(fd)
    finally:
        disk.close(fd)
    return name, staged

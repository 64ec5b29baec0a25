"""What the batches of a log say about its producers, transactions and leader epochs: the content of files that are built anew."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidelog.disk.checkpoints import EpochEntry
from tidelog.disk.disk import Disk
from tidelog.log.leader_epoch_cache import assigned
from tidelog.log.producer_replay import replay
from tidelog.log.producer_snapshot import format_snapshot
from tidelog.log.producer_state import ProducerState
from tidelog.log.recovery import ScannedSegment
from tidelog.log.txn_index import AbortedTxn

Epochs = tuple[EpochEntry, ...]
_NEVER_EXPIRES_MS = 1 << 62


@dataclass(slots=True)
class LogReplay:
    """Takes in the segments of a log one after the other, in order."""

    state: ProducerState
    wanted: frozenset[int]
    """Offsets at which a snapshot is needed."""
    epochs: Epochs = ()
    """Leader epochs and where they start, by the batches alone."""
    aborted: dict[int, list[AbortedTxn]] = field(default_factory=dict)
    """By the base offset of the segment that has the marker."""
    snapshots: dict[int, bytes] = field(default_factory=dict)
    """What the wanted ones hold."""
    next_offset: int = 0

    @classmethod
    def begin(cls, disk: Disk, directory: str, first_base: int, wanted: Iterable[int]) -> "LogReplay":
        """Before the first segment. What happened before it is known from the snapshot at its base offset, if that is there and sound."""
        state = ProducerState(disk, directory, [first_base], expiration_ms=_NEVER_EXPIRES_MS, is_read_only=True)
        state.truncate_and_reload(first_base - 1, first_base, 0)
        return cls(state, frozenset(wanted), next_offset=first_base)

    def add(self, scanned: ScannedSegment) -> None:
        """Take in a segment."""
        self._snapshot(scanned.base_offset)
        self.aborted[scanned.base_offset] = list(replay(self.state, scanned.producers))
        for epoch, start_offset in scanned.epoch_starts:
            if epoch >= 0 and (not self.epochs or epoch > self.epochs[-1].epoch):
                self.epochs = assigned(self.epochs, epoch, max(0, start_offset))
        self.next_offset = max(self.next_offset, scanned.next_offset)

    def finish(self) -> None:
        """All segments are in."""
        self._snapshot(self.next_offset)

    def _snapshot(self, offset: int) -> None:
        if offset in self.wanted:
            self.snapshots[offset] = format_snapshot(self.state.entries.values())

    @property
    def has_producers(self) -> bool:
        """Whether any producer is known."""
        return bool(self.state.entries)

    @property
    def open_transactions(self) -> list[tuple[int, int]]:
        """Producer and first offset of those that no marker has ended."""
        entries = self.state.entries.values()
        return sorted((entry.producer_id, entry.transaction_start) for entry in entries if entry.transaction_start >= 0)


def fitting_epochs(found: Iterable[EpochEntry], from_batches: Epochs, end_offset: int) -> Epochs:
    """The epochs of the batches, and of those in a file the ones that do not contradict them: an epoch may have no batch."""
    entries = list(from_batches)
    for entry in found:
        place = sum(known.epoch < entry.epoch for known in entries)
        before = entries[place - 1].start_offset if place else -1
        behind = entries[place].start_offset if place < len(entries) else end_offset + 1
        is_known = place < len(entries) and entries[place].epoch == entry.epoch
        if not is_known and before < entry.start_offset < behind:
            entries.insert(place, entry)
    return tuple(entries)

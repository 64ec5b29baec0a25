"""What the keeper of many logs does to each of them by the clock, and asks about it. Nothing here flushes or rolls unasked."""

from typing import NamedTuple

from tidelog.log.maintenance import Maintenance


class FlushStats(NamedTuple):
    """How often the batches of a log were made durable, and how long that took, since it was opened."""

    syncs: int
    total_ms: float
    max_ms: float


class Appended(NamedTuple):
    """What came since the log was opened, less what was truncated."""

    records: int
    """By offsets."""
    size_bytes: int


class LogUpkeep:
    """The part of `Log` that its keeper uses. A log that was closed, or has failed, is left alone by all of it."""

    _state: Maintenance

    @property
    def failure(self) -> BaseException | None:
        """Why it takes no more writes; None while it does."""
        return self._state.failure

    def flush_if_due(self) -> bool:
        """Flush if `flush.ms` has passed since the last time and there is something to flush: whether it did."""
        return self._state.flush_if_due()

    def checkpoint_start(self) -> None:
        """Write down where the log starts, if that is not written down."""
        self._state.checkpoint_offsets()

    def checkpoint_recovery_point(self) -> None:
        """Write down where the log starts and the recovery point, if they are not written down."""
        self._state.checkpoint_offsets(with_recovery_point=True)

    def expire_producers(self) -> int:
        """Forget producers that have been silent for too long: how many."""
        return self._state.expire_producers()

    def remove_deleted(self) -> int:
        """Remove the files of deleted segments whose delay has passed: how many segments."""
        return self._state.remove_deleted()

    @property
    def deleted_bytes(self) -> int:
        """Bytes of deleted segments whose files are still there."""
        return sum(segment.size_bytes for _, segment in self._state.to_remove)

    @property
    def producers(self) -> int:
        """How many producers are remembered."""
        return len(self._state.producers.entries)

    @property
    def flush_stats(self) -> FlushStats:
        """Of the syncs of its `.log` files."""
        return FlushStats(*self._state.flush_stats)

    @property
    def appended(self) -> Appended:
        """What came since it was opened."""
        state = self._state
        view, (offset, size_bytes) = state.view, state.opened_at
        now_bytes = sum(segment.size_bytes for segment in view.segments) + state.removed_bytes
        return Appended(max(0, view.active.end[0] - offset), max(0, now_bytes - size_bytes))

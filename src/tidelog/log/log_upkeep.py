"""What the keeper of many logs does to each of them by the clock, and asks about it. Nothing here flushes or rolls unasked."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from tidelog.log.maintenance import Maintenance
from tidelog.log.producers import ProducerEntry


def not_minding(offset: int) -> AbstractContextManager[None]:
    """What is done about a cut where nobody minds."""
    return nullcontext()


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

    while_cut: Callable[[int], AbstractContextManager[None]]
    """Entered before the log is truncated to an offset, and left afterwards. Its keeper sets it: what was cleaned may lie above."""

    @property
    def failure(self) -> BaseException | None:
        """Why it takes no more writes; None while it does."""
        return self._state.failure

    @property
    def flush_error(self) -> Exception | None:
        """What went wrong with a flush in the background and was not done since; None if nothing. `failure` is set too if it is final."""
        return next(iter(self._state.flush_errors.values()), None)

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

    def remove_deleted(self, *, at_once: bool = False) -> int:
        """Remove the files of deleted segments whose delay has passed: how many segments. With `at_once` the delay does not matter."""
        return self._state.remove_deleted(at_once=at_once)

    @property
    def deleted_bytes(self) -> int:
        """Bytes of deleted segments whose files are still there."""
        return sum(segment.size_bytes for _, segment in self._state.to_remove)

    @property
    def producers(self) -> int:
        """How many producers are remembered."""
        return len(self._state.producers.entries)

    @property
    def producer_entries(self) -> dict[int, ProducerEntry]:
        """What is remembered of each of them now, by id."""
        return dict(self._state.producers.entries)

    def producer_entry(self, producer_id: int) -> ProducerEntry | None:
        """What is remembered of one of them now."""
        return self._state.producers.entries.get(producer_id)

    @property
    def open_transactions(self) -> tuple[ProducerEntry, ...]:
        """The producers that have a transaction open now, by where it begins."""
        return self._state.producers.with_open_transaction()

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

"""Which logs are being cleaned, and which must not be: a small machine for each log, as Kafka's cleaner has it.

    nothing      begin -> in progress      pause -> paused (1)
    in progress  done  -> nothing          pause -> aborted (1): the cleaner is told to stop
    aborted (n)  done  -> paused (n)       pause -> aborted (n + 1)      withdraw -> aborted (n - 1), or in progress
    paused (n)   resume -> paused (n - 1), or nothing        pause -> paused (n + 1)

Who is to change a log under the cleaner, to truncate it or to delete its topic, pauses it: a pass that runs is aborted, and the log is
theirs when the pass has let go of it. Retention does not want a pass to be lost, so it takes only a log that nobody cleans. Kafka fails a
second abort while the first one waits; here pauses are counted in both states.

Who was asked to clean a log, or to delete from it, waits for the pass that runs, and goes before the cleaner's threads then: those take a
busy log again in the moment when they have let go of it, for as long as somebody writes to it.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from functools import partial
from typing import NamedTuple

from tidelog.disk.names import TopicPartition
from tidelog.errors import CleaningAbortedError

_LOOK_UP_S = 0.1
"""Who waits looks that often whether there is still a reason to."""


class Phase(Enum):
    """What is going on."""

    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    PAUSED = "paused"


class CleaningState(NamedTuple):
    """The state of one log. A log with nothing going on has none."""

    phase: Phase
    pauses: int = 0
    """How many want the log for themselves."""

    def __str__(self) -> str:
        return self.phase.value if self.phase is not Phase.PAUSED else f"paused ({self.pauses})"


State = CleaningState | None


def begun(state: State) -> CleaningState:
    """A pass begins."""
    assert state is None, f"cleaning begins while it is {state}"
    return CleaningState(Phase.IN_PROGRESS)


def ended(state: State) -> State:
    """A pass has ended, whatever came of it."""
    assert state is not None, "a cleaning ends that never began"
    assert state.phase is not Phase.PAUSED, "a cleaning ends while it is paused"
    return CleaningState(Phase.PAUSED, state.pauses) if state.phase is Phase.ABORTED else None


def paused(state: State) -> CleaningState:
    """One more wants the log for itself. It has it when the phase is `PAUSED`."""
    if state is None:
        return CleaningState(Phase.PAUSED, 1)
    return CleaningState(Phase.PAUSED if state.phase is Phase.PAUSED else Phase.ABORTED, state.pauses + 1)


def resumed(state: State) -> State:
    """One of those has done with it."""
    assert state is not None, "cleaning is resumed that was not paused"
    assert state.phase is Phase.PAUSED, f"cleaning is resumed while it is {state}"
    return None if state.pauses == 1 else CleaningState(Phase.PAUSED, state.pauses - 1)


def withdrawn(state: State) -> State:
    """One of those does not want it any more, perhaps before it had it: then a pass that nobody else wants to stop goes on."""
    assert state is not None, "a pause is withdrawn that was never asked for"
    if state.phase is Phase.PAUSED:
        return resumed(state)
    assert state.phase is Phase.ABORTED, f"a pause is withdrawn while it is {state}"
    return CleaningState(Phase.IN_PROGRESS) if state.pauses == 1 else CleaningState(Phase.ABORTED, state.pauses - 1)


def _nothing() -> None:
    pass


class Cleanings:
    """The states of all logs of a store. May be shared between threads."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, CleaningState] = {}
        self._cleaners: dict[TopicPartition, int] = {}
        """The threads that clean."""
        self._asked: Counter[TopicPartition] = Counter()
        """How many wait for a log because somebody asked them to."""
        self._changed = threading.Condition()
        self.is_closed = False
        """Whether nothing is cleaned any more."""
        self._pid = os.getpid()

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child: the parent's threads, which may hold the lock, do not exist here."""
        return self._pid != os.getpid()

    def state(self, partition: TopicPartition) -> State:
        """What is going on with a log."""
        return self._states.get(partition)

    def in_progress(self) -> tuple[TopicPartition, ...]:
        """The logs that are being cleaned."""
        with self._changed:
            return tuple(sorted(self._cleaners))

    def try_begin(self, partition: TopicPartition) -> bool:
        """Begin to clean a log, unless something else is going on, or somebody was asked to and waits: whether it is."""
        with self._changed:
            if self.is_closed or partition in self._states or partition in self._asked:
                return False
            self._begin(partition)
            return True

    def begin(self, partition: TopicPartition, check: Callable[[], None] = _nothing) -> None:
        """Begin to clean a log, when nothing else is going on any more. `check` raises when that need not be waited for."""
        with self.first(partition), self._changed:
            self._wait(lambda: partition not in self._states, check)
            self._begin(partition)

    @contextmanager
    def first(self, partition: TopicPartition) -> Iterator[None]:
        """Go before the cleaner's own threads meanwhile: they begin nothing with this log."""
        try:  # around both: an interrupt must not leave somebody who waits for ever
            with self._changed:
                self._asked[partition] += 1
            yield
        finally:
            with self._changed:
                self._asked -= Counter([partition])  # which leaves out those that nobody waits for

    def _begin(self, partition: TopicPartition) -> None:
        self._move(partition, begun)
        self._cleaners[partition] = threading.get_ident()

    def done(self, partition: TopicPartition) -> None:
        """A cleaning has ended."""
        with self._changed:
            self._cleaners.pop(partition, None)
            self._move(partition, ended)

    def check_aborted(self, partition: TopicPartition) -> None:
        """Raise if a cleaning is to stop. It asks again and again."""
        state = self._states.get(partition)
        if self.is_closed or (state is not None and state.phase is Phase.ABORTED):
            raise CleaningAbortedError(f"cleaning {partition} was aborted", hint="nothing was changed; it begins anew")

    def pause(self, partition: TopicPartition, then: Callable[[], object] = _nothing) -> None:
        """Keep the cleaner off a log; returns when a pass that ran has stopped. To be followed by `resume`, of which `then` takes note."""
        with self._changed:
            self._move(partition, paused)
            try:
                self._changed.wait_for(lambda: self._states[partition].phase is Phase.PAUSED)
                then()
            except BaseException:  # an interrupt: nobody would ever resume it
                self._move(partition, withdrawn)
                raise

    def try_pause(self, partition: TopicPartition) -> bool:
        """Keep the cleaner off a log that nobody cleans: whether it is kept off."""
        with self._changed:
            if not self._is_free(partition):
                return False
            self._move(partition, paused)
            return True

    def wait_until_free(self, partition: TopicPartition, check: Callable[[], None] = _nothing) -> None:
        """Return when nobody cleans a log. `check` raises when that need not be waited for."""
        with self._changed:
            self._wait(lambda: self._is_free(partition), check)

    def resume(self, partition: TopicPartition) -> None:
        """Let the cleaner have the log again."""
        with self._changed:
            self._move(partition, resumed)

    @contextmanager
    def keeping_off(self, partitions: Iterable[TopicPartition]) -> Iterator[None]:
        """Keep the cleaner off some logs meanwhile."""
        with ExitStack() as stack:
            for partition in partitions:
                self.pause(partition, partial(stack.callback, self.resume, partition))
            yield

    def abort(self, partition: TopicPartition) -> None:
        """Stop a pass, if there is one: it has let go of the log when this returns."""
        with self.keeping_off([partition]):
            pass

    def close(self) -> None:
        """Abort every pass, and let none begin; returns when all have stopped, but for one of this very thread."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not set(self._cleaners.values()) - {threading.get_ident()})

    def _is_free(self, partition: TopicPartition) -> bool:
        state = self._states.get(partition)
        return state is None or state.phase is Phase.PAUSED

    def _wait(self, is_so: Callable[[], bool], check: Callable[[], None]) -> None:
        while True:
            check()
            if self.is_closed:
                raise CleaningAbortedError("the cleaner has stopped", hint="the store is being closed")
            if is_so():
                return
            self._changed.wait(_LOOK_UP_S)

    def _move(self, partition: TopicPartition, transition: Callable[[State], State]) -> None:
        state = transition(self._states.get(partition))
        if state is None:
            del self._states[partition]
        else:
            self._states[partition] = state
        self._changed.notify_all()

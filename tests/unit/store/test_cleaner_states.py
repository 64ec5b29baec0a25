"""The state of one log under the cleaner: what may follow what, and who waits for whom."""

import threading
from collections.abc import Callable

import pytest

from tidelog.compaction.states import Cleanings, CleaningState, Phase, State, begun, ended, paused, resumed, withdrawn
from tidelog.disk.names import TopicPartition
from tidelog.errors import CleaningAbortedError

EMAILS = TopicPartition("emails", 0)
OTHER = TopicPartition("emails", 1)
IN_PROGRESS = CleaningState(Phase.IN_PROGRESS)


def aborted(pauses: int) -> CleaningState:
    return CleaningState(Phase.ABORTED, pauses)


def is_paused(pauses: int) -> CleaningState:
    return CleaningState(Phase.PAUSED, pauses)


def clean_on(cleanings: Cleanings) -> None:
    """A pass that never ends by itself."""
    while True:
        cleanings.check_aborted(EMAILS)


@pytest.mark.parametrize(
    ("transition", "before", "after"),
    [
        (begun, None, IN_PROGRESS),
        (ended, IN_PROGRESS, None),
        (ended, aborted(1), is_paused(1)),
        (ended, aborted(2), is_paused(2)),
        (paused, None, is_paused(1)),
        (paused, is_paused(1), is_paused(2)),
        (paused, IN_PROGRESS, aborted(1)),
        (paused, aborted(1), aborted(2)),
        (resumed, is_paused(2), is_paused(1)),
        (resumed, is_paused(1), None),
        (withdrawn, is_paused(2), is_paused(1)),
        (withdrawn, is_paused(1), None),
        (withdrawn, aborted(2), aborted(1)),
        (withdrawn, aborted(1), IN_PROGRESS),
    ],
)
def test_what_follows_what(transition: Callable[[State], State], before: State, after: State) -> None:
    assert transition(before) == after


@pytest.mark.parametrize(
    ("transition", "before"),
    [
        (begun, IN_PROGRESS),
        (begun, aborted(1)),
        (begun, is_paused(1)),
        (ended, None),
        (ended, is_paused(1)),
        (resumed, None),
        (resumed, IN_PROGRESS),
        (resumed, aborted(1)),
        (withdrawn, None),
        (withdrawn, IN_PROGRESS),
    ],
)
def test_what_cannot_be(transition: Callable[[State], State], before: State) -> None:
    with pytest.raises(AssertionError):
        transition(before)


def test_a_log_is_cleaned_by_one_at_a_time() -> None:
    cleanings = Cleanings()
    assert cleanings.try_begin(EMAILS)
    assert not cleanings.try_begin(EMAILS)
    assert cleanings.try_begin(OTHER)
    assert cleanings.in_progress() == (EMAILS, OTHER)
    cleanings.done(EMAILS)
    assert (cleanings.state(EMAILS), cleanings.in_progress()) == (None, (OTHER,))
    assert cleanings.try_begin(EMAILS)


def test_who_was_asked_goes_before_the_cleaner() -> None:
    """The cleaner's threads took a busy log again whenever they had let go of it, and `compact` waited for minutes: a soak said so."""
    cleanings = Cleanings()
    assert cleanings.try_begin(EMAILS)
    has_begun = threading.Event()
    is_waiting = threading.Event()

    def compact() -> None:
        cleanings.begin(EMAILS, is_waiting.set)
        has_begun.set()

    thread = threading.Thread(target=compact)
    thread.start()
    assert is_waiting.wait(10)
    cleanings.done(EMAILS)
    assert not cleanings.try_begin(EMAILS)  # in the same moment
    assert has_begun.wait(10)
    thread.join()
    cleanings.done(EMAILS)
    with cleanings.first(EMAILS):
        assert not cleanings.try_begin(EMAILS)
        assert cleanings.try_begin(OTHER)
        assert cleanings.try_pause(EMAILS)
        cleanings.resume(EMAILS)
    assert cleanings.try_begin(EMAILS)


def test_who_pauses_waits_until_the_pass_has_let_go() -> None:
    cleanings = Cleanings()
    cleanings.begin(EMAILS)
    cleanings.check_aborted(EMAILS)
    order: list[str] = []

    def truncate() -> None:
        with cleanings.keeping_off([EMAILS]):
            order.append("cut")
            assert not cleanings.try_begin(EMAILS)

    thread = threading.Thread(target=truncate)
    thread.start()
    with pytest.raises(CleaningAbortedError, match="emails-0 was aborted"):
        clean_on(cleanings)
    assert str(cleanings.state(EMAILS)) == "aborted"
    order.append("let go")
    cleanings.done(EMAILS)
    thread.join()
    assert order == ["let go", "cut"]
    assert cleanings.state(EMAILS) is None
    cleanings.check_aborted(EMAILS)


def test_several_may_pause_and_all_have_to_resume() -> None:
    cleanings = Cleanings()
    with cleanings.keeping_off([EMAILS, OTHER]):
        cleanings.abort(EMAILS)
        assert cleanings.try_pause(EMAILS)
        assert str(cleanings.state(EMAILS)) == "paused (2)"
        cleanings.resume(EMAILS)
        assert not cleanings.try_begin(EMAILS)
        assert not cleanings.try_begin(OTHER)
    assert cleanings.try_begin(EMAILS)


def test_retention_takes_only_what_nobody_cleans() -> None:
    cleanings = Cleanings()
    cleanings.begin(EMAILS)
    assert not cleanings.try_pause(EMAILS)
    cleanings.check_aborted(EMAILS)  # nobody was told to stop
    taken = threading.Event()

    def retain() -> None:
        cleanings.wait_until_free(EMAILS)
        assert cleanings.try_pause(EMAILS)
        taken.set()
        cleanings.resume(EMAILS)

    thread = threading.Thread(target=retain)
    thread.start()
    assert not taken.wait(0.05)
    cleanings.done(EMAILS)
    thread.join()
    assert taken.is_set()
    assert cleanings.state(EMAILS) is None


def test_who_waits_asks_whether_there_is_still_a_reason() -> None:
    cleanings = Cleanings()
    cleanings.begin(EMAILS)

    def gone() -> None:
        raise LookupError("the topic was deleted")

    with pytest.raises(LookupError):
        cleanings.begin(EMAILS, gone)
    with pytest.raises(LookupError):
        cleanings.wait_until_free(EMAILS, gone)
    assert cleanings.state(EMAILS) == IN_PROGRESS


def test_closing_aborts_all_and_waits_for_them() -> None:
    cleanings = Cleanings()
    began, stopped = threading.Event(), threading.Event()

    def clean() -> None:
        cleanings.begin(EMAILS)
        began.set()
        with pytest.raises(CleaningAbortedError):
            clean_on(cleanings)
        stopped.set()
        cleanings.done(EMAILS)

    thread = threading.Thread(target=clean)
    thread.start()
    began.wait()
    cleanings.begin(OTHER)  # in this very thread: closing does not wait for itself
    cleanings.close()
    assert stopped.is_set()
    thread.join()
    assert not cleanings.try_begin(EMAILS)
    with pytest.raises(CleaningAbortedError, match="the cleaner has stopped"):
        cleanings.begin(EMAILS)
    cleanings.done(OTHER)


def test_a_pause_that_is_interrupted_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    cleanings = Cleanings()
    cleanings.begin(EMAILS)

    def interrupted(is_so: Callable[[], bool]) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(cleanings._changed, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cleanings.pause(EMAILS)
    with pytest.raises(KeyboardInterrupt):
        cleanings.abort(EMAILS)
    monkeypatch.undo()
    cleanings.check_aborted(EMAILS)  # the pass goes on
    cleanings.done(EMAILS)
    assert cleanings.state(EMAILS) is None
    assert cleanings.try_begin(EMAILS)


def test_of_several_an_interrupted_one_takes_back_its_own_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    cleanings = Cleanings()
    wait_for = cleanings._changed.wait_for

    def interrupted(is_so: Callable[[], bool]) -> bool:
        if cleanings.state(OTHER) is None:
            return wait_for(is_so)
        raise KeyboardInterrupt

    monkeypatch.setattr(cleanings._changed, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cleanings.keeping_off([EMAILS, OTHER]).__enter__()
    assert (cleanings.state(EMAILS), cleanings.state(OTHER)) == (None, None)

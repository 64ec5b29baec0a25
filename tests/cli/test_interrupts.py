"""Ctrl-C is never lost. A test of `tail --follow` went on for ever once: the interrupt came while a file was closed by its destructor."""

import signal
import sys
import time

import pytest

from tidelog.cli import interrupts
from tidelog.cli.interrupts import interrupts_kept


class Interrupted:
    """Something that the user interrupts just when it is dropped."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)
        self.reached = True  # never: the interrupt is raised in the line before, and goes no further


class Slow:
    """Something in whose destructor the second attempt comes, and is swallowed as the first was."""

    def __del__(self) -> None:
        time.sleep(1)


def go_on_behind(*dropped: type[Interrupted | Slow]) -> None:
    for kind in dropped:
        kind()
    time.sleep(30)


@pytest.mark.parametrize("dropped", [(Interrupted,), (Interrupted, Slow)])
def test_an_interrupt_in_a_destructor_comes_until_it_counts(
    dropped: tuple[type[Interrupted | Slow], ...], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_kept():
        go_on_behind(*dropped)
    assert capfd.readouterr() == ("", "")


class Broken:
    def __del__(self) -> None:
        raise ValueError("not an interrupt")


def test_other_errors_are_told_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[type[BaseException] | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: told.append(unraisable.exc_type))
    with interrupts_kept():
        Broken()
    assert told == [ValueError]


def test_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_MOMENT_S", 60.0)  # the next attempt is still to come at the end, however busy the machine is
    before = sys.unraisablehook, signal.getsignal(signal.SIGALRM)
    with interrupts_kept():
        Interrupted()
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert (sys.unraisablehook, signal.getsignal(signal.SIGALRM)) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)

"""What whoever runs a cleaning wants to be asked."""

from collections.abc import Callable
from dataclasses import dataclass


def _nothing(_: int) -> None:
    pass


def _go_on() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Hooks:
    """Called between chunks of about four mebibytes, in the thread that cleans. What they raise ends the cleaning, and undoes its group."""

    throttle: Callable[[int], None] = _nothing
    """Bytes that were read or written since."""
    check_done: Callable[[], None] = _go_on
    """Raises `CleaningAbortedError` if the cleaning is to stop."""
    check_space: Callable[[int], None] = _nothing
    """Before a group is written, with the bytes that it may need at most."""


NO_HOOKS = Hooks()

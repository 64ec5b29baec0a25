"""How far a command has come: bytes, rate and the time that is left, on stderr.

Nothing is shown in the first second. On a terminal one line is drawn again and again, and goes away at the end; elsewhere there is a line
every ten seconds. `-q` silences both. Next to results that go to the same terminal nothing is drawn: they are the progress. Nor is anything
shown by who waits for what comes: there is no end to be near to.
"""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from tidelog.cli.amounts import format_duration, format_size
from tidelog.cli.output import clear_drawn, drawn, is_quiet

__all__ = ["Progress", "clear_drawn", "progress_line"]

_SILENT_S = 1.0
_REDRAW_S = 0.2
_LINE_S = 10.0
_CLEAR = "\r\x1b[K"


class Progress:
    """A context manager. `add` is cheap, and may be called for every read."""

    def __init__(
        self,
        what: str,
        total_bytes: int | None = None,
        *,
        beside_results: bool = False,
        is_silent: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what = what
        self.total_bytes = total_bytes
        self.done_bytes = 0
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._is_shown = not is_silent and not is_quiet() and not (beside_results and self._is_terminal and sys.stdout.isatty())
        self._clock = clock
        self._begun = clock()
        self._next = self._begun + (_SILENT_S if self._is_terminal else _LINE_S)
        self._is_drawn = False

    def add(self, size_bytes: int) -> None:
        """So many bytes more."""
        self.done_bytes += size_bytes
        if self._is_shown:
            now = self._clock()
            if now >= self._next:
                self._next = now + (_REDRAW_S if self._is_terminal else _LINE_S)
                self._draw(now - self._begun)

    def _draw(self, elapsed_s: float) -> None:
        text = progress_line(self.what, self.done_bytes, self.total_bytes, elapsed_s)
        self._stream.write(f"{_CLEAR}{text}" if self._is_terminal else f"{text}\n")
        self._stream.flush()
        self._is_drawn = True
        drawn[:] = [self]

    def clear(self) -> None:
        """Take the line away, if there is one, because something else is to be printed; it may come again."""
        if self._is_drawn and self._is_terminal:
            self._stream.write(_CLEAR)
            self._stream.flush()
        self._is_drawn = False
        drawn.clear()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.clear()


def progress_line(what: str, done_bytes: int, total_bytes: int | None, elapsed_s: float) -> str:
    """As `dump: 1.2 GiB of 4.0 GiB (30%), 410.0 MiB/s, 7 s left`."""
    rate = done_bytes / elapsed_s if elapsed_s > 0 else 0.0
    text = f"{what}: {format_size(done_bytes)}"
    if total_bytes:
        text += f" of {format_size(total_bytes)} ({min(100, 100 * done_bytes // total_bytes)}%)"
    text += f", {format_size(rate)}/s"
    if total_bytes and rate > 0 and done_bytes < total_bytes:
        text += f", {format_duration(1000 * max(1, round((total_bytes - done_bytes) / rate)))} left"
    return text

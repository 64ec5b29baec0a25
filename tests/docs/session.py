"""What is typed in the `console` blocks of a page, and what the screen shows then.

The blocks of a page are one session, in one directory; what it does in Python, in blocks marked `py`, is part of it. Our own commands run
in this process: to start a dozen takes longer than what they do. Everything else on a line is bash's. A line of a page in which an ellipsis
stands matches whatever is there: times of day, mostly.
"""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tidelog.cli import main

HOME = "/srv"
"""What pages call the directory in which they are."""
EXIT_CODE = "echo $?"
BLOCK = re.compile(
    r"^```console\n((?:(?!```).*\n)*)```|^```py\n((?:(?!```).*\n)*)```\n\nprints\n\n```text\n((?:(?!```).*\n)*)```", re.MULTILINE
)
PYTHON = ">>> "


class Typed(NamedTuple):
    """A line that is typed, and what the page prints below it."""

    line: str
    printed: str


def typed_in(page: str) -> Iterator[Typed]:
    """All lines of all sessions on a page; a block of Python is one."""
    for console, python, python_printed in BLOCK.findall(page):
        if python:
            yield Typed(PYTHON + python, python_printed)
        for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
            line, _, printed = part.partition("\n")
            yield Typed(line, printed)


class Session:
    """A shell of a kind, in a directory."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.exit_code = 0

    def type(self, line: str) -> str:
        """Run a line; everything that it leaves on the screen."""
        if line == EXIT_CODE:
            return f"{self.exit_code}\n"
        screen, data = io.StringIO(), b""
        if line.startswith(PYTHON):
            with contextlib.chdir(self.home), contextlib.redirect_stdout(screen):
                exec(compile(line.removeprefix(PYTHON), "example", "exec"), {})  # noqa: S102
            return screen.getvalue()
        *before, last = line.split(" | ")
        for command in before:
            out = io.StringIO()
            self._run(command, data, out, screen)
            data = out.getvalue().encode()
        self._run(last, data, screen, screen)
        return screen.getvalue().replace(str(self.home.resolve()), HOME)

    def _run(self, command: str, data: bytes, out: io.StringIO, err: io.StringIO) -> None:
        words = shlex.split(command)
        if words[0] != "tidelog":
            done = subprocess.run(["bash", "-c", command], input=data, capture_output=True, check=False, timeout=60, cwd=self.home)
            self.exit_code = done.returncode
            out.write(done.stdout.decode())
            err.write(done.stderr.decode())
            return
        stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data))
        try:
            with contextlib.chdir(self.home), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                self.exit_code = main.run(words[1:])
        finally:
            sys.stdin = stdin


def matches(printed: str, found: str) -> bool:
    """Whether a screen is what a page prints."""
    pattern = ".*".join(re.escape(part) for part in printed.split("…"))
    return re.fullmatch(pattern, found) is not None

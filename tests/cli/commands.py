"""The command line as a user types it: run, and what it printed."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.cli import main

COMMAND = Path(sys.executable).with_name("tidelog")


class Done(NamedTuple):
    """What a command has left behind."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: str | Path, stdin: bytes = b"") -> Done:
    """Run a command in this process: to start one takes longer than most of what is tested here."""
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main.run([str(argument) for argument in arguments])
    finally:
        sys.stdin = before
    return Done(code, out.getvalue(), err.getvalue())


def run_process(*arguments: str | Path, **environment: str) -> Done:
    """Run a command by itself, and wait for it."""
    texts = [str(argument) for argument in arguments]
    done = subprocess.run(
        [COMMAND, *texts], capture_output=True, encoding="utf-8", check=False, env={**os.environ, **environment}, timeout=120
    )
    return Done(done.returncode, done.stdout, done.stderr)


def objects(*arguments: str | Path) -> list[dict[str, Any]]:
    """What a command that does what it is asked prints as JSON."""
    done = run(*arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]

"""`--apply`: a command that removes or rewrites what is there prints its plan, and does it only when it is told to.

    plan = Plan("retain", "3 segments of emails-0, 412.0 MiB", steps)
    if is_to_be_applied(plan, apply=apply, as_json=as_json):
        with change_log():
            …                       # one call into the library

Without `--apply` it stops there, with exit code 0. A person at a terminal is asked; who is not there says nothing, and nothing is done.
While changes are made, what the library has to say about them goes to stderr: a line for each.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tidelog.cli.output import clear_drawn, note, plain, print_json, print_line, progress


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be done."""

    command: str
    summary: str
    """In one line; empty if there is nothing to do."""
    steps: tuple[dict[str, Any], ...] = field(default=())
    """Each an object of JSON, with its `what` for people."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done."""
        return not self.steps


def is_to_be_applied(plan: Plan, *, apply: bool, as_json: bool) -> bool:
    """Print the plan; whether to go on."""
    print_plan(plan, as_json=as_json, apply=apply)
    if plan.is_empty:
        return False
    if apply:
        return True
    if not as_json and sys.stdin.isatty() and sys.stdout.isatty():
        return _is_agreed(plan)
    progress("nothing was changed; --apply does it")
    return False


def print_plan(plan: Plan, *, as_json: bool, apply: bool) -> None:
    """Print each step, then the whole in one line."""
    if as_json:
        for step in plan.steps:
            print_json({"type": "step", "command": plan.command, "is_applied": apply, **step})
        return
    for step in plan.steps:
        print_line(f"  {plain(str(step['what']))}")
    print_line(f"{plan.command}: {plan.summary or 'nothing to do'}")
    sys.stdout.flush()


def _is_agreed(plan: Plan) -> bool:
    sys.stderr.write(f"{plan.command}: do it? [y/N] ")
    sys.stderr.flush()
    is_agreed = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not is_agreed:
        note("nothing was changed")
    return is_agreed


class _OneLine(logging.Formatter):
    """Time, what happened, in one line."""

    def format(self, record: logging.LogRecord) -> str:
        clear_drawn()  # a line of progress may be on the terminal
        text = super().format(record)
        return plain(" ".join(text.splitlines()))


@contextmanager
def change_log() -> Iterator[logging.Logger]:
    """Log lines of the library, and of the command itself, on stderr: every applied change is one. `-q` does not silence them."""
    logger = logging.getLogger("tidelog")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(asctime)s %(name)s: %(message)s"))
    before, is_propagated = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield logging.getLogger("tidelog.cli")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = is_propagated

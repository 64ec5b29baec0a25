"""A promise, and how to measure it.

Reproduce: `.venv/bin/python -m bench --list`
"""

from collections.abc import Callable
from dataclasses import dataclass

from bench.data import Inputs
from bench.timing import Measurement, Pace


@dataclass(frozen=True, slots=True)
class Job:
    """`name` starts with the number of the issue that made the promise; `promise` is about ours divided by the peer's."""

    name: str
    promise: str
    unit: str
    measure: Callable[[Inputs, Pace], Measurement]
    needs_jvm: bool = False

    def is_kept(self, ratio: float) -> bool:
        """Whether this ratio fulfils the promise."""
        relation, bound = self.promise.split()
        return ratio >= float(bound) if relation == ">=" else ratio <= float(bound)


def require_equal(what: str, ours: object, peer: object) -> None:
    """Both sides have to have done the same work before anybody's time is taken."""
    if ours != peer:
        raise AssertionError(f"{what}: ours {ours}, peer {peer}")

"""One metric for Prometheus, with its values."""

from typing import NamedTuple

Labels = dict[str, str]


class Family(NamedTuple):
    """One metric, with its values by labels."""

    name: str
    kind: str
    """gauge or counter."""
    help: str
    samples: list[tuple[Labels, float]]


def one_value(name: str, kind: str, text: str, value: float) -> Family:
    """A metric of the whole store."""
    return Family(name, kind, text, [({}, value)])

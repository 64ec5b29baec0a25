"""What a kept run says, promise by promise: the entries of `latest.json` beside the list of `promises.toml`.

A promise of which the run has no row is shown, too, and is not kept: its peer did not run.

Reproduce: `.venv/bin/python -m bench.page`
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.results import spread

_ISSUE = re.compile(r"\[issue-(\d+)\] *# *(.+)")


@dataclass(frozen=True, slots=True)
class Row:
    """A promise that was measured. Lowest and highest are of the ratio, by all samples of both sides."""

    name: str
    ours: float
    peer: float
    unit: str
    ratio: float
    lowest: float
    highest: float
    promise: str
    kept: bool
    peer_version: str
    samples: int

    @property
    def bound(self) -> float:
        """What the ratio is held against."""
        return float(self.promise.split()[1])

    @property
    def is_at_least(self) -> bool:
        """Whether more is better."""
        return self.promise.startswith(">=")


@dataclass(frozen=True, slots=True)
class Issue:
    """The promises of an issue: those that were measured, and the names of those that were not, with what is promised."""

    number: str
    title: str
    rows: tuple[Row, ...]
    missing: tuple[tuple[str, str], ...]


def row_of(entry: Mapping[str, Any]) -> Row:
    """One entry of the JSON."""
    lowest, highest = spread(entry)
    return Row(
        entry["name"],
        entry["ours"],
        entry["peer"],
        entry["unit"],
        float(entry["ratio"]),
        lowest,
        highest,
        entry["promise"],
        entry["kept"],
        entry["peer_version"],
        len(entry["ours_samples"]),
    )


def issues(latest: Sequence[Mapping[str, Any]], promises: Mapping[str, Mapping[str, str]], titles: Mapping[str, str]) -> list[Issue]:
    """All issues that promise something, in their order."""
    measured = {entry["name"]: entry for entry in latest if entry["ratio"] is not None}
    found = []
    for key, promised in promises.items():
        number = key.removeprefix("issue-")
        rows = tuple(row_of(measured[name]) for name in promised if name in measured)
        missing = tuple((name, promise) for name, promise in promised.items() if name not in measured)
        found.append(Issue(number, titles[number], rows, missing))
    return found


def titles_of(promises: str) -> dict[str, str]:
    """The titles of the issues: in the file they are remarks."""
    return dict(_ISSUE.findall(promises))

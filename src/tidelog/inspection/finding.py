"""What verify has to say: one finding for each thing that is wrong, or worth knowing.

    error      data is lost, unreadable, or would be served wrong
    warning    a broker or Tidelog would mend it, or it is suspicious
    note       leftovers, and facts worth knowing

`code` is a short name that does not change between releases; `what` and `mend` are words for people.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]

RECOVERY = "recovery on open"
REINDEX = "building the index anew"
REPAIR = "repair"
SALVAGE = "salvage"
NOTHING = "nothing to do"

MOST_ALIKE = 20
"""Findings of one code in one file that are told one by one; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found. Facts that do not apply are None."""

    severity: Severity
    code: str
    path: str
    what: str
    mend: str
    position: int | None = None
    """Byte in the file."""
    offset: int | None = None
    """Of the record or batch that it is about."""
    expected: str | int | None = None
    found: str | int | None = None

    def __str__(self) -> str:
        text = f"{self.severity}: {printable(self.path)}"
        if self.position is not None:
            text += f" at byte {self.position}"
        if self.offset is not None:
            text += f" (offset {self.offset})"
        text += f": {self.what}"
        if self.expected is not None:
            text += f": expected {self.expected}, found {self.found}"
        return f"{text} [{self.code}; {self.mend}]"

    def to_json(self) -> dict[str, str | int | None]:
        """For one line of JSON."""
        return {
            "type": "finding",
            "severity": self.severity,
            "code": self.code,
            "path": printable(self.path),
            "position": self.position,
            "offset": self.offset,
            "what": self.what,
            "mend": self.mend,
            "expected": self.expected,
            "found": self.found,
        }


def printable(name: str) -> str:
    """A path as text that every encoder takes: names on disk are any bytes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def limited(findings: Iterable[Finding], most: int = MOST_ALIKE, *, by_file: bool = True) -> Iterator[Finding]:
    """The findings, but of many that are alike only the first ones, and then how many more there are.

    Alike is the same code in the same file, or, if not `by_file`, the same code: a directory of a million files, or a file of nothing but
    damage, must not fill the memory of whoever collects them.
    """
    seen: Counter[tuple[str, str]] = Counter()
    last: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = (finding.path if by_file else "", finding.code)
        seen[key] += 1
        if seen[key] <= most:
            yield finding
        else:
            last[key] = finding
    for key, finding in last.items():
        yield Finding(
            finding.severity,
            finding.code,
            finding.path,
            f"{seen[key] - most} more like these; the last: {finding.what}",
            finding.mend,
            finding.position,
            finding.offset,
            finding.expected,
            finding.found,
        )

"""The findings of verify, counted by what they are about, and the gravest of them kept. Memory does not grow with how many there are."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from tidelog.disk.names import parse_partition, parse_segment_file
from tidelog.errors import LogNotFoundError, TidelogError
from tidelog.inspection import Finding
from tidelog.inspection.finding import SALVAGE
from tidelog.report.facts import SoundnessFacts

MOST: Final = 200
_GRAVE: Final = ("error", "warning")


class FindingList:
    """Takes findings one by one."""

    def __init__(self, findings: Iterable[Finding], root: str, most: int = MOST) -> None:
        """`root` is left out of the paths that are shown: they are below it."""
        self._root = root.rstrip("/") + "/"
        self._counts: Counter[str] = Counter()
        self._kept: dict[str, list[Finding]] = {"error": [], "warning": [], "note": []}
        self._segments: Counter[tuple[str, int]] = Counter()
        self._partitions: Counter[str] = Counter()
        self._damaged: set[str] = set()
        self._most = most
        for finding in findings:
            self._add(finding)

    def _add(self, finding: Finding) -> None:
        self._counts[finding.severity] += 1
        if len(self._kept[finding.severity]) < self._most:
            self._kept[finding.severity].append(finding)
        if finding.severity in _GRAVE:
            self._count_home(finding.path, is_error=finding.severity == "error")

    def _count_home(self, path: str, *, is_error: bool) -> None:
        directory, _, name = path.rpartition("/")
        home, parsed = directory.rpartition("/")[2], parse_segment_file(name) if name.isascii() else None
        if parse_partition(home) is None and parse_partition(name) is not None:
            home, parsed = name, None  # about the directory itself
        self._partitions[home] += 1
        if is_error:
            self._damaged.add(home)
        if parsed is not None:
            self._segments[home, parsed.base_offset] += 1

    def note_unreadable(self, directory: str, error: TidelogError) -> None:
        """A partition that no reader gets is an error, also where all that was checked of it, its headers say, is in order."""
        if directory.rpartition("/")[2] in self._damaged:
            return  # verify has said why
        path = error.path if error.path is not None and error.path.startswith(f"{directory}/") else directory
        what = f"the partition cannot be read: {error.what}"
        mend = error.hint or ("putting it back" if isinstance(error, LogNotFoundError) else SALVAGE)
        self._add(Finding("error", "partition-unreadable", path, what, mend, error.position))

    def of_segment(self, directory: str, base_offset: int) -> int:
        """How many errors and warnings are about a segment."""
        return self._segments[directory, base_offset]

    def of_partition(self, directory: str) -> int:
        """How many are about a partition."""
        return self._partitions[directory]

    def soundness(self, level: str) -> SoundnessFacts:
        """All of them, counted."""
        return SoundnessFacts(level, self._counts["error"], self._counts["warning"], self._counts["note"])

    def objects(self) -> tuple[dict[str, Any], ...]:
        """The gravest, as JSON."""
        kept = [finding for severity in ("error", "warning", "note") for finding in self._kept[severity]][: self._most]
        return tuple(finding.to_json() | {"path": self._below(str(finding.to_json()["path"]))} for finding in kept)

    def left_off(self) -> int:
        """How many are counted only."""
        return self._counts.total() - len(self.objects())

    def _below(self, path: str) -> str:
        return path.removeprefix(self._root) or "."

"""How much memory a process and those below it have taken, by what the system says of each: for Spark, where a job is many processes.

Python's workers are forked by daemons that the JVM starts, and may be gone before a job is over; so they are looked at while it runs. What
they hold together is a sum of resident sizes: pages that a fork shares are counted for each, so it is rather too much than too little.

Reproduce: `.venv/bin/python -m bench.growth --only compact-spark --max-size 64MiB`
"""

import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

PROC = Path("/proc")
LOOK_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class Peaks:
    """The most of each, in bytes."""

    python_bytes: int
    """This process at its highest, and all Python below it at one moment."""
    worker_bytes: int
    """The largest Python process below it."""
    jvm_bytes: int


@dataclass(frozen=True, slots=True)
class Process:
    """What is known of one."""

    parent: int
    name: str
    resident_bytes: int
    peak_bytes: int


class MemoryWatch:
    """Looks at this process and those below it when it is left, and until then again and again if asked to; `peaks` has what it saw.

    A process without others below it need not be looked at twice: the system keeps its highest.
    """

    def __init__(self, *, looks_again: bool) -> None:
        self.peaks = Peaks(0, 0, 0)
        self._looks_again = looks_again
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_again, daemon=True)

    def __enter__(self) -> Self:
        if self._looks_again:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._looks_again:
            self._over.set()
            self._thread.join()
        self._look()

    def _look_again(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            self._look()

    def _look(self) -> None:
        self.peaks = higher(self.peaks, peaks_of(os.getpid(), processes()))


def peaks_of(root: int, found: Mapping[int, Process]) -> Peaks:
    """What a process and those below it hold, as far as they are Python or a JVM."""
    below = [found[number] for number in descendants(root, found)]
    own = found[root]
    python = [process for process in below if process.name.startswith("python")]
    return Peaks(
        own.peak_bytes + sum(process.resident_bytes for process in python),
        max((process.peak_bytes for process in python), default=0),
        sum(process.peak_bytes for process in below if process.name == "java"),
    )


def higher(one: Peaks, other: Peaks) -> Peaks:
    """The higher of each."""
    return Peaks(max(one.python_bytes, other.python_bytes), max(one.worker_bytes, other.worker_bytes), max(one.jvm_bytes, other.jvm_bytes))


def descendants(root: int, found: Mapping[int, Process]) -> list[int]:
    """The processes below one, at any depth."""
    below: list[int] = []
    parents = {root}
    while parents:
        parents = {number for number, process in found.items() if process.parent in parents and number != root}
        below += sorted(parents)
    return below


def processes(folders: Iterable[Path] | None = None) -> dict[int, Process]:
    """All that the system tells of; one that ends while it is looked at is left out."""
    found = {}
    for folder in PROC.iterdir() if folders is None else folders:
        if folder.name.isdigit():
            with suppress(OSError, KeyError):
                fields = dict(line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line)
                found[int(folder.name)] = Process(
                    int(fields["PPid"]), fields["Name"].strip(), _bytes(fields["VmRSS"]), _bytes(fields["VmHWM"])
                )
    return found


def _bytes(kibibytes: str) -> int:
    return int(kibibytes.split()[0]) * 1024

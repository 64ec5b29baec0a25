"""A directory with more names than a test can make files, and how much memory it takes to open or verify it.

    python -m tests.support.crowd WHO DIRECTORY PATTERN COUNT

is run as a process of its own, so that its peak is nobody else's. It prints what came of it, and by how many bytes the process grew.
"""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.logs import QuietDisk, open_log
from tests.support.readers import open_reader
from tidelog.disk.disk import Entry, Seen
from tidelog.errors import TidelogError
from tidelog.inspection import verify

ROOT = Path(__file__).parents[2]


class CrowdedDisk(QuietDisk):
    """The real one, but that one directory has very many empty files besides its own; to remove one of those is nothing."""

    def __init__(self, directory: str, pattern: str, count: int) -> None:
        self.directory, self.pattern, self.count = directory, pattern, count
        self.removed = 0

    def _crowd(self, path: str) -> Iterator[str]:
        return (self.pattern.format(number + 1000) for number in range(self.count if path == self.directory else 0))

    def names(self, path: str) -> Iterator[str]:
        yield from super().names(path)
        yield from self._crowd(path)

    def look(self, path: str) -> Iterator[Seen]:
        yield from super().look(path)
        for inode, name in enumerate(self._crowd(path), 10_000_000_000):
            yield Seen(name, "file", 0, 0, inode)

    def entries(self, path: str) -> Iterator[Entry]:
        yield from super().entries(path)
        for name in self._crowd(path):
            yield Entry(name, False, 0, 0)

    def remove(self, path: str) -> None:
        try:
            super().remove(path)
        except FileNotFoundError:
            self.removed += 1


def meet(who: str, directory: Path, pattern: str, count: int) -> str:
    """Open or verify the directory: what came of it, in a word."""
    disk = CrowdedDisk(str(directory), pattern, count)
    try:
        if who == "verify":
            return f"{sum(1 for _ in verify(directory, disk=disk))} findings"
        with open_reader(directory, disk=disk) if who == "reader" else open_log(directory.parent, disk=disk, name=directory.name) as log:
            return f"{len(list(log.read()))} records, {disk.removed} removed"
    except TidelogError as error:
        return type(error).__name__


def met(who: str, directory: Path, pattern: str, count: int) -> tuple[str, int]:
    """The same in a process of its own: what came of it, and by how many bytes the process grew."""
    command = [sys.executable, "-m", "tests.support.crowd", who, str(directory), pattern, str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    outcome, grown = done.stdout.rsplit(None, 1)
    return outcome, int(grown)


def main() -> None:
    """See the docstring above."""
    who, directory, pattern, count = sys.argv[1:]
    meet(who, Path(directory), "file-{}", 10)  # everything is imported, and has been used once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = meet(who, Path(directory), pattern, int(count))
    sys.stdout.write(f"{outcome} {(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10}\n")


if __name__ == "__main__":
    main()

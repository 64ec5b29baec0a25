"""A process that reads somebody else's log and tells all that it sees; the other end of it is `ReaderProcess`.

    python -m tests.support.reader_process

For each directory on a line of its input, one JSON object on its output: what a reader sees that was just opened, and one that was opened
when the directory was first asked about. Only the last directory is remembered.
"""

import atexit
import json
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.readers import open_reader
from tidelog.log.log_reading import Isolation
from tidelog.log.read_only import ReadOnlyLog

SeenRecord = tuple[int, bytes | None, bytes | None, int]


class SeenLog(NamedTuple):
    """What one reader sees: offset, key, value and timestamp of records, by isolation."""

    start: int
    end: int
    bound: int
    stable: int
    log_end: list[SeenRecord]
    high_watermark: list[SeenRecord]
    committed: list[SeenRecord]


class ReaderProcess:
    """The process, from outside."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def end(self) -> None:
        """It ends with its input."""
        self._process.communicate(timeout=30)

    def ask(self, directory: Path | str) -> dict[str, SeenLog]:
        """What is seen there by "old" and "new"; raises what the other one raised, in words."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{directory}\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return {age: SeenLog(*seen[:4], *([_from_json(row) for row in rows] for rows in seen[4:])) for age, seen in answer.items()}


@cache
def reader_process() -> ReaderProcess:
    """One for all who ask; it ends when this process does."""
    process = ReaderProcess()
    atexit.register(process.end)
    return process


def tell(log: ReadOnlyLog) -> list[Any]:
    """A `SeenLog` for JSON."""
    log.refresh()
    seen: list[Any] = [log.log_start_offset, log.log_end_offset, log.high_watermark, log.last_stable_offset]
    isolations: tuple[Isolation, ...] = ("log_end", "high_watermark", "committed")
    for isolation in isolations:
        rows = log.read(isolation=isolation)
        seen.append([(row.offset, _text(row.key), _text(row.value), row.timestamp_ms) for row in rows])
    return seen


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("latin-1")


def _from_json(row: list[Any]) -> SeenRecord:
    offset, key, value, timestamp_ms = row
    return offset, None if key is None else key.encode("latin-1"), None if value is None else value.encode("latin-1"), timestamp_ms


def main() -> None:
    """Answer until there is no more input."""
    warnings.simplefilter("error")
    name, old = "", None
    for line in sys.stdin:
        answer: dict[str, Any] = {}
        try:
            if line.strip() != name:
                if old is not None:
                    old.close()
                name, old = line.strip(), None
                old = open_reader(Path(name), max_open=4)
            assert old is not None
            answer["old"] = tell(old)
            with open_reader(Path(name)) as new:
                answer["new"] = tell(new)
        except Exception as error:
            answer, name = {"error": f"{type(error).__name__}: {error}"}, ""
        print(json.dumps(answer), flush=True)  # noqa: T201
    if old is not None:
        old.close()


if __name__ == "__main__":
    main()

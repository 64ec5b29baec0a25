"""Kill a process that writes to a log, and look at what is left."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from tests.crash.writer import PER_THREAD, RUN, SETTINGS, batch_of, numbers_of
from tests.support.crash_check import check_directory
from tests.support.crash_model import Op, Recovered, ThreadedModel, stored_batches
from tests.support.crash_session import PARTITION, placed

REPOSITORY = Path(__file__).parents[2]


class Writers:
    """The fork server of `tests.crash.writer`. A context manager."""

    program = "tests.crash.writer"

    def __init__(self) -> None:
        self.others: Counter[str] = Counter()
        """What its children have said besides, by the first word."""
        self._server = subprocess.Popen(
            [sys.executable, "-m", self.program],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.communicate(timeout=30)

    def kill_one(
        self, directory: Path, *, threads: int, first: int, after: int, until: str = "", then: Callable[[], object] = lambda: None
    ) -> dict[int, int]:
        """Let a child write until it has acknowledged `after` batches, and `then`, kill it: the numbers of the batches by offset.

        It is killed before that if it says `until`.
        """
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(f"{directory} {threads} {first}\n")
        acknowledged: dict[int, int] = {}
        child = 0
        is_killed = is_enough = False
        for line in self._server.stdout:
            match line.split():
                case ["started", pid]:
                    child = int(pid)
                case ["ack", offset, number]:
                    acknowledged[int(offset)] = int(number)
                case ["ended", _]:
                    break
                case [other, *_]:
                    self.others[other] += 1
                    is_enough |= other == until
                    assert other != "failed", line
            if child and not is_killed and (is_enough or len(acknowledged) >= after):
                then()
                os.kill(child, signal.SIGKILL)
                is_killed = True
        assert is_killed, "the writer ended by itself"
        return acknowledged


def kill_round(writers: Writers, root: Path, draw: Random) -> list[str]:
    """Kill a writer, and perhaps the next one that goes on where it was: what is wrong then."""
    root.mkdir()
    model = ThreadedModel()
    for turn in range(draw.choice([1, 1, 2])):
        threads = draw.choice([1, 1, 2, 4])
        first = turn * 10
        acknowledged = writers.kill_one(root / PARTITION, threads=threads, first=first, after=draw.randrange(1, 60))
        for thread in range(first, first + threads):
            done = [number for number in acknowledged.values() if number // PER_THREAD == thread]
            for number in numbers_of(thread)[: len(done) + RUN]:
                model.follow("begin", Op("append", tuple(stored_batches(batch_of(number))), thread=thread))
        for offset, number in acknowledged.items():
            model.follow("done", Op("append", tuple(stored_batches(placed(batch_of(number), offset, turn)))))
    found: Recovered = check_directory(root, SETTINGS)
    return model.faults_of(found)

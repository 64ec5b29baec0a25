"""Kill the driver of a stream with -9, again and again, at times of its commit: in the end every line is there once.

    python -m tests.spark.long_sink [ROUNDS]

A round starts a driver, waits until it commits, which the lock of the store tells, waits a little longer, and kills: the JVM alone, so that
the commit may go on without it, or everything that belongs to the driver. The last round lets it finish.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import IO

import tidelog
from tidelog.disk.disk import OS
from tidelog.disk.log_directory import LogDirectory
from tidelog.store.staging import find_staging

START_S, FINISH_S = 240, 400
LINES = 40


def family_of(pid: int) -> dict[int, str]:
    """A process and all that has come from it, with their commands' names. It began a session of its own, which they share."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                text = (entry / "stat").read_text()
                fields = text.rpartition(")")[2].split()
                if int(fields[3]) == pid and fields[0] != "Z":
                    found[int(entry.name)] = text[text.index("(") + 1 : text.rindex(")")]
    return found


class Driver:
    """A driver in processes of its own. What it says of errors goes to `messages`."""

    def __init__(self, *arguments: str | Path, module: str = "tests.spark.sink_driver", messages: IO[bytes] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if messages is None else messages,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, word: str) -> None:
        """Until it says so; it ends without having said it if something is wrong."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == word:
                return
        raise RuntimeError(f"the driver has ended with {self.process.wait()} and has not said {word!r}")

    def kill(self, *, only: str | None = None) -> None:
        """Kill -9, all of it, or only those whose command has this name; then wait until all are gone by themselves, or kill them."""
        for pid, name in family_of(self.process.pid).items():
            if only is None or name == only:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 20
        while only is not None and len(family_of(self.process.pid)) > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.end()

    def end(self) -> None:
        """Leave nothing behind."""
        while found := family_of(self.process.pid):
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()
            time.sleep(0.01)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def kill_in_commit(driver: Driver, data: Path, choice: random.Random) -> bool:
    """Kill it while somebody has the store: False if it was done before."""
    for _ in range(choice.randrange(1, 4)):  # not always in the first
        if not wait_for_lock(driver, data, held=True):
            return False
        moment_s = choice.random() * 0.12
        time.sleep(moment_s)
        if choice.random() < 0.5:
            break
        wait_for_lock(driver, data, held=False)
    driver.kill(only="java" if choice.random() < 0.4 else None)
    return True


def wait_for_lock(driver: Driver, data: Path, *, held: bool) -> bool:
    """Until somebody owns the store, or nobody does; False if the driver has ended."""
    while (LogDirectory.find_owner(str(data)) is not None) != held:
        if driver.process.poll() is not None:
            return False
        time.sleep(0.002)
    return True


def run(root: Path, rounds: int, seed: int) -> dict[str, int]:
    """All rounds: how many ended with a kill, and how many lines were written."""
    choice = random.Random(seed)
    data, source, checkpoint = root / "data", root / "in", root / "checkpoint"
    source.mkdir()
    with tidelog.open(data) as store:
        store.create_topic("t", 3)
    kills, expected = 0, Counter[str]()
    for number in range(rounds + 1):
        for file in range(4):
            lines = [f"{number} {file} {line}" for line in range(LINES)]
            expected.update(lines)
            (source / f"{number}-{file}.tmp").write_text("".join(f"{line}\n" for line in lines))
            (source / f"{number}-{file}.tmp").rename(source / f"{number}-{file}.txt")
        driver = Driver("stream", data, source, checkpoint)
        try:
            driver.wait_for("ready")
            if number < rounds:
                kills += kill_in_commit(driver, data, choice)
            else:
                driver.wait_for("done")
                driver.process.wait(FINISH_S)
        finally:
            driver.end()
        with tidelog.open(data, "r") as store:
            found = Counter((record.value or b"").decode() for record in store.topic("t").read())
        twice = {line: count for line, count in found.items() if count > 1}
        assert not twice, f"seed {seed}, round {number}: twice {dict(list(twice.items())[:5])}"
        halves = Counter(line.rpartition(" ")[0] for line in found)
        assert set(halves.values()) <= {LINES}, f"seed {seed}, round {number}: half a batch is there: {halves}"
    assert found == expected, f"seed {seed}: {len(expected - found)} lines are missing"
    with tidelog.open(data) as store:
        assert store.hanging_transactions() == []
    assert find_staging(OS, str(data)) == [], "somebody has left something"
    return {"rounds": rounds, "kills": kills, "lines": sum(found.values())}


def main() -> None:
    """As many rounds as asked for."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}", flush=True)  # noqa: T201
    with tempfile.TemporaryDirectory(prefix="tidelog-sink-") as scratch:
        print(run(Path(scratch), rounds, seed))  # noqa: T201


if __name__ == "__main__":
    main()

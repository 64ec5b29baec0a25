"""Spark's Python workers below this process: who they are, and somebody who kills them."""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def wait_for(check: Callable[[], bool], timeout_s: float = 120) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if check():
            return True
        time.sleep(0.001)
    return False


def python_workers() -> list[int]:
    """Processes of ours that run tasks: forked by a daemon of PySpark, which a Java below us has started."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue

    def is_daemon(command: str) -> bool:
        return any(name in command for name in ("pyspark.daemon", "tidelog.spark.worker_daemon"))

    def is_ours(pid: int) -> bool:
        while pid > 1:
            if pid == os.getpid():
                return True
            pid = parents.get(pid, 0)
        return False

    return [pid for pid, command in commands.items() if is_daemon(command) and is_ours(pid) and is_daemon(commands.get(parents[pid], ""))]


class WorkerKiller(threading.Thread):
    """Kills the workers again and again from the moment something is there: between two tasks a worker's death hurts nobody."""

    def __init__(self, is_time: Callable[[], bool]) -> None:
        super().__init__()
        self._is_time = is_time
        self._is_over = threading.Event()
        self.killed: list[int] = []

    def run(self) -> None:
        """Wait, then kill until the block is left."""
        if wait_for(lambda: self._is_time() or self._is_over.is_set()):
            while not self._is_over.wait(0.005):
                for pid in python_workers():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        self.killed.append(pid)

    def __enter__(self) -> "WorkerKiller":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()

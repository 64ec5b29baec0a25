"""A forked child that opens a log of its own: what flushes in the background, and the shared pool, work there too."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.logs import numbered, open_log
from tidelog.disk.file_pool import FilePool

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
WEAK = {"flush.messages": 2**63 - 1}


def in_child(work: Callable[[], object]) -> int:
    """How a forked child ends that does this, for which it has five seconds."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(5)
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def use_a_log(home: Path, pool: FilePool | None = None) -> None:
    with open_log(home, WEAK, pool=pool or FilePool()) as log:
        log.append(numbered(0))
        log.roll()
        log.append(numbered(1))


def test_a_child_flushes_in_a_thread_of_its_own(tmp_path: Path) -> None:
    use_a_log(tmp_path / "parent")
    assert in_child(lambda: use_a_log(tmp_path / "child")) == 0


def test_a_pool_that_another_thread_was_using(tmp_path: Path) -> None:
    pool = FilePool()
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with pool._lock:
            locked.set()
            assert done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    assert locked.wait(10)
    try:
        assert in_child(lambda: use_a_log(tmp_path / "child", pool)) == 0
    finally:
        done.set()
        thread.join()

"""One owner at a time: other processes, other threads, brokers, single logs; who waits, and who is told whose it is."""

import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tidelog
from tests.support.logs import a_batch
from tests.support.small_stores import open_store, tree_of
from tidelog.errors import LockedError
from tidelog.log.log import Log
from tidelog.store.loading import LoadProgress

HOLD = """
import sys, time
import tidelog
with tidelog.open(sys.argv[1:]):
    print("open", flush=True)
    sys.stdin.read()
"""
LOCK_AS_JAVA_DOES = """
import fcntl, sys
with open(sys.argv[1] + "/.lock", "w") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("open", flush=True)
    sys.stdin.read()
"""
OPEN = """
import sys
import tidelog
try:
    with tidelog.open(sys.argv[1]) as store:
        print("open", len(store.topics()))
except tidelog.TidelogError as error:
    print(type(error).__name__, error)
"""


@contextmanager
def held_elsewhere(*paths: Path, program: str = HOLD) -> Iterator["subprocess.Popen[str]"]:
    """Another process has the directories, until its standard input ends."""
    command = [sys.executable, "-c", program, *map(str, paths)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "open\n"
        yield process
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def open_elsewhere(path: Path) -> str:
    done = subprocess.run([sys.executable, "-c", OPEN, str(path)], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_another_process_is_named(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as holder:
        before = tree_of(tmp_path)
        with pytest.raises(LockedError, match=f"locked by process {holder.pid}") as raised:
            tidelog.open(tmp_path)
        assert isinstance(raised.value, BlockingIOError)
        with pytest.raises(LockedError, match=f"locked by process {holder.pid}"):
            Log.open(tmp_path / "a-0")
        assert tree_of(tmp_path) == before
    with tidelog.open(tmp_path) as store:
        store.create_topic("a")
        assert f"locked by process {os.getpid()}" in open_elsewhere(tmp_path)
        assert (tmp_path / ".lock").stat().st_size == 0
    assert open_elsewhere(tmp_path) == "open 1"


def test_a_broker_is_kept_out_and_keeps_out(tmp_path: Path) -> None:
    """Java takes POSIX record locks; so do we. (Live brokers: interop/tests.)"""
    with open_store(tmp_path):
        pass
    with held_elsewhere(tmp_path, program=LOCK_AS_JAVA_DOES) as holder, pytest.raises(LockedError, match=str(holder.pid)):
        open_store(tmp_path)
    with tidelog.open(tmp_path):
        command = [sys.executable, "-c", LOCK_AS_JAVA_DOES, str(tmp_path)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
        assert "BlockingIOError" in done.stderr


@pytest.mark.skipif(not hasattr(fcntl, "F_OFD_SETLK"), reason="locks of a descriptor are Linux's")
def test_a_copy_of_the_directory_does_not_unlock_it(tmp_path: Path) -> None:
    """Closing any descriptor of a file drops the POSIX locks that the process has on it; then there is the other lock."""
    home = tmp_path / "home"
    with tidelog.open(home) as store:
        store.create_topic("a")
        shutil.copytree(home, tmp_path / "copy")
        assert open_elsewhere(home).startswith("LockedError")
        command = [sys.executable, "-c", LOCK_AS_JAVA_DOES, str(home)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
        assert "BlockingIOError" in done.stderr
    assert open_elsewhere(home) == "open 1"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_lock_does_not_outlive_its_owner_in_a_forked_child(tmp_path: Path) -> None:
    store = tidelog.open(tmp_path)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    try:
        store.close()
        assert open_elsewhere(tmp_path) == "open 0"
    finally:
        os.close(write)
        os.close(read)
        os.waitpid(child, 0)


def test_one_directory_of_several_is_enough(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    open_store(one, two).close()
    for locked, free in ((one, two), (two, one)):
        with held_elsewhere(locked, program=LOCK_AS_JAVA_DOES), pytest.raises(LockedError):
            open_store(one, two)
        with open(free / ".lock", "r+") as lock:  # noqa: PTH123 - what was locked first was given back
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        open_store(one, two).close()


def test_twice_in_one_process(tmp_path: Path) -> None:
    with open_store(tmp_path / "a", tmp_path / "b") as store:
        store.create_topic("x")
        for paths in ([tmp_path / "a", tmp_path / "b"], [tmp_path / "b", tmp_path / "a"]):
            with pytest.raises(LockedError, match="already open in this process"):
                open_store(*paths)
        store.log("x", 0).append(a_batch())
    open_store(tmp_path / "a", tmp_path / "b").close()


def test_a_log_by_itself_in_a_directory_that_a_store_has(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with tidelog.open(home) as store:
        store.create_topic("a")
        before = tree_of(home)
        for name in ("a-0", "b-0"):
            with pytest.raises(LockedError, match=r"a store of this process has the directory .ask it for the log"):
                Log.open(home / name)
        assert tree_of(home) == before
        store.log("a", 0).append(a_batch())
        with Log.open(home / "a-0", mode="r") as reader:
            assert reader.log_end_offset == 1
    with Log.open(home / "a-0") as log:
        assert log.log_end_offset == 1
        with pytest.raises(LockedError, match="already open in this process"):
            tidelog.open(home)
        log.append(a_batch())
    with tidelog.open(home) as store:
        assert store.log("a", 0).log_end_offset == 2


def test_waiting_for_another_process(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as holder:
        began = time.monotonic()
        with pytest.raises(LockedError, match=str(holder.pid)):
            tidelog.open(tmp_path, lock_timeout_s=0.2)
        assert 0.2 <= time.monotonic() - began < 5
        assert holder.stdin is not None
        threading.Timer(0.2, holder.stdin.close).start()
        tidelog.open(tmp_path, lock_timeout_s=30).close()


def test_waiting_for_another_thread(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a", tmp_path / "b")
    threading.Timer(0.1, store.close).start()
    open_store(tmp_path / "b", tmp_path / "a", lock_timeout_s=30).close()


def test_two_that_want_the_same_directories_do_not_wait_for_each_other(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    open_store(one, two).close()
    errors: list[BaseException] = []

    def open_often(*paths: Path) -> None:
        try:
            for _ in range(10):
                open_store(*paths, lock_timeout_s=30).close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=open_often, args=paths) for paths in ((one, two), (two, one))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []


@pytest.mark.parametrize("timeout_s", [-1, float("nan")])
def test_times_that_cannot_be(timeout_s: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lock_timeout_s"):
        open_store(tmp_path / "a", lock_timeout_s=timeout_s)
    assert not (tmp_path / "a").exists()


def test_an_opening_that_fails_gives_the_lock_back(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("a")

    def fail(progress: LoadProgress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tidelog.open(tmp_path, progress=fail)
    assert open_elsewhere(tmp_path) == "open 1"


def test_a_clock_that_is_none_gives_the_lock_back(tmp_path: Path) -> None:
    tidelog.open(tmp_path).close()  # without topics, so that nobody else asks the clock before the store is made
    answers = [1]
    with pytest.raises(IndexError) as raised:
        tidelog.open(tmp_path, clock=lambda: answers.pop())
    assert open_elsewhere(tmp_path) == "open 0"
    assert raised.tb is not None, "what the error remembers is still there"

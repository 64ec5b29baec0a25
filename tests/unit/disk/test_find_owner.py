"""Who owns a log directory, asked without taking it."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.small_stores import QUIET, open_store
from tidelog.disk.disk import OS
from tidelog.disk.log_directory import LogDirectory
from tidelog.errors import LockedError
from tidelog.store.directories import wait_for_owner

OWNER = """
import sys, tidelog
try:
    with tidelog.open(sys.argv[1]):
        print("open", flush=True)
        sys.stdin.read()
except tidelog.errors.LockedError:
    print("locked", flush=True)
"""


def owner_of(path: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", OWNER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def said(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_nobody(tmp_path: Path) -> None:
    assert LogDirectory.find_owner(str(tmp_path / "missing")) is None
    with open_store(tmp_path / "data"):
        pass
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "data").iterdir()}
    assert LogDirectory.find_owner(str(tmp_path / "data")) is None
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "data").iterdir()} == before


def test_this_process_which_keeps_what_it_has(tmp_path: Path) -> None:
    with open_store(tmp_path / "data"):
        found = LogDirectory.find_owner(str(tmp_path / "data"), disk=QUIET)
        assert "already open in this process" in str(found)
        with owner_of(tmp_path / "data") as other:
            assert said(other) == b"locked"


def test_another_process_is_named_and_waited_for(tmp_path: Path) -> None:
    with owner_of(tmp_path / "data") as other:
        assert said(other) == b"open"
        with pytest.raises(LockedError, match=f"locked by process {other.pid}"):
            wait_for_owner(OS, [str(tmp_path / "data")], 0.1)
        ending = threading.Timer(0.3, other.communicate)
        ending.start()
        began = time.monotonic()
        wait_for_owner(OS, [str(tmp_path / "data")], 30)
        assert time.monotonic() - began < 25
        ending.join()

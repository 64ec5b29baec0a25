"""Making a file over one that has a second name."""

import os
from pathlib import Path

import pytest

from tidelog.disk.disk import OS
from tidelog.disk.plain_files import open_no_link as real_open


def test_a_linked_file_is_left_alone(tmp_path: Path) -> None:
    old, backup = tmp_path / "a", tmp_path / "backup"
    old.write_bytes(b"old")
    os.link(old, backup)
    OS.close(OS.create(str(old), exclusive=False))
    assert (old.read_bytes(), backup.read_bytes()) == (b"", b"old")


def test_a_descriptor_is_closed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number may be another thread's file by then."""
    old = tmp_path / "a"
    old.write_bytes(b"old")
    os.link(old, tmp_path / "backup")
    closed: list[int] = []
    real_close = os.close
    taken: list[int] = []

    def open_no_link(path: str, flags: int) -> int:
        if flags & os.O_EXCL:
            taken.append(os.open(tmp_path / "backup", os.O_RDONLY))  # what another thread does at this moment
            raise OSError(24, "ordered by a test")
        return real_open(path, flags)

    def close(fd: int) -> None:
        closed.append(fd)
        real_close(fd)

    monkeypatch.setattr("tidelog.disk.disk.open_no_link", open_no_link)
    monkeypatch.setattr(os, "close", close)
    with pytest.raises(OSError, match="ordered"):
        OS.create(str(old), exclusive=False)
    monkeypatch.undo()
    assert len(closed) == 1
    assert os.read(taken[0], 3) == b"old"
    os.close(taken[0])

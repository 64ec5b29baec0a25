"""Whose files are: what replaces another has its owner, group and mode; what the superuser makes belongs to whom its directory does."""

import os
from pathlib import Path

import pytest

from tidelog.disk.disk import OS

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files away")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def owner(path: Path) -> tuple[int, int]:
    return path.stat().st_uid, path.stat().st_gid


def test_a_file_that_replaces_another_has_its_mode(tmp_path: Path) -> None:
    OS.replace_file(str(tmp_path), "name", b"first")
    before = mode(tmp_path / "name")
    (tmp_path / "name").chmod(0o600)
    OS.replace_file(str(tmp_path), "name", b"second")
    assert ((tmp_path / "name").read_bytes(), mode(tmp_path / "name")) == (b"second", 0o600)
    assert before != 0o600
    OS.keep_rights(str(tmp_path / "name"), str(tmp_path / "not there"))
    assert mode(tmp_path / "name") == 0o600


@needs_root
def test_what_the_superuser_makes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    OS.close(OS.create(str(home / "file")))
    OS.make_directory(str(home / "a" / "b"))
    OS.close(OS.lock(str(home / ".lock")))
    OS.replace_file(str(home), "replaced", b"x")
    for name in ("file", "a", "a/b", ".lock", "replaced"):
        assert owner(home / name) == (NOBODY, NOBODY), name
    (home / "mine").write_bytes(b"")
    OS.replace_file(str(home), "mine", b"x")
    assert owner(home / "mine") == (0, 0)  # as the one that was there


@needs_root
def test_elsewhere_it_stays_the_superusers(tmp_path: Path) -> None:
    OS.close(OS.create(str(tmp_path / "file")))
    assert owner(tmp_path / "file") == owner(tmp_path)

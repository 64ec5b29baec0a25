"""Commands that only look write nothing at all: not a byte, not a name, not a lock."""

import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tidelog
from tests.cli.commands import objects, run
from tests.support.golden import GOLDEN
from tests.support.recording_disk import RecordingDisk
from tests.support.small_stores import open_store
from tidelog.cli import main, sources

TIME = 1_700_000_000_000
NOBODY = 65534
COMMANDS: dict[str, list[str]] = {
    "ls": ["ls", "{store}"],
    "ls segments": ["ls", "{store}", "emails", "--segments"],
    "describe": ["describe", "{store}", "emails"],
    "cat": ["cat", "{store}", "emails", "--isolation", "log_end"],
    "cat from a time": ["cat", "{store}", "emails", "--from", f"@{TIME + 100}", "--json"],
    "tail": ["tail", "{store}", "emails", "--no-follow"],
    "find a key": ["find", "{store}", "emails", "--key", "key 3", "--all"],
    "find a time": ["find", "{store}", "emails", "--time", f"@{TIME + 100}"],
    "dump": ["dump", "{store}", "--records"],
    "dump json": ["dump", "{store}/emails-0", "--deep", "--json", "--skip-damage"],
    "dump gently": ["dump", "{store}/emails-0", "--io-limit", "unlimited"],
    "verify": ["verify", "{store}"],
    "verify records": ["verify", "{store}/emails-0", "--level", "records", "--json"],
    "stats": ["stats", "{store}", "--records"],
    "explain": ["explain", "{store}"],
    "what-if": ["what-if", "{store}", "emails", "--config", "retention.ms=1", "--exact"],
    "plan of compact": ["compact", "{store}", "--roll"],
    "what compact would do": ["compact", "{store}", "emails", "--exact"],
    "plan of retain": ["retain", "{store}", "--config", "retention.bytes=1"],
    "plan of trim": ["trim", "{store}", "emails", "--before", f"@{TIME + 100}"],
    "plan of repair": ["repair", "{store}"],
    "plan of reindex": ["reindex", "{store}"],
    "topics list": ["topics", "list", "{store}"],
    "config get": ["config", "get", "{store}", "emails"],
    "groups list": ["groups", "list", "{store}"],
    "table": ["table", "{store}", "emails", "--isolation", "log_end"],
}
FINDERS = ("verify", "explain")
"""The store has damaged indexes, which these tell by exit code 1."""


@pytest.fixture
def store() -> Iterator[Path]:
    """Several segments, with indexes that are damaged or gone, in a directory that anybody may look into."""
    home = Path(tempfile.mkdtemp())
    home.chmod(0o755)
    path = home / "store"
    with open_store(path) as made:
        topic = made.create_topic("emails", 2, {"index.interval.bytes": 100})
        for number in range(300):
            topic.append(b"value %d" % number, key=b"key %d" % (number % 10), timestamp_ms=TIME + number, partition=number % 2)
            if number % 100 == 99:
                topic.log(0).roll()
    for index, file in enumerate(sorted(path.glob("emails-*/*index"))):
        if index % 3 == 0:
            file.unlink()
        elif index % 3 == 1:
            file.write_bytes(b"\x01" * 24)
    yield path
    for folder in [home, *home.rglob("*")]:
        folder.chmod(0o755 if folder.is_dir() else 0o644)
    shutil.rmtree(home)


def facts(path: Path) -> dict[str, tuple[int, ...]]:
    """Everything that a write, a new name or a lock that was made would change."""
    found: dict[str, tuple[int, ...]] = {}
    for one in [path, *path.rglob("*")]:
        status = one.lstat()
        found[str(one)] = (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_nlink)
    return found


@pytest.mark.leaves
@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_nothing_changes(arguments: list[str], store: Path) -> None:
    (store / ".lock").unlink()
    before = facts(store)
    done = run(*(argument.format(store=store) for argument in arguments))
    assert done.returncode in codes(arguments), done.stderr
    assert done.stdout
    assert facts(store) == before


@pytest.mark.leaves
@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_the_disk_is_asked_for_nothing_but_reading(arguments: list[str], store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = RecordingDisk(store)
    monkeypatch.setattr(sources, "GentleDisk", lambda *_: disk)
    done = run(*(argument.format(store=store) for argument in arguments))
    assert done.returncode in codes(arguments), done.stderr
    assert disk.recording().events == ()


def codes(arguments: list[str]) -> tuple[int, ...]:
    """How a command may end."""
    return (0, 1) if arguments[0] in FINDERS else (0,)


def comparable(text: str) -> str:
    """Without ages, which go on between two runs."""
    return re.sub(r"\d+ (d|h|min|s)\b", "…", text)


def as_nobody(call: Callable[[], int], out: Path) -> int:
    """The exit code of a call in a child that has no rights of its own."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            stream = out.open("w")
            sys.stdout = sys.stderr = stream
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            code = call()
            stream.flush()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.leaves
def test_a_directory_without_the_right_to_write(store: Path, tmp_path: Path) -> None:
    for one in [store, *store.rglob("*")]:
        one.chmod(one.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    for name, arguments in COMMANDS.items():
        given = [argument.format(store=store) for argument in arguments]
        expected = run(*given)
        out = tmp_path / "out"
        code = as_nobody(lambda given=given: main.run(given), out)  # type: ignore[misc]
        assert code == expected.returncode, (name, out.read_text())
        assert code in codes(arguments)
        assert comparable(expected.stdout) in comparable(out.read_text())


@pytest.mark.leaves
def test_a_folder_that_cannot_be_entered_is_passed_over(store: Path, tmp_path: Path) -> None:
    (store / "emails-1").chmod(0)
    out = tmp_path / "out"
    assert as_nobody(lambda: main.run(["ls", str(store)]), out) == 0
    text = out.read_text()
    assert f"{store}/emails-1: cannot be read by this user; passed over" in text
    assert "emails " in text
    assert as_nobody(lambda: main.run(["dump", str(store)]), out) == 0, out.read_text()
    assert "baseOffset: 0" in out.read_text()
    (store / "lost+found").mkdir()
    for command, code in (("stats", 0), ("repair", 0), ("reindex", 0), ("retain", 0), ("explain", 1)):
        assert as_nobody(lambda command=command: main.run([command, str(store)]), out) == code, out.read_text()  # type: ignore[misc]
        assert f"{store}/emails-1: cannot be read by this user; passed over" in out.read_text()
        assert f"{store}/lost+found: of the file system; passed over" in out.read_text()


@pytest.mark.leaves
def test_indexes_are_not_needed(store: Path) -> None:
    """The damaged and the missing ones are built in memory, and the answers are right."""
    found = objects("cat", store, "emails", "--from", "77", "--to", "80", "-p", "1", "--isolation", "log_end")
    assert [one["value"] for one in found] == ["value 155", "value 157", "value 159"]
    done = run("-q", "find", store, "emails", "--time", f"@{TIME + 151}", "--json", "--isolation", "log_end")
    assert [line.split('"value": "')[1].split('"')[0] for line in done.stdout.splitlines()] == ["value 152", "value 151"]


def test_somebody_has_it_open(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "s") as made:
        made.create_topic("t").append(b"x")
        assert [one["offsets"] for one in objects("ls", tmp_path / "s")] == [1]
        assert [one["value"] for one in objects("cat", tmp_path / "s", "t")] == ["x"]
        made.topic("t").append(b"y")
        assert len(objects("dump", tmp_path / "s" / "t-0", "--records")) > 3


def test_a_brokers_directory() -> None:
    before = facts(GOLDEN / "broker")
    for name, arguments in COMMANDS.items():
        done = run(*(argument.format(store=GOLDEN / "broker" / "data") for argument in arguments))
        assert done.returncode in codes(arguments), (name, done.stderr)
    assert facts(GOLDEN / "broker") == before

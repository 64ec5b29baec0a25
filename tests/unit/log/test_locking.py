"""Who may open a log: one opener at a time, in directories with the right name, and what is said otherwise."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.support.logs import a_batch, numbered, open_log, state_of
from tidelog.errors import CorruptFileError, InconsistentTopicIdError, LockedError, LogNotFoundError, StorageError, TidelogError
from tidelog.log.log import Log

OPEN = """
import sys
from tidelog.log.log import Log
from tidelog.errors import LockedError
try:
    with Log.open(sys.argv[1]) as log:
        print("open", log.log_end_offset)
except LockedError as error:
    print("locked", error)
"""


def open_elsewhere(path: Path) -> str:
    done = subprocess.run([sys.executable, "-c", OPEN, str(path)], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_twice_in_one_process(tmp_path: Path) -> None:
    with Log.open(tmp_path / "tide-0") as log:
        log.append(a_batch())
        for path in (tmp_path / "tide-0", str(tmp_path / "tide-0") + "/", tmp_path / "x" / ".." / "tide-0"):
            with pytest.raises(LockedError, match="already open in this process"):
                Log.open(path)
        log.append(a_batch())
        with Log.open(tmp_path / "tide-1") as other:
            other.append(a_batch())
        log.append(a_batch())
    with Log.open(tmp_path / "tide-0") as log:
        assert log.log_end_offset == 3


def test_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with Log.open(tmp_path / "real" / "tide-0"), pytest.raises(LockedError):
        Log.open(tmp_path / "link" / "tide-0")


def test_in_another_process(tmp_path: Path) -> None:
    with Log.open(tmp_path / "tide-0") as log:
        log.append(a_batch())
        for name in ("tide-0", "tide-1"):
            answer = open_elsewhere(tmp_path / name)
            assert answer.startswith("locked")
            assert ".lock" in answer
        assert not (tmp_path / "tide-1").exists()
        log.append(a_batch())
    assert open_elsewhere(tmp_path / "tide-0") == "open 2"
    with Log.open(tmp_path / "tide-0") as log:
        assert log.load_report.was_clean


def test_a_locked_error_is_a_blocking_error(tmp_path: Path) -> None:
    with Log.open(tmp_path / "tide-0"):
        with pytest.raises(BlockingIOError) as raised:
            Log.open(tmp_path / "tide-0")
        assert isinstance(raised.value, TidelogError)
        assert raised.value.path == str(tmp_path / "tide-0")


@pytest.mark.parametrize("name", ["tide", "-0", "tide-", "tide-x", "tide-0.deleted", "tide_0", "0", "tide-2147483648"])
def test_names_that_are_no_partition(name: str, tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError, match="topic-partition") as raised:
        Log.open(tmp_path / name)
    assert raised.value.found == name
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b-0", "a\nb-0", "a\udcff-0"])
def test_names_that_no_checkpoint_can_hold(name: str, tmp_path: Path) -> None:
    with pytest.raises(TidelogError):
        Log.open(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_parent_is_made(tmp_path: Path) -> None:
    with Log.open(tmp_path / "a" / "b" / "tide-0") as log:
        log.append(a_batch())
    assert {path.name for path in (tmp_path / "a" / "b").iterdir()} >= {"tide-0", ".lock", ".kafka_cleanshutdown"}


def test_a_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=r"file"):
        Log.open(tmp_path / "file" / "tide-0")


def test_a_partition_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "tide-0").write_bytes(b"")
    with pytest.raises(StorageError):
        Log.open(tmp_path / "tide-0")
    with Log.open(tmp_path / "tide-1") as log:
        log.append(a_batch())


READ_ONLY = """
import os, sys, tempfile
from tidelog.log.log import Log
with tempfile.TemporaryDirectory() as other:
    Log.open(other + "/tide-0").close()  # everything is imported, while that is allowed
os.setuid(65534)
try:
    Log.open(sys.argv[1])
except OSError as error:
    print(type(error).__name__, error.errno)
"""


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "missing"])
def test_a_parent_that_cannot_be_written(is_there: bool, tmp_path: Path) -> None:
    """As a user without the right; the one who runs the tests may be root, who has every right."""
    home = tmp_path / "home"
    home.mkdir()
    if is_there:
        with Log.open(home / "tide-0") as log:
            log.append(a_batch())
    before = sorted(path.name for path in home.iterdir())
    if os.getuid() == 0:
        if not all(path.stat().st_mode & 0o001 for path in tmp_path.parents):
            for path in (tmp_path, *tmp_path.parents[:2]):
                path.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(home / "tide-0")], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.stdout.split()[-1:] == ["13"], done
    else:
        home.chmod(0o555)
        try:
            with pytest.raises(OSError, match="denied"):
                Log.open(home / "tide-0")
        finally:
            home.chmod(0o755)
    assert sorted(path.name for path in home.iterdir()) == before


def test_a_log_dropped_open_says_so(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(numbered(0))
    keep = state_of(log)
    with pytest.warns(ResourceWarning, match="dropped without being closed"):
        del log
    keep.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with open_log(tmp_path) as log:
            assert log.log_end_offset == 1


def test_only_append_mode(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mode must be"):
        Log.open(tmp_path / "tide-0", mode="w")  # type: ignore[call-overload]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"recovery": "Kafka"}, "recovery must be"),
        ({"log_start_offset": -1}, "log_start_offset is an offset"),
        ({"log_start_offset": 2**63}, "log_start_offset is an offset"),
        ({"recovery_point": -1}, "recovery_point is an offset"),
        ({"topic_id": UUID(int=0)}, "zero"),
    ],
)
def test_arguments_that_cannot_be(wrong: dict[str, Any], message: str, tmp_path: Path) -> None:
    """A start below 0 made files that no log can have; another word for a recovery was taken for none."""
    with pytest.raises(ValueError, match=message):
        Log.open(tmp_path / "tide-0", **wrong)
    assert list(tmp_path.iterdir()) == []


def test_another_topic_id_leaves_the_directory_closed_in_order(tmp_path: Path) -> None:
    """Nothing was changed; the marker went all the same, and all logs beside it were recovered when they were opened."""
    with Log.open(tmp_path / "tide-0", topic_id=UUID(int=1)), Log.open(tmp_path / "tide-1"):
        pass
    with pytest.raises(InconsistentTopicIdError):
        Log.open(tmp_path / "tide-0", topic_id=UUID(int=2))
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    epochs = tmp_path / "tide-0" / "leader-epoch-checkpoint"
    epochs.write_text("0\n1\nx\n")
    with pytest.raises(CorruptFileError):
        Log.open(tmp_path / "tide-0")
    epochs.unlink()
    with Log.open(tmp_path / "tide-1") as log:
        assert log.load_report.was_clean

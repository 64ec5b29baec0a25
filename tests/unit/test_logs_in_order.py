"""The check that every test with a log ends with (tests/conftest.py) is seen to fail."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
from pathlib import Path

import pytest

from tests.support.logs import numbered, open_log


def leave(home, name, content):
    with open_log(home, {"index.interval.bytes": 0}) as log:
        for number in range(3):
            log.append(numbered(number))
    if name:
        (Path(log.directory) / name).write_bytes(content)


def test_in_order(tmp_path):
    leave(tmp_path, "", b"")


def test_bad_index(tmp_path):
    leave(tmp_path, f"{0:020d}.index", b"\\0\\0\\0\\1\\0\\0\\0\\7")


def test_bad_batch(tmp_path):
    leave(tmp_path, f"{0:020d}.log", bytes(100))


@pytest.mark.leaves("index-position", "index-offset")
def test_bad_index_on_purpose(tmp_path):
    leave(tmp_path, f"{0:020d}.index", b"\\0\\0\\0\\1\\0\\0\\0\\7")


@pytest.mark.leaves("index-offset")
def test_bad_batch_but_another_on_purpose(tmp_path):
    leave(tmp_path, f"{0:020d}.log", bytes(100))


@pytest.mark.leaves
def test_anything(tmp_path):
    leave(tmp_path, f"{0:020d}.log", bytes(100))
"""


def test_what_a_test_leaves_is_verified(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import leaves_logs_in_order\n")
    (tmp_path / "test_inner.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider", "-c", "pyproject.toml"]
    done = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'inner'}", str(tmp_path / "test_inner.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "6 passed, 3 errors" in done.stdout, done.stdout + done.stderr
    failed = {line.split("::")[1].split()[0] for line in done.stdout.splitlines() if line.startswith("ERROR ")}
    assert failed == {"test_bad_index", "test_bad_batch", "test_bad_batch_but_another_on_purpose"}

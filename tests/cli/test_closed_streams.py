"""Standard streams that are closed, as schedulers of jobs leave them. A log that was opened became one of them once, and nothing worked."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import COMMAND
from tests.support.small_stores import open_store

RECORD = "0\t0\t2023-11-14T22:13:20.000Z\tk\tv\n"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with open_store(tmp_path / "s") as made:
        made.create_topic("t").append(b"v", key=b"k", timestamp_ms=1_700_000_000_000)
    return tmp_path / "s"


def shell(arguments: str, closed: str, store: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        ["bash", "-c", f'"$0" {arguments} {closed}', COMMAND], cwd=store, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_results_are_printed_all_the_same(closed: str, store: Path) -> None:
    assert shell("cat . t", closed, store) == (0, RECORD, "")


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_results_that_nobody_wants(closed: str, store: Path) -> None:
    assert shell("cat . t", closed, store) == (0, "", "")
    assert shell("--version", closed, store) == (0, "", "")


def test_exit_codes_are_the_same(store: Path) -> None:
    assert shell("cat . none", "<&- >&- 2>&-", store) == (2, "", "")


def test_what_is_written_goes_to_the_log_alone(store: Path) -> None:
    assert shell("produce . t", "<&- >&- 2>&-", store) == (0, "", "")
    done = shell("retain . --config retention.ms=1 --apply", ">&- 2>&-", store)
    assert done == (0, "", "")
    assert shell("verify .", "2>&-", store) == (0, "verify: in order (level everything)\n", "")

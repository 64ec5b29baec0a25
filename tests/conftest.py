"""Where tests work, and what every log has to be when one ends.

Tests work in memory where there is room: what they wait for most is the disk, and none of them learns anything from it. Whether a write
is durable is asked of disks that note what was synced; a killed process leaves in memory what it leaves on disk.

HYPOTHESIS_PROFILE=thorough looks further than every test run can.

Every log that a test closes is verified at its end; who damages one on purpose says so with a mark. Out of reach are logs that were not
closed, or failed before, and directories that are gone by then: those of Hypothesis are looked at when they are closed.
"""

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.verified import assert_verified
from tidelog.log.maintenance import Maintenance

settings.register_profile("default", max_examples=40, derandomize=True, deadline=None, database=None)
settings.register_profile(
    "thorough", max_examples=3000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

MEMORY = Path("/dev/shm")  # noqa: S108
MEMORY_NEEDED = 2 << 30
ANY = "*"
PROPERTIES = Path(__file__).parent / "property"


def has_room(memory: Path) -> bool:
    """Whether tests can work there: it is large, and what they build can be run."""
    if not memory.is_dir() or not os.access(memory, os.W_OK | os.X_OK):
        return False
    return shutil.disk_usage(memory).free >= MEMORY_NEEDED and not os.statvfs(memory).f_flag & os.ST_NOEXEC


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # A shell starts what it puts into the background so, and processes that tests interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

if "TMPDIR" not in os.environ and has_room(MEMORY):
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # asked for again


@pytest.fixture(autouse=True)
def leaves_logs_in_order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Verify the directories of all logs that were closed without an error.

    `@pytest.mark.leaves(code, …)` allows findings by their code, without a code any.
    """
    allowed = {code for mark in request.node.iter_markers("leaves") for code in mark.args or (ANY,)}
    if ANY in allowed:
        yield
        return
    if "tmp_path" in request.fixturenames:
        request.getfixturevalue("tmp_path")  # so that it goes after us, and not with the logs in it before
    is_at_once = PROPERTIES in request.path.parents
    closed: set[str] = set()
    close = Maintenance.close

    def close_and_note(state: Maintenance, *args: Any) -> None:
        close(state, *args)
        if state.failure is None:
            if is_at_once:
                assert_verified(state.directory, allowed)
            else:
                closed.add(state.directory)

    monkeypatch.setattr(Maintenance, "close", close_and_note)
    yield
    for directory in sorted(closed):
        assert_verified(directory, allowed)

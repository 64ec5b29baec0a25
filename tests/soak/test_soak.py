"""Some seconds of the soak, a minute in `make slow`; `make soak` goes on for ten."""

import os
import random
from pathlib import Path

import pytest

from tests.soak.soak import soak

SECONDS = float(os.environ.get("TIDELOG_SOAK_SECONDS", "60"))
ONCE_AT_LEAST = {
    "append",
    "append_many",
    "write",
    "read",
    "read_columns",
    "follow",
    "change_topics",
    "alter",
    "update",
    "read_latest",
    "compact",
}


def test_some_of_it(tmp_path: Path) -> None:
    assert soak(tmp_path / "data", 5, random.randrange(1 << 30)).done.keys() >= {"append", "write", "update", "read_latest"}


@pytest.mark.slow
def test_everything_at_once(tmp_path: Path) -> None:
    run = soak(tmp_path / "data", SECONDS, random.randrange(1 << 30))
    assert run.done.keys() == ONCE_AT_LEAST
    assert run.retained > 0, "nothing was ever deleted by retention"

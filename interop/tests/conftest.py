"""Fixtures that are made once for all modules."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.broker.scenarios import NEWER, Scenarios, scenarios_in_memory
from interop.judge import Judge


@pytest.fixture(scope="session")
def scenarios() -> Iterator[Scenarios]:
    """What brokers did; see there."""
    with scenarios_in_memory() as scenarios:
        yield scenarios


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """Kafka's own classes, in one JVM for all tests."""
    with Judge(version=NEWER, messages=tmp_path_factory.mktemp("judge") / "judge.txt") as judge:
        yield judge


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A folder in memory where there is one: Kafka syncs a lot, and little here depends on it."""
    place = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(prefix="tidelog-", dir=place if place.is_dir() else None) as folder:
        yield Path(folder)

"""One Spark session for all tests of a process: starting one costs ten seconds."""

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SharedSession:
    """The session that tests share, and a new one in the same virtual machine for who has broken it.

    Spark keeps a list of the workers it knows. Where a daemon has died with them, each one that is still on it fails a later task, in
    whichever test that is. Only a new context forgets them.
    """

    def __init__(self) -> None:
        self._running: SparkSession | None = None

    def get(self) -> "SparkSession":
        """The one that runs, started if there is none."""
        if self._running is None:
            self._running = session("tidelog tests", "local[2]", {"spark.sql.shuffle.partitions": 2}, memory="1g")
        return self._running

    def renewed(self) -> "SparkSession":
        """A new one, which knows nothing of the workers of the old one."""
        self.stop()
        return self.get()

    def stop(self) -> None:
        """End the one that runs; the next who asks gets another."""
        if self._running is not None:
            self._running.stop()
            self._running = None


@pytest.fixture(scope="session")
def shared_session() -> Iterator[SharedSession]:
    """For those that need it anew."""
    shared = SharedSession()
    yield shared
    shared.stop()


@pytest.fixture
def connect_port() -> Iterator[None]:
    """Spark Connect listens on one port of the machine, always the same: for one test at a time, in whichever process."""
    with Path(tempfile.gettempdir(), "tidelog-tests-connect.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def session_to_break(shared_session: SharedSession) -> Iterator[SharedSession]:
    """For those that kill workers: nobody gets this session afterwards."""
    yield shared_session
    shared_session.stop()


@pytest.fixture
def running_session(shared_session: SharedSession) -> "SparkSession":
    """The session itself, for those that change its settings and set them back."""
    return shared_session.get()


@pytest.fixture
def spark(running_session: "SparkSession") -> "SparkSession":
    """The session, with filters pushed down."""
    return running_session

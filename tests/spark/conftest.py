"""One Spark session for all tests of a process: starting one costs ten seconds."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tidelog.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def running_session() -> "Iterator[SparkSession]":
    """The session itself, for those that change its settings and set them back."""
    spark = session("tidelog tests", "local[2]", {"spark.sql.shuffle.partitions": 2}, memory="1g")
    yield spark
    spark.stop()


@pytest.fixture
def spark(running_session: "SparkSession") -> "SparkSession":
    """The session, with filters pushed down."""
    return running_session

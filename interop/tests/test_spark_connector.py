"""Spark's own Kafka connector as the referee of our data source: the same questions, equal DataFrames."""

import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from interop.broker.scenarios import NEWER
from interop.spark import connector_session as sessions
from interop.spark.both_read import BothRead, let_both_read
from interop.spark.connector_session import connector_session
from interop.spark.our_sink import BATCHES, CUT_ROWS, ROWS, STREAMED, SUNK, SinkMet, let_our_sink_write
from interop.spark.questions import ISOLATION, QUESTIONS
from tidelog.spark.sessions import ARROW_JAVA_OPTIONS

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


def test_a_session_in_places_with_a_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "QUIET", Path("/my project/quiet.properties"))
    found = shlex.split(sessions.java_options(Path("/a folder")))
    assert found[:2] == ["-Dlog4j2.configurationFile=/my project/quiet.properties", "-Djava.io.tmpdir=/a folder"]
    assert found[2:] == ARROW_JAVA_OPTIONS.split()


@pytest.fixture(scope="module")
def session(memory: Path) -> Iterator[SparkSession]:
    with connector_session(memory / "session") as session:
        yield session


@pytest.fixture(scope="module")
def both(session: SparkSession, memory: Path) -> BothRead:
    return let_both_read(memory / "both-read", session, NEWER)


@pytest.mark.parametrize("name", QUESTIONS)
def test_connector_has_an_answer(both: BothRead, name: str) -> None:
    """Without which the next ones would compare nothing."""
    found = both.connector[name]
    assert found.error == ""
    assert len(found.rows) >= QUESTIONS[name].at_least


@pytest.mark.parametrize("broker", ["live", "stopped"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_equal_frames(both: BothRead, name: str, broker: str) -> None:
    ours, connector = getattr(both, broker)[name], both.connector[name]
    assert ours.error == connector.error == ""
    assert ours.schema == connector.schema
    assert ours.rows == connector.rows


@pytest.mark.parametrize("broker", ["live", "stopped"])
def test_equal_streams(both: BothRead, broker: str) -> None:
    ours, connector = both.streams[broker], both.streams["connector"]
    assert ours.error == connector.error == ""
    assert ours.schema == connector.schema
    assert ours.rows == connector.rows
    assert len(ours.rows) > 150


def test_isolation_makes_a_difference(both: BothRead) -> None:
    """Aborted records are there for the connector that asks for them: the topics have some."""
    committed, uncommitted = set(both.connector["committed"].rows), set(both.connector["uncommitted"].rows)
    assert committed < uncommitted
    assert {row[2] for row in uncommitted - committed} >= {"transactions", "transactions-small", "transaction-open"}
    assert ISOLATION not in QUESTIONS["without-headers"].options


@pytest.fixture(scope="module")
def met(session: SparkSession, memory: Path) -> SinkMet:
    return let_our_sink_write(memory / "our-sink", session, NEWER)


def test_consumer_reads_what_our_sink_wrote(met: SinkMet) -> None:
    """Exactly the rows of the batch, and nothing of the commit that was cut off."""
    records = [record for partition in met.consumed[SUNK] for record in partition.records]
    found = sorted((record.key or b"", record.value or b"", datetime.fromtimestamp(record.timestamp_ms / 1000)) for record in records)
    assert found == met.written
    assert len(found) == ROWS
    assert all(partition.records for partition in met.consumed[SUNK])
    headers = {record.headers for record in records}
    assert () in headers
    assert all(content == () or (content[0][0], content[1]) == ("tide", ("null", None)) for content in headers)


def test_consumer_reads_what_our_stream_wrote(met: SinkMet) -> None:
    assert met.micro_batches >= BATCHES
    both = [
        sorted(
            (record.key or b"", record.value or b"", record.timestamp_ms, record.headers)
            for part in met.consumed[topic]
            for record in part.records
        )
        for topic in (SUNK, STREAMED)
    ]
    assert both[0] == both[1]


def test_connector_reads_what_our_sink_wrote(met: SinkMet) -> None:
    assert met.connector.error == met.ours.error == ""
    assert len(met.connector.rows) == 2 * ROWS
    assert met.ours == met.connector
    assert met.strays == []
    assert met.streamed_again == ROWS


def test_commit_that_was_cut_off_is_in_the_log_and_nobody_sees_it(met: SinkMet) -> None:
    """Who asks for everything gets it: without that, nothing would have been proven."""
    cut = [row for row in met.uncommitted.rows if row[0] == b"cut"]
    assert len(cut) == sum(map(len, CUT_ROWS.values()))
    assert not set(cut) & set(met.connector.rows)

"""`--config`: what is given counts for the command, over what is written down; nothing of it stays. What was adopted is not known."""

import shutil
from pathlib import Path

import pytest

from tests.cli.commands import objects, run
from tests.support.golden import GOLDEN
from tests.support.logs import FakeClock
from tests.support.small_stores import open_store, tree_of

TIME = 1_700_000_000_000
DAY = 86_400_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Of each topic two segments; one is kept for a hundred years, of the other nothing may be cleaned for as long."""
    path = tmp_path / "store"
    with open_store(path, clock=FakeClock(TIME + 9 * DAY)) as made:
        topics = [
            made.create_topic("emails", 1, {"retention.ms": 36_500 * DAY}),
            made.create_topic("profiles", 1, {"cleanup.policy": "compact", "min.compaction.lag.ms": 36_500 * DAY}),
        ]
        for topic in topics:
            for number in range(4):
                topic.append(b"%d" % number, key=b"k", timestamp_ms=TIME + number)
                if number == 1:
                    topic.log(0).roll()
    return path


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """A copy of what a broker has left; of `emails` it has written down that records are kept for two days."""
    return Path(shutil.copytree(GOLDEN / "broker" / "data", tmp_path / "broker"))


def sources(path: Path, topic: str, *given: str) -> dict[str, tuple[str, str]]:
    rows = objects("config", "get", path, topic, *(word for one in given for word in ("--config", one)))
    return {row["name"]: (row["value"], row["source"]) for row in rows}


def offsets(path: Path, topic: str) -> list[int]:
    return [record["offset"] for record in objects("cat", path, topic, "--isolation", "log_end")]


def test_retain_goes_by_it_and_nothing_is_written_down(store: Path) -> None:
    written = (store / "tidelog.json").read_bytes()
    assert run("retain", store, "emails").stdout == "retain: nothing to do\n"
    done = run("retain", store, "emails", "--config", "retention.ms=12h", "--apply")
    assert done.returncode == 0, done.stderr
    assert "emails: settings from given: retention.ms=43200000 (12 h)\n" in done.stdout
    assert offsets(store, "emails") == []
    assert (store / "tidelog.json").read_bytes() == written
    assert sources(store, "emails")["retention.ms"] == (str(36_500 * DAY), "tidelog.json")


def test_compact_goes_by_it(store: Path) -> None:
    written = (store / "tidelog.json").read_bytes()
    assert run("compact", store, "profiles").stdout == "compact: nothing to do\n"
    done = run("compact", store, "profiles", "--config", "min.compaction.lag.ms=0", "--apply")
    assert done.returncode == 0, done.stderr
    assert "profiles: settings from given: min.compaction.lag.ms=0\n" in done.stdout
    assert offsets(store, "profiles") == [1, 2, 3]
    assert run("compact", store, "emails", "--config", "cleanup.policy=compact", "--roll", "--apply").returncode == 0
    assert offsets(store, "emails") == [3]
    assert (store / "tidelog.json").read_bytes() == written


def test_on_spark_it_is_refused_where_something_else_is_written_down(store: Path) -> None:
    done = run("compact", store, "profiles", "--config", "min.compaction.lag.ms=0", "--spark")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "error: profiles: on Spark min.compaction.lag.ms is what is written down",
        "hint: config set changes that",
    ]


def test_trim_goes_by_it(store: Path) -> None:
    assert run("trim", store, "profiles", "--before", "2", "--apply").returncode == 2
    done = run("trim", store, "profiles", "--before", "2", "--config", "cleanup.policy=delete", "--apply")
    assert done.returncode == 0, done.stderr
    assert offsets(store, "profiles") == [2, 3]


def test_who_only_looks_goes_by_it(store: Path) -> None:
    given = ("--config", "retention.ms=1d", "-q")
    rows = objects("explain", store, "emails", *given)
    assert [(row["value"], row["source"]) for row in rows if row.get("name") == "retention.ms"] == [(str(DAY), "given")]
    assert {row["goes_by"] for row in rows if row["type"] == "segment"} == {"time"}
    rows = objects("what-if", store, "emails", "--given", "retention.ms=1d", "--config", "retention.ms=unlimited")
    assert [row["segments"] for row in rows if row["type"] == "what_if"] == [2, 0]
    [facts] = objects("report", store, *given)
    assert [topic["settings"]["retention.ms"] for topic in facts["topics"] if topic["topic"] == "emails"] == [str(DAY)]
    assert "retention.ms  86400000  given" in run("describe", store, "emails", "--config", "retention.ms=1d").stdout


def test_it_counts_over_what_a_broker_has_written_down(broker: Path) -> None:
    rest = ("--config", "cleanup.policy=delete", "--config", "retention.bytes=-1")
    assert run("retain", broker, "emails", *rest).stdout.splitlines()[-1].startswith("retain: 1 segment")
    done = run("retain", broker, "emails", *rest, "--config", "retention.ms=unlimited", "--apply")
    assert (done.returncode, done.stdout) == (0, "retain: nothing to do\n")
    assert sources(broker, "emails", "retention.ms=3d")["retention.ms"] == (str(3 * DAY), "given")
    assert len(offsets(broker, "emails")) == 10


def test_topics_that_kafka_keeps_for_itself_stay_as_they_are(store: Path) -> None:
    with open_store(store) as made:
        made.topic("emails").append(b"x")
        made.consumer("g", ["emails"]).close()
        made.group("g").reset(0, ["emails"])
    assert sources(store, "__consumer_offsets", "cleanup.policy=delete")["cleanup.policy"] == ("compact", "tidelog.json")
    before = objects("ls", store, "__consumer_offsets")
    assert run("retain", store, "--config", "cleanup.policy=delete", "--config", "retention.bytes=0", "--apply").returncode == 0
    assert objects("ls", store, "__consumer_offsets") == before
    assert offsets(store, "emails") == []


def test_how_an_adopted_topic_is_set_is_not_known(broker: Path) -> None:
    open_store(broker, adopt=True).close()
    before = tree_of(broker)
    done = run("trim", broker, "plain", "--before", "latest", "--apply")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-2:] == [
        "error: nothing says what cleanup.policy is here, and an assumption changes no data",
        "hint: --config cleanup.policy=…",
    ]
    assert tree_of(broker) == before
    rows = objects("describe", broker, "plain", "--all")
    assert {row["is_assumed"] for row in rows if row["type"] == "setting"} == {True}
    [facts] = objects("-q", "report", broker)
    assert [topic["is_assumed"] for topic in facts["topics"] if topic["topic"] == "plain"] == [True]
    with open_store(broker) as made:
        made.topic("plain").alter({"retention.ms": 1})
    assert {row["is_assumed"] for row in objects("config", "get", broker, "plain")} == {False}
    assert run("trim", broker, "plain", "--before", "latest", "--apply").returncode == 0

"""`topics`, `config`, `groups`: of a store, and what of a broker's directory can be seen."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import objects, run
from tests.support.golden import GOLDEN
from tests.support.small_stores import open_store, tree_of

BROKER = GOLDEN / "broker" / "data"
TIME = 1_700_000_000_000
DAY = 86_400_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A topic of two partitions, of which a group has read some."""
    path = tmp_path / "store"
    with open_store(path, config={"offsets.topic.num.partitions": 1}) as made:
        topic = made.create_topic("emails", 2, {"retention.ms": DAY})
        for number in range(10):
            topic.append(b"value %d" % number, timestamp_ms=TIME + number, partition=number % 2)
        with made.consumer("mailer", "emails") as consumer:
            assert len(consumer.poll(6)) == 6
            consumer.commit()
    return path


def changed(*arguments: str | Path) -> list[dict[str, Any]]:
    done = run(*arguments, "--apply", "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def log_lines(stderr: str) -> list[str]:
    return [line.split(" ", 2)[2] for line in stderr.splitlines() if re.match(r"\d{4}-", line)]


def test_create_acts_at_once(tmp_path: Path) -> None:
    path = tmp_path / "new"
    done = run("topics", "create", path, "emails", "-p", "3", "--config", "retention.ms=7d")
    assert (done.returncode, done.stdout, done.stderr) == (0, "emails created: 3 partitions\n", f"{path}: a new store\n")
    [row] = objects("topics", "create", path, "profiles", "--config", "cleanup.policy=compact")
    assert (row["type"], row["topic"], row["partitions"], row["is_new"]) == ("topic", "profiles", 1, True)
    done = run("topics", "create", path, "emails")
    assert (done.returncode, done.stdout) == (3, "")
    assert "topic 'emails' is there already" in done.stderr
    assert run("topics", "create", path, "emails", "--exist-ok").stdout == "emails is there already: 3 partitions\n"
    assert [row["topic"] for row in objects("topics", "list", path)] == ["emails", "profiles"]
    assert objects("topics", "describe", path, "emails") == objects("describe", path, "emails")
    settings = {row["name"]: row["value"] for row in objects("config", "get", path, "emails")}
    assert settings["retention.ms"] == str(7 * DAY)


def test_delete(store: Path) -> None:
    before = tree_of(store)
    done = run("topics", "delete", store, "emails")
    assert (done.returncode, done.stderr) == (0, "nothing was changed; --apply does it\n")
    assert re.fullmatch(
        r"  delete emails-0: 5 offsets, \d+ B\n  delete emails-1: 5 offsets, \d+ B\ntopics delete: emails: 2 partitions, \d+ B\n",
        done.stdout,
    )
    assert tree_of(store) == before
    done = run("topics", "delete", store, "emails", "--apply")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "emails deleted")
    assert log_lines(done.stderr) == ["tidelog.cli: deleted topic emails"]
    assert "emails" not in {row["topic"] for row in objects("ls", store)}
    assert objects("groups", "list", store) == []
    assert run("topics", "delete", store, "emails").returncode == 2


def test_config(store: Path) -> None:
    done = run("config", "get", store, "emails", "retention.ms", "cleanup.policy")
    assert done.stdout == (
        "SETTING         VALUE     FROM\n"
        "retention.ms    86400000  tidelog.json\n"
        "cleanup.policy  delete    default\n"
    )  # fmt: skip
    before = tree_of(store)
    done = run("config", "set", store, "emails", "retention.ms=7d", "segment.bytes=64MiB")
    assert (done.returncode, done.stderr) == (0, "nothing was changed; --apply does it\n")
    assert done.stdout == (
        "  emails: retention.ms from 86400000 (tidelog.json) to 604800000\n"
        "  emails: segment.bytes from 1073741824 (default) to 67108864\n"
        "config set: 2 settings of emails\n"
    )
    assert tree_of(store) == before
    done = run("config", "set", store, "emails", "retention.ms=7d", "--apply")
    assert done.stdout.splitlines()[-1] == "retention.ms=604800000 (tidelog.json)"
    assert log_lines(done.stderr) == ["tidelog.cli: topic emails: retention.ms from 86400000 (tidelog.json) to 604800000"]
    assert run("config", "set", store, "emails", "retention.ms=7d", "--apply").stdout == "config set: nothing to do\n"
    [step, setting] = changed("config", "unset", store, "emails", "retention.ms")
    assert (step["type"], step["value_before"], step["value"]) == ("step", "604800000", "-1")
    assert (setting["type"], setting["name"], setting["value"], setting["source"]) == ("setting", "retention.ms", "-1", "default")
    assert run("config", "unset", store, "emails", "retention.ms", "--apply").stdout == "config unset: nothing to do\n"


def test_groups(store: Path) -> None:
    done = run("groups", "list", store)
    header, line = done.stdout.splitlines()
    assert header.split() == ["GROUP", "KIND", "PARTITIONS", "LAG", "LAST", "COMMIT", "TOPICS"]
    assert line.split() == ["mailer", "simple", "2", "4", "2023-11-14T22:13:20.000Z", "emails"]
    [row] = objects("groups", "list", store)
    assert (row["type"], row["group"], row["lag"], row["unknown_partitions"], row["topics"]) == ("group", "mailer", 4, 0, ["emails"])
    rows = objects("groups", "describe", store, "mailer")
    assert [row["type"] for row in rows] == ["position", "position"]
    assert sum(row["position"] for row in rows) == 6
    assert sum(row["lag"] for row in rows) == 4
    assert {row["log_end_offset"] for row in rows} == {5}
    assert "TOPIC   PARTITION  POSITION  END  LAG  COMMITTED" in run("groups", "describe", store, "mailer").stdout


def test_reset(store: Path) -> None:
    where = {row["partition"]: row["position"] for row in objects("groups", "describe", store, "mailer")}
    before = tree_of(store)
    done = run("groups", "reset", store, "mailer", "--to", "earliest")
    assert (done.returncode, done.stderr) == (0, "nothing was changed; --apply does it\n")
    steps = [f"  mailer: emails-{number} from {position} to 0\n" for number, position in where.items() if position]
    assert done.stdout == "".join(steps) + f"groups reset: {len(steps)} position{'' if len(steps) == 1 else 's'} of mailer\n"
    assert tree_of(store) == before
    assert run("groups", "reset", store, "mailer", "--to", "earliest", "--apply").returncode == 0
    assert [row["position"] for row in objects("groups", "describe", store, "mailer")] == [0, 0]
    assert run("groups", "reset", store, "mailer", "--to", "earliest").stdout == "groups reset: nothing to do\n"
    *_, result = changed("-q", "groups", "reset", store, "mailer", "--to", f"@{TIME + 4}")
    assert (result["type"], result["topic"], result["partition"], result["position"]) == ("result", "emails", 1, 2)
    changed("groups", "reset", store, "new", "--to", "latest", "--topic", "emails")
    assert [row["position"] for row in objects("groups", "describe", store, "new")] == [5, 5]
    done = run("groups", "reset", store, "new", "--to", "3", "--apply")
    assert log_lines(done.stderr) == ["tidelog.cli: group new: emails-0 is at 3", "tidelog.cli: group new: emails-1 is at 3"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["topics", "create", "{store}", "a/b"], "a/b"),
        (["topics", "delete", "{store}", "nope"], "no topic 'nope'"),
        (["config", "set", "{store}", "emails", "retention.ms"], "not a setting"),
        (["config", "set", "{store}", "emails", "retention.ms=x"], "bad value of retention.ms"),
        (["config", "set", "{store}", "emails", "cleanup.policy=x"], "bad value of cleanup.policy"),
        (["config", "set", "{store}", "emails", "retention.s=1"], "no such setting: retention.s"),
        (["config", "get", "{store}", "emails", "retention"], "no such setting: retention"),
        (["groups", "describe", "{store}", "nope"], "no group 'nope'"),
        (["groups", "reset", "{store}", "mailer"], "reset to where?"),
        (["groups", "reset", "{store}", "mailer", "--to", "soon"], "not a place in a log"),
        (["topics"], ""),
        (["groups", "frobnicate"], "frobnicate"),
    ],
)
def test_wrong_use(arguments: list[str], what: str, store: Path) -> None:
    before = tree_of(store)
    done = run(*(argument.format(store=store) for argument in arguments))
    assert done.returncode == 2
    assert what in done.stderr
    assert tree_of(store) == before


def test_a_brokers_are_the_brokers_to_change(tmp_path: Path) -> None:
    for arguments in (
        ["topics", "create", str(BROKER), "x"],
        ["topics", "delete", str(BROKER), "emails", "--apply"],
        ["config", "set", str(BROKER), "emails", "retention.ms=1", "--apply"],
        ["groups", "reset", str(BROKER), "mailer", "--to", "earliest", "--apply"],
    ):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.splitlines()[0] == f"error: {BROKER}: not a store of Tidelog: expected tidelog.json, found none"
        assert done.stderr.splitlines()[1].startswith("hint: a broker's topics, settings and groups are changed with Kafka's tools")
    assert run("groups", "list", BROKER).stdout == "no groups\n"


def test_groups_of_a_directory_that_is_no_store(store: Path) -> None:
    """As a broker leaves it: `__consumer_offsets` is there, and nobody says how many partitions it has."""
    expected = objects("groups", "describe", store, "mailer")
    (store / "tidelog.json").unlink()
    assert [row["group"] for row in objects("groups", "list", store)] == ["mailer"]
    assert objects("groups", "describe", store, "mailer") == expected

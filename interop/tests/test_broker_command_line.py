"""Commands on the directory of a real broker: refused while it runs, done while it is stopped; then it starts and goes on."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from interop.broker.broker import Broker
from interop.broker.clients import Consumed, Row
from interop.broker.judging import complaints
from interop.broker.scenarios import NEWER
from tests.cli.commands import Done, run
from tests.support.logs import TIME

TOPICS = {
    "old": {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1", "segment.bytes": "1048576"},
    "keyed": {"cleanup.policy": "compact", "min.compaction.lag.ms": "0", "delete.retention.ms": "86400000", "segment.bytes": "1048576"},
    "trimmed": {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "1048576"},
    "mended": {"retention.ms": "-1"},
}
CHANGES = {
    "retain": ["retain", "old"],
    "compact": ["compact", "keyed", "--roll"],
    "trim": ["trim", "trimmed", "--before", "15"],
    "reindex": ["reindex", "mended"],
}
"""By what each topic is changed; the settings that decide are the topics' own, so nothing has to be given."""


@dataclass
class Changed:
    """A broker that was stopped, changed by commands, and started."""

    broker: Broker
    while_it_ran: dict[str, Done] = field(default_factory=dict)
    looked: dict[str, Done] = field(default_factory=dict)
    changes: dict[str, Done] = field(default_factory=dict)
    before: dict[str, Consumed] = field(default_factory=dict)
    after: dict[str, Consumed] = field(default_factory=dict)
    again: dict[str, Consumed] = field(default_factory=dict)


def change(name: str, data: Path, *more: str) -> Done:
    command, topic, *rest = CHANGES[name]
    return run(command, data, topic, *rest, *more)


@pytest.fixture(scope="module")
def changed(memory: Path) -> Iterator[Changed]:
    with Broker(memory / "broker", version=NEWER) as broker:
        broker.start()
        found = Changed(broker)
        clients = broker.clients
        clients.create_topics(TOPICS)
        for topic in TOPICS:
            rows = [Row(b"key %d" % (number % 3), b"%d" % number, (), TIME + number) for number in range(20)]
            clients.produce(topic, [rows[:10], rows[10:]], producer=topic, config={})
        found.before = clients.consume(TOPICS, "read_uncommitted")
        for command in ("ls", "stats", "verify", "explain", "groups list"):
            found.looked[command] = run(*command.split(), broker.data)
        for name in CHANGES:
            found.while_it_ran[name] = change(name, broker.data, "--apply")
        broker.stop()
        for path in broker.partition("mended").glob("*.index"):
            path.unlink()
        for name in CHANGES:
            found.changes[name] = change(name, broker.data, "--apply")
        broker.start()
        found.after = broker.clients.consume(TOPICS, "read_uncommitted")
        for topic in TOPICS:
            broker.clients.produce(topic, [[Row(b"new", b"new", (), TIME)]], producer="again", config={})
        found.again = broker.clients.consume(TOPICS, "read_uncommitted")
        broker.stop()
        yield found


def test_a_running_broker_is_looked_at_and_left_alone(changed: Changed) -> None:
    assert {name: done.returncode for name, done in changed.looked.items()} == dict.fromkeys(changed.looked, 0)
    assert "keyed" in changed.looked["stats"].stdout
    for name in ("retain", "compact", "trim"):
        done = changed.while_it_ran[name]
        assert done.returncode == 3, (name, done)
        assert "locked by process" in done.stderr


def test_a_stopped_one_is_changed(changed: Changed) -> None:
    for name, done in changed.changes.items():
        assert done.returncode == 0, (name, done.stderr)
    assert "retain: 1 segment went" in changed.changes["retain"].stdout
    assert "17 of 20 records went" in changed.changes["compact"].stdout
    assert "starts at 15, not at 0" in changed.changes["trim"].stdout
    assert "built anew" in changed.changes["reindex"].stdout


def test_the_broker_serves_what_is_left(changed: Changed) -> None:
    assert all(len(consumed.records) == 20 for consumed in changed.before.values())
    after = changed.after
    assert (after["old"].start, after["old"].end, after["old"].records) == (20, 20, [])
    assert after["keyed"].records == changed.before["keyed"].records[-3:]
    assert (after["trimmed"].start, after["trimmed"].records) == (15, changed.before["trimmed"].records[15:])
    assert after["mended"].records == changed.before["mended"].records


def test_and_goes_on(changed: Changed) -> None:
    for topic, consumed in changed.again.items():
        assert consumed.records[:-1] == changed.after[topic].records
        assert (consumed.records[-1].key, consumed.records[-1].offset) == (b"new", 20)
        assert complaints(changed.broker.partition(topic)) == []
    names = {path.name for path in changed.broker.data.iterdir()}
    assert not [name for name in names if name == "tidelog.json" or name.endswith(("-stray", "-delete"))]
    assert json.loads((changed.broker.data / ".kafka_cleanshutdown").read_text())["version"] == 0

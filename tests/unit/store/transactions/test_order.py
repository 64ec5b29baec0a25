"""The order in which a transaction is written and becomes durable, by the calls to the disk: what `docs/transactions.md` promises."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import QuietDisk
from tests.support.small_stores import open_store
from tests.support.transactions import fill, write_out
from tidelog.config import LONG_MAX
from tidelog.store.store import Store

TWO = [("a", 0), ("b", 0)]
DATA = {"a-0", "b-0"}


def calls_of(disk: FaultyDisk, first: int) -> list[tuple[str, str]]:
    """Writes and syncs of `.log` files since some call, each with its partition; the topic of the states is "state"."""
    found = []
    for call in disk.calls[first:]:
        if call.kind in ("write", "sync") and call.path.endswith(".log"):
            directory = call.path.split("/")[-2]
            found.append((call.kind, "state" if directory.startswith("__transaction_state") else directory))
    return found


def split(calls: list[tuple[str, str]]) -> list[tuple[str, frozenset[str]]]:
    """Neighbours of a kind together: among them there is no order."""
    groups: list[tuple[str, set[str]]] = []
    for kind, partition in calls:
        if groups and groups[-1][0] == kind:
            groups[-1][1].add(partition)
        else:
            groups.append((kind, {partition}))
    return [(kind, frozenset(partitions)) for kind, partitions in groups]


def a_store(path: Path, disk: FaultyDisk, **config: Any) -> Store:
    store = open_store(path / "data", disk=disk)
    store.create_topic("a", 1)
    store.create_topic("b", 1, config)
    with store.transaction("id") as tx:
        fill(tx, TWO, b"zero")
    return store


@pytest.mark.parametrize("flush_messages", [1, LONG_MAX])
def test_commit(tmp_path: Path, flush_messages: int) -> None:
    disk = FaultyDisk(QuietDisk())
    with a_store(tmp_path, disk, **{"flush.messages": flush_messages}) as store:
        first = len(disk.calls)
        with store.transaction("id") as tx:
            fill(tx, TWO, b"one")
        calls = calls_of(disk, first)
        assert calls[0] == ("write", "state")  # Ongoing, before any data
        assert split(calls) == [
            ("write", frozenset(("state", *DATA))),
            ("sync", frozenset(DATA)),
            ("write", frozenset(("state",))),  # the decision
            ("sync", frozenset(("state",))),
            ("write", frozenset(DATA)),  # markers
            ("sync", frozenset(DATA)),
            ("write", frozenset(("state",))),  # complete
        ]


def test_abort(tmp_path: Path) -> None:
    disk = FaultyDisk(QuietDisk())
    with a_store(tmp_path, disk) as store:
        tx = store.transaction("id")
        fill(tx, TWO, b"one")
        write_out(tx)
        first = len(disk.calls)
        tx.abort()
        assert split(calls_of(disk, first)) == [
            ("write", frozenset(("state",))),
            ("sync", frozenset(("state",))),
            ("write", frozenset(DATA)),
            ("sync", frozenset(DATA)),
            ("write", frozenset(("state",))),
        ]


def test_a_topic_whose_settings_are_not_known_has_its_state_on_disk_first(tmp_path: Path) -> None:
    """Its log is not opened with the store: without the state, nobody would look for what is open in it."""
    with a_store(tmp_path, FaultyDisk(QuietDisk())):
        pass
    disk = FaultyDisk(QuietDisk())
    (tmp_path / "data" / "tidelog.json").unlink()
    for states in (tmp_path / "data").glob("__transaction_state-*"):
        shutil.rmtree(states)
    with open_store(tmp_path / "data", disk=disk, adopt=True) as store:
        first = len(disk.calls)
        tx = store.transaction("new")
        fill(tx, TWO, b"one")
        write_out(tx)
        calls = calls_of(disk, first)
        assert calls.index(("sync", "state")) < min(calls.index(("write", partition)) for partition in DATA)
        tx.commit()
    with open_store(tmp_path / "data") as store:
        assert [record.value for record in store.topic("a").read()] == [b"zero", b"one"]

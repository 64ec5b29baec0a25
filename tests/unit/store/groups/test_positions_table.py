"""The table of a partition of `__consumer_offsets`: folded as a group coordinator does it."""

import logging
import struct
import tracemalloc
from pathlib import Path

import pytest

from tests.support.groups import A0, A1, B0, end, key, offsets, offsets_log, write
from tests.support.logs import TIME
from tests.support.small_stores import open_store
from tidelog.record import NewBatch
from tidelog.store.groups.positions_table import PositionsTable


def test_the_last_record_counts_and_a_tombstone_takes_back(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        log = offsets_log(store, "g")
        write(log, "g", {A0: 1, A1: 2})
        assert offsets(store, "g") == {A0: 1, A1: 2}
        write(log, "g", {A0: 5})
        write(log, "g", {A1: None})
        assert offsets(store, "g") == {A0: 5}
        write(log, "g", {A0: None})
        assert offsets(store, "g") == {}
        assert store.groups() == []


def test_a_transaction_counts_from_its_marker_on(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        log = offsets_log(store, "g")
        write(log, "g", {A0: 1, A1: 1})
        write(log, "g", {A0: 7}, producer=5)
        assert offsets(store, "g") == {A0: 1, A1: 1}
        end(log, 5, "commit")
        assert offsets(store, "g") == {A0: 7, A1: 1}
        write(log, "g", {A0: 9}, producer=5, sequence=1)
        end(log, 5, "abort")
        assert offsets(store, "g") == {A0: 7, A1: 1}


def test_all_of_it_in_one_look(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        log = offsets_log(store, "g")
        write(log, "g", {A0: 7}, producer=5)
        write(log, "g", {A1: 8}, producer=6)
        end(log, 6, "abort")
        end(log, 5, "commit")
        assert offsets(store, "g") == {A0: 7}


def test_an_open_transaction_holds_up_nobody(tmp_path: Path) -> None:
    """Behind a hanging transaction of a broker the last stable offset stands still; positions go on."""
    with open_store(tmp_path / "store") as store:
        log = offsets_log(store, "g")
        write(log, "g", {A0: 7}, producer=5)
        write(log, "g", {A0: 3, A1: 4})
        assert log.last_stable_offset == 0
        assert offsets(store, "g") == {A0: 3, A1: 4}
        end(log, 5, "commit")
        assert offsets(store, "g") == {A0: 3, A1: 4}  # the record with the highest offset counts


@pytest.mark.parametrize("in_one_look", [True, False])
def test_a_commit_does_not_bring_back_what_a_tombstone_behind_it_took(tmp_path: Path, in_one_look: bool) -> None:
    with open_store(tmp_path / "store") as store:
        log = offsets_log(store, "g")
        write(log, "g", {A0: 7}, producer=5)
        write(log, "g", {A0: None})
        if not in_one_look:
            assert offsets(store, "g") == {}
        end(log, 5, "commit")
        assert offsets(store, "g") == {}


def test_what_cannot_be_read_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(tmp_path / "store") as store:
        log = offsets_log(store, "g")
        rows = [
            (b"", b"x"),
            (b"\x00\x01\x00", b"x"),
            (key("g", B0), struct.pack(">h", 99)),
            (key("g", B0), b"\x00\x03\x00"),
            (struct.pack(">h", 77), b"x"),
        ]
        log.append(NewBatch(rows, timestamp_ms=TIME).encode())
        offsets_log(store, "c").append(NewBatch([(struct.pack(">hh", 2, 1) + b"c", b"\x00")], timestamp_ms=TIME).encode())
        write(log, "g", {A0: 1})
        with caplog.at_level(logging.WARNING):
            assert offsets(store, "g") == {A0: 1}
        assert len(caplog.records) >= 3
        assert [group.name for group in store.groups()] == ["c", "g"]
        assert store.group("c").kind == "classic"


def test_newer_kinds_of_group_are_named(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        for version, name in ((3, "c"), (11, "s"), (17, "t")):
            row = struct.pack(">hh", version, 1) + name.encode(), b"\x00\x00"
            offsets_log(store, name).append(NewBatch([row], timestamp_ms=TIME).encode())
        assert {group.name: group.kind for group in store.groups()} == {"c": "consumer", "s": "share", "t": "streams"}
        offsets_log(store, "c").append(NewBatch([(struct.pack(">hh", 3, 1) + b"c", None)], timestamp_ms=TIME).encode())
        assert [group.name for group in store.groups()] == ["s", "t"]


def test_a_log_that_was_cut_is_read_again(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        log = offsets_log(store, "g")
        write(log, "g", {A0: 1})
        write(log, "g", {A0: 2, A1: 2})
        assert offsets(store, "g") == {A0: 2, A1: 2}
        log.truncate_to(1)
        assert offsets(store, "g") == {A0: 1}


def test_a_topic_that_was_made_again_is_read_again(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        write(offsets_log(store, "g"), "g", {A0: 1})
        assert offsets(store, "g") == {A0: 1}
        store.delete_topic("__consumer_offsets")
        assert offsets(store, "g") == {}
        write(offsets_log(store, "g"), "g", {A1: 3})
        assert offsets(store, "g") == {A1: 3}


def test_compaction_changes_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        log = offsets_log(store, "g")
        for offset in range(50):
            write(log, "g", {A0: offset})
        write(log, "g", {A1: 7}, producer=5)
        end(log, 5, "commit")
        write(log, "h", {B0: 1})
        store.compact("__consumer_offsets", roll=True)
        assert offsets(store, "g") == {A0: 49, A1: 7}
        table = PositionsTable(log)
        table.refresh()
        assert {name: set(group.positions) for name, group in table.groups.items()} == {"g": {A0, A1}, "h": {B0}}


def test_memory_does_not_go_with_the_log(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", config={"offsets.topic.segment.bytes": 64 << 20}) as store:
        log = offsets_log(store, "g")
        rows = [(key("g", A0), b"\x00\x03" + bytes(1000))] * 1000
        batch = NewBatch(rows, timestamp_ms=TIME).encode()
        for _ in range(12):
            log.append(batch)
        table = PositionsTable(log)
        tracemalloc.start()
        table.refresh()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 6 << 20 < log.size_bytes

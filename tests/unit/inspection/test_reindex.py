"""`reindex` leaves the files that a recovery of the whole log leaves."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.golden import GOLDEN
from tests.support.job_topics import make_topic
from tests.support.logs import TIME, a_batch
from tidelog.config import LogConfig
from tidelog.disk.disk import OS
from tidelog.errors import DamagedLogError, LockedError, StorageError
from tidelog.inspection import reindex, reindex_scan, stats, verify
from tidelog.inspection.partition_segments import segments_in
from tidelog.inspection.reindex import reindex_facts, replay_files
from tidelog.inspection.reindex_scan import Scans, SegmentIndexed, indexed
from tidelog.log.log import Log
from tidelog.log.recovery import scan_segment
from tidelog.log.segment import Segment
from tidelog.store.store import Store

CONFIG = LogConfig().with_changes({"index.interval.bytes": 500})
BUILT = (".index", ".timeindex", ".txnindex", ".snapshot")


def built(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.suffix in BUILT}


def recovered(source: Path, target: Path) -> dict[str, bytes]:
    """What recovery leaves when it has nothing but batches."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".lock", *(f"*{kind}" for kind in BUILT)))
    (target / ".kafka_cleanshutdown").unlink(missing_ok=True)
    with Log.open(target / "tide-0", config=CONFIG, clock=lambda: TIME, last_shutdown_clean=False, recovery_point=0):
        pass
    return built(target / "tide-0")


def test_files_are_those_of_a_recovery(tmp_path: Path) -> None:
    make_topic(tmp_path / "store")
    expected = recovered(tmp_path / "store", tmp_path / "recovered")
    directory = tmp_path / "store" / "tide-0"
    assert any(name.endswith(".txnindex") for name in expected)
    for path in directory.iterdir():
        if path.suffix in BUILT:
            path.unlink()
    report = reindex(directory, config=CONFIG, dry_run=True, now_ms=TIME)
    assert {why for _, why in report.changed} == {"missing"}
    assert built(directory) == {}
    report = reindex(directory, config=CONFIG, now_ms=TIME)
    assert dict(report.changed).keys() == expected.keys()
    assert built(directory) == expected
    assert "were built anew" in str(report)
    assert reindex(directory, config=CONFIG, now_ms=TIME).changed == ()
    assert [finding for finding in verify(directory, now_ms=TIME) if finding.severity != "note"] == []
    with Store.open(tmp_path / "store", background=False, clock=lambda: TIME) as store:
        assert store.failures == {}


def test_what_producers_did_need_not_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments for which there is no room are read again, and give the same files."""
    make_topic(tmp_path / "store")
    expected = recovered(tmp_path / "store", tmp_path / "recovered")
    directory = tmp_path / "store" / "tide-0"
    for path in directory.iterdir():
        if path.suffix in BUILT:
            path.unlink()
    reads: list[int] = []

    def scan(segment: Segment, *args: Any, **options: Any) -> Any:
        reads.append(segment.base_offset)
        return scan_segment(segment, *args, **options)

    monkeypatch.setattr(reindex_scan, "KEPT_BATCHES", 20)
    monkeypatch.setattr(reindex_scan, "scan_segment", scan)
    reindex(directory, config=CONFIG, now_ms=TIME)
    assert built(directory) == expected
    segments = len(list(directory.glob("*.log")))
    assert segments < len(reads) <= 2 * segments


def test_producers_are_followed_segment_by_segment(tmp_path: Path) -> None:
    """No more than two of them are there at a time: the one before, until the next one is."""
    make_topic(tmp_path)
    directory = str(tmp_path / "tide-0")
    scans = Scans(500)
    segments = segments_in(directory)
    outlines = [indexed(scans.scan(segment)).outline() for segment in segments]
    assert not any(one.producers for one in outlines)
    most = 0

    class Held(list[Any]):
        __hash__ = object.__hash__  # type: ignore[assignment]

    alive: WeakSet[Held] = WeakSet()

    def one_by_one() -> Iterator[SegmentIndexed]:
        nonlocal most
        for segment in segments:
            found = indexed(scans.scan(segment))
            held = Held(found.producers)
            alive.add(held)
            most = max(most, len(alive))
            yield replace(found, producers=held)
            del held, found

    facts = reindex_facts(directory, 500, TIME, 86_400_000, OS)
    list(replay_files(OS, facts, outlines, one_by_one()))
    assert most == 2 < len(segments)


def test_a_wrong_index_is_put_right_and_the_rest_left(tmp_path: Path) -> None:
    make_topic(tmp_path, batches=100)
    directory = tmp_path / "tide-0"
    reindex(directory, config=CONFIG, now_ms=TIME)
    before = built(directory)
    victim = max(directory.glob("*.index"), key=lambda path: path.stat().st_size)
    victim.write_bytes(bytes(len(before[victim.name])))
    report = reindex(directory, config=CONFIG, now_ms=TIME)
    assert [name for name, _ in report.changed] == [victim.name]
    assert built(directory) == before


def test_damage_inside_of_a_log_is_refused(tmp_path: Path) -> None:
    make_topic(tmp_path, batches=100)
    directory = tmp_path / "tide-0"
    path = min(directory.glob("*.log"))
    data = path.read_bytes()
    path.write_bytes(data[:80] + bytes([data[80] ^ 1]) + data[81:])
    before = built(directory)
    with pytest.raises(DamagedLogError, match="nothing was changed") as caught:
        reindex(directory, config=CONFIG)
    assert str(caught.value).count(str(path)) == str(caught.value).count("at byte") == 1
    assert built(directory) == before
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ["list", "open", "read"])
def test_what_the_system_refuses_is_typed(kind: str, tmp_path: Path) -> None:
    make_topic(tmp_path / "store")
    directory = tmp_path / "store" / "tide-0"
    for ask in (reindex, partial(reindex, dry_run=True), stats, partial(stats, records=True)):
        disk = FaultyDisk()
        disk.fail(1, kind=kind, on={"list": "tide-0"}.get(kind, ".log"), until_healed=True)
        with pytest.raises(StorageError, match="ordered by a test"):
            ask(directory, disk=disk)


def test_an_empty_log_has_no_snapshot(tmp_path: Path) -> None:
    """A broker takes none at the offset where a log starts; one that is there may have what no batch tells any more."""
    directory = tmp_path / "tide-0"
    with Log.open(directory, config=CONFIG, clock=lambda: TIME):
        pass
    assert [path.name for path in directory.glob("*.snapshot")] == []
    assert reindex(directory, config=CONFIG, now_ms=TIME).changed == ()
    with Log.open(directory, config=CONFIG, clock=lambda: TIME) as log:
        log.append(a_batch(3))
        log.roll()
        log.delete_records_before(3)
    for path in directory.glob(f"{0:020}.*"):
        path.unlink()
    left = built(directory)
    assert [name for name in left if name.endswith(".snapshot")] == [f"{3:020}.snapshot"]
    assert reindex(directory, config=CONFIG, now_ms=TIME).changed == ()
    assert built(directory) == left


@pytest.mark.parametrize("name", ["emails-1", "profiles-1"])
def test_a_brokers_empty_log_is_in_order(name: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "broker" / "data", tmp_path / "data")
    assert reindex(tmp_path / "data" / name, dry_run=True, now_ms=TIME).changed == ()


def test_who_has_the_directory_is_told(tmp_path: Path) -> None:
    make_topic(tmp_path, batches=5)
    with Store.open(tmp_path, background=False):
        with pytest.raises(LockedError):
            reindex(tmp_path / "tide-0")
        reindex(tmp_path / "tide-0", dry_run=True)

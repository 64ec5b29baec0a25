"""Compaction in parts in the crash simulation: the power goes at any moment of its commit, and whoever opens the store finishes it.

A decision knows files again by inode and time, which an image does not have: there they are given those of the file that has the bytes.
"""

import json
import os
import pickle
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.crash_images import Bounds, Image, crash_images, materialise
from tests.support.logs import TIME, FakeClock, QuietDisk
from tests.support.producers import end_of_txn
from tests.support.recording_disk import Event, Link, Note, Recording, RecordingDisk, SetMtime, Truncate, Write, describe
from tests.support.small_stores import open_store, state_of
from tests.support.verified import assert_verified
from tidelog.compaction.results import CompactResult
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import SHARED
from tidelog.disk.names import TopicPartition
from tidelog.disk.process_identity import ProcessIdentity
from tidelog.log.log import Log
from tidelog.record import BatchSettings, NewBatch
from tidelog.store.compacting_in_parts import PartSizes, compact_in_parts
from tidelog.store.finishing import finish_commits
from tidelog.store.staging import Staging
from tidelog.store.store import Store

NOW_MS = TIME + 10_000
PARTITIONS = (TopicPartition("tide", 0), TopicPartition("tide", 1))
SETTINGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": 1100,
    "index.interval.bytes": 100,
    "file.delete.delay.ms": 0,
    "delete.retention.ms": 60_000,
}
GONE = replace(ProcessIdentity.of(os.getpid()), started="-1")
"""A process of this machine that has ended: its number is somebody else's."""
FILES = ("*.log", "*.index", "*.timeindex", "*.txnindex")
Files = Mapping[str, bytes]


class TasksOnce:
    """Does every task once, in files of a staging directory."""

    workers = 2

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._calls = 0

    def run(self, what: str, function: Callable[[Any, str], Any], tasks: Sequence[Any], *, here: bool = False) -> list[Any]:
        answers = []
        for task in tasks:
            self._calls += 1
            answers.append(function(pickle.loads(pickle.dumps(task)), self._staging.file(f"{self._calls}")))
        return answers


def make_store(data: Path) -> None:
    """Two logs of several groups of three segments; of some groups only the first segment has anything that stays."""
    with open_store(data) as store:
        store.create_topic("tide", len(PARTITIONS), SETTINGS)
        for _, number in PARTITIONS:
            _fill(store.log("tide", number), 9 + 3 * number)


def _fill(log: Log, segments: int) -> None:
    for number in range(segments):
        log.append(_batch([(b"hot", b"%d" % number * 100), (b"warm", b"%d" % number * 100)]))
        if number % 3 == 0:
            log.append(_batch([(b"only %d" % number, b"once" * 20)]))
        if number % 4 == 1:
            log.append(
                _batch([(b"txn %d" % number, b"never")], producer_id=7, producer_epoch=0, base_sequence=number // 4, is_transactional=True)
            )
            log.append(end_of_txn(7, "abort", timestamp_ms=TIME), origin="coordinator")
        log.roll()
    log.append(_batch([(b"hot", b"last"), (b"warm", b"last")]))
    log.roll()
    log.append(_batch([(b"new", b"not clean")]))


def _batch(rows: Sequence[tuple[bytes, bytes]], **settings: Any) -> bytes:
    return NewBatch([(key, value, (), TIME) for key, value in rows], settings=BatchSettings(**settings)).encode()


def opened(data: Path, disk: Disk, **options: Any) -> Store:
    """As it is after the last record, whatever time it is."""
    return open_store(data, disk=disk, clock=FakeClock(NOW_MS), config={"num.recovery.threads.per.data.dir": 1}, **options)


def compact(store: Store, staging: Staging) -> CompactResult:
    """In small parts."""
    return compact_in_parts(store, ["tide"], TasksOnce(staging), PartSizes(400, 700, 700), staging=staging.path)


def make_staging(data: Path, disk: Disk, **options: Any) -> Staging:
    return Staging.make(disk, str(data), GONE, **options)


def compacted(data: Path, disk: Disk, **options: Any) -> None:
    """The whole of it, undisturbed."""
    with opened(data, disk) as store:
        finish_commits(state_of(store), **options)
        staging = make_staging(data, disk, **options)
        try:
            assert compact(store, staging).failures == ()
        finally:
            staging.discard(disk)


def files_of(data: Path, partition: TopicPartition) -> dict[str, bytes]:
    """The segments of a log. Of the indexes of the active one a recovery may make others."""
    directory = data / str(partition)
    found = {path.name: path.read_bytes() for pattern in FILES for path in directory.glob(pattern)}
    active = max(found)[:20]
    return {name: content for name, content in found.items() if name.endswith(".log") or name[:20] != active}


class PartsCrash:
    """A store, what it is before and after its compaction, and what is on the disk if that is cut off. `root` is used again and again."""

    def __init__(self, root: Path, monkeypatch: Any) -> None:
        self.root, self.data = root, root / "data"
        self._spare = root.parent / "spare"
        make_store(self.data)
        shutil.copytree(self.data, self._spare, ignore=shutil.ignore_patterns(".lock"))
        self.before = {partition: files_of(self.data, partition) for partition in PARTITIONS}
        disk = RecordingDisk(root)
        monkeypatch.setattr(SHARED, "disk", disk)  # tasks have files by it
        compacted(self.data, disk)
        monkeypatch.undo()
        self.recording = _what_counts(disk.recording())
        self.after = {partition: files_of(self.data, partition) for partition in PARTITIONS}

    def check_images(
        self, recording: Recording, cuts: Collection[int], bounds: Bounds, verify_every: int
    ) -> list[frozenset[TopicPartition]]:
        """Open each different one, in place of the store: which logs were done."""
        seen, done = set(), []
        for image in crash_images(recording, bounds=bounds, cuts=cuts):
            if image.digest in seen:
                continue
            seen.add(image.digest)
            self.show(image)
            try:
                done.append(self.check(is_verified=image.is_sampled(verify_every)))
            except Exception as error:
                last = [describe(event) for event in recording.events[max(0, image.cut - 6) : image.cut]]
                raise AssertionError(f"{error}\ncut at {image.cut}, {image.label}\n" + "\n".join(last)) from error
        return done

    def show(self, image: Image) -> None:
        shutil.rmtree(self.root)
        materialise(image, self.root)
        for path in self.root.rglob("*"):
            if path.is_file():
                os.utime(path, ns=(TIME * 1_000_000, TIME * 1_000_000))
        for path in self.root.glob(".data.tidelog-staging-*/commit-*.json"):
            decision = json.loads(path.read_bytes())
            directory = Path(decision["directory"])
            original = self.before[PARTITIONS[int(directory.name[-1])]]
            for group in decision["groups"]:
                group["mtime_ns"] = TIME * 1_000_000
                group["members"] = [_known(directory, base_offset, original, size) for base_offset, size, *_ in group["members"]]
            path.write_text(json.dumps(decision))

    def opening(self, image: Image) -> Recording:
        """Open what an image shows, on a disk that records."""
        self.show(image)
        disk = RecordingDisk(self.root)
        opened(self.data, disk).close()
        return _what_counts(disk.recording())

    def compacted_locally(self, data: Path) -> dict[TopicPartition, dict[str, bytes]]:
        """The same by the cleaner of the store."""
        shutil.copytree(self._spare, data)
        with opened(data, QuietDisk()) as store:
            assert store.compact("tide").failures == ()
        return {partition: files_of(data, partition) for partition in PARTITIONS}

    def decided(self) -> set[TopicPartition]:
        """Which logs have a decision that is to be finished."""
        paths = [path for path in self.root.glob(".data.tidelog-staging-*/commit-*.json") if not path.parent.name.endswith(".gone")]
        return {PARTITIONS[int(json.loads(path.read_bytes())["directory"][-1])] for path in paths}

    def is_told(self) -> bool:
        """Whether whose the staging directory is can be told: of one that was begun when the power went, it cannot."""
        owners = [folder / "owner.json" for folder in self.root.glob(".data.tidelog-staging-*") if not folder.name.endswith(".gone")]
        try:
            return all(json.loads(path.read_bytes())["token"] for path in owners)
        except (OSError, ValueError):
            return False

    def check(self, *, is_verified: bool) -> frozenset[TopicPartition]:
        """Open what is there, and once more: which logs are done."""
        decided, is_told, disk = self.decided(), self.is_told(), QuietDisk()
        with opened(self.data, disk) as store:
            assert store.failures == {}
            done = self._look(store, decided)
        left = sorted(path.name for path in self.root.iterdir() if path != self.data)
        assert not left or not (is_told or decided), f"stray files: {left}"
        with opened(self.data, disk) as store:
            assert self._look(store, done) == done, "not the same any more"
        if is_verified:
            for partition in PARTITIONS:
                assert_verified(self.data / str(partition))
            compacted(self.data, disk)
            assert {partition: files_of(self.data, partition) for partition in PARTITIONS} == self.after
        return done

    def _look(self, store: Store, decided: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        done = set()
        for partition in PARTITIONS:
            found, offset = files_of(self.data, partition), state_of(store).cleaner_offset(partition)
            assert not [path.name for path in (self.data / str(partition)).iterdir() if path.suffix in (".cleaned", ".swap", ".deleted")]
            is_done = _logs(found) == _logs(self.after[partition])
            assert found == (self.after if is_done else self.before)[partition], f"{partition} is half done: {sorted(_logs(found))}"
            assert is_done or partition not in decided, f"{partition} was decided"
            if is_done:
                assert offset == store.log(*partition).segments[-1].base_offset, "the cleaner's checkpoint"
                done.add(partition)
        return frozenset(done)


def _logs(files: Files) -> Files:
    return {name: content for name, content in files.items() if name.endswith(".log")}


def _known(directory: Path, base_offset: int, original: Files, size_bytes: int) -> list[int]:
    """A member as it is in the image, if it is there as it was before."""
    path = directory / f"{base_offset:020d}.log"
    is_same = path.exists() and path.read_bytes() == original[path.name]
    return [base_offset, size_bytes, path.stat().st_ino if is_same else 0, TIME * 1_000_000]


def _what_counts(recording: Recording) -> Recording:
    """The times of files play no role here, and so are not lost; nor do the bytes that tasks write for each other, and so are not there,
    nor how much room the indexes of active segments have."""
    staged = {event.node for event in recording.events if isinstance(event, Link)}

    def counts(event: Event) -> bool:
        if isinstance(event, SetMtime) or (isinstance(event, Truncate) and event.path.endswith("index")):
            return False
        if not isinstance(event, Write) or "tidelog-staging-" not in event.path or ".json" in event.path:
            return True
        return event.node in staged

    return replace(recording, events=tuple(event if counts(event) else Note("other", event) for event in recording.events))

"""Stores in the crash simulation: what a session did, and what may be there if the power goes at any moment of it.

A session notes each call as it begins and when it is answered. A topic is known by its id, since a name may come again. Each image is
opened; then there is exactly what was answered for, and for the one call that was under way its outcome or none, but nothing in between.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.crash_images import Bounds, Image, crash_images, materialise
from tests.support.logs import FakeClock, QuietDisk, numbered
from tests.support.recording_disk import Note, Recording, RecordingDisk, describe
from tests.support.small_stores import open_store, state_of
from tidelog.disk.disk import Disk
from tidelog.store.store import Store
from tidelog.store.topic_deletion import remove_due

NAMES = ("one", "two", "three")
GOES_ON_EVERY = 12
"""One of so many images is also worked with, and opened once more."""


@dataclass(frozen=True)
class KnownTopic:
    """A topic as it may be."""

    partitions: int
    config: Mapping[str, str]
    values: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


Known = dict[str, KnownTopic]


@dataclass(frozen=True)
class Change:
    """The topics after a call."""

    topics: Known


class StoreSession:
    """A store on a disk that records; each call notes what there is before and after it."""

    def __init__(self, root: Path, directories: int, *, disk: RecordingDisk | None = None) -> None:
        self.root = root
        self.disk = disk or RecordingDisk(root)
        self.clock = FakeClock()
        self.known: Known = {}
        self.paths = [root / name for name in NAMES[:directories]]
        self.store = open_store(*self.paths, disk=self.disk, clock=self.clock)
        self._next = 0

    def _do(self, after: Known, call: Callable[[], object]) -> None:
        self.disk.note("begin", Change(after))
        call()
        self.known = after
        self.disk.note("done", Change(after))

    def create(self, name: str, partitions: int = 1, **config: str) -> None:
        settings = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in config.items()}}
        topic = KnownTopic(partitions, settings)
        self._do({**self.known, name: topic}, lambda: self.store.create_topic(name, partitions, settings))

    def alter(self, name: str, setting: str, value: str) -> None:
        topic = self.known[name]
        changed = replace(topic, config={**topic.config, setting: value})
        self._do({**self.known, name: changed}, lambda: self.store.topic(name).alter({setting: value}))

    def delete(self, name: str) -> None:
        after = {other: topic for other, topic in self.known.items() if other != name}
        self._do(after, lambda: self.store.delete_topic(name))

    def append(self, name: str, partition: int = 0) -> None:
        self._next += 1
        topic, number = self.known[name], self._next
        values = (*topic.values.get(partition, ()), number)
        changed = replace(topic, values={**topic.values, partition: values})
        self._do({**self.known, name: changed}, lambda: self.store.log(name, partition).append(numbered(number)))

    def remove_due(self) -> None:
        self.clock.advance(60_000)
        self._do(self.known, lambda: remove_due(state_of(self.store)))

    def close(self) -> None:
        self._do(self.known, self.store.close)


def found_in(store: Store) -> Known:
    """The topics of a store as they are."""
    found: Known = {}
    for topic in store.topics():
        entry = state_of(store).entry(topic.name)
        logs = {number: topic.log(number) for number in topic.partition_ids()}
        values = {
            number: tuple(int((record.value or b"").rstrip(b".")) for record in log.read())
            for number, log in logs.items()
            if log.log_end_offset
        }
        found[topic.name] = KnownTopic(topic.partitions, dict(entry.config or {}), values)
    return found


def check_images(recording: Recording, directories: int, scratch: Path, bounds: Bounds, start: Known | None = None) -> int:
    """Open every image: how many there were."""
    disk = QuietDisk()
    opened: dict[str, Known] = {}
    possible: list[Known] = [start or {}]
    seen_events = 0
    for image in crash_images(recording, bounds=bounds):
        for event in recording.events[seen_events : image.cut]:
            if isinstance(event, Note):
                assert isinstance(event.payload, Change)
                possible = [event.payload.topics] if event.label == "done" else [possible[-1], event.payload.topics]
        seen_events = image.cut
        if image.digest not in opened:
            opened[image.digest] = _open(image, directories, scratch, disk, recording)
        found = opened[image.digest]
        assert found in possible, _message(image, recording, f"found {found}\nexpected one of {possible}")
    return len(opened)


def _open(image: Image, directories: int, scratch: Path, disk: Disk, recording: Recording) -> Known:
    root = scratch / "image"
    materialise(image, root)
    paths = [root / name for name in NAMES[:directories]]
    is_sampled = image.is_sampled(GOES_ON_EVERY)
    try:
        with open_store(*paths, disk=disk) as store:
            assert store.failures == {}
            assert not any(entry.is_incomplete for entry in state_of(store).file.topics.values())
            assert all(gone.is_renamed for gone in state_of(store).file.deleted)
            _check_directories(store)
            found = found_in(store)
            if is_sampled:
                for name in found:
                    store.log(name, 0).append(numbered(999))  # it goes on
                store.create_topic("another", 2).log(1).append(numbered(7))
                store.delete_topic("another")
        if is_sampled:
            with open_store(*paths, disk=disk) as store:
                assert store.failures == {}
                assert {name: topic.config for name, topic in found_in(store).items()} == {
                    name: topic.config for name, topic in found.items()
                }
    except Exception as error:
        raise AssertionError(_message(image, recording, f"{type(error).__name__}: {error}")) from error
    finally:
        shutil.rmtree(root)
    return found


def _check_directories(store: Store) -> None:
    """There are the directories of the topics, those that wait to be removed, and no others."""
    topics = state_of(store).file.topics
    wanted = {f"{name}-{number}" for name, entry in topics.items() for number in entry.partition_ids()}
    there = [path.name for home in store.paths for path in Path(home).iterdir() if path.is_dir()]
    assert sorted(name for name in there if not name.endswith("-delete")) == sorted(wanted)
    waiting = {gone.suffix for gone in state_of(store).file.deleted}
    assert {name.split(".")[-1].removesuffix("-delete") for name in there if name.endswith("-delete")} <= waiting


def _message(image: Image, recording: Recording, text: str) -> str:
    last = [describe(event) for event in recording.events[max(0, image.cut - 6) : image.cut]]
    return f"{text}\ncut at {image.cut} of {len(recording.events)}, {image.label}\n" + "\n".join(last)

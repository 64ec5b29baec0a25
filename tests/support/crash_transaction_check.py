"""Open every crash image of recorded transactions, and look for anything that is wrong with it."""

import shutil
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

import tidelog
from tests.support.crash_check import CrashViolationError, Tally
from tests.support.crash_images import Bounds, Image, crash_images, materialise
from tests.support.crash_transactions import A1, INPUT, OUTPUTS, Expected, Found, Story, open_for
from tests.support.logs import FakeClock, QuietDisk
from tests.support.recording_disk import Note, Recording, RecordingDisk, SetMtime, describe
from tests.support.verified import assert_verified
from tidelog.disk.disk import Disk
from tidelog.disk.names import TopicPartition
from tidelog.schema.transaction_state import TransactionStatus
from tidelog.store.store import Store

OVER = {TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT}
LOOK_EVERY, GO_ON_EVERY = 5, 4
"""One of so many images is also looked at by a reader and by verify; one of so many is worked with."""


def found_in(store: Store, owners: Iterable[str]) -> Found:
    """What is read with the default isolation, and where the groups are."""
    known = {topic.name for topic in store.topics()}
    values = {
        partition: [record.value or b"" for record in store.topic(partition.topic).read(partition=partition.partition)]
        if partition.topic in known
        else []
        for partition in OUTPUTS
    }
    positions = {owner: store.group(f"group of {owner}").positions().get(INPUT) for owner in owners}
    return Found(values, {owner: None if position is None else position.offset for owner, position in positions.items()})


def check_images(
    recording: Recording,
    scratch: Path,
    bounds: Bounds,
    *,
    cuts: Collection[int] | None = None,
    owners: Iterable[str] = ("one", "two"),
    every: int = 1,
    tally: Tally | None = None,
    expected: Expected | None = None,
) -> int:
    """Open every image: how many different ones there were. The times of files play no role, so they are not lost either.

    Or one of `every` so many, and what a killed process leaves.
    """
    events = tuple(Note("time", event) if isinstance(event, SetMtime) else event for event in recording.events)
    recording = replace(recording, events=events)
    expected = expected or Expected()
    disk, opened, followed, images = QuietDisk(), dict[str, Found](), 0, 0
    owners = tuple(owners)
    clock, former_cut = FakeClock(), -1
    for image in crash_images(recording, bounds=bounds, cuts=cuts):
        for event in recording.events[followed : image.cut]:
            if isinstance(event, Note) and event.label != "time":
                expected.follow(event.label, event.payload)
        followed, is_kill, former_cut = image.cut, image.cut != former_cut, image.cut
        if not is_kill and not image.is_sampled(every):
            continue
        images += 1
        try:
            if image.digest not in opened:
                opened[image.digest] = _open(image, scratch, disk, clock, owners)
            faults = expected.faults_of(opened[image.digest])
        except Exception as error:
            raise CrashViolationError(_message(image, recording, f"{type(error).__name__}: {error}"), image) from error
        if faults:
            raise CrashViolationError(_message(image, recording, "\n".join(faults)), image)
    if tally is not None:
        tally.images += images
        tally.opened += len(opened)
    return len(opened)


def _open(image: Image, scratch: Path, disk: Disk, clock: FakeClock, owners: Collection[str]) -> Found:
    root = scratch / "image"
    materialise(image, root)
    try:
        return check_directory(
            root / "data",
            disk,
            clock,
            owners,
            is_looked_at=image.is_sampled(LOOK_EVERY),
            goes_on=image.is_sampled(GO_ON_EVERY),
        )
    finally:
        shutil.rmtree(root)


def check_directory(
    path: Path, disk: Disk, clock: FakeClock, owners: Collection[str], *, is_looked_at: bool = True, goes_on: bool = True
) -> Found:
    """Open what a crash has left, and again: what is found."""
    shown = _shown_to_a_reader(path) if is_looked_at else {}
    with open_for(path, disk, clock) as store:
        assert store.failures == {}
        _check_nothing_open(store)
        found = found_in(store, owners)
        for partition, values in shown.items():
            taken_back = [value for value in values if value not in found.values[partition]]
            assert not taken_back, f"a reader was shown {taken_back}, which are gone when the store is opened"
    before = _written(path)
    with open_for(path, disk, clock) as store:
        assert found_in(store, owners) == found, "what is found differs when it is opened again"
        _check_nothing_open(store)
    after = _written(path)
    assert after == before, f"opening again has written {[name for name in after if after[name] != before.get(name)]}"
    if goes_on:
        _go_on(path, disk, clock, owners, found)
    if is_looked_at:
        for directory in sorted(path.iterdir()):
            if directory.is_dir() and not directory.name.endswith("-delete"):
                assert_verified(directory)
    return found


def _check_nothing_open(store: Store) -> None:
    for topic in store.topics():
        for number in topic.partition_ids():
            left = topic.log(number).open_transactions
            assert not left, f"in {topic.name}-{number} is open {left}"
    states = {described.transactional_id: described.status for described in store.transactions()}
    assert set(states.values()) <= OVER, states
    assert store.hanging_transactions() == []


def _shown_to_a_reader(path: Path) -> dict[TopicPartition, list[bytes]]:
    """What one sees who owns nothing, before the owner has come. Each partition has its marker, or not yet."""
    if not (path / "tidelog.json").exists():
        return {}
    with tidelog.open(path, mode="r") as store:
        known = {topic.name: topic for topic in store.topics()}
        return {
            partition: [record.value or b"" for record in known[partition.topic].read(partition=partition.partition)]
            for partition in OUTPUTS
            if partition.topic in known and partition.partition in known[partition.topic].partition_ids()
        }


def _go_on(path: Path, disk: Disk, clock: FakeClock, owners: Collection[str], found: Found) -> None:
    """Every id can be used again, and is what it was to others."""
    with open_for(path, disk, clock) as store:
        for topic in ("a", "in"):
            store.create_topic(topic, 2 if topic == "a" else 1, exist_ok=True)
        for owner in owners:
            with store.transaction(owner) as transaction, store.consumer(f"group of {owner}", "in") as consumer:
                transaction.append("a", owner.encode(), partition=1)
                consumer.seek(INPUT, 50)
                transaction.commit_positions(consumer)
        with store.transaction("another") as transaction:
            transaction.append("a", b"another", partition=1)
        states = {described.transactional_id: described for described in store.transactions()}
        assert len({states[owner].producer_id for owner in owners}) == len(owners), "two ids have the same producer id"
    with open_for(path, disk, clock) as store:
        after = found_in(store, owners)
        assert after.values[A1] == [*found.values[A1], *(owner.encode() for owner in owners), b"another"]
        assert after.positions == dict.fromkeys(owners, 50)


def _written(path: Path) -> dict[str, bytes]:
    """What opening may not change: the logs, and the store's file."""
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.suffix in (".log", ".json")}


def _message(image: Image, recording: Recording, text: str) -> str:
    last = [describe(event) for event in recording.events[max(0, image.cut - 8) : image.cut]]
    return f"{text}\ncut at {image.cut} of {len(recording.events)}, {image.label}\n" + "\n".join(last)


def check_story(story: Story, scratch: Path, *, bounds: Bounds, tally: Tally, every: int = 1, most: int = 1 << 30) -> int:
    """All moments of a story, or about as many as `most`: how many different images there were."""
    (scratch / "root").mkdir()
    session, moments = story.play(scratch / "root")
    count = check_images(session.disk.recording(), scratch, bounds, cuts=moments[:: -(-len(moments) // most)], tally=tally, every=every)
    shutil.rmtree(scratch / "root")
    return count


def check_second_crash(
    story: Story, scratch: Path, *, bounds: Bounds, tally: Tally, count: int, every: int = 1, most: int = 1 << 30
) -> None:
    """What opening finishes, or aborts, it can be cut off in too: some images are opened on a disk that records."""
    (scratch / "root").mkdir()
    session, moments = story.play(scratch / "root")
    recording = session.disk.recording()
    shutil.rmtree(scratch / "root")
    for cut in moments[len(moments) // (count + 1) :: max(1, len(moments) // (count + 1))][:count]:
        expected = Expected()
        for event in recording.events[:cut]:
            if isinstance(event, Note):
                expected.follow(event.label, event.payload)
        root = scratch / "root"
        materialise(next(iter(crash_images(recording, cuts=(cut,), bounds=bounds))), root)
        disk = RecordingDisk(root)
        with open_for(root / "data", disk, FakeClock()) as store:
            found = found_in(store, session.owners)
        opened = disk.recording()
        shutil.rmtree(root)
        faults = expected.faults_of(found)
        assert not faults, faults
        cuts = range(len(opened.events) + 1)[:: -(-len(opened.events) // most)]
        check_images(opened, scratch, bounds, cuts=cuts, tally=tally, expected=expected, owners=session.owners, every=every)

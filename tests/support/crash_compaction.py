"""Compaction in the crash simulation: what may be read if the power goes at any moment of a pass.

What is read before a pass and after it is known from the store itself. In between, an image has to hold everything that is left afterwards,
and nothing that was not there before, in order. Then the pass is done again, and ends as it would have ended.
"""

import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tests.support.compacted import DELETE_RETENTION_MS, NAME, CompactedTopic, Told, told
from tests.support.crash_check import Tally
from tests.support.crash_images import Bounds, Image, crash_images, materialise
from tests.support.logs import FakeClock, QuietDisk
from tests.support.recording_disk import Note, Recording, RecordingDisk, SetMtime, describe
from tests.support.small_stores import open_store
from tests.support.verified import assert_verified
from tidelog.disk.disk import Disk
from tidelog.log.log import Log
from tidelog.record import read_batches
from tidelog.store.store import Store

PARTITION = f"{NAME}-0"
VERIFY_EVERY = 5


class Header(NamedTuple):
    """What a batch of data says about itself; bytes are another test's."""

    base_offset: int
    last_offset: int
    delete_horizon_ms: int | None
    records: int


@dataclass(frozen=True)
class Found:
    """A log as it is read."""

    records: tuple[Told, ...]
    headers: tuple[Header, ...]
    """Of batches with data. One more pass over a marker is one more step towards its end, so markers need not be the same."""
    end_offset: int


@dataclass
class Moment:
    """A call: what there was before it, and when it was done, after it. Filled in then; looked at later still."""

    before: Found
    now_ms: int
    is_pass: bool
    after: Found | None = None
    """None: it never was."""


def found_in(log: Log) -> Found:
    """What is in a log, for readers of committed records; headers below the active segment, where no pass goes on."""
    rolled = [Path(segment.path_of(".log")).read_bytes()[: segment.size_bytes] for segment in log.segments[:-1]]
    headers = tuple(
        Header(batch.base_offset, batch.last_offset, batch.delete_horizon_ms, batch.count)
        for data in rolled
        for batch in read_batches(data)
        if not batch.is_control
    )
    return Found(tuple(map(told, log.read(isolation="committed"))), headers, log.log_end_offset)


class CompactionSession:
    """A compacted topic on a disk that records."""

    def __init__(self, root: Path, memory: int, **config: object) -> None:
        self.disk = RecordingDisk(root)
        self.memory = memory
        self.clock = FakeClock()
        self.store = _open(root / "data", self.disk, self.clock, memory)
        self.topic = CompactedTopic(self.store, self.clock, **config)
        self._note("done", Moment(found_in(self.topic.log), self.clock(), False, found_in(self.topic.log)))

    def do(self, call: Callable[[], object], *, is_pass: bool = False) -> None:
        """Anything; what is read before and after it is what counts."""
        moment = Moment(found_in(self.topic.log), self.clock(), is_pass)
        self._note("begin", moment)
        call()
        moment.after = found_in(self.topic.log)
        self._note("done", Moment(moment.after, self.clock(), False, moment.after))

    def compact(self) -> None:
        """As many passes as it takes."""
        self.do(self.topic.compact, is_pass=True)

    def events(self) -> int:
        return len(self.disk.recording().events)

    def close(self) -> None:
        self.do(lambda: None)
        self._note("begin", Moment(found_in(self.topic.log), self.clock(), False, found_in(self.topic.log)))
        self.store.close()

    def _note(self, label: str, moment: Moment) -> None:
        self.disk.note(label, moment)


def _open(path: Path, disk: Disk, clock: FakeClock, memory: int) -> Store:
    return open_store(path, disk=disk, clock=clock, config={"log.cleaner.dedupe.buffer.size": memory})


def story(session: CompactionSession) -> list[range]:
    """Keys, tombstones and transactions over several segments, three compactions; the moments of each, and of an append behind it."""
    topic, moments = session.topic, []

    def fill(first: int) -> None:
        for number in range(first, first + 3):
            topic.append([(b"key %d" % (number % 3), b"value %d" % number * 8), (b"only %d" % number, b"once"), (b"gone", b"%d" % number)])
            topic.begin(1, [(b"key 1", b"of a transaction %d" % number)])
            topic.begin(1, [(b"txn %d" % number, b"new")])
            topic.end(1, "commit" if number % 2 else "abort")
        topic.append([(b"gone", None), (b"only %d" % first, None)])
        topic.roll()

    for first in (0, 3, 6):
        fill(first)
        begins = session.events() + 1
        session.compact()
        topic.advance(DELETE_RETENTION_MS)  # by the next one tombstones and markers have had their time
        session.do(lambda: topic.append([(b"between", b"passes")]))
        moments.append(range(begins, session.events() + 1))
    return moments


def check_images(recording: Recording, scratch: Path, bounds: Bounds, memory: int, cuts: Collection[int]) -> int:
    """Open every image: how many different ones there were. The times of files play no role, so they are not lost either."""
    events = tuple(Note("time", event) if isinstance(event, SetMtime) else event for event in recording.events)
    recording = replace(recording, events=events)
    disk, opened = QuietDisk(), set()
    moment, seen_events = None, 0
    for image in crash_images(recording, bounds=bounds, cuts=cuts):
        for event in recording.events[seen_events : image.cut]:
            if isinstance(event, Note) and isinstance(event.payload, Moment):
                moment = event.payload
        seen_events = image.cut
        if moment is None or (image.digest, id(moment)) in opened:
            continue
        opened.add((image.digest, id(moment)))
        root = scratch / "image"
        materialise(image, root)
        try:
            _check(root, moment, disk, memory, is_verified=image.is_sampled(VERIFY_EVERY))
        except Exception as error:
            raise AssertionError(_message(image, recording, f"{type(error).__name__}: {error}, of a pass: {moment.is_pass}")) from error
        finally:
            shutil.rmtree(root)
    return len(opened)


def _check(root: Path, moment: Moment, disk: Disk, memory: int, *, is_verified: bool) -> None:
    directory = root / "data" / PARTITION
    assert moment.after is not None
    with _open(root / "data", disk, FakeClock(moment.now_ms), memory) as store:
        assert store.failures == {}
        log = store.log(NAME, 0)
        found = found_in(log)
        _check_records(found, moment.before, moment.after, is_pass=moment.is_pass)
        assert not [path.name for path in directory.iterdir() if path.suffix in (".cleaned", ".swap", ".deleted")]
        if is_verified:
            assert_verified(directory)
        if moment.is_pass:  # done again, it ends as it would have ended
            result = store.compact(NAME)
            assert (result.failures, result.left_alone) == ((), ())
            again = found_in(log)
            assert again == moment.after, f"{again}\ninstead of\n{moment.after}"
            assert store.compact(NAME).compacted == ()
    if is_verified:
        assert_verified(directory)


def _check_records(found: Found, before: Found, after: Found, *, is_pass: bool) -> None:
    if not is_pass:
        assert (found.records, found.end_offset) in [(before.records, before.end_offset), (after.records, after.end_offset)]
        return
    assert found.end_offset == before.end_offset == after.end_offset
    there = set(found.records)
    assert list(found.records) == sorted(there)
    assert there <= set(before.records), f"was not there: {there - set(before.records)}"
    assert there >= set(after.records), f"is gone: {set(after.records) - there}"


def _message(image: Image, recording: Recording, text: str) -> str:
    last = [describe(event) for event in recording.events[max(0, image.cut - 6) : image.cut]]
    return f"{text}\ncut at {image.cut} of {len(recording.events)}, {image.label}\n" + "\n".join(last)


def note_opening(path: Path, disk: RecordingDisk, moment: Moment, memory: int) -> None:
    """Open what a crash has left of a moment, on a disk that records."""
    disk.note("begin", moment)
    _open(path, disk, FakeClock(moment.now_ms), memory).close()


def check_story(memory: int, delay_ms: int, scratch: Path, *, bounds: Bounds, tally: Tally) -> None:
    """Every moment of three compactions."""
    root = scratch / "root"
    root.mkdir()
    session = CompactionSession(root, memory, file_delete_delay_ms=delay_ms)
    moments = story(session)
    session.close()
    for cuts in moments:
        count = check_images(session.disk.recording(), scratch, bounds, memory, cuts)
        tally.images += count
        tally.opened += count

"""Retention in the crash simulation: which starts a log may have if the power goes in the middle of a round, and what must be behind them.

A session keeps a plain model of its logs beside the store: batches in segments, the start, the end. Before each call the model works out
where it may leave each log, with Kafka's rules told once more and as simply as possible. An image is right if every log starts at one of
these places, has every record from there to its end, and ends where it was acknowledged to; and if the round, done again, ends where it
would have ended.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.support.crash_images import Bounds, Image, crash_images, materialise
from tests.support.kept_stores import small_segments
from tests.support.logs import TIME, FakeClock, QuietDisk, number_of, numbered
from tests.support.recording_disk import Note, Recording, RecordingDisk, describe
from tests.support.small_stores import open_store
from tests.support.verified import assert_verified
from tidelog.config import LONG_MAX, LogConfig
from tidelog.disk.disk import Disk
from tidelog.disk.names import TopicPartition
from tidelog.log.log import Log
from tidelog.retention import AnyPolicy, LogFacts

BATCHES_A_SEGMENT = 2
BATCH_BYTES = len(numbered(0))
VERIFY_EVERY = 6


@dataclass(frozen=True)
class KnownSegment:
    """A segment of batches with one record each."""

    base_offset: int
    times_ms: tuple[int, ...] = ()

    @property
    def end_offset(self) -> int:
        """The first offset behind it."""
        return self.base_offset + len(self.times_ms)

    @property
    def size_bytes(self) -> int:
        """Of its `.log`."""
        return len(self.times_ms) * BATCH_BYTES


@dataclass(frozen=True)
class KnownLog:
    """A log as it is at rest; the value of each record is its offset."""

    retention_bytes: int = -1
    retention_ms: int = -1
    start: int = 0
    segments: tuple[KnownSegment, ...] = (KnownSegment(0),)

    @property
    def end(self) -> int:
        """The next offset."""
        return self.segments[-1].end_offset

    def appended(self, timestamp_ms: int) -> "KnownLog":
        """With one more record."""
        active = self.segments[-1]
        if len(active.times_ms) == BATCHES_A_SEGMENT:
            return replace(self, segments=(*self.segments, KnownSegment(self.end, (timestamp_ms,))))
        return replace(self, segments=(*self.segments[:-1], replace(active, times_ms=(*active.times_ms, timestamp_ms))))

    def without(self, count: int) -> "KnownLog":
        """Without the oldest segments; if all of them go, an empty one begins at the end."""
        if count == len(self.segments):
            count -= not self.segments[-1].times_ms
        left = self.segments[count:] or (KnownSegment(self.end),)
        return replace(self, segments=left, start=max(self.start, left[0].base_offset))

    def retained(self, now_ms: int, below: int = 0) -> list["KnownLog"]:
        """After each rule of a round: log start, size, time, and a policy by which nothing below an offset need be kept."""
        first = self.without(self._below_start())
        second = first.without(first._too_large())
        third = second.without(second._too_old(now_ms))
        return [self, first, second, third, third.without(sum(segment.end_offset <= below for segment in third.segments))]

    def _below_start(self) -> int:
        return sum(segment.base_offset <= self.start for segment in self.segments[1:])

    def _too_large(self) -> int:
        excess, count = sum(segment.size_bytes for segment in self.segments) - self.retention_bytes, 0
        while self.retention_bytes >= 0 and count < len(self.segments) and excess >= self.segments[count].size_bytes:
            excess -= self.segments[count].size_bytes
            count += 1
        return count

    def _too_old(self, now_ms: int) -> int:
        count = 0
        while self.retention_ms >= 0 and count < len(self.segments) and self.segments[count].times_ms:
            if now_ms - max(self.segments[count].times_ms) <= self.retention_ms:
                break
            count += 1
        return count


Known = Mapping[TopicPartition, KnownLog]


@dataclass(frozen=True)
class Moment:
    """What may be there during a call, or after it: the places that each log passes, first to last. And how to do it again."""

    passed: Mapping[TopicPartition, Sequence[KnownLog]]
    now_ms: int
    is_round: bool = False


@dataclass(frozen=True)
class Below:
    """A policy that is not Kafka's: of some partitions nothing below an offset need be kept."""

    offsets: Mapping[TopicPartition, int]
    name: str = "below"

    def expired(self, log: LogFacts, config: LogConfig, now_ms: int) -> dict[int, str]:
        """See `RetentionPolicy`."""
        end = self.offsets.get(log.partition, 0) if log.partition is not None else 0
        return {segment.base_offset: "named" for segment in log.segments if segment.end_offset <= end}


class RetentionSession:
    """A store on a disk that records, and what is known about its logs."""

    def __init__(self, root: Path, *, named: Mapping[TopicPartition, int] | None = None, is_weak: bool = False) -> None:
        self.disk = RecordingDisk(root)
        self.clock = FakeClock()
        self.known: dict[TopicPartition, KnownLog] = {}
        self.named = dict(named or {})
        self.is_weak = is_weak
        self.store = open_store(root / "data", disk=self.disk, clock=self.clock, policies=self.policies)

    @property
    def policies(self) -> list[AnyPolicy]:
        """Those that are not Kafka's."""
        return [Below(self.named)] if self.named else []

    def create(self, name: str, partitions: int = 1, *, retention_bytes: int = -1, retention_ms: int = -1, delay_ms: int = 60_000) -> None:
        config = small_segments(retention_bytes=retention_bytes, retention_ms=retention_ms, file_delete_delay_ms=delay_ms)
        flush = {"flush.messages": LONG_MAX} if self.is_weak else {}
        self.store.create_topic(name, partitions, {**config, **flush})
        self.known |= {TopicPartition(name, number): KnownLog(retention_bytes, retention_ms) for number in range(partitions)}
        self._note("done", {partition: [log] for partition, log in self.known.items()})

    def append(self, name: str, partition: int = 0, *, count: int = 1, age_ms: int = 0) -> None:
        for _ in range(count):
            key = TopicPartition(name, partition)
            before, timestamp_ms = self.known[key], self.clock() - age_ms
            batch = numbered(before.end, timestamp_ms=timestamp_ms)
            self._do({key: [before, before.appended(timestamp_ms)]}, partial(self._log(key).append, batch))

    def delete_before(self, name: str, offset: int, partition: int = 0) -> None:
        key = TopicPartition(name, partition)
        before = self.known[key]
        self._do({key: [before, replace(before, start=max(before.start, offset))]}, lambda: self._log(key).delete_records_before(offset))

    def retain(self) -> None:
        """A round over all topics."""
        now_ms = self.clock()
        self._do({key: log.retained(now_ms, self.named.get(key, 0)) for key, log in self.known.items()}, self._retain, is_round=True)

    def _retain(self) -> None:
        assert self.store.retain().failures == ()

    def remove_due(self) -> None:
        """The delay of what was deleted is over."""
        self.clock.advance(60_000)
        self._do({}, lambda: [log.remove_deleted() for log in map(self._log, self.known)])

    def close(self) -> None:
        self._do({}, self.store.close)

    def _log(self, partition: TopicPartition) -> Log:
        return self.store.log(*partition)

    def _do(self, passed: Mapping[TopicPartition, Sequence[KnownLog]], call: Callable[[], object], *, is_round: bool = False) -> None:
        self._note("begin", passed, is_round=is_round)
        call()
        self.known |= {partition: steps[-1] for partition, steps in passed.items()}
        self._note("done", {})

    def _note(self, label: str, passed: Mapping[TopicPartition, Sequence[KnownLog]], *, is_round: bool = False) -> None:
        at_rest = {partition: [log] for partition, log in self.known.items()}
        self.disk.note(label, Moment({**at_rest, **passed}, self.clock(), is_round))


def check_images(session: RetentionSession, scratch: Path, bounds: Bounds, *, since: int = 0, every: int = 1) -> int:
    """Open every image from an event on, or those of every so many moments: how many different ones there were."""
    recording, disk = session.disk.recording(), QuietDisk()
    moment, seen_events = Moment({}, TIME), 0
    opened = set()
    for image in crash_images(recording, bounds=bounds, cuts=range(since, len(recording.events) + 1, every)):
        for event in recording.events[seen_events : image.cut]:
            if isinstance(event, Note):
                assert isinstance(event.payload, Moment)
                moment = event.payload
        seen_events = image.cut
        key = (image.digest, id(moment))
        if key in opened or not moment.passed:
            continue
        opened.add(key)
        root = scratch / "image"
        materialise(image, root)
        try:
            _check(root, moment, session, disk, is_verified=image.is_sampled(VERIFY_EVERY))
        except Exception as error:
            raise AssertionError(_message(image, recording, f"{type(error).__name__}: {error}\n{moment}")) from error
        finally:
            shutil.rmtree(root)
    return len(opened)


def _check(root: Path, moment: Moment, session: RetentionSession, disk: Disk, *, is_verified: bool) -> None:
    clock = FakeClock(moment.now_ms)
    with open_store(root / "data", disk=disk, clock=clock, policies=session.policies) as store:
        assert store.failures == {}
        for partition, steps in moment.passed.items():
            _check_log(store.log(*partition), steps, is_weak=session.is_weak)
            assert not list((root / "data" / str(partition)).glob("*.deleted"))
        if moment.is_round and not session.is_weak:
            assert store.retain().failures == ()  # done again it ends where it would have ended
            for partition, steps in moment.passed.items():
                log = store.log(*partition)
                assert (log.log_start_offset, log.log_end_offset) == (steps[-1].start, steps[-1].end)
                assert log.segments[0].base_offset == steps[-1].segments[0].base_offset
        for partition in moment.passed:
            log = store.log(*partition)
            assert log.append(numbered(log.log_end_offset)).first_offset == log.log_end_offset - 1  # it goes on
            assert [number_of(record) for record in log.read()][-1] == log.log_end_offset - 1
    if is_verified and not session.is_weak:  # what is below the start is not recovered, and need not have been flushed where that is weak
        for partition in moment.passed:
            assert_verified(root / "data" / str(partition))


def _check_log(log: Log, steps: Sequence[KnownLog], *, is_weak: bool) -> None:
    found = [number_of(record) for record in log.read()]
    start, end = log.log_start_offset, log.log_end_offset
    assert start in {step.start for step in steps}, f"{log.partition} starts at {start}"
    if is_weak:  # a rolled segment may be lost where the next one is there
        assert start <= end <= steps[-1].end
        assert found == sorted(set(found) & set(range(start, end)))
    else:
        assert found == list(range(start, end)), f"{log.partition}: {start} to {end} has {found}"
        assert end in {step.end for step in steps}, f"{log.partition} ends at {end}"


def _message(image: Image, recording: Recording, text: str) -> str:
    last = [describe(event) for event in recording.events[max(0, image.cut - 6) : image.cut]]
    return f"{text}\ncut at {image.cut} of {len(recording.events)}, {image.label}\n" + "\n".join(last)

"""Compaction while all others go on: writers, a reader that follows, readers that begin anew, readers that look somewhere in the middle."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import tidelog
from tests.support.compacted import Told, table_of, told
from tests.support.logs import SMALL_INDEX_BYTES
from tidelog.log.log import Log
from tidelog.log.log_reading import LogReading
from tidelog.store.store import Store

RUN_S = 4.0
LAG_MS = 150
NAME = "tide"
KEYS = 40


class Appended(NamedTuple):
    """What writers were answered, by offset; and of each key the last."""

    records: dict[int, Told]
    latest: dict[bytes, int]


class Crowd:
    """Threads that do something until time is up; the first error of one of them ends all."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.is_over = False
        self.counts: dict[str, int] = {}
        self._threads: list[threading.Thread] = []

    def add(self, name: str, turn: Callable[[], object]) -> None:
        def run() -> None:
            try:
                while not self.is_over:
                    turn()
                    self.counts[name] = self.counts.get(name, 0) + 1
            except BaseException as error:
                self.errors.append(error)
                self.is_over = True

        self._threads.append(threading.Thread(target=run, name=name))

    def run(self, seconds: float) -> None:
        for thread in self._threads:
            thread.start()
        deadline = time.monotonic() + seconds
        while not self.is_over and time.monotonic() < deadline:
            time.sleep(0.01)
        self.is_over = True
        for thread in self._threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in self._threads)
        if self.errors:
            raise self.errors[0]


def test_readers_and_writers_go_on(tmp_path: Path) -> None:
    config = {"log.index.size.max.bytes": SMALL_INDEX_BYTES, "log.cleaner.backoff.ms": 20, "log.cleaner.dedupe.buffer.size": 1 << 16}
    with tidelog.open(tmp_path / "data", config=config) as store:
        settings = {
            "cleanup.policy": "compact",
            "internal.segment.bytes": 20_000,
            "min.compaction.lag.ms": LAG_MS,
            "min.cleanable.dirty.ratio": 0.1,
            "file.delete.delay.ms": 0,
        }
        topic = store.create_topic(NAME, config=settings)
        appended = Appended({}, {})
        crowd = Crowd()
        for number in range(2):
            crowd.add(f"writer {number}", writer(store, number, appended))
        follower = Follower(topic.log(0))
        crowd.add("follower", follower.turn)
        crowd.add("from the start", lambda: read_from_the_start(topic.log(0), appended))
        draw = Random(0)
        crowd.add("somewhere", lambda: read_somewhere(topic.log(0), appended, draw))
        crowd.add("compaction", lambda: compact(store))
        with tidelog.open(tmp_path / "data", "r") as beside:  # as another process would
            crowd.add("beside", lambda: read_from_the_start(beside.log(NAME, 0), appended))
            crowd.run(RUN_S)

        follower.turn()
        follower.check(appended)
        time.sleep(LAG_MS / 1000)
        compact(store, roll=True)
        left = list(map(told, topic.log(0).read()))
        assert table_of(left) == topic.table() == table_of(sorted(appended.records.values()))
        assert len(left) == len({one.key for one in left}) == len(appended.latest)
        assert {one.offset: one for one in left}.items() <= appended.records.items()
        assert store.metrics().cleaner.uncleanable == ()
        assert min(crowd.counts.values()) > 3, crowd.counts


def writer(store: Store, number: int, appended: Appended) -> Callable[[], None]:
    """Has keys of its own, and deletes one now and then."""
    topic, draw, count = store.topic(NAME), Random(number), 0

    def turn() -> None:
        nonlocal count
        count += 1
        key = b"%d of %d" % (draw.randrange(KEYS), number)
        value = None if count % 9 == 0 else b"%d " % count + b"x" * draw.randrange(200)
        answer = topic.append(value, key=key)
        appended.records[answer.offset] = Told(answer.offset, key, value, answer.timestamp_ms)
        appended.latest[key] = answer.offset

    return turn


def compact(store: Store, *, roll: bool = False) -> None:
    result = store.compact(NAME, roll=roll)
    assert (result.failures, result.left_alone) == ((), ())
    time.sleep(0.002)


class Follower:
    """Reads on where it was. What it misses was older than the lag when it came by."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._next = 0
        self.seen: dict[int, Told] = {}
        self.gaps: list[tuple[int, int, int]] = []
        """From, to, and when it came by."""

    def turn(self) -> None:
        for record in self._log.read(self._next):
            assert record.offset >= self._next, "it goes back"
            if record.offset > self._next:
                self.gaps.append((self._next, record.offset, time.time_ns() // 1_000_000))
            self.seen[record.offset] = told(record)
            self._next = record.offset + 1
        time.sleep(0.0005)

    def check(self, appended: Appended) -> None:
        assert self.seen.items() <= appended.records.items()
        for first, end, now_ms in self.gaps:
            missed = [appended.records[offset] for offset in range(first, end) if offset in appended.records]
            late = [one for one in missed if now_ms - one.timestamp_ms < LAG_MS]
            assert not late, f"{late} were compacted away before their time"
        assert len(self.seen) > 100


def read_from_the_start(log: LogReading, appended: Appended) -> None:
    """Whoever begins now sees at least what is the state now."""
    known = dict(appended.latest)
    records = list(map(told, log.read()))
    offsets = [one.offset for one in records]
    assert offsets == sorted(set(offsets))
    latest = {one.key: one.offset for one in records}
    for key, offset in known.items():
        assert latest.get(key, -1) >= offset, f"{key!r} was last written at {offset}, and is read at {latest.get(key)}"


def read_somewhere(log: Log, appended: Appended, draw: Random) -> None:
    """Reading at an offset gives the next record that exists: none is passed over that is still the last of its key."""
    end_offset = log.log_end_offset
    if end_offset == 0:
        return
    offset = draw.randrange(end_offset)
    found = next(log.read(offset), None)
    assert found is None or found.offset >= offset
    passed = range(offset, end_offset if found is None else found.offset)
    for place in passed:
        one = appended.records.get(place)
        if one is not None and place < log.high_watermark and found is not None:
            assert appended.latest[one.key] > place, f"{one} was passed over, reading at {offset} gave {found.offset}"

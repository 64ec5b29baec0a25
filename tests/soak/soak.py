"""Everything at once, for a while: writers, readers, followers, retention, compaction and topic changes on one store.

Run by `make soak` (ten minutes; `SECONDS=3600` for an hour), for a minute by `make slow` and for some seconds by `make test`. At the end
nothing acknowledged is missing where nothing may be deleted, `verify` is silent, and memory and open files are where they were when the
store had settled in.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tidelog.disk.file_pool import FilePool
from tidelog.errors import LogClosedError, OffsetOutOfRangeError, UnknownTopicError
from tidelog.inspection import verify_log_directory
from tidelog.store import Store

CONFIG = {
    "log.initial.task.delay.ms": 0,
    "log.retention.check.interval.ms": 200,
    "log.flush.offset.checkpoint.interval.ms": 300,
    "log.flush.start.offset.checkpoint.interval.ms": 300,
    "replica.high.watermark.checkpoint.interval.ms": 250,
    "log.cleaner.backoff.ms": 100,
    "log.cleaner.threads": 2,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    # Each writer is a producer of its own, and there are tens of thousands: remembered for a day, they would be what memory grows by.
    "producer.id.expiration.ms": 30_000,
    "producer.id.expiration.check.interval.ms": 1_000,
}
KEPT = {"internal.segment.bytes": 200_000, "segment.index.bytes": 4096}
SHORT = {"internal.segment.bytes": 30_000, "segment.index.bytes": 4096, "retention.bytes": 100_000, "file.delete.delay.ms": 300}
WEAK = {**KEPT, "flush.messages": 1000, "flush.ms": 50}
LATEST = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": 50_000,
    "segment.index.bytes": 4096,
    "min.cleanable.dirty.ratio": 0.1,
    "delete.retention.ms": 500,
    "file.delete.delay.ms": 100,
}
SETTLED = 0.3
"""The share of the time after which memory and open files are looked at for the first time."""
MAX_GROWTH_BYTES = 48 << 20
MAX_OPEN = 60
MAX_MORE_FILES = 40
"""Beside the pool: files that are written to, of topics that come and go, and what a reader holds."""
MAX_KEPT_RECORDS = 400_000
"""The model holds what it wrote; from there on writers only go on in the topic that forgets."""


ENDS_IN_S = 60
STUCK_S = 300
NOTED_BYTES = 300
"""What the model holds of a record, generously."""


class Footprint(NamedTuple):
    """What the process takes, and of how many records the model has noted the values."""

    memory_bytes: int
    open_files: int
    noted: int


class Soak:
    """One run. Each worker counts what it did; the first that raises ends it."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.seed = seed
        self.stop = threading.Event()
        self.failures: list[str] = []
        self.done: dict[str, int] = {}
        self.written: dict[tuple[str, int], dict[int, bytes]] = {}
        """Acknowledged records of the topics that keep everything, by topic and partition."""
        self.latest: dict[bytes, bytes | None] = {}
        """The last value of each key of the topic that is compacted; a worker has keys of its own."""
        self.began: dict[threading.Thread, float] = {}
        """When each worker has begun with what it does."""
        self.retained = 0
        """Offsets that retention has passed in the topic that forgets."""
        self.settled = self.ended = Footprint(0, 0, 0)
        self._lock = threading.Lock()

    def run(self, seconds: float) -> None:
        """All workers, until the time is over or one has failed."""
        self.store.create_topic("kept", 2, KEPT)
        self.store.create_topic("weak", 2, WEAK)
        self.store.create_topic("short", 2, SHORT)
        self.store.create_topic("latest", 2, LATEST)
        work: list[Callable[[random.Random], None]] = [
            self.append,
            self.append,
            self.append_many,
            self.write,
            self.read,
            self.read_columns,
            self.follow,
            self.change_topics,
            self.alter,
            self.update,
            self.update,
            self.read_latest,
            self.compact,
        ]
        threads = [
            threading.Thread(target=self._work, args=(job, number), name=f"{number} {job.__name__}", daemon=True)
            for number, job in enumerate(work)
        ]
        for thread in threads:
            thread.start()
        settled: Footprint | None = None
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self.stop.wait(min(0.2, left)):
            if settled is None and left < seconds * (1 - SETTLED):
                settled = self.footprint()
            self._check_going_on(threads)
        self.stop.set()
        for partition in (0, 1):  # a follower waits for a record
            self._note("kept", partition, self.store.topic("kept").append(b"last", partition=partition).offset, b"last")
        for thread in threads:
            thread.join(ENDS_IN_S)
            if thread.is_alive():
                self.failures.append(f"{thread.name} does not end:\n{stacks()}")
        if not self.failures:
            assert settled is not None
            self._check_footprint(settled, self.footprint())
            self._check_records()

    def _check_going_on(self, threads: list[threading.Thread]) -> None:
        """Nothing that is done here takes minutes: who is at it for so long waits for what never comes. But for who follows: once the model
        is full, nobody writes there until the end."""
        now = time.monotonic()
        stuck = [thread.name for thread in threads if now - self.began.get(thread, now) > STUCK_S and "follow" not in thread.name]
        if stuck and not self.stop.is_set():
            self.failures.append(f"{', '.join(stuck)}: at the same thing for {STUCK_S} s\n{stacks()}")
            self.stop.set()

    def _work(self, job: Callable[[random.Random], None], number: int) -> None:
        source = random.Random(self.seed * 100 + number)
        try:
            while not self.stop.is_set():
                self.began[threading.current_thread()] = time.monotonic()
                job(source)
                self.done[job.__name__] = self.done.get(job.__name__, 0) + 1
        except BaseException:
            self.failures.append(f"{job.__name__}:\n{traceback.format_exc()}")
            self.stop.set()

    def _topic(self, source: random.Random) -> str:
        full = sum(map(len, self.written.values())) > MAX_KEPT_RECORDS
        return "short" if full else source.choice(["kept", "weak", "short"])

    def _note(self, topic: str, partition: int, offset: int, value: bytes) -> None:
        if topic != "short":
            with self._lock:
                known = self.written.setdefault((topic, partition), {})
                assert offset not in known, f"offset {offset} of {topic}-{partition} was given twice"
                known[offset] = value

    # What is done

    def append(self, source: random.Random) -> None:
        """One record."""
        topic, value = self._topic(source), source.randbytes(source.randrange(300))
        at = self.store.topic(topic).append(value, key=source.randbytes(4) if source.random() < 0.7 else None)
        self._note(topic, at.partition, at.offset, value)

    def append_many(self, source: random.Random) -> None:
        """A hundred records at once. Which one lies where is known once they are read."""
        rows = [(source.randbytes(4), source.randbytes(source.randrange(100))) for _ in range(100)]
        summary = self.store.topic("short").append_many(rows)
        assert summary.records == len(rows)
        time.sleep(0.01)

    def write(self, source: random.Random) -> None:
        """Through a batching writer."""
        topic = self._topic(source)
        values = [source.randbytes(source.randrange(200)) for _ in range(200)]
        with self.store.topic(topic).writer(linger_ms=2) as writer:
            handles = [writer.append(value, key=value[:4] or None) for value in values]
        for handle, value in zip(handles, values, strict=True):
            at = handle.result()
            self._note(topic, at.partition, at.offset, value)

    def read(self, source: random.Random) -> None:
        """All of a topic; offsets go up in each partition."""
        topic = source.choice(["kept", "weak", "short"])
        last: dict[int, int] = {}
        try:
            for record in self.store.topic(topic).read(when_overtaken="skip"):
                assert record.offset > last.get(record.partition, -1)
                last[record.partition] = record.offset
                if self.stop.is_set():
                    return
        except OffsetOutOfRangeError:
            assert topic == "short"

    def read_columns(self, source: random.Random) -> None:
        """The same as columns."""
        topic = source.choice(["kept", "weak"])
        for batch in self.store.topic(topic).arrow():
            assert batch.num_rows > 0
            if self.stop.is_set():
                return
        time.sleep(0.05)

    def follow(self, source: random.Random) -> None:
        """What comes, for a second."""
        log = self.store.log("kept", source.randrange(2))
        end = time.monotonic() + 1
        expected = log.high_watermark
        for record in log.read(expected, follow=True, poll_s=0.01):
            assert record.offset == expected
            expected += 1
            if time.monotonic() > end or self.stop.is_set():
                return

    def change_topics(self, source: random.Random) -> None:
        """Topics come and go, while somebody appends to them."""
        name = f"passing-{source.randrange(3)}"
        topic = self.store.create_topic(name, source.randrange(1, 4), {"file.delete.delay.ms": source.choice([0, 200])}, exist_ok=True)
        try:
            for _ in range(source.randrange(20)):
                topic.append(source.randbytes(50), key=b"k")
            assert sum(1 for _ in topic.read()) >= 0
        except (UnknownTopicError, LogClosedError):
            pass
        self.store.delete_topic(name)
        time.sleep(0.05)

    def alter(self, source: random.Random) -> None:
        """Settings change live; somebody asks what would happen."""
        self.store.topic("short").alter({"retention.bytes": source.choice([50_000, 100_000, 200_000])})
        self.store.topic("weak").alter({"flush.messages": source.choice([1, 10, 1000])})
        assert str(self.store.explain("short"))
        assert self.store.metrics()
        time.sleep(0.1)

    def update(self, source: random.Random) -> None:
        """Keys get other values, and are deleted."""
        topic, mine = self.store.topic("latest"), str(threading.get_ident()).encode()
        with topic.writer(linger_ms=1) as writer:
            for _ in range(100):
                key = b"%s-%d" % (mine, source.randrange(200))
                self.latest[key] = value = None if source.random() < 0.2 else source.randbytes(source.randrange(150))
                writer.append(value, key=key)

    def read_latest(self, source: random.Random) -> None:
        """What is compacted, from anywhere: offsets go up, whatever happens underneath."""
        log = self.store.log("latest", source.randrange(2))
        last = source.randrange(log.log_end_offset + 1)
        for record in log.read(last):
            assert record.offset >= last
            last = record.offset + 1
            if self.stop.is_set():
                return

    def compact(self, source: random.Random) -> None:
        """At once, beside the cleaner's threads."""
        result = self.store.compact("latest", dry_run=source.random() < 0.5, roll=source.random() < 0.3)
        assert not result.failures, str(result)
        time.sleep(0.3)

    # What must be true at the end

    def _check_records(self) -> None:
        for (topic, partition), written in self.written.items():
            found = {record.offset: record.value for record in self.store.log(topic, partition).read()}
            missing = [offset for offset, value in written.items() if found.get(offset) != value]
            if missing:
                self.failures.append(f"{topic}-{partition}: {len(missing)} acknowledged records are missing, the first at {min(missing)}")

        table = dict(self.store.topic("latest").table())
        expected = {key: value for key, value in self.latest.items() if value is not None}
        if table != expected:
            wrong = sum(table.get(key) != expected.get(key) for key in table.keys() | expected.keys())
            self.failures.append(f"latest: {wrong} keys do not have their last value")
        if not self.store.metrics().cleaner.totals.passes:
            self.failures.append("nothing was ever compacted")
        self.retained = sum(self.store.log("short", partition).log_start_offset for partition in (0, 1))

    def _check_footprint(self, before: Footprint, after: Footprint) -> None:
        self.settled, self.ended = before, after
        noted = (after.noted - before.noted) * NOTED_BYTES
        if after.memory_bytes - before.memory_bytes > MAX_GROWTH_BYTES + noted:
            self.failures.append(f"memory grew: {before} at first, {after} at last")
        if after.open_files - before.open_files > MAX_MORE_FILES:
            self.failures.append(f"open files grew: {before} at first, {after} at last")

    def footprint(self) -> Footprint:
        """Of this process, now."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        noted = sum(map(len, self.written.values()))
        return Footprint(pages * os.sysconf("SC_PAGE_SIZE"), sum(1 for _ in Path("/proc/self/fd").iterdir()), noted)


def stacks() -> str:
    """Where every thread is."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames().items()
    return "\n".join(f"{names.get(ident)}:\n{''.join(traceback.format_stack(frame)[-8:])}" for ident, frame in frames)


def soak(folder: Path, seconds: float, seed: int) -> Soak:
    """Run it, and check what is left on disk. AssertionError with all that is wrong."""
    # Few files, so that the pool is full long before it is looked at for the first time.
    with Store.open(folder, config=CONFIG, pool=FilePool(max_open=MAX_OPEN)) as store:
        run = Soak(store, seed)
        run.run(seconds)
        assert not run.failures, "\n".join(run.failures)
        assert not store.failures
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and any(folder.rglob("*delete*")):
            time.sleep(0.1)  # what is deleted goes after a delay, in the background
    # Where all batches were of producers that are forgotten, compaction leaves a segment without one, as Kafka's does. Nothing else may.
    found = verify_log_directory(folder)
    findings = [str(one) for one in found if one.code != "empty-segments" or not Path(one.path).name.startswith("latest-")]
    assert not findings, "\n".join(findings)
    return run


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description="A store under load, everything at once.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.seconds:.0f} s")  # noqa: T201
    with tempfile.TemporaryDirectory(prefix="tidelog-soak-") as folder:
        run = soak(Path(folder) / "data", options.seconds, options.seed)
    print("; ".join(f"{name} {count:,}" for name, count in sorted(run.done.items())) + "; all is in order")  # noqa: T201
    for when, found in (("settled", run.settled), ("at the end", run.ended)):
        print(f"{when}: {found.memory_bytes / 1e6:.0f} MB, {found.open_files} open files, {found.noted:,} records noted")  # noqa: T201


if __name__ == "__main__":
    main()

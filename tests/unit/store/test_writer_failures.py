"""What a writer does when appending fails: who is told, what is retried, what is never there twice."""

import errno
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import FakeClock
from tidelog.disk.file_pool import FilePool
from tidelog.errors import DiskFullError, LogClosedError, LogFailedError, MessageTooLargeError, StorageError, TidelogError
from tidelog.log.log import Log
from tidelog.store import Store, Topic
from tidelog.store.write_batch import Outcome
from tidelog.store.write_sending import _part

NEVER_MS = 10_000_000
SOON_S = 10


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def store(tmp_path: Path, disk: FaultyDisk) -> Iterator[Store]:
    config = {"log.index.size.max.bytes": 1 << 16}
    with Store.open(tmp_path / "store", config=config, clock=FakeClock(), pool=FilePool(disk), random=Random(1)) as opened:
        yield opened


def values(topic: Topic, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in topic.log(partition).read()]


def test_a_full_disk_is_told_to_the_handles_and_once_more_then_it_goes_on(store: Store, disk: FaultyDisk) -> None:
    topic = store.create_topic("emails")
    writer = topic.writer(linger_ms=NEVER_MS, retries=0)
    before = writer.append(b"before")
    writer.flush()
    disk.limit(0)
    lost = [writer.append(bytes(2000)) for _ in range(3)]
    with pytest.raises(DiskFullError):
        writer.flush()
    for handle in lost:
        with pytest.raises(DiskFullError, match="emails-0"):
            handle.result(0)
    writer.flush()  # told once
    lost = [writer.append(bytes(2000))]
    with pytest.raises(DiskFullError):
        writer.flush()
    disk.heal()
    after = writer.append(b"after")
    writer.close()
    assert [before.result().offset, after.result().offset] == [0, 1]
    assert values(topic) == [b"before", b"after"]


def test_the_next_append_is_told(store: Store, disk: FaultyDisk) -> None:
    topic = store.create_topic("emails")
    with topic.writer(linger_ms=0, retries=0) as writer:
        disk.fail(1, error=errno.EIO, kind="write", on=".log")
        handle = writer.append(b"lost")
        with pytest.raises(StorageError):
            handle.result(SOON_S)
        with pytest.raises(StorageError):
            _append_until_told(writer)
        writer.append(b"goes on")
    assert values(topic)[-1] == b"goes on"
    assert b"lost" not in values(topic)


def _append_until_told(writer: Any) -> None:
    for _ in range(1000):
        writer.append(b"more")
        time.sleep(0.001)


def test_an_error_in_the_body_of_with_is_not_replaced(store: Store, disk: FaultyDisk) -> None:
    topic = store.create_topic("emails")

    def produce(*, then: Exception | None) -> None:
        with topic.writer(linger_ms=NEVER_MS, retries=0) as writer:
            disk.fail(1, error=errno.EIO, kind="write", on=".log")
            writer.append(b"lost")
            if then is not None:
                raise then

    with pytest.raises(ZeroDivisionError):
        produce(then=ZeroDivisionError())
    with pytest.raises(StorageError):
        produce(then=None)


def test_a_passing_trouble_is_not_even_noticed(store: Store, disk: FaultyDisk) -> None:
    topic = store.create_topic("emails")
    with topic.writer(linger_ms=NEVER_MS, retry_backoff_ms=1) as writer:
        disk.fail(1, error=errno.EIO, kind="write", on=".log")
        handles = [writer.append(b"%d" % number) for number in range(5)]
    assert [handle.result(0).offset for handle in handles] == [0, 1, 2, 3, 4]
    assert values(topic) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_retry_of_what_was_in_the_log_is_a_duplicate(store: Store, monkeypatch: pytest.MonkeyPatch, idempotent: bool) -> None:
    topic = store.create_topic("emails")
    append_run, fails = Log.append_run, [False, True, False, True]

    def forgetful(log: Log, batches: Any, **options: Any) -> Any:
        infos = append_run(log, batches, **options)
        if fails and fails.pop(0):
            raise StorageError("the answer got lost")
        return infos

    monkeypatch.setattr(Log, "append_run", forgetful)
    handles = []
    with topic.writer(linger_ms=NEVER_MS, batch_bytes=100, retry_backoff_ms=1, idempotent=idempotent) as writer:
        for number in range(4):
            handles.append(writer.append(b"%d" % number * 50))
            writer.flush()
    stored = values(topic)
    if idempotent:
        assert stored == [b"%d" % number * 50 for number in range(4)]
        assert [handle.result().offset for handle in handles] == [0, 1, 2, 3]
    else:
        assert len(stored) > 4  # which is why it is not the default


def test_after_giving_up_the_next_batch_is_not_taken_for_the_lost_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    # It was in the log after all. A batch with its numbers and as many records would count as its repetition, and vanish.
    topic = store.create_topic("emails")
    append_run, fails = Log.append_run, [True]

    def forgetful(log: Log, batches: Any, **options: Any) -> Any:
        infos = append_run(log, batches, **options)
        if fails:
            fails.pop()
            raise StorageError("the answer got lost")
        return infos

    monkeypatch.setattr(Log, "append_run", forgetful)
    writer = topic.writer(linger_ms=NEVER_MS, retries=0)
    doubtful = writer.append(b"doubtful")
    with pytest.raises(StorageError):
        writer.flush()
    with pytest.raises(StorageError):
        doubtful.result(0)
    after = writer.append(b"after")
    writer.close()
    assert after.result().offset == 1
    assert values(topic) == [b"doubtful", b"after"]
    assert [(batch.producer_epoch, batch.base_sequence) for batch in topic.log(0).batches()] == [(0, 0), (1, 0)]


def test_a_refused_batch_takes_no_others_with_it(store: Store) -> None:
    topic = store.create_topic("emails")
    writer = topic.writer(linger_ms=NEVER_MS)
    handles = [writer.append(bytes(size)) for size in (10, 3000, 20, 30, 4000, 40)]
    topic.alter({"max.message.bytes": 1000})  # they were fine when they came
    with pytest.raises(MessageTooLargeError):
        writer.flush()
    offsets: list[int | None] = []
    for handle in handles:
        try:
            offsets.append(handle.result(0).offset)
        except MessageTooLargeError:
            offsets.append(None)
    assert offsets == [0, None, 1, 2, None, 3]
    assert [len(value or b"") for value in values(topic)] == [10, 20, 30, 40]
    writer.close()


def test_part_of_a_run_is_in_the_log_when_the_disk_fails(store: Store, disk: FaultyDisk) -> None:
    topic = store.create_topic("emails", config={"segment.bytes": 1 << 20})
    writer = topic.writer(linger_ms=NEVER_MS, batch_bytes=100_000, retries=0)
    handles = [writer.append(bytes(50_000)) for _ in range(30)]  # more than a segment
    disk.fail(2, error=errno.EIO, kind="write", on=".log", until_healed=True)
    with pytest.raises(StorageError):
        writer.flush()
    disk.heal()
    written = [handle for handle in handles if _is_written(handle)]
    assert written == handles[: len(written)]
    assert [handle.result().offset for handle in written] == list(range(topic.log(0).log_end_offset))
    writer.close()


def _is_written(handle: Any) -> bool:
    try:
        handle.result(0)
    except StorageError:
        return False
    return True


def test_a_failed_sync_ends_it(store: Store, disk: FaultyDisk) -> None:
    topic = store.create_topic("emails")
    writer = topic.writer(linger_ms=NEVER_MS)
    disk.fail(1, error=errno.EIO, kind="sync", on=".log")
    handle = writer.append(b"x")
    with pytest.raises(LogFailedError):
        writer.flush()
    with pytest.raises(LogFailedError):
        handle.result(0)
    writer.close()


def test_a_deleted_topic(store: Store) -> None:
    topic = store.create_topic("emails")
    writer = topic.writer(linger_ms=NEVER_MS)
    writer.append(b"there")
    writer.flush()
    handle = writer.append(b"nowhere")
    store.delete_topic("emails")
    with pytest.raises(LogClosedError):
        writer.close()
    with pytest.raises(LogClosedError):
        handle.result(0)


def test_a_topic_that_was_made_again_is_another_one(store: Store) -> None:
    topic = store.create_topic("emails", 3)
    writer = topic.writer(linger_ms=NEVER_MS)
    gathered = writer.append(b"old", partition=0)
    writer.flush()
    late = writer.append(b"late", partition=0)
    store.delete_topic("emails")
    again = store.create_topic("emails", 2)
    with pytest.raises(LogClosedError, match="deleted, and made again"):
        writer.append(b"lost", partition=1)
    with pytest.raises(LogClosedError):
        writer.close()
    assert gathered.result(0).offset == 0
    with pytest.raises(LogClosedError):
        late.result(0)
    assert values(again, 0) == values(again, 1) == []


def test_who_flushes_is_told_however_soon_he_wakes(store: Store) -> None:
    topic = store.create_topic("emails")
    writer = topic.writer(linger_ms=NEVER_MS)
    handle = writer.append(b"x" * 100)
    topic.alter({"max.message.bytes": 100})
    told = threading.Event()
    handle.batch.when_done(lambda: told.wait(SOON_S))  # the thread that sends is held up behind the batch that failed
    try:
        with pytest.raises(MessageTooLargeError):
            writer.flush()
    finally:
        told.set()
    writer.close()


def test_something_unforeseen_is_told_and_the_thread_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = store.create_topic("emails")
    append_run = Log.append_run
    monkeypatch.setattr(Log, "append_run", lambda *_: 1 / 0)
    writer = topic.writer(linger_ms=NEVER_MS)
    handle = writer.append(b"x")
    with pytest.raises(ZeroDivisionError):
        writer.flush()
    with pytest.raises(ZeroDivisionError):
        handle.result(0)
    monkeypatch.setattr(Log, "append_run", append_run)
    writer.append(b"y")
    writer.flush()
    writer.close()
    assert values(topic) == [b"y"]


def test_who_appends_waits_when_the_buffer_is_full(store: Store, disk: FaultyDisk) -> None:
    topic = store.create_topic("emails")
    opened = threading.Event()
    disk.run(1, lambda: opened.wait(SOON_S), kind="write", on=".log")
    taken: list[int] = []
    with topic.writer(linger_ms=0, batch_bytes=1000, buffer_memory=10_000) as writer:

        def produce() -> None:
            for number in range(100):
                writer.append(bytes(400))
                taken.append(number)

        thread = threading.Thread(target=produce)
        thread.start()
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(taken) < 30  # ten kilobytes, and a batch or two more
        opened.set()
        thread.join(SOON_S)
        assert len(taken) == 100
    assert len(values(topic)) == 100


def test_closing_wakes_who_waits_for_room(store: Store, disk: FaultyDisk) -> None:
    topic = store.create_topic("emails")
    opened = threading.Event()
    disk.run(1, lambda: opened.wait(SOON_S), kind="write", on=".log")
    writer = topic.writer(linger_ms=0, batch_bytes=1000, buffer_memory=2000)
    errors: list[TidelogError] = []

    def produce() -> None:
        try:
            for _ in range(100):
                writer.append(bytes(400))
        except TidelogError as error:
            errors.append(error)

    thread = threading.Thread(target=produce)
    thread.start()
    time.sleep(0.05)
    closing = threading.Thread(target=writer.close)
    closing.start()
    thread.join(SOON_S / 4)
    assert not thread.is_alive()
    opened.set()
    closing.join(SOON_S)
    assert [type(error) for error in errors] == [LogClosedError]


def test_outcomes_are_cut_at_batches() -> None:
    error = StorageError("x")
    outcomes = [Outcome(0, 100, -1, None), Outcome(4, -1, -1, error), Outcome(6, 300, -1, None)]
    assert _part(outcomes, 0, 3) == [Outcome(0, 100, -1, None)]
    assert _part(outcomes, 3, 5) == [Outcome(0, 103, -1, None), Outcome(1, -1, -1, error)]
    assert [outcome[:2] for outcome in _part(outcomes, 5, 9)] == [(0, 0), (1, 300)]
    assert _part(outcomes, 7, 9) == [Outcome(0, 301, -1, None)]


@pytest.mark.parametrize("unforeseen", [OSError(errno.EMFILE, "too many open files"), RuntimeError("can't start new thread")])
def test_after_what_nobody_thinks_of_the_next_batch_is_not_taken_for_the_lost_one(
    store: Store, monkeypatch: pytest.MonkeyPatch, unforeseen: Exception
) -> None:
    topic = store.create_topic("emails")
    append_run, fails = Log.append_run, [True]

    def forgetful(log: Log, batches: Any, **options: Any) -> Any:
        infos = append_run(log, batches, **options)
        if fails:
            fails.pop()
            raise unforeseen
        return infos

    monkeypatch.setattr(Log, "append_run", forgetful)
    with topic.writer(linger_ms=NEVER_MS) as writer:
        lost = writer.append(b"lost")
        with pytest.raises(type(unforeseen)):
            writer.flush()
        with pytest.raises(type(unforeseen)):
            lost.result()
        after = writer.append(b"after")
    assert after.result().offset == 1
    assert values(topic) == [b"lost", b"after"]

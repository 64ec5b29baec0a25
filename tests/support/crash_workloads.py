"""What is done to a log while the power may be cut at any moment. A workload is short: each of its moments has dozens of images."""

import errno
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.crash_check import AnyModel, Opened, Tally, check_recording, open_image
from tests.support.crash_images import Bounds, crash_images, materialise
from tests.support.crash_model import Model, Op, Stored, ThreadedModel
from tests.support.crash_session import Session
from tests.support.faulty_disk import FaultyDisk
from tests.support.recording_disk import Recording, RecordingDisk
from tidelog.errors import StorageError
from tidelog.record.control import ControlType

LONG_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Workload:
    """Something to do, and the settings of the log it is done to."""

    work: Callable[[Session], None]
    settings: dict[str, object] = field(default_factory=dict)
    sync_s: float = 0.0
    is_threaded: bool = False
    has_faults: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        extra = "".join(f" {key}={value}" for key, value in self.settings.items())
        return self.work.__name__ + extra

    def model(self) -> AnyModel:
        """What the log may hold."""
        if self.is_threaded:
            return ThreadedModel()
        flush_messages = self.settings.get("flush.messages", 1)
        assert isinstance(flush_messages, int)
        return Model(flush_messages=flush_messages)


def record(workload: Workload, scratch: Path) -> tuple[Recording, dict[str, object]]:
    """Do it: what happened, and the settings of the log."""
    root = scratch / "root"
    root.mkdir()
    disk = RecordingDisk(root, sync_s=workload.sync_s)
    session = Session(root, disk, workload.settings, disk=FaultyDisk(disk) if workload.has_faults else disk)
    try:
        workload.work(session)
        recording = disk.recording()
    finally:
        session.drop()
    return recording, session.settings


def attempted_in(recording: Recording) -> set[Stored]:
    """Everything that was ever to be in the log."""
    return {batch for op in recording.payloads("begin") if isinstance(op, Op) for batch in op.batches}


def check_workload(workload: Workload, scratch: Path, bounds: Bounds, tally: Tally | None = None) -> Tally:
    """Do it, and look at every image."""
    recording, settings = record(workload, scratch)
    return check_recording(recording, workload.model(), settings, scratch, bounds=bounds, tally=tally)


def check_second_crash(workload: Workload, scratch: Path, bounds: Bounds, *, count: int, tally: Tally | None = None) -> Tally:
    """Do it, open `count` of the images on a recording disk, and look at every image of that: a crash while a crash is recovered from."""
    tally = tally or Tally()
    recording, settings = record(workload, scratch)
    attempted = attempted_in(recording)
    images = list({image.digest: image for image in crash_images(recording, bounds=bounds)}.values())
    opened: dict[str, Opened] = {}
    for number, image in enumerate(random.Random(0).sample(images, min(count, len(images)))):
        found = open_image(image, settings, scratch)
        root = scratch / f"second-{number}"
        materialise(image, root)
        disk = RecordingDisk(root)
        flush_messages = settings.get("flush.messages", 1)
        assert isinstance(flush_messages, int)
        model = Model(flush_messages, found.batches, found.start, found.end, found.end, found.end, attempted=set(attempted))
        session = Session(root, disk, settings, epoch=found.epochs[-1][0] if found.epochs else 0)
        try:
            session.append_many(2)
            session.close()
        finally:
            session.drop()
        check_recording(disk.recording(), model, settings, scratch, bounds=bounds, tally=tally, opened=opened)
        shutil.rmtree(root)
    return tally


# Appends


def single_appends_and_rolls(session: Session) -> None:
    session.append_many(6)
    session.append(records=2)


def runs(session: Session) -> None:
    session.append()
    session.run(2)
    session.run(6)


def as_a_follower(session: Session) -> None:
    session.follow(2)
    session.epoch = 3
    session.follow(2, gap=4)
    session.follow(2)


def leader_epochs(session: Session) -> None:
    session.append()
    session.epoch = 2
    session.append_many(2)
    session.epoch = 5
    session.append_many(3)


def flush_and_checkpoint(session: Session) -> None:
    session.append_many(3)
    session.flush()
    session.append_many(3)
    session.checkpoint()
    session.roll()
    session.append()


def close_and_reopen(session: Session) -> None:
    session.append_many(5)
    session.reopen()
    session.append_many(2)
    session.close()


# What was there goes


def truncate_then_append(session: Session) -> None:
    session.append_many(4)
    session.epoch = 1
    session.append_many(6)
    session.truncate(9)
    session.append()
    session.truncate(2)
    session.epoch = 2
    session.append_many(3)


def truncate_after_checkpoint(session: Session) -> None:
    session.append_many(10)
    session.checkpoint()
    session.truncate(1)
    session.append_many(5)


def truncate_inside_a_batch(session: Session) -> None:
    session.append()
    session.append(records=3)
    session.truncate(2)
    session.append()


def truncate_fully(session: Session) -> None:
    session.append_many(5)
    session.truncate_fully(20)
    session.append_many(2)


def truncate_fully_after_deletion(session: Session) -> None:
    session.append_many(6)
    session.delete_segments(1)
    session.checkpoint()
    session.truncate_fully(20)
    session.append()


def truncate_below_the_start(session: Session) -> None:
    session.append_many(9)
    session.delete_segments(2)
    session.checkpoint()
    session.truncate(2)
    session.append()


def delete_records(session: Session) -> None:
    session.append_many(6)
    session.delete_before(2)
    session.append()
    session.delete_before(5)
    session.append()


def delete_records_then_truncate(session: Session) -> None:
    session.append_many(6)
    session.delete_before(5)
    session.truncate(3)
    session.append_many(2)


def delete_segments(session: Session) -> None:
    session.append_many(9)
    session.delete_segments(1)
    session.append()
    session.delete_segments(9)
    session.append()


def delete_some_and_checkpoint(session: Session) -> None:
    session.append_many(9)
    session.delete_segments(2)
    session.checkpoint()
    session.now_ms += 100_000
    session.checkpoint()
    session.reopen()
    session.append()


def replace_one(session: Session) -> None:
    session.append_many(6)
    session.replace(0, 1, dropped=(1,))
    session.append()


def replace_two_by_one(session: Session) -> None:
    session.append_many(9)
    session.replace(0, 2, dropped=(0, 2, 3, 4))
    session.append()


def replace_by_two(session: Session) -> None:
    session.append_many(9)
    session.replace(0, 2, pieces=2)
    session.replace(0, 1)
    session.append()


# Producers with ids


def idempotent_appends(session: Session) -> None:
    session.send(1)
    session.send(2, records=2)
    session.send_again(1)
    session.send(1)
    session.append()
    session.send_run([1, 2, 1])
    session.send(1)
    session.send_again(2)


def transactions(session: Session) -> None:
    session.send(1, in_txn=True)
    session.send(2, in_txn=True)
    session.send(3)
    session.abort(2)
    session.send(1, in_txn=True)
    session.commit(1)
    session.send(2, in_txn=True)
    session.abort(2, newer_epoch=True)
    session.send(2, in_txn=True)


def transactions_and_reopening(session: Session) -> None:
    session.send(1, in_txn=True)
    session.send(2)
    session.reopen()
    session.abort(1)
    session.roll()
    session.send(2, in_txn=True)
    session.checkpoint()
    session.close()


def transactions_are_truncated(session: Session) -> None:
    session.send(1, in_txn=True)
    session.send(2, in_txn=True)
    session.abort(2)
    session.send(3)
    session.commit(1)
    session.send(2)
    session.truncate(4)
    session.abort(1)
    session.send(4)
    session.truncate(2)
    session.commit(2)
    session.send_run([1, 2])


def transactions_are_deleted(session: Session) -> None:
    session.send(1, in_txn=True)
    session.send(2)
    for _ in range(5):
        session.send(3)
    session.delete_segments(1)
    session.abort(1)
    session.send(2)
    session.delete_before(7)
    session.send(1)


def a_torn_marker(session: Session) -> None:
    disk = _faulty(session)
    session.send(1, in_txn=True)
    disk.shorten(1, size=20, on=".txnindex", then=errno.ENOSPC)
    with _refused():
        session.abort(1)
    disk.shorten(1, size=40, on=".log", then=errno.ENOSPC)
    with _refused():
        session.abort(1)
    session.commit(1)
    session.send(1, in_txn=True)
    disk.interrupt(1, kind="write", on=".log", moment="after")
    with _refused(KeyboardInterrupt):
        session.abort(1)
    session.abort(1)
    session.send(1)


# Several threads


def many_threads(session: Session) -> None:
    def work(thread: int) -> None:
        for count in range(5):
            session.append_in_thread(thread, thread * 1000 + count)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# Faults, and then the power goes


@contextmanager
def _refused(*kinds: type[BaseException]) -> Iterator[None]:
    with suppress(*kinds or (StorageError,)):
        yield
        raise AssertionError("the fault did not come")


def _faulty(session: Session) -> FaultyDisk:
    assert isinstance(session.disk, FaultyDisk)
    return session.disk


def torn_writes_are_rolled_back(session: Session) -> None:
    disk = _faulty(session)
    session.append_many(2)
    disk.shorten(1, size=40, on=".log", then=errno.ENOSPC)
    with _refused():
        session.append()
    session.append()
    disk.interrupt(1, kind="write", on=".log", moment="after")
    with _refused(KeyboardInterrupt):
        session.run(2)
    session.append()
    disk.fail(1, kind="write", on=".log", moment="after")
    with _refused():
        session.append()
    session.append()


def torn_write_with_an_epoch(session: Session) -> None:
    disk = _faulty(session)
    session.append_many(2)
    session.epoch = 4
    disk.shorten(1, size=40, on=".log", then=errno.EIO)
    with _refused():
        session.append()
    session.append_many(2)


def failed_roll(session: Session) -> None:
    disk = _faulty(session)
    session.append_many(3)
    disk.fail(1, error=errno.ENOSPC, kind="create", on=".index")
    with _refused():
        session.roll()
    session.append_many(2)


def failed_roll_then_truncate(session: Session) -> None:
    disk = _faulty(session)
    session.append_many(3)
    disk.fail(1, error=errno.ENOSPC, kind="create", on=".index")
    with _refused():
        session.roll()
    session.truncate(1)
    session.append(records=4)
    session.append()


def files_are_taken(session: Session) -> None:
    session.take(7, 2)
    session.take(7, 2)
    session.commit(7)
    session.append()


def taking_is_interrupted_at_the_rename(session: Session) -> None:
    disk = _faulty(session)
    session.append()
    session.roll()
    disk.interrupt(1, kind="rename", on="01.log", moment="after")
    with _refused(KeyboardInterrupt):
        session.take(7, 2)
    session.append_many(2)


def taking_is_interrupted_behind_the_rename(session: Session) -> None:
    disk = _faulty(session)
    session.append()
    session.roll()
    disk.interrupt(1, kind="sync_directory", on="t-0")
    with _refused(KeyboardInterrupt):
        session.take(7, 2)
    session.append_many(2)


def taking_finds_no_descriptor(session: Session) -> None:
    disk = _faulty(session)
    session.append()
    session.roll()
    disk.fail(1, kind="sync_directory", on="t-0", error=errno.EMFILE)
    with _refused():
        session.take(7, 2)
    session.append_many(2)


def taking_copies(session: Session) -> None:
    disk = _faulty(session)
    session.append()
    disk.fail(1, kind="rename", on=".log", error=errno.EXDEV)
    session.take(7, 2)
    assert [call.kind for call in disk.fired] == ["rename"]
    session.commit(7)
    session.append()


PLAIN = [
    Workload(single_appends_and_rolls),
    Workload(runs),
    Workload(as_a_follower),
    Workload(leader_epochs),
    Workload(flush_and_checkpoint),
    Workload(close_and_reopen),
    Workload(truncate_then_append),
    Workload(truncate_then_append, {"file.delete.delay.ms": 60_000}),
    Workload(truncate_after_checkpoint),
    Workload(truncate_inside_a_batch),
    Workload(truncate_fully),
    Workload(truncate_fully_after_deletion),
    Workload(truncate_below_the_start),
    Workload(delete_records),
    Workload(delete_records_then_truncate),
    Workload(delete_segments),
    Workload(delete_some_and_checkpoint, {"file.delete.delay.ms": 60_000}),
    Workload(replace_one),
    Workload(replace_two_by_one),
    Workload(replace_by_two, {"file.delete.delay.ms": 60_000}),
]
FAULTY = [
    Workload(torn_writes_are_rolled_back, has_faults=True),
    Workload(torn_write_with_an_epoch, has_faults=True),
    Workload(failed_roll, has_faults=True),
    Workload(failed_roll_then_truncate, has_faults=True),
    Workload(taking_is_interrupted_at_the_rename, has_faults=True),
    Workload(taking_is_interrupted_behind_the_rename, has_faults=True),
    Workload(taking_finds_no_descriptor, has_faults=True),
    Workload(taking_copies, has_faults=True),
]
PRODUCERS = [
    Workload(idempotent_appends),
    Workload(transactions),
    Workload(files_are_taken),
    Workload(transactions, {"internal.segment.bytes": 10_000}),
    Workload(transactions_and_reopening),
    Workload(transactions_are_truncated),
    Workload(transactions_are_truncated, {"internal.segment.bytes": 10_000}),
    Workload(transactions_are_deleted),
    Workload(a_torn_marker, has_faults=True),
]
THREADED = [Workload(many_threads, sync_s=0.001, is_threaded=True)]


def weak(workload: Workload, flush_messages: int) -> Workload:
    """The same, with appends that do not wait for the disk."""
    return Workload(workload.work, workload.settings | {"flush.messages": flush_messages})


def random_workload(seed: int) -> Workload:
    """Twenty calls drawn by lot, on a log with settings drawn by lot."""
    draw = random.Random(seed)
    settings: dict[str, object] = {
        "file.delete.delay.ms": draw.choice([0, 60_000]),
        "internal.segment.bytes": draw.choice([150, 300, 700, 10_000]),
        "segment.index.bytes": draw.choice([36, 96, 1200]),
        "index.interval.bytes": draw.choice([0, 100, 4096]),
    }

    def work(session: Session) -> None:
        for _ in range(draw.randrange(8, 20)):
            _one_call(session, draw)

    work.__name__ = f"random {seed}"
    return Workload(work, settings)


def random_producers(seed: int) -> Workload:
    """The same with producers that have ids: half of the calls are theirs."""
    drawn = random_workload(seed)
    draw = random.Random(seed + 1_000_000)

    def work(session: Session) -> None:
        for _ in range(draw.randrange(8, 20)):
            if draw.random() < 0.7:
                _one_call_of_a_producer(session, draw)
            else:
                _one_call(session, draw)

    work.__name__ = f"random producers {seed}"
    return Workload(work, drawn.settings)


def _one_call_of_a_producer(session: Session, draw: random.Random) -> None:
    known = session.producers
    if len(known) < 3 and draw.random() < 0.4:
        # Never one that was there before: of those that a cut or a deletion took, the log may or may not know.
        session.send(session.log.log_end_offset * 10 + 1 + max(known, default=0), in_txn=draw.random() < 0.6)
        return
    if not known:
        return
    producer_id = draw.choice(sorted(known))
    story = known[producer_id]
    call = draw.choice(["send", "send", "again", "end", "run"])
    if call == "send":
        session.send(producer_id, draw.choice([1, 1, 2]), in_txn=story.is_open or draw.random() < 0.4)
    elif call == "again" and story.newest is not None:
        session.send_again(producer_id)
    elif call == "end":
        session.end_txn(producer_id, draw.choice([ControlType.ABORT, ControlType.COMMIT]), newer_epoch=draw.random() < 0.2)
    elif call == "run" and session.settings["internal.segment.bytes"] != 150:
        session.send_run(draw.sample(sorted(known), draw.randrange(1, len(known) + 1)))


def _one_call(session: Session, draw: random.Random) -> None:
    log = session.log
    start, end = log.log_start_offset, log.log_end_offset
    call = draw.choices(
        ["append", "run", "follow", "epoch", "flush", "checkpoint", "roll", "reopen", "truncate", "delete", "segments", "replace", "fully"],
        [30, 12, 6, 6, 4, 6, 4, 5, 7, 6, 6, 6, 2],
    )[0]
    if call == "append":
        session.append(records=draw.choice([1, 1, 1, 2, 3]))
    elif call == "run":
        if session.settings["internal.segment.bytes"] != 150:
            session.run(draw.randrange(1, 8))
    elif call == "follow":
        session.follow(1, gap=draw.choice([0, 0, 3]))
    elif call == "epoch":
        session.epoch += draw.randrange(1, 3)
        session.append()
    elif call in ("flush", "checkpoint", "roll", "reopen"):
        getattr(session, call)()
    elif call == "truncate" and end > start:
        session.truncate(draw.randrange(start, end))
    elif call == "delete" and end > start:
        log.high_watermark = end
        session.delete_before(draw.randrange(start, end + 1))
    elif call == "segments":
        session.delete_segments(draw.randrange(1, len(log.segments) + 1))
    elif call == "replace":
        full = [number for number, segment in enumerate(log.segments[:-1]) if segment.size_bytes and segment.base_offset >= start]
        if full:
            first = draw.choice(full)
            session.replace(first, draw.randrange(1, len(log.segments) - first), dropped=(0,) if draw.random() < 0.5 else ())
    elif call == "fully":
        session.truncate_fully(draw.choice([end, end + 5, start]))
        session.epoch = max(session.epoch, 0)

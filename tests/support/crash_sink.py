"""A pipeline's commits in the crash simulation: the power goes at any moment of one, and the batch comes again with other rows.

Each image is opened, and then the batch is committed once more, as Spark does, from an upstream that answers differently. What is there in
the end is every row of the first attempt and none of the second, or the other way round: by the ledger, in every partition. If the commit
had been answered, it is the first.
"""

import shutil
from collections.abc import Collection
from pathlib import Path

from tests.support.crash_check import CrashViolationError, Tally
from tests.support.crash_images import Bounds, Image, crash_images, materialise
from tests.support.logs import FakeClock, QuietDisk
from tests.support.recording_disk import Note, Recording, RecordingDisk, describe
from tests.support.small_stores import SMALL, open_store, state_of
from tests.support.staged import Rows, a_commit, stage
from tests.support.transactions import committed
from tests.support.verified import assert_verified
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import TopicPartition
from tidelog.store.sink_commit import NewTopics, SinkCommit, SinkCommitted, commit_staged
from tidelog.store.transactions.ledger import last_commit

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PARTITIONS = (A0, A1, B0)
NEW_TOPICS = NewTopics(1)
CONFIG = {**SMALL, "num.recovery.threads.per.data.dir": 1, "transaction.state.log.num.partitions": 2}


def rows_of(batch_id: int, attempt: int, partitions: Collection[TopicPartition] = PARTITIONS) -> Rows:
    """What an attempt of a batch brings: of several batches a partition."""
    return {partition: [b"k:%d %d %d" % (batch_id, attempt, row) for row in range(20 + attempt)] for partition in partitions}


def commit(data: Path, work: SinkCommit, disk: Disk) -> SinkCommitted:
    return commit_staged([str(data)], work, lock_timeout_s=0, config=CONFIG, clock=FakeClock(), pool=FilePool(disk))


class SinkSession:
    """A store on a disk that records, and the batches that were committed to it."""

    def __init__(self, root: Path, staged: Path, *, own_files: bool = False) -> None:
        self.disk = RecordingDisk(root)
        self.data = root / "data"
        self._staged = staged
        self._own_files = own_files
        """Whether each partition gets a file of its own, on the disk that records: it may become a segment."""

    def make(self) -> None:
        """Two topics, of which a crash may leave none: no part of what is looked at."""
        with open_store(self.data, disk=self.disk, config=CONFIG) as store:
            store.create_topic("a", 2)
            store.create_topic("b", 1)

    def run(self, batch_id: int) -> None:
        """Commit a batch."""
        rows = rows_of(batch_id, 0)
        if self._own_files:
            files = [
                stage(self._staged / f"first-{batch_id}-{place}", self.data, {partition: rows[partition]}, disk=self.disk)
                for place, partition in enumerate(rows)
            ]
        else:
            files = [stage(self._staged / f"first-{batch_id}", self.data, rows)]
        work = a_commit(*files, batch_id=batch_id)
        self.disk.note("ending", batch_id)
        commit(self.data, work, self.disk)
        self.disk.note("ended", batch_id)


def check_recording(
    recording: Recording, scratch: Path, last_batch: int, *, bounds: Bounds, cuts: Collection[int], tally: Tally, every: int
) -> int:
    """Open every image, or some of them: how many different ones there were."""
    disk, seen, followed, former_cut = QuietDisk(), set[tuple[str, bool]](), 0, -1
    is_answered = False
    for image in crash_images(recording, bounds=bounds, cuts=cuts):
        for event in recording.events[followed : image.cut]:
            if isinstance(event, Note) and event.label == "ended":
                is_answered = event.payload == last_batch
        followed, is_kill, former_cut = image.cut, image.cut != former_cut, image.cut
        if not is_kill and not image.is_sampled(every):
            continue
        tally.images += 1
        if (image.digest, is_answered) in seen:
            continue
        seen.add((image.digest, is_answered))
        try:
            _check(image, scratch, disk, last_batch, is_answered=is_answered)
        except Exception as error:
            last = "\n".join(describe(event) for event in recording.events[max(0, image.cut - 8) : image.cut])
            raise CrashViolationError(f"{type(error).__name__}: {error}\ncut at {image.cut}, {image.label}\n{last}", image) from error
    tally.opened += len(seen)
    return len(seen)


def _check(image: Image, scratch: Path, disk: Disk, last_batch: int, *, is_answered: bool) -> None:
    root, replay = scratch / "image", scratch / "replay"
    materialise(image, root)
    data = root / "data"
    try:
        found, done = look(data, disk)
        assert done in (last_batch - 1, last_batch), f"the ledger has {done}"
        assert done == last_batch or not is_answered, "its commit was answered, and is gone"
        expected = [rows_of(batch_id, 0) for batch_id in range(done + 1)]
        assert found == joined(expected), f"batches up to {done} by the ledger, but {found}"
        again = a_commit(stage(replay, data, rows_of(last_batch, 1)), batch_id=last_batch)
        answer = commit(data, again, disk)
        assert (answer.repeats is not None) == (done == last_batch)
        expected = expected if done == last_batch else [*expected, rows_of(last_batch, 1)]
        assert look(data, disk) == (joined(expected), last_batch)
        for partition in PARTITIONS:
            assert_verified(data / str(partition))
    finally:
        shutil.rmtree(root)
        replay.unlink(missing_ok=True)


def joined(batches: list[Rows]) -> dict[TopicPartition, list[bytes]]:
    """What several batches leave, partition by partition."""
    return {partition: [value for rows in batches for value in rows[partition]] for partition in PARTITIONS}


def look(data: Path, disk: Disk) -> tuple[dict[TopicPartition, list[bytes]], int]:
    """What readers of committed records see, and the last batch by the ledger. Nothing may be open any more."""
    with open_store(data, disk=disk, config=CONFIG) as store:
        assert store.failures == {}
        assert store.hanging_transactions() == []
        for topic in store.topics():
            assert all(topic.log(number).open_transactions == () for number in topic.partition_ids())
        values = {
            partition: [record.value or b"" for record in store.topic(partition.topic).read(partition=partition.partition)]
            for partition in PARTITIONS
        }
        last = last_commit(state_of(store), "stream/q")
        assert committed(store, "a") == values[A0] + values[A1]
        return values, -1 if last is None else last.batch_id

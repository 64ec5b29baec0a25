"""Random calls of a log, chosen by running them on ours and written down in the form of tests/golden/partitions, without answers.

Left out is what we do differently on purpose: bytes behind a batch, leader epochs that fall, and

    a call with more batches than an index has room for     Kafka writes them, then throws, and has not moved on
    recovery of a segment with more batches than that       Kafka throws
    what comes behind a recovery in which Kafka throws      it has accepted a batch outside of a transaction that its files say is open
    a call with offsets too far apart for a segment         Kafka refuses it after the roll, and stands between the segments
    a follower's call that a producer's state forbids       the same
    a producer epoch that falls in a follower's call        Kafka may go on remembering batches of the old one
    a new leader epoch in a call that is refused late       Kafka refuses the call and keeps the epoch: too large, a producer's fault
    a read up to a high watermark inside a batch or a gap   Kafka moves the watermark to the beginning of a batch
    the last stable offset after a cut                      Kafka is sure of it again with the next high watermark
    a cut below all time entries of a reopened segment      Kafka forgets the largest timestamp of what stays
    a start offset for a log that is only compacted         not Kafka's log but its broker refuses that
    opening a log of which nothing is left                  Kafka finds no index files, recovers, and leaves empty producer snapshots
    retention of segments without timestamps                they are as old as their file
"""

import base64
import json
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from interop.tests.random_producers import Producers
from tests.support.logs import TIME, QuietDisk, stored_batches
from tidelog.disk.file_pool import FilePool
from tidelog.errors import (
    CoordinatorFencedError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TidelogError,
)
from tidelog.log.log import Log
from tidelog.record import BatchSettings, Compression, NewBatch
from tidelog.retention import delete_old_segments

Step = dict[str, Any]
Call = Callable[[], object]
Rows = tuple[list[Any], Compression]

FAULTS_OF_PRODUCERS = (CoordinatorFencedError, InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceError)

WEIGHTS = {
    "append": 40,
    "produce": 25,
    "end_transaction": 8,
    "append_as_follower": 12,
    "roll": 3,
    "flush": 3,
    "truncate_to": 4,
    "truncate_fully_and_start_at": 1,
    "update_high_watermark": 8,
    "increment_log_start_offset": 4,
    "delete_old_segments": 5,
    "reopen": 4,
    "read": 12,
    "offset_for_time": 6,
    "offset_for_epoch": 3,
}
RENEWS_STABLE_OFFSET = ("update_high_watermark", "reopen")


def write_case(seed: int, folder: Path, work: Path) -> None:
    """A case without answers, made from a seed."""
    random = Random(seed)
    config = random_config(random)
    steps = Author(random, config, work).write(random.randrange(10, 80))
    folder.mkdir(parents=True)
    document = {"name": f"seed-{seed}", "about": "random steps", "config": config, "steps": steps}
    (folder / "case.json").write_text(json.dumps(document))


def random_config(random: Random) -> dict[str, str]:
    config: dict[str, object] = {
        "internal.segment.bytes": random.choice((200, 300, 500, 1000, 5000, 1 << 20)),
        "index.interval.bytes": random.choice((0, 1, 60, 150, 500, 4096)),
        "segment.index.bytes": random.choice((12, 16, 24, 36, 48, 100, 4000, 4000, 4000)),
        "segment.ms": random.choice((1, 50, 1000, 604800000, 604800000)),
    }
    if random.random() < 0.15:
        config["message.timestamp.type"] = "LogAppendTime"
    if random.random() < 0.2:
        config["compression.type"] = "uncompressed"
    if random.random() < 0.1:
        config["message.timestamp.before.max.ms"] = 3000
    if random.random() < 0.1:
        config["max.message.bytes"] = random.choice((150, 400))
    if random.random() < 0.15:
        config |= {"cleanup.policy": "compact,delete", "max.compaction.lag.ms": random.choice((40, 3000))}
    if random.random() < 0.4:
        config["retention.bytes"] = random.choice((0, 300, 1000, 3000))
    if random.random() < 0.4:
        config["retention.ms"] = random.choice((0, 500, 3000))
    return {name: str(value) for name, value in sorted(config.items())}


def encode(rows: Rows, base_offset: int = 0, **settings: Any) -> bytes:
    return NewBatch(rows[0], base_offset=base_offset, settings=BatchSettings(compression=rows[1], **settings)).encode()


class Author:
    """Runs steps on a log of ours, since what makes sense next depends on where the log stands."""

    def __init__(self, random: Random, config: dict[str, str], work: Path) -> None:
        self.random = random
        self.config = config
        self.directory = work / "tide-0"
        self.pool = FilePool(QuietDisk())
        self.now_ms = TIME
        self.data_ms = TIME
        self.was_reopened = False
        self.is_stable_offset_old = False
        self.has_room = int(config["segment.index.bytes"]) >= 4000
        """Whether the indexes of a segment take an entry for every batch."""
        self.producers = Producers(random)
        self.log = self.open()
        self.log.high_watermark = 0

    def open(self, **found: Any) -> Log:
        return Log.open(self.directory, config=self.config, clock=lambda: self.now_ms, recovery="kafka", pool=self.pool, **found)

    def write(self, count: int) -> list[Step]:
        steps = []
        for op in self.operations(count):
            if (op == "delete_old_segments" and not self.has_times()) or (op == "reopen" and self.is_all_gone()):
                continue
            self.now_ms += self.random.choice((0, 0, 1, 20, 500))
            step: Step = {"op": op, "now_ms": self.now_ms}
            call = getattr(self, op)(step)
            try:
                call()
            except FAULTS_OF_PRODUCERS:
                if op == "append_as_follower":
                    continue
            except TidelogError:  # Kafka will have to refuse it too
                pass
            else:
                self.is_stable_offset_old = op == "truncate_to" or (self.is_stable_offset_old and op not in RENEWS_STABLE_OFFSET)
            step["is_stable_offset_old"] = self.is_stable_offset_old
            steps.append(step)
        self.log.close()
        return steps

    def operations(self, count: int) -> list[str]:
        """What to do, one after the other."""
        return self.random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=count)

    # Batches

    def calls(self, most: int) -> tuple[list[Rows], list[int]]:
        """The batches of one call, and the leader epoch of each: none below the newest, no new one if the call may be too large."""
        calls = [self.rows() for _ in range(self.random.randint(1, most))]
        plain = sum(len(encode((rows, Compression.NONE))) for rows, _ in calls)
        is_too_large = max(plain, sum(map(len, map(encode, calls)))) > int(self.config["internal.segment.bytes"])
        if is_too_large and not self.log.leader_epochs:
            calls, is_too_large = [([(b"key", b"small", (), self.data_ms)], Compression.NONE)], False
        epoch, epochs = self.latest_epoch, []
        for _ in calls:
            epoch += 0 if is_too_large else self.random.choice((0, 0, 0, 0, 0, 1, 5))
            epochs.append(epoch)
        return calls, epochs

    def rows(self) -> Rows:
        """The records of a batch, and its codec."""
        self.data_ms += self.random.choice((0, 0, 1, 5, 30, 400))
        count = self.random.choice((1, 1, 1, 2, 3, 8))
        rows = [(self.key(), self.value(), self.headers(), self.timestamp()) for _ in range(count)]
        return rows, self.random.choice((Compression.NONE, Compression.NONE, *Compression))

    def key(self) -> bytes | None:
        is_compacted = "cleanup.policy" in self.config
        return b"key" if is_compacted and self.chance(0.99) else self.random.choice((None, b"", b"a", b"key"))

    def value(self) -> bytes | None:
        noise, text = self.random.randbytes(self.random.randrange(60)), b"tide " * self.random.randrange(30)
        return self.random.choice((None, b"", b"v", noise, text))

    def headers(self) -> list[tuple[str, bytes | None]]:
        return [("h", self.random.choice((None, b"", b"1"))) for _ in range(self.random.choice((0, 0, 0, 1, 2)))]

    def timestamp(self) -> int:
        choice = self.random.random()
        if choice < 0.03:
            return -1
        if choice < 0.05:
            return 0
        if choice < 0.06:
            return self.now_ms + 3_600_000 + self.random.randrange(-1, 2)  # about the limit
        return self.data_ms + (self.random.randrange(-300, 300) if choice < 0.4 else 0)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    @property
    def latest_epoch(self) -> int:
        return self.log.leader_epochs[-1][0] if self.log.leader_epochs else 0

    def offset(self, below: int = 1, above: int = 1) -> int:
        """Somewhere in the log or just outside, more often near its end."""
        start, end = self.log.log_start_offset - below, self.log.log_end_offset + above
        return max(0, self.random.randrange(max(start, end - 8) if self.chance(0.6) else start, end + 1))

    # Steps: each completes its description, and gives back the call

    def append(self, step: Step) -> Call:
        (rows,), (epoch,) = self.calls(1)
        data = encode(rows)
        step |= {"leader_epoch": epoch, "origin": "client", "batches": base64.b64encode(data).decode()}
        return lambda: self.log.append(data, leader_epoch=epoch)

    def produce(self, step: Step) -> Call:
        (rows,), _ = self.calls(1)
        epoch = self.latest_epoch
        settings = self.producers.batch_settings(self.log)
        data = self.producers.repeated() or encode(rows, **settings)
        self.producers.remember(settings["producer_id"], data)
        step |= {"op": "append", "leader_epoch": epoch, "origin": "client", "batches": base64.b64encode(data).decode()}
        return lambda: self.log.append(data, leader_epoch=epoch)

    def end_transaction(self, step: Step) -> Call:
        data = self.producers.marker(self.log, self.timestamp())
        epoch = self.latest_epoch
        step |= {"op": "append", "leader_epoch": epoch, "origin": "coordinator", "batches": base64.b64encode(data).decode()}
        return lambda: self.log.append(data, leader_epoch=epoch, origin="coordinator")

    def append_as_follower(self, step: Step) -> Call:
        calls, epochs = self.calls(4 if self.has_room else 1)
        is_of_producers = self.chance(0.3)
        if is_of_producers:
            epochs = [self.latest_epoch] * len(calls)
        offset = max(0, self.log.log_end_offset + (self.random.choice((-1, 2**31)) if self.chance(0.04) else 0))
        newest_epochs: dict[int, int] = {}
        data = b""
        for rows, epoch in zip(calls, epochs, strict=True):
            offset += self.random.choice((0, 0, 0, 0, 1, 7, 1000))
            settings = self.producers.batch_settings(self.log) if is_of_producers and self.chance(0.7) else {}
            if settings:
                producer_id = settings["producer_id"]
                newest = max(newest_epochs.get(producer_id, self.producers.epoch(self.log, producer_id)), settings["producer_epoch"])
                newest_epochs[producer_id] = settings["producer_epoch"] = newest
            data += encode(rows, base_offset=offset, partition_leader_epoch=epoch, **settings)
            offset += len(rows[0])
        if self.chance(0.1):
            data = data[: -self.random.randrange(1, 60)]
        # The last batches may be of a newer leader than the one that is followed.
        leader_epoch = epochs[0] if self.chance(0.1) else epochs[-1]
        step |= {"leader_epoch": leader_epoch, "batches": base64.b64encode(data).decode()}
        return lambda: self.log.append_as_follower(data, leader_epoch=leader_epoch)

    def roll(self, step: Step) -> Call:
        return self.log.roll

    def flush(self, step: Step) -> Call:
        return self.log.flush

    def truncate_to(self, step: Step) -> Call:
        offset = self.offset(below=3)
        step["offset"] = self.log.log_end_offset if self.was_reopened and self.loses_time_entries(offset) else offset
        return lambda: self.log.truncate_to(step["offset"])

    def loses_time_entries(self, offset: int) -> bool:
        """Whether a cut at an offset leaves no entry in the time index of the segment that holds it."""
        segment = next((segment for segment in reversed(self.log.segments) if segment.base_offset <= offset), self.log.segments[0])
        entries = struct.iter_unpack(">qi", segment.time_index.entry_bytes())
        return all(segment.base_offset + relative >= offset for _, relative in entries)

    def truncate_fully_and_start_at(self, step: Step) -> Call:
        step["offset"] = self.offset(below=0, above=20)
        return lambda: self.log.truncate_fully_and_start_at(step["offset"])

    def update_high_watermark(self, step: Step) -> Call:
        step["offset"] = self.log.log_end_offset if self.chance(0.7) else self.offset()
        return lambda: setattr(self.log, "high_watermark", step["offset"])

    def increment_log_start_offset(self, step: Step) -> Call:
        step["offset"] = self.offset(below=0) if self.chance(0.1) else min(self.offset(below=0), self.log.high_watermark)
        return lambda: self.log.delete_records_before(step["offset"])

    def delete_old_segments(self, step: Step) -> Call:
        return lambda: delete_old_segments(self.log, self.now_ms)

    def has_times(self) -> bool:
        """Whether no segment that may go has the age of its file."""
        return all(segment.max_timestamp.timestamp_ms >= 0 for segment in self.log.segments if segment.size_bytes)

    def is_all_gone(self) -> bool:
        """Whether no record is left, and the last segment is empty."""
        return 0 < self.log.log_start_offset == self.log.log_end_offset and self.log.segments[-1].size_bytes == 0

    def reopen(self, step: Step) -> Call:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        step["is_clean"] = is_clean = self.chance(0.6) or not self.has_room
        step["recovery_point_checkpoint"] = point = end if is_clean else self.random.choice((0, self.log.recovery_point))
        self.was_reopened = True
        self.log.close()
        self.log = self.open(last_shutdown_clean=is_clean, recovery_point=point, log_start_offset=start)
        self.log.high_watermark = start
        return lambda: None

    def read(self, step: Step) -> Call:
        offset = self.offset()
        isolation = self.random.choice(("log_end", "high_watermark", "txn_committed"))
        is_known = isolation == "high_watermark" or (isolation == "txn_committed" and not self.is_stable_offset_old)
        if not is_known or not self.is_bounded_at_a_batch(offset, isolation):
            isolation = "log_end"
        max_bytes = self.random.choice((0, 1, 70, 150, 400, 1 << 20))
        step |= {"offset": offset, "max_bytes": max_bytes, "isolation": isolation, "min_one": self.chance(0.5)}
        return lambda: None

    def is_bounded_at_a_batch(self, offset: int, isolation: str) -> bool:
        """Whether what bounds a reader lies where a batch begins, and a reader from an offset below it finds something."""
        if isolation == "txn_committed" and not self.is_bounded_at_a_batch(offset, "high_watermark"):
            return False
        bound = self.log.high_watermark if isolation == "high_watermark" else self.log.last_stable_offset
        if bound == self.log.log_end_offset:
            return True
        batches = stored_batches(self.log)
        finds = offset >= bound or any(batch.last_offset >= offset and batch.base_offset < bound for batch in batches)
        return finds and any(batch.base_offset == bound for batch in batches)

    def offset_for_time(self, step: Step) -> Call:
        special = self.random.choice((-1, -2, -3, -4, 0))
        step["timestamp_ms"] = special if self.chance(0.3) else self.data_ms - self.random.randrange(-100, 2000)
        return lambda: None

    def offset_for_epoch(self, step: Step) -> Call:
        step["epoch"] = self.random.randrange(max(0, self.latest_epoch - 4), self.latest_epoch + 2)
        return lambda: None

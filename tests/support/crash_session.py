"""Work on a log, noted on a recording disk call by call, so that `crash_model` knows what was attempted and what was acknowledged."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support.batches import TIME
from tests.support.crash_model import Op, Stored, stored_batches
from tests.support.crash_producers import ProducerStory, producer_stories
from tests.support.recording_disk import RecordingDisk
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import CLEANED, INDEX, LOG, TIME_INDEX, segment_file
from tidelog.errors import TidelogError
from tidelog.log.log import Log
from tidelog.log.producer_stamp import ProducerStamp
from tidelog.log.recovery import scan_segment
from tidelog.log.segment import Segment
from tidelog.record.control import ControlType
from tidelog.record.encoding import BatchSettings
from tidelog.record.new_batch import NewBatch, transaction_marker

PARTITION = "t-0"
TINY: dict[str, Any] = {"internal.segment.bytes": 300, "segment.index.bytes": 96, "index.interval.bytes": 0, "file.delete.delay.ms": 0}
"""About four batches a segment, an index entry for each but the first, files of deleted segments removed at once."""


def make_batch(number: int, records: int = 1, size: int = 6, **settings: Any) -> bytes:
    """A batch whose records say which one it is."""
    rows = [(b"k%d" % (number % 5), b"%0*d." % (size, number * 10 + place), (), TIME + number * 7) for place in range(records)]
    return NewBatch(rows, settings=BatchSettings(**settings)).encode()


def placed(batch: bytes, offset: int, epoch: int) -> bytes:
    """The batch as it is in a log: offset and leader epoch are not covered by its CRC."""
    return offset.to_bytes(8, "big") + batch[8:12] + epoch.to_bytes(4, "big") + batch[16:]


def cleaned_segment(pool: FilePool, directory: str, base_offset: int, data: bytes) -> Segment:
    """A segment as compaction leaves it: complete, synced, named `.cleaned`."""
    disk = pool.disk

    def write(kind: str, content: bytes) -> None:
        fd = disk.create(f"{directory}/{segment_file(base_offset, kind, CLEANED)}", exclusive=False)
        disk.write(fd, [content], 0)
        disk.sync(fd)
        disk.close(fd)

    write(LOG, data)
    segment = Segment(pool, directory, base_offset, size_bytes=len(data), index_bytes=0, time_index_bytes=0)
    segment.restaged(CLEANED)
    scanned = scan_segment(segment, index_interval_bytes=0)
    write(INDEX, bytes(scanned.offset_entries))
    write(TIME_INDEX, bytes(scanned.time_entries))
    segment.reindexed(len(scanned.offset_entries), len(scanned.time_entries))
    disk.sync_directory(directory)
    return segment


class Session:
    """A log in `root`, on `disk`, which passes everything on to `recording`. One thread, but for `append_in_thread`."""

    def __init__(
        self,
        root: str | Path,
        recording: RecordingDisk,
        settings: Mapping[str, object] | None = None,
        *,
        disk: Disk | None = None,
        epoch: int = 0,
    ) -> None:
        self.directory = f"{root}/{PARTITION}"
        self.recording = recording
        self.disk: Disk = disk or recording
        self.settings: dict[str, object] = {**TINY, **(settings or {})}
        self.now_ms = TIME
        self.epoch = epoch
        self.producers: dict[int, ProducerStory] = {}
        """What those have done that send batches with ids, as far as the log still has it."""
        self._number = 0
        self._log: Log | None = None
        self.open()

    @property
    def log(self) -> Log:
        """The log, open."""
        assert self._log is not None
        return self._log

    def do(self, op: Op, work: Callable[[], object]) -> None:
        """Call something, and note how it went."""
        self.recording.note("begin", op)
        try:
            work()
        except BaseException:
            self.recording.note("failed", op)
            raise
        self.recording.note("done", op)

    def open(self) -> None:
        """Open the log."""

        def work() -> None:
            self._log = Log.open(self.directory, config=dict(self.settings), pool=self.make_pool(), clock=lambda: self.now_ms)

        self.do(Op("nothing"), work)

    def make_pool(self) -> FilePool:
        """The files that the log has open."""
        return FilePool(self.disk)

    def close(self) -> None:
        """Close the log; what was written is durable then."""
        self.do(Op("flush"), self.log.close)

    def reopen(self) -> None:
        """Close and open."""
        self.close()
        self.open()

    def drop(self) -> None:
        """Let go of the log after the last recorded moment, without a word."""
        if self._log is not None and not self._log.is_closed:
            self._log.close()

    def next_batch(self, records: int = 1) -> bytes:
        """A batch unlike all others."""
        self._number += 1
        return make_batch(self._number, records)

    def _due(self, batches: Sequence[bytes]) -> tuple[Stored, ...]:
        offset = self.log.log_end_offset
        due: list[Stored] = []
        for batch in batches:
            due += stored_batches(placed(batch, offset, self.epoch))
            offset = due[-1].last_offset + 1
        return tuple(due)

    def append(self, records: int = 1) -> None:
        """One batch as the leader."""
        batch = self.next_batch(records)
        self.do(Op("append", self._due([batch])), lambda: self.log.append(batch, leader_epoch=self.epoch))

    def _next_of(self, producer_id: int, story: ProducerStory, records: int = 1, *, in_txn: bool) -> bytes:
        """A producer's next batch."""
        self._number += 1
        settings = {"producer_id": producer_id, "producer_epoch": story.epoch, "base_sequence": story.next_sequence}
        return make_batch(self._number, records, **settings, is_transactional=in_txn)

    def send(self, producer_id: int, records: int = 1, *, in_txn: bool = False) -> None:
        """One batch of a producer with an id."""
        story = self.producers.setdefault(producer_id, ProducerStory())
        batch = self._next_of(producer_id, story, records, in_txn=in_txn)
        due = self._due([batch])
        self.do(Op("append", due), lambda: self.log.append(batch, leader_epoch=self.epoch))
        self._sent(due)

    def send_run(self, producer_ids: Sequence[int]) -> None:
        """One batch of each, in one call; of one that is named twice, two."""
        stories = {producer_id: copy(self.producers[producer_id]) for producer_id in producer_ids}
        batches = []
        for producer_id in producer_ids:
            story = stories[producer_id]
            batches.append(self._next_of(producer_id, story, in_txn=story.is_open))
            story.take_in(stored_batches(batches[-1])[0])
        due = self._due(batches)
        self.do(Op("append", due), lambda: self.log.append_run(batches, leader_epoch=self.epoch))
        self._sent(due)

    def take(self, producer_id: int, count: int) -> None:
        """Several batches in a file that becomes a segment, as part of a producer's transaction."""
        story = self.producers.setdefault(producer_id, ProducerStory())
        coming, plain, stamped = copy(story), b"", []
        for _ in range(count):
            stamped.append(self._next_of(producer_id, coming, in_txn=True))
            coming.take_in(stored_batches(stamped[-1])[0])
            plain += make_batch(self._number)
        due = self._due(stamped)
        path = str(Path(self.directory).with_name(f"staged-{self._number}.tidelog"))
        fd = self.recording.create(path)
        self.recording.write(fd, [plain], 0)
        self.recording.close(fd)
        stamp = ProducerStamp(producer_id, story.epoch, story.next_sequence)

        def work() -> None:
            info = self.log.append_file(path, stamp, leader_epoch=self.epoch)
            assert info is not None
            self.log.wait_until_durable(info.last_offset + 1)

        self.do(Op("append", due), work)
        self._sent(due)

    def send_again(self, producer_id: int) -> None:
        """A producer's newest batch once more: it is answered as before, and nothing is written."""
        newest = self.producers[producer_id].newest
        assert newest is not None
        self.do(Op("nothing"), lambda: self.log.append(newest.as_sent(), leader_epoch=self.epoch))

    def end_txn(self, producer_id: int, control_type: ControlType, *, newer_epoch: bool = False) -> None:
        """A marker; with a newer epoch as a coordinator does it that fences a producer."""
        story = self.producers[producer_id]
        marker = transaction_marker(
            control_type,
            producer_id=producer_id,
            producer_epoch=story.epoch + newer_epoch,
            coordinator_epoch=0,
            timestamp_ms=TIME + self._number,
        )
        due = self._due([marker])
        self.do(Op("append", due), lambda: self.log.append(marker, leader_epoch=self.epoch, origin="coordinator"))
        self._sent(due)

    def commit(self, producer_id: int) -> None:
        """End a transaction."""
        self.end_txn(producer_id, ControlType.COMMIT)

    def abort(self, producer_id: int, *, newer_epoch: bool = False) -> None:
        """End a transaction."""
        self.end_txn(producer_id, ControlType.ABORT, newer_epoch=newer_epoch)

    def _sent(self, batches: Sequence[Stored]) -> None:
        for batch in batches:
            self.producers[batch.producer_id].take_in(batch)

    def append_many(self, count: int) -> None:
        """One batch after the other."""
        for _ in range(count):
            self.append()

    def run(self, count: int) -> None:
        """Several batches in one call."""
        batches = [self.next_batch() for _ in range(count)]
        op = Op("append", self._due(batches))
        try:
            self.do(op, lambda: self.log.append_run(batches, leader_epoch=self.epoch))
        except TidelogError as error:
            acknowledged = op.batches[: len(getattr(error, "appended", ()))]
            if acknowledged:
                self.do(Op("append", acknowledged), lambda: None)
                self._try(Op("append", op.batches[len(acknowledged) :]))
            raise

    def _try(self, op: Op) -> None:
        self.recording.note("begin", op)
        self.recording.note("failed", op)

    def follow(self, count: int, *, gap: int = 0) -> None:
        """Several batches with their offsets, the first of them `gap` offsets behind the end."""
        offset = self.log.log_end_offset + gap
        data = b""
        for _ in range(count):
            data += placed(self.next_batch(), offset, self.epoch)
            offset += 1
        self.do(Op("append", tuple(stored_batches(data))), lambda: self.log.append_as_follower(data))

    def append_in_thread(self, thread: int, number: int) -> None:
        """One batch, whose offset is known when it is acknowledged."""
        batch = make_batch(number)
        self.recording.note("begin", Op("append", tuple(stored_batches(batch)), thread=thread))
        info = self.log.append(batch)
        self.recording.note("done", Op("append", tuple(stored_batches(placed(batch, info.first_offset, 0))), thread=thread))

    def flush(self) -> None:
        """Make all durable."""
        self.do(Op("flush"), self.log.flush)

    def checkpoint(self) -> None:
        """Make all durable, and write down that it is."""
        self.do(Op("flush"), self.log.checkpoint)

    def roll(self) -> None:
        """Begin a segment."""
        self.do(Op("nothing"), self.log.roll)

    def truncate(self, offset: int) -> None:
        """Cut the end off."""
        self.do(Op("truncate", offset=offset), lambda: self.log.truncate_to(offset))
        contents = [Path(segment.path_of(LOG)).read_bytes()[: segment.size_bytes] for segment in self.log.segments]
        self.producers = producer_stories([batch for content in contents for batch in stored_batches(content)])

    def truncate_fully(self, offset: int) -> None:
        """Begin anew."""
        self.do(Op("truncate_fully", offset=offset), lambda: self.log.truncate_fully_and_start_at(offset))
        self.producers = {}

    def delete_before(self, offset: int) -> None:
        """Move the start."""
        self.do(Op("delete_before", offset=offset), lambda: self.log.delete_records_before(offset))

    def delete_segments(self, count: int) -> None:
        """Delete the oldest segments."""
        segments = self.log.segments
        if count >= len(segments) and segments[-1].size_bytes == 0:
            count = len(segments) - 1  # an empty last one stays
        ends = [segment.base_offset for segment in segments[1:]] + [self.log.log_end_offset]
        count = min(count, len(segments))
        while count and ends[count - 1] > self.log.high_watermark:
            count -= 1  # what readers do not see yet stays
        start = ends[count - 1] if count else self.log.log_start_offset
        self.do(Op("delete_segments", offset=start), lambda: self.log.delete_segments(count, "a test"))

    def replace(self, first: int, count: int, *, dropped: Sequence[int] = (), pieces: int = 1) -> None:
        """Replace `count` segments from number `first` on by `pieces` others without the batches that have the numbers `dropped`."""
        log, pool = self.log, FilePool(self.recording)
        old = log.segments[first : first + count]
        contents = [Path(segment.path_of(LOG)).read_bytes() for segment in log.segments]
        everything = [batch for content in contents for batch in stored_batches(content)]
        ours = [batch for content in contents[first : first + count] for batch in _split(content)]
        left = [batch for number, batch in enumerate(ours) if number not in dropped]
        bounds = [number * len(left) // pieces for number in range(pieces + 1)]
        new = []
        for number, (begin, end) in enumerate(pairwise(bounds)):
            base = old[0].base_offset if number == 0 else int.from_bytes(left[begin][:8], "big")
            new.append(cleaned_segment(pool, self.directory, base, b"".join(left[begin:end])))
        gone = {stored_batches(batch)[0] for number, batch in enumerate(ours) if number in dropped}
        after = tuple(batch for batch in everything if batch not in gone)
        self.do(Op("replace", after), lambda: log.replace_segments(new, old))


def _split(content: bytes) -> list[bytes]:
    batches = []
    position = 0
    while position < len(content):
        end = position + 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        batches.append(content[position:end])
        position = end
    return batches

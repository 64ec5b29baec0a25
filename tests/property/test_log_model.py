"""A log against a plain list, through random calls: append, roll, read, seek by time, truncate, delete, reopen, crash.

Segments have a few hundred bytes, indexes a few entries, and the pool of open files hardly any room. HYPOTHESIS_PROFILE=thorough looks
further, TIDELOG_MODEL_STEPS makes each story longer.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.logs import TIME, FakeClock, QuietDisk, StoredBatch, check_log, copy_home
from tidelog.disk.file_pool import FilePool
from tidelog.errors import OffsetOutOfRangeError, RecordListTooLargeError
from tidelog.log.append_info import AppendInfo
from tidelog.log.log import Log
from tidelog.log.log_reading import Isolation
from tidelog.log.positions import EARLIEST, LATEST
from tidelog.log.time_lookup import OffsetAndTimestamp
from tidelog.record import BatchSettings, Compression, NewBatch, RecordBatch

Row = tuple[bytes | None, bytes | None, tuple[()], int]

rows: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from((None, b"", b"a", b"key")),
    st.one_of(st.none(), st.integers(0, 40).map(bytes), st.integers(0, 150).map(lambda size: b"v" * size)),
    st.just(()),
    st.one_of(st.integers(TIME - 40, TIME + 40), st.just(-1), st.just(0), st.integers(TIME - 5000, TIME + 5000)),
)
batches_of_rows = st.tuples(st.lists(rows, min_size=1, max_size=4), st.sampled_from(list(Compression)))
isolations: st.SearchStrategy[Isolation] = st.sampled_from(("log_end", "high_watermark"))
configs = st.fixed_dictionaries(
    {
        "internal.segment.bytes": st.integers(200, 2000),
        "index.interval.bytes": st.integers(0, 500),
        "segment.index.bytes": st.integers(24, 400),
        "segment.ms": st.sampled_from((1, 30, 1000, 604800000)),
    },
    optional={
        "segment.jitter.ms": st.integers(0, 40),
        "flush.messages": st.sampled_from((2, 5, 2**63 - 1)),
        "flush.ms": st.sampled_from((0, 20, 500)),
        "preallocate": st.booleans(),
        "message.timestamp.type": st.just("LogAppendTime"),
        "compression.type": st.sampled_from(("uncompressed", "gzip", "zstd")),
        "file.delete.delay.ms": st.sampled_from((0, 50)),
    },
)


@dataclass(frozen=True)
class ModelBatch:
    """Offsets, epoch, and (offset, key, value, timestamp) of each record."""

    base_offset: int
    epoch: int
    records: tuple[tuple[int, bytes | None, bytes | None, int], ...]

    @property
    def last_offset(self) -> int:
        return self.records[-1][0]

    @property
    def max_timestamp_ms(self) -> int:
        return max(record[3] for record in self.records)


@dataclass
class Model:
    """What a log should hold, and where it should stand."""

    batches: list[ModelBatch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    high_watermark: int = 0
    follows: bool = True
    has_lost_epochs: bool = False
    """Cut below its start, a log forgets the epochs of the batches that are left, as Kafka's does; the next one starts at 0."""

    def records(self, start: int, stop: int) -> list[tuple[int, bytes | None, bytes | None, int]]:
        return [record for batch in self.batches for record in batch.records if start <= record[0] < stop]

    def visible(self, bound: int) -> list[ModelBatch]:
        """Those that a reader bound by an offset sees: none from the batch on that holds it."""
        return [batch for batch in self.batches if batch.last_offset < bound]


def encode(batch: tuple[list[Row], Compression], **header: Any) -> bytes:
    base_offset = header.pop("base_offset", 0)
    return NewBatch(batch[0], base_offset=base_offset, settings=BatchSettings(compression=batch[1], **header)).encode()


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.work = Path(tempfile.mkdtemp(prefix="tidelog-model-"))
        self.homes = 0
        self.clock = FakeClock()
        self.model = Model()
        self.stored: list[StoredBatch] = []

    @initialize(config=configs, max_open=st.integers(1, 12))
    def begin(self, config: dict[str, Any], max_open: int) -> None:
        self.config = config
        self.pool = FilePool(QuietDisk(), max_open)
        self.home = self.work / "home-0"
        self.log = self.open()

    def open(self, **options: Any) -> Log:
        return Log.open(self.home / "tide-0", config=self.config, clock=self.clock, pool=self.pool, random=Random(1), **options)

    def teardown(self) -> None:
        try:
            if hasattr(self, "log"):
                self.log.close()
        finally:
            shutil.rmtree(self.work)

    # Appending

    def appended(self, batch: list[Row], info: AppendInfo, epoch: int) -> None:
        """Put a batch into the model that the log says it has taken."""
        model, log = self.model, self.log
        is_append_time = log.config.is_append_time
        first = model.end
        records = tuple((first + index, row[0], row[1], self.clock.now_ms if is_append_time else row[3]) for index, row in enumerate(batch))
        added = ModelBatch(first, epoch, records)
        assert info[:4] == (first, added.last_offset, added.max_timestamp_ms, self.clock.now_ms if is_append_time else -1)
        model.batches.append(added)
        model.end = added.last_offset + 1
        if model.follows:
            model.high_watermark = model.end

    def flushed_as_promised(self) -> None:
        assert self.log.log_end_offset - self.log.flushed_end < self.log.config.flush_messages

    @rule(batch=batches_of_rows, raised=st.sampled_from((None, None, 0, 1)), wait_ms=st.integers(0, 30))
    def append(self, batch: tuple[list[Row], Compression], raised: int | None, wait_ms: int) -> None:
        self.clock.advance(wait_ms)
        latest = self.latest_epoch()
        epoch = latest if raised is None else latest + raised
        encoded = encode(batch)
        try:
            info = self.log.append(encoded, leader_epoch=None if raised is None else epoch)
        except RecordListTooLargeError:
            return  # the batch, or what the log's codec makes of it
        self.appended(batch[0], info, epoch)
        self.flushed_as_promised()

    @rule(batches=st.lists(batches_of_rows, max_size=6), is_joined=st.booleans())
    def append_run(self, batches: list[tuple[list[Row], Compression]], is_joined: bool) -> None:
        encoded = [encode(batch) for batch in batches]
        epoch = self.latest_epoch()
        try:
            infos = self.log.append_run(b"".join(encoded) if is_joined and encoded else encoded)
            assert len(infos) == len(batches)
        except RecordListTooLargeError as error:
            infos = list(error.appended)  # type: ignore[attr-defined]
            assert len(infos) < len(batches)
        for (batch, _), info in zip(batches, infos, strict=False):
            self.appended(batch, info, epoch)
        if infos:
            self.flushed_as_promised()

    @rule(
        batches=st.lists(st.tuples(batches_of_rows, st.sampled_from((0, 0, 0, 1, 7))), min_size=1, max_size=6),
        raised=st.sampled_from((0, 0, 1)),
        cut_off=st.sampled_from((0, 0, 1, 40)),
    )
    def append_as_follower(self, batches: list[tuple[tuple[list[Row], Compression], int]], raised: int, cut_off: int) -> None:
        epoch = self.latest_epoch() + raised
        offset = self.model.end
        data, added = b"", []
        for batch, gap in batches:
            offset += gap
            data += encode(batch, base_offset=offset, partition_leader_epoch=epoch)
            added.append(ModelBatch(offset, epoch, tuple((offset + index, row[0], row[1], row[3]) for index, row in enumerate(batch[0]))))
            offset += len(batch[0])
        if cut_off:
            data, added = data[:-cut_off], added[:-1]
        self.model.follows = False
        if data and added:
            whole = sum(len(encode(batch, base_offset=0)) for batch, _ in batches[: len(added)])
            if whole > self.config["internal.segment.bytes"]:
                with pytest.raises(RecordListTooLargeError):
                    self.log.append_as_follower(data)
                return
        info = self.log.append_as_follower(data)
        if not added:
            assert info is None
            return
        assert info is not None
        assert info[:3] == (added[0].base_offset, added[-1].last_offset, max(batch.max_timestamp_ms for batch in added))
        self.model.batches += added
        self.model.end = added[-1].last_offset + 1
        self.flushed_as_promised()

    def latest_epoch(self) -> int:
        """Appends without an epoch have this one."""
        return max((epoch for epoch, _ in self.log.leader_epochs), default=0)

    @rule()
    def roll(self) -> None:
        segment = self.log.roll()
        assert (segment.base_offset, segment.size_bytes) == (self.model.end, 0)
        assert self.log.segments[-1] is segment

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.flushed_end == self.log.recovery_point == self.model.end

    # Reading

    @rule(data=st.data(), max_bytes=st.one_of(st.integers(0, 600), st.just(1 << 20)), min_one=st.booleans(), isolation=isolations)
    def fetch(self, data: st.DataObject, max_bytes: int, min_one: bool, isolation: Isolation) -> None:
        model = self.model
        offset = data.draw(st.integers(max(-1, model.start - 2), model.end + 2))
        if not model.start <= offset <= model.end:
            with pytest.raises(OffsetOutOfRangeError) as raised:
                self.log.fetch(offset, max_bytes, min_one=min_one, isolation=isolation)
            assert (raised.value.log_start_offset, raised.value.log_end_offset) == (model.start, model.end)
            return
        fetched = self.log.fetch(offset, max_bytes, min_one=min_one, isolation=isolation)
        assert (fetched.log_start_offset, fetched.high_watermark, fetched.log_end_offset) == (model.start, model.high_watermark, model.end)
        bound = model.end if isolation == "log_end" else model.high_watermark
        seen = len(model.visible(bound))
        behind = [batch for batch in self.stored[:seen] if batch.last_offset >= offset]
        if offset >= bound or not behind:
            assert fetched.data == b""
            assert fetched.next_offset == offset
            return
        first = behind[0]
        all_bytes = b"".join(batch.data for batch in behind if batch.segment_base == first.segment_base)
        is_large = len(first.data) > max_bytes
        assert fetched.data == (first.data if is_large and min_one else all_bytes[:max_bytes])
        assert fetched.is_first_incomplete == (is_large and not min_one and max_bytes > 0)
        assert (fetched.segment_base_offset, fetched.position) == (first.segment_base, first.position)

    @rule(data=st.data(), isolation=isolations, is_open_start=st.booleans(), is_open_end=st.booleans())
    def read(self, data: st.DataObject, isolation: Isolation, is_open_start: bool, is_open_end: bool) -> None:
        model = self.model
        bound = model.end if isolation == "log_end" else model.high_watermark
        start = data.draw(st.integers(model.start, model.end))
        stop = data.draw(st.integers(model.start, model.end + 3))
        found = self.log.read(EARLIEST if is_open_start else start, LATEST if is_open_end else stop, isolation=isolation)
        expected = [
            record
            for batch in model.visible(bound)
            for record in batch.records
            if (model.start if is_open_start else start) <= record[0] < (bound if is_open_end else stop)
        ]
        assert [(record.offset, record.key, record.value, record.timestamp_ms) for record in found] == expected

    @rule(data=st.data(), isolation=isolations)
    def offset_for_time(self, data: st.DataObject, isolation: Isolation) -> None:
        model = self.model
        known = sorted({record[3] for record in model.records(0, model.end) if record[3] >= 0})
        near = st.sampled_from(known).flatmap(lambda time: st.integers(max(0, time - 1), time + 1)) if known else st.just(TIME)
        target = data.draw(st.one_of(near, st.integers(TIME - 100, TIME + 100), st.just(0), st.just(2**62)))
        bound = model.end if isolation == "log_end" else model.high_watermark
        expected = self.first_at(target)
        if expected is not None and expected.offset >= bound:
            expected = None
        assert self.log.offset_for_time(target, isolation=isolation) == expected

    def first_at(self, target: int) -> OffsetAndTimestamp | None:
        """Facts 5.2: only the first segment is searched whose largest timestamp, or file time if it has none, is not before the target."""
        for segment in self.log.segments:
            own = self.model_batches_of(segment.base_offset)
            largest = max((batch.max_timestamp_ms for batch in own), default=-1)
            if largest < 0:
                largest = Path(segment.path_of(".log")).stat().st_mtime_ns // 1_000_000
            if largest >= target:
                records = (record for batch in own for record in batch.records)
                found = next((record for record in records if record[3] >= target and record[0] >= self.model.start), None)
                return None if found is None else OffsetAndTimestamp(found[0], found[3])
        return None

    def model_batches_of(self, segment_base: int) -> list[ModelBatch]:
        return [batch for batch, stored in zip(self.model.batches, self.stored, strict=True) if stored.segment_base == segment_base]

    @rule()
    def max_timestamp(self) -> None:
        """Facts 5.2: the first record with the largest timestamp; where there are none, the first record of the first segment."""
        newest = max((batch.max_timestamp_ms for batch in self.model.batches), default=-1)
        candidates = self.model_batches_of(self.log.segments[0].base_offset) if newest < 0 else self.model.batches
        found = next((record for batch in candidates for record in batch.records if record[3] == newest), None)
        expected = None
        if found is not None and found[0] < self.model.high_watermark:
            expected = OffsetAndTimestamp(found[0], newest)
        assert self.log.max_timestamp == expected

    @rule(data=st.data())
    def set_high_watermark(self, data: st.DataObject) -> None:
        model = self.model
        offset = data.draw(st.integers(model.start - 1, model.end + 1))
        self.log.high_watermark = offset
        model.high_watermark = min(max(offset, model.start), model.end)
        model.follows = False

    # Changing what there is

    @rule(data=st.data())
    def truncate_to(self, data: st.DataObject) -> None:
        model = self.model
        offset = data.draw(st.one_of(st.integers(max(0, model.end - 6), model.end + 1), st.integers(0, model.end + 1)))
        assert self.log.truncate_to(offset) == (offset < model.end)
        if offset < model.end:
            model.batches = [batch for batch in model.batches if batch.last_offset < offset]
            model.has_lost_epochs |= offset < model.start
            model.end = offset
            model.start = min(model.start, offset)
            model.high_watermark = min(model.high_watermark, offset)

    @precondition(lambda self: len(self.model.batches) > 8)
    @rule(data=st.data())
    def truncate_fully_and_start_at(self, data: st.DataObject) -> None:
        model = self.model
        offset = data.draw(st.one_of(st.integers(0, model.end + 30), st.sampled_from([s.base_offset for s in self.log.segments])))
        self.log.truncate_fully_and_start_at(offset)
        self.model = Model(start=offset, end=offset, high_watermark=offset, follows=model.follows)
        assert self.log.leader_epochs == ()

    @rule(data=st.data())
    def delete_records_before(self, data: st.DataObject) -> None:
        model = self.model
        offset = data.draw(st.one_of(st.integers(model.start, model.start + 3), st.just(-1), st.integers(0, model.end + 1)))
        if offset > model.high_watermark:
            with pytest.raises(OffsetOutOfRangeError):
                self.log.delete_records_before(offset)
            return
        model.start = max(model.start, model.high_watermark if offset == -1 else offset)
        assert self.log.delete_records_before(offset) == model.start

    @precondition(lambda self: len(self.log.segments) > 2)
    @rule(data=st.data())
    def delete_segments(self, data: st.DataObject) -> None:
        """As retention does: nothing that is not below the high watermark."""
        model = self.model
        bases = [segment.base_offset for segment in self.log.segments]
        ends = [*bases[1:], model.end]
        most = sum(end <= model.high_watermark for end in ends)
        count = data.draw(st.one_of(st.integers(0, min(2, most)), st.integers(0, most)))
        is_active_empty = self.log.segments[-1].size_bytes == 0
        deleted = self.log.delete_segments(count, "a test")
        assert deleted == (count - 1 if count == len(bases) and is_active_empty else count)
        if deleted:
            model.start = max(model.start, ends[deleted - 1])
            model.batches = [batch for batch in model.batches if batch.last_offset >= ends[deleted - 1]]

    @rule(wait_ms=st.integers(0, 100))
    def checkpoint(self, wait_ms: int) -> None:
        self.clock.advance(wait_ms)
        self.log.checkpoint()

    # Opening again

    @rule()
    def reopen(self) -> None:
        self.will_reload()
        self.log.close()
        self.log = self.open()
        assert self.log.load_report.was_clean
        assert not self.log.load_report.cuts or self.log.segments[0].base_offset == self.model.start

    @rule(workers=st.sampled_from((1, 3)))
    def reopen_after_kill(self, workers: int) -> None:
        """A copy of the directory is what `kill -9` leaves. The killed one is closed only because it is still open in this process."""
        killed = self.log
        self.homes += 1
        self.home = copy_home(killed, self.work / f"home-{self.homes}")
        self.will_reload()
        killed.close()
        self.log = self.open(last_shutdown_clean=False, workers=workers)
        assert not self.log.load_report.was_clean

    def will_reload(self) -> None:
        """A truncated log ends where it was cut; opened again, where its last batch ends, as in Kafka; never before its start."""
        model = self.model
        last_base = self.log.segments[-1].base_offset
        own = [stored for stored in self.stored if stored.segment_base == last_base]
        model.end = own[-1].last_offset + 1 if own else last_base
        if model.end < model.start:
            model.batches, model.end = [], model.start
        model.high_watermark = model.end
        model.follows = True

    # What always holds

    @invariant()
    def same_as_the_model(self) -> None:
        if not hasattr(self, "log"):
            return
        model, log = self.model, self.log
        assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
        assert log.high_watermark == model.high_watermark
        self.stored = check_log(log)
        assert [(batch.base_offset, batch.last_offset, batch.epoch) for batch in self.stored] == [
            (batch.base_offset, batch.last_offset, batch.epoch) for batch in model.batches
        ]
        found = [
            (record.offset, record.key, record.value, record.timestamp_ms)
            for batch in self.stored
            for record in RecordBatch(memoryview(batch.data), 0, len(batch.data))
        ]
        assert found == model.records(-1, model.end)
        read = [(record.offset, record.key, record.value, record.timestamp_ms) for record in log.read(isolation="log_end")]
        assert read == model.records(model.start, model.end)

    @invariant()
    def epochs_are_those_of_the_batches(self) -> None:
        # Where flushing was weakened an epoch that starts at the very end goes when the log is opened, as in Kafka.
        if not hasattr(self, "log") or self.model.has_lost_epochs or not self.log.config.is_durable:
            return
        for batch in self.model.batches:
            offset = max(batch.base_offset, self.model.start)
            if batch.last_offset >= offset:
                known = [epoch for epoch, start in self.log.leader_epochs if start <= offset]
                assert known, self.log.leader_epochs
                assert known[-1] == batch.epoch


pytestmark = pytest.mark.leaves(
    "timestamp-1970",  # as they are drawn
    "snapshot-beyond-end",  # a log that was cut inside of a batch ends, by its files, before that batch
    "epoch-beyond-end",  # the same
    "epoch-falls",  # see `has_lost_epochs`
)

STEPS = int(os.environ.get("TIDELOG_MODEL_STEPS", "50"))
EXAMPLES = 120
TestLogModel = LogMachine.TestCase
TestLogModel.settings = settings(
    stateful_step_count=STEPS, max_examples=max(EXAMPLES, settings().max_examples), phases=(Phase.generate, Phase.shrink)
)

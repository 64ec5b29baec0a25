"""Reading committed records: the last stable offset and what was aborted, by the owner and by readers beside it, against a plain model."""

import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.logs import TIME, QuietDisk, numbered, open_log
from tests.support.readers import open_reader
from tidelog.log.log import Log
from tidelog.log.log_reading import LogReading
from tidelog.record import BatchSettings, NewBatch
from tidelog.record.control import ControlType
from tidelog.record.new_batch import transaction_marker

TINY = {"internal.segment.bytes": 700, "index.interval.bytes": 100, "file.delete.delay.ms": 0}


@dataclass
class Producers:
    """Appends batches and markers of several producers to a log, and keeps count of them."""

    log: Log
    sequences: dict[int, int] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)
    """First offset of the open transaction of a producer."""
    fates: dict[int, int | None] = field(default_factory=dict)
    """Records by their offset: the producer whose transaction they wait for; -1 if they count, None if they were aborted."""

    def append(self, producer_id: int, count: int, *, is_transactional: bool) -> None:
        rows = [(b"k", b"v", (), TIME)] * count
        sequence = self.sequences.get(producer_id, 0)
        settings = BatchSettings(producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=is_transactional)
        first = self.log.append(NewBatch(rows, settings=settings).encode()).first_offset
        self.sequences[producer_id] = sequence + count
        if is_transactional:
            self.open.setdefault(producer_id, first)
        for offset in range(first, first + count):
            self.fates[offset] = producer_id if is_transactional else -1

    def end(self, producer_id: int, kind: ControlType) -> None:
        marker = transaction_marker(kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=TIME)
        self.log.append(marker, origin="coordinator")
        self.open.pop(producer_id, None)
        for offset, fate in self.fates.items():
            if fate == producer_id:
                self.fates[offset] = -1 if kind is ControlType.COMMIT else None

    @property
    def last_stable_offset(self) -> int:
        return min(self.open.values(), default=self.log.log_end_offset)

    def committed(self, start: int) -> list[int]:
        return [offset for offset, fate in self.fates.items() if start <= offset < self.last_stable_offset and fate == -1]

    def check(self, log: LogReading, start: int) -> None:
        log.refresh()
        assert log.last_stable_offset == self.last_stable_offset
        committed = self.committed(start)
        assert [record.offset for record in log.read(start, isolation="committed")] == committed
        fetched = log.fetch(start, 300, isolation="committed")
        assert [record.offset for record in fetched.records()] == [offset for offset in committed if offset < fetched.next_offset]
        assert not any(batch.is_control for batch in log.batches(start))


@pytest.mark.parametrize("seed", range(6))
def test_against_a_model(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)
    with open_log(tmp_path, TINY, disk=QuietDisk()) as log, open_reader(Path(log.directory)) as follower:
        producers = Producers(log)
        for step in range(120):
            producer_id = choose.randrange(4)
            action = choose.random()
            if producer_id in producers.open and action < 0.4:
                producers.end(producer_id, choose.choice((ControlType.ABORT, ControlType.COMMIT)))
            elif producer_id == 3 or action > 0.95:
                producers.append(7, choose.randint(1, 3), is_transactional=False)
            else:
                producers.append(producer_id, choose.randint(1, 3), is_transactional=True)
            if action < 0.02:
                log.roll()
            if step % 5 == 0:
                start = choose.randint(log.log_start_offset, producers.last_stable_offset) if producers.last_stable_offset else 0
                for reader in (log, follower):
                    producers.check(reader, start)
            if step % 40 == 39:
                with open_reader(Path(log.directory)) as fresh:
                    producers.check(fresh, log.log_start_offset)


def test_what_is_aborted_is_learned_where_the_index_lacks_it(tmp_path: Path) -> None:
    """As after a crash, in which the transaction index was not synced."""
    with open_log(tmp_path) as log:
        producers = Producers(log)
        producers.append(1, 2, is_transactional=True)
        producers.append(2, 1, is_transactional=True)
        producers.end(1, ControlType.ABORT)
        producers.append(7, 1, is_transactional=False)
        producers.end(2, ControlType.COMMIT)
        path = Path(log.segments[0].path_of(".txnindex"))
        content = path.read_bytes()
        for kept in (b"", content[:20], content):
            path.write_bytes(kept)
            with open_reader(Path(log.directory)) as reader:
                producers.check(reader, 0)
                assert [txn[:3] for txn in reader.fetch(0, 1000, isolation="committed").aborted_transactions] == [(1, 0, 3)]
        path.unlink()
        with open_reader(Path(log.directory)) as reader:
            producers.check(reader, 0)
        path.write_bytes(content)


def test_a_transaction_whose_marker_is_not_visible_is_open(tmp_path: Path) -> None:
    with open_log(tmp_path, {"flush.messages": 1000}) as log:
        producers = Producers(log)
        producers.append(7, 1, is_transactional=False)
        producers.append(1, 2, is_transactional=True)
        log.flush()
        producers.end(1, ControlType.COMMIT)
        with open_reader(Path(log.directory)) as reader:
            assert (reader.last_stable_offset, reader.high_watermark, reader.log_end_offset) == (1, 3, 4)
            assert reader.offset_for_time(-1, isolation="committed") == (1, -1)
            log.flush()
            assert [record.offset for record in reader.read(isolation="committed")] == [0, 1, 2]
            assert reader.last_stable_offset == 4


def test_truncation_takes_a_marker_back(tmp_path: Path) -> None:
    with open_log(tmp_path, disk=QuietDisk()) as log, open_reader(Path(log.directory)) as reader:
        producers = Producers(log)
        producers.append(1, 2, is_transactional=True)
        producers.end(1, ControlType.ABORT)
        producers.append(7, 1, is_transactional=False)
        producers.check(reader, 0)
        log.truncate_to(2)
        reader.refresh()
        assert reader.last_stable_offset == log.last_stable_offset == 0
        producers.open[1] = 0
        producers.fates = {0: 1, 1: 1}
        producers.end(1, ControlType.COMMIT)
        producers.check(reader, 0)
        assert [record.offset for record in reader.read(isolation="committed")] == [0, 1]


def test_a_commit_becomes_an_abort_between_two_looks(tmp_path: Path) -> None:
    """The log was cut and went on, as far as before: what was concluded from the batches that went is forgotten."""
    with open_log(tmp_path, disk=QuietDisk()) as log, open_reader(Path(log.directory)) as reader:
        producers = Producers(log)
        producers.append(1, 2, is_transactional=True)
        producers.end(1, ControlType.COMMIT)
        producers.append(7, 1, is_transactional=False)
        assert [record.offset for record in reader.read(isolation="committed")] == [0, 1, 3]
        log.truncate_to(2)
        producers.fates = {0: 1, 1: 1}
        producers.end(1, ControlType.ABORT)
        producers.sequences.clear()
        producers.append(8, 2, is_transactional=False)
        producers.append(2, 1, is_transactional=True)
        producers.check(reader, 0)
        assert [record.offset for record in reader.read(isolation="committed")] == [3, 4]


def test_an_open_transaction_was_cut_off_between_two_looks(tmp_path: Path) -> None:
    with open_log(tmp_path, disk=QuietDisk()) as log, open_reader(Path(log.directory)) as reader:
        producers = Producers(log)
        producers.append(1, 2, is_transactional=True)
        reader.refresh()
        assert reader.last_stable_offset == 0
        log.truncate_to(0)
        producers = Producers(log)
        producers.append(7, 3, is_transactional=False)
        producers.check(reader, 0)
        assert reader.last_stable_offset == 3


def test_entries_that_are_pending_bound_the_search_too(tmp_path: Path) -> None:
    """Of an owner, whose last index entries are not written yet: against the rule, over a plain list of all of them."""
    for count in (1, 2, 3, 60, 66, 67, 68, 150):
        with open_log(tmp_path / str(count), {"index.interval.bytes": 0, "flush.messages": 1000}, disk=QuietDisk()) as log:
            for number in range(count):
                log.append(numbered(number))
            index = log.segments[0].index
            entries = list(struct.iter_unpack(">ii", index.entry_bytes()))
            for wanted in sorted({at + more for _, at in entries[:2] + entries[62:67] + entries[-2:] for more in (-1, 0, 1)}):
                behind = [entry for entry in entries if entry[1] >= wanted]
                if behind and behind[0] == entries[0] and behind[0][1] == wanted:
                    behind = behind[1:]
                assert index.first_at_or_behind(wanted) == (behind[0] if behind else None), (count, wanted)


@pytest.mark.parametrize("isolation", ["read_committed", "", None])
def test_an_isolation_that_does_not_exist(isolation: str, tmp_path: Path) -> None:
    with open_log(tmp_path) as log, pytest.raises(ValueError, match="isolation"):
        log.fetch(0, 100, isolation=isolation)  # type: ignore[arg-type]

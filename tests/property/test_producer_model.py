"""Producers of a log against a plain dictionary, through random calls: idempotent appends in and out of order, repeated, of new and old
epochs, transactions, markers, and whatever happens to a log in between: roll, cut, delete, reopen, kill.

The model is written from Kafka's rules and knows nothing of our code. After a cut or a kill it says what may be known; which of that is
depends on the snapshots there are, and is taken from the log.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.logs import FakeClock, QuietDisk, check_log, copy_home, numbered, state_of
from tests.support.producers import end_of_txn, numbers, producers_of, sent
from tidelog.disk.file_pool import FilePool
from tidelog.errors import CoordinatorFencedError, InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceError, TidelogError
from tidelog.log.log import Log
from tidelog.log.producers import ProducerEntry

WRAP = 1 << 31
PRODUCERS = (1, 2, 3)


@dataclass
class Producer:
    """What is known of one."""

    epoch: int
    coordinator_epoch: int = -1
    txn_start: int | None = None
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)
    """First and last sequence number, first and last offset; the newest five."""

    def next_sequence(self) -> int:
        return (self.batches[-1][1] + 1) % WRAP if self.batches else 0


@dataclass(frozen=True)
class Sent:
    """A batch of the log; of a marker `ends` says how."""

    producer_id: int | None
    epoch: int = 0
    sequence: int = 0
    count: int = 1
    is_transactional: bool = False
    ends: str = ""
    coordinator_epoch: int = 0
    number: int = 0
    first: int = -1

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    @property
    def last_sequence(self) -> int:
        return (self.sequence + self.count - 1) % WRAP

    def encode(self) -> bytes:
        if self.producer_id is None:
            return numbered(self.number, self.count)
        if self.ends:
            return end_of_txn(self.producer_id, self.ends, epoch=self.epoch, coordinator_epoch=self.coordinator_epoch)
        return sent(
            self.producer_id, self.sequence, self.count, epoch=self.epoch, is_transactional=self.is_transactional, number=self.number
        )


Known = dict[int, Producer]


def judge(known: Known, batch: Sent) -> tuple[int, int] | type[TidelogError] | None:
    """The offsets of the batch that this one repeats, or why it is refused, or None: it is appended."""
    if batch.producer_id is None or batch.producer_id not in known:
        return None
    producer = known[batch.producer_id]
    if batch.ends:
        if batch.epoch < producer.epoch:
            return InvalidProducerEpochError
        return CoordinatorFencedError if batch.coordinator_epoch < producer.coordinator_epoch else None
    if batch.epoch == producer.epoch:
        for first_sequence, last_sequence, first, last in producer.batches:
            if (first_sequence, last_sequence) == (batch.sequence, batch.last_sequence):
                return first, last
    if batch.epoch < producer.epoch:
        return InvalidProducerEpochError
    if batch.sequence != (producer.next_sequence() if batch.epoch == producer.epoch else 0):
        return OutOfOrderSequenceError
    if producer.txn_start is not None and not batch.is_transactional:
        return InvalidTxnStateError
    return None


def take_in(known: Known, batch: Sent) -> None:
    """The batch is in the log."""
    if batch.producer_id is None:
        return
    producer = known.setdefault(batch.producer_id, Producer(batch.epoch))
    if batch.epoch != producer.epoch:
        producer.epoch, producer.batches = batch.epoch, []
    if batch.ends:
        producer.coordinator_epoch, producer.txn_start = batch.coordinator_epoch, None
        return
    if batch.is_transactional and producer.txn_start is None:
        producer.txn_start = batch.first
    producer.batches = [*producer.batches, (batch.sequence, batch.last_sequence, batch.first, batch.last)][-5:]


def replayed(batches: Iterable[Sent]) -> Known:
    known: Known = {}
    for batch in batches:
        take_in(known, batch)
    return known


def plain(entry: ProducerEntry) -> Producer:
    """The log's own knowledge in the model's words."""
    batches = [(batch.first_sequence, batch.last_sequence, batch.first_offset, batch.last_offset) for batch in entry.batches]
    return Producer(entry.epoch, entry.coordinator_epoch, entry.transaction_start if entry.transaction_start >= 0 else None, batches)


def is_as_known(found: Producer, expected: Producer) -> bool:
    """The same, but that older batches may be forgotten."""
    same = (found.epoch, found.coordinator_epoch, found.txn_start) == (expected.epoch, expected.coordinator_epoch, expected.txn_start)
    count = len(found.batches)
    return same and (count > 0) == (len(expected.batches) > 0) and found.batches == expected.batches[len(expected.batches) - count :]


class ProducerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.work = Path(tempfile.mkdtemp(prefix="tidelog-producers-"))
        self.homes = 0
        self.number = 0
        self.known: Known = {}
        self.batches: list[Sent] = []
        """All that are in the log, and those that were deleted from its beginning."""
        self.start = self.end = 0

    @initialize(segment_bytes=st.integers(250, 1500), index_bytes=st.sampled_from((24, 60, 400)), is_weak=st.booleans())
    def begin(self, segment_bytes: int, index_bytes: int, is_weak: bool) -> None:
        self.config: dict[str, Any] = {
            "internal.segment.bytes": segment_bytes,
            "segment.index.bytes": index_bytes,
            "index.interval.bytes": 0,
            "file.delete.delay.ms": 0,
        }
        if is_weak:
            self.config["flush.messages"] = 2**63 - 1
        self.home = self.work / "home-0"
        self.log = self.open()

    def open(self, **options: Any) -> Log:
        return Log.open(self.home / "t-0", config=self.config, clock=FakeClock(), pool=FilePool(QuietDisk()), random=Random(1), **options)

    def teardown(self) -> None:
        try:
            if hasattr(self, "log"):
                self.log.close()
        finally:
            shutil.rmtree(self.work)

    # Appending

    def draw_batch(self, data: st.DataObject, known: Known) -> Sent:
        """Mostly what a producer would send next, often what it sent before, now and then anything."""
        self.number += 10
        producer_id = data.draw(st.sampled_from((*PRODUCERS, None)))
        count = data.draw(st.integers(1, 3))
        if producer_id is None:
            return Sent(None, count=count, number=self.number)
        producer = known.get(producer_id)
        how = data.draw(st.sampled_from(("next", "next", "next", "again", "gap", "zero")))
        epoch = (producer.epoch if producer else 0) + data.draw(st.sampled_from((0, 0, 0, 0, 0, 1, -1)))
        sequence = data.draw(st.sampled_from((0, 5, WRAP - 2)))
        if producer is not None:
            sequence = 0 if how == "zero" or (epoch > producer.epoch and how != "gap") else producer.next_sequence()
            if how == "gap":
                sequence = (sequence + data.draw(st.sampled_from((1, 7, WRAP - 1)))) % WRAP
            elif how == "again" and producer.batches:
                sequence, last, _, _ = data.draw(st.sampled_from(producer.batches))
                count = (last - sequence) % WRAP + 1
        is_open = producer is not None and producer.txn_start is not None
        is_transactional = data.draw(st.sampled_from((True, True, True, True, False) if is_open else (True, False)))
        return Sent(producer_id, max(0, epoch), sequence, count, is_transactional, number=self.number)

    def append_to_model(self, batch: Sent) -> None:
        batch = Sent(**{**batch.__dict__, "first": self.end})
        self.batches.append(batch)
        take_in(self.known, batch)
        self.end = batch.last + 1

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        batch = self.draw_batch(data, self.known)
        expected = judge(self.known, batch)
        if isinstance(expected, type):
            with pytest.raises(expected) as raised:
                self.log.append(batch.encode())
            assert type(raised.value) is expected
            return
        info = self.log.append(batch.encode())
        if expected is not None:
            assert info[:2] == expected
            return
        assert info[:2] == (self.end, self.end + batch.count - 1)
        self.append_to_model(batch)

    @rule(data=st.data(), size=st.integers(1, 5))
    def append_run(self, data: st.DataObject, size: int) -> None:
        """Each drawn as if those before it were in the log already."""
        saved = deepcopy(self.known), list(self.batches), self.end
        drawn, answers, error = [], [], None
        for _ in range(size):
            batch = self.draw_batch(data, self.known)
            drawn.append(batch)
            expected = judge(self.known, batch) if error is None else None
            if isinstance(expected, type):
                error = expected
            elif error is None:
                answers.append(expected or (self.end, self.end + batch.count - 1))
                if expected is None:
                    self.append_to_model(batch)
        done = deepcopy(self.known), list(self.batches), self.end
        self.known, self.batches, self.end = saved
        encoded = [batch.encode() for batch in drawn]
        if error is None:
            infos = self.log.append_run(encoded)
        else:
            with pytest.raises(error) as raised:
                self.log.append_run(encoded)
            infos = raised.value.appended  # type: ignore[attr-defined]
        assert [info[:2] for info in infos] == answers
        self.known, self.batches, self.end = done

    @rule(
        producer_id=st.sampled_from(PRODUCERS),
        ends=st.sampled_from(("commit", "abort")),
        epoch=st.sampled_from((0, 0, 0, 1, -1)),
        coordinator_epoch=st.sampled_from((0, 0, 0, 1, -1)),
    )
    def end_transaction(self, producer_id: int, ends: str, epoch: int, coordinator_epoch: int) -> None:
        producer = self.known.get(producer_id, Producer(0))
        marker = Sent(
            producer_id, max(0, producer.epoch + epoch), ends=ends, coordinator_epoch=max(0, producer.coordinator_epoch + coordinator_epoch)
        )
        expected = judge(self.known, marker)
        if expected is None:
            assert self.log.append(marker.encode(), origin="coordinator")[:2] == (self.end, self.end)
            self.append_to_model(marker)
        else:
            assert isinstance(expected, type)
            with pytest.raises(expected):
                self.log.append(marker.encode(), origin="coordinator")

    # What happens to the log

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(data=st.data())
    def truncate_to(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(max(0, self.end - 9), self.end))
        if self.log.truncate_to(offset):
            self.batches = [batch for batch in self.batches if batch.last < offset]
            self.end, self.start = offset, min(self.start, offset)
            self.look_what_is_known()

    @precondition(lambda self: self.end - self.start > 6)
    @rule(data=st.data())
    def delete_records_before(self, data: st.DataObject) -> None:
        self.start = self.log.delete_records_before(data.draw(st.one_of(st.integers(self.start, self.start + 4), st.just(-1))))

    @precondition(lambda self: len(self.log.segments) > 3)
    @rule()
    def delete_segments(self) -> None:
        self.log.delete_segments(2, "a test")
        self.start = self.log.log_start_offset

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = self.open()
        assert self.log.load_report.was_clean
        if self.has_shrunk():
            self.look_what_is_known()
            return
        # A snapshot keeps the newest batch of each; one at the log start does not count.
        self.known = {} if self.end == self.start else self.known
        for producer in self.known.values():
            producer.batches = producer.batches[-1:]
        assert {producer_id: plain(entry) for producer_id, entry in producers_of(self.log).items()} == self.known

    @rule()
    def kill(self) -> None:
        killed = self.log
        for task in state_of(killed)._pending:
            task.exception()  # how far the background came must not decide what is drawn next
        self.homes += 1
        self.home = copy_home(killed, self.work / f"home-{self.homes}")
        killed.close()
        self.log = self.open(last_shutdown_clean=False)
        self.has_shrunk()
        self.look_what_is_known()

    def has_shrunk(self) -> bool:
        """A log that was cut inside of a batch ends, opened again, where its last batch does; never before its start."""
        last = self.log.segments[-1]
        ends = [batch.last + 1 for batch in self.batches if batch.first >= last.base_offset]
        end = ends[-1] if ends else last.base_offset
        if end == self.end:
            return False
        self.end = end
        if self.log.size_bytes == 0:
            self.batches = []  # it ended before its start: all of it was deleted
        return True

    def look_what_is_known(self) -> None:
        """As if the log had been read from its beginning, or from any place up to its start: older ones may be forgotten."""
        first = next((place for place, batch in enumerate(self.batches) if batch.last >= self.start), len(self.batches))
        candidates = [replayed(self.batches[place:]) for place in range(first + 1)]
        found = {producer_id: plain(entry) for producer_id, entry in producers_of(self.log).items()}
        for producer_id in PRODUCERS:
            possible = [candidate.get(producer_id) for candidate in candidates]
            if producer_id in found:
                assert any(one is not None and is_as_known(found[producer_id], one) for one in possible), (found[producer_id], possible)
            else:
                assert None in possible, (producer_id, possible)
        self.known = found

    # What always holds

    @invariant()
    def same_as_the_model(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        stored = check_log(log)
        ours = [batch for batch in self.batches if not stored or batch.first >= stored[0].base_offset]
        assert [(batch.base_offset, batch.last_offset) for batch in stored] == [(batch.first, batch.last) for batch in ours if stored]
        opened = [producer.txn_start for producer in self.known.values() if producer.txn_start is not None]
        stable = min([max(self.start, start) for start in opened] + [self.end])
        assert log.last_stable_offset == stable
        assert numbers(list(log.read(isolation="committed"))) == self.committed(stable)

    def committed(self, stable: int) -> list[int]:
        found: list[int] = []
        fate: dict[int | None, str] = {}
        for batch in reversed(self.batches):
            if batch.ends:
                fate[batch.producer_id] = batch.ends
            elif batch.last < stable and not (batch.is_transactional and fate.get(batch.producer_id) == "abort"):
                found[:0] = [batch.number + place for place in range(batch.count) if batch.first + place >= self.start]
        return found


pytestmark = pytest.mark.leaves(
    "producer-sequence",  # a producer that was forgotten with the records that were deleted begins anew
    "producer-epoch",  # the same
    "snapshot-beyond-end",  # a log that was cut inside of a batch ends, by its files, before that batch
    "snapshot-producer",  # where a transaction began that is older than the log: the snapshot knows, the log does not
    "txn-index-entry",  # the same, of a transaction that is open beside the aborted one
)

STEPS = int(os.environ.get("TIDELOG_MODEL_STEPS", "40"))
EXAMPLES = 60
TestProducerModel = ProducerMachine.TestCase
TestProducerModel.settings = settings(
    stateful_step_count=STEPS, max_examples=max(EXAMPLES, settings().max_examples), phases=(Phase.generate, Phase.shrink)
)

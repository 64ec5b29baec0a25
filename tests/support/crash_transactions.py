"""Transactions in the crash simulation: what a session did, and what may be read if the power goes at any moment of it.

A session notes each transaction when it begins, when it is to end, and when that is answered. Each image is opened. Then, for readers of
committed records, every transaction is there whole or not at all, over all partitions: whole if its commit was answered, not at all unless
its commit had begun. The position of its group is there exactly if its records are. Nothing is open any more, and opening once more writes
nothing.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from tests.support.logs import FakeClock
from tests.support.recording_disk import RecordingDisk
from tests.support.small_stores import open_store, state_of
from tidelog.disk.disk import Disk
from tidelog.disk.names import TopicPartition
from tidelog.record import NewBatch
from tidelog.schema.transaction_state import format_key, format_value, parse_value
from tidelog.store.internal_logs import internal_log
from tidelog.store.internal_topics import TRANSACTIONS
from tidelog.store.store import Store
from tidelog.store.transactions import gathering

INPUT = TopicPartition("in", 0)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OUTPUTS = (A0, A1, B0)
SETTINGS: dict[str, Any] = {
    "num.recovery.threads.per.data.dir": 1,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "offsets.retention.minutes": 60,
    "offsets.retention.check.interval.ms": 1000,
    "transactional.id.expiration.ms": 3_600_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 1000,
}
Outcome = Literal["commit", "abort"]
Label = Literal["begun", "ending", "ended", "expiring", "expired"]


@dataclass(frozen=True)
class Done:
    """A transaction, or a commit of a position by itself."""

    number: int
    owner: str
    """Its transactional id; its group is named by it."""
    records: Mapping[TopicPartition, int]
    """How many there are in each partition."""
    position: int | None = None
    outcome: Outcome = "commit"

    def values(self, partition: TopicPartition) -> list[bytes]:
        """What it writes."""
        return [b"%d %s %d" % (self.number, str(partition).encode(), place) for place in range(self.records.get(partition, 0))]


@dataclass
class Expected:
    """What the notes up to a moment say: which transactions are to end, or have ended, in that order."""

    ending: dict[int, Done] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    expires: Literal["", "expiring", "expired"] = ""

    def follow(self, label: str, done: object) -> None:
        if label in ("expiring", "expired"):
            self.expires = "expiring" if label == "expiring" else "expired"
            return
        assert isinstance(done, Done)
        if label == "ending":
            self.ending[done.number] = done
        elif label == "ended":
            self.ended.add(done.number)

    def faults_of(self, found: "Found") -> list[str]:
        """What is not as promised."""
        faults, there = [], set()
        left = {partition: list(values) for partition, values in found.values.items()}
        for done in self.ending.values():
            wanted = {partition: done.values(partition) for partition in done.records}
            got = {partition: [value for value in found.values[partition] if value in wanted[partition]] for partition in wanted}
            for partition in wanted:
                left[partition] = [value for value in left[partition] if value not in wanted[partition]]
            is_there = bool(wanted) and got == wanted
            if not is_there and any(got.values()):
                faults.append(f"half of {done} is there: {got}")
            if is_there and done.outcome == "abort":
                faults.append(f"{done} is there, which was aborted")
            if wanted and not is_there and done.outcome == "commit" and done.number in self.ended:
                faults.append(f"{done} is not there, though its commit was answered")
            if is_there:
                there.add(done.number)
        faults += [f"{partition} has {values}, which nobody committed" for partition, values in left.items() if values]
        for owner, possible in self._positions(there).items():
            if found.positions.get(owner) not in possible:
                faults.append(f"the position of {owner} is {found.positions.get(owner)}, not one of {possible}, by the output")
        return faults

    def _positions(self, there: Collection[int]) -> dict[str, set[int | None]]:
        """The positions that agree with the transactions that are there."""
        possible: dict[str, set[int | None]] = {done.owner: {None} for done in self.ending.values()}
        for done in self.ending.values():
            if done.position is None or done.outcome == "abort":
                continue
            if done.records:
                if done.number in there:
                    possible[done.owner] = {done.position}
            elif done.number in self.ended:
                possible[done.owner] = {done.position}
            else:
                possible[done.owner].add(done.position)
        if self.expires:
            possible = {owner: {None, *(found if self.expires == "expiring" else ())} for owner, found in possible.items()}
        return possible


@dataclass(frozen=True)
class Found:
    """What is in a store, for readers of committed records."""

    values: Mapping[TopicPartition, list[bytes]]
    positions: Mapping[str, int | None]


class TransactionSession:
    """A store on a disk that records; each call notes what is to come of it."""

    def __init__(self, root: Path, *, owners: Iterable[str] = ("one", "two")) -> None:
        self.disk = RecordingDisk(root)
        self.clock = FakeClock()
        self.owners = tuple(owners)
        self.writes_early = False
        """Whether records are in the log before their transaction ends: all but the last of each partition."""
        self.path = root / "data"
        self.store = open_for(self.path, self.disk, self.clock)
        for name, partitions in (("in", 1), ("a", 2), ("b", 1)):
            self.store.create_topic(name, partitions)
        self.store.topic("in").append_many([(None, b"%d" % number) for number in range(60)])
        self._number = 0
        self._held: list[object] = []
        """Transactions, so that none is dropped before its time."""

    def events(self) -> int:
        return len(self.disk.recording().events)

    def run(
        self,
        owner: str,
        partitions: Collection[TopicPartition] = OUTPUTS,
        *,
        outcome: Outcome = "commit",
        position: bool = False,
        count: int = 2,
    ) -> None:
        """A transaction from beginning to end."""
        self.begin(owner, partitions, outcome=outcome, position=position, count=count)()

    def begin(
        self,
        owner: str,
        partitions: Collection[TopicPartition] = OUTPUTS,
        *,
        outcome: Outcome = "commit",
        position: bool = False,
        count: int = 2,
    ) -> Callable[[], None]:
        """A transaction that is left open until what this gives back is called."""
        self._number += 1
        number = self._number
        done = Done(number, owner, dict.fromkeys(partitions, count), number if position else None, outcome)
        self._note("begun", done)
        transaction = self.store.transaction(owner)
        self._held.append(transaction)
        room_bytes = 1 if self.writes_early else gathering.GATHER_BYTES
        with patch.multiple(gathering, GATHER_BYTES=room_bytes, LEAST_GATHER_BYTES=room_bytes):
            for partition in partitions:
                for value in done.values(partition):
                    transaction.append(partition.topic, value, partition=partition.partition)
        if position:
            with self.store.consumer(f"group of {owner}", "in") as consumer:
                consumer.seek(INPUT, number)
                transaction.commit_positions(consumer)

        def end() -> None:
            self._note("ending", done)
            if outcome == "commit":
                transaction.commit()
            else:
                transaction.abort()
            self._note("ended", done)

        return end

    def commit_position(self, owner: str) -> None:
        """A position by itself."""
        self._number += 1
        done = Done(self._number, owner, {}, self._number)
        with self.store.consumer(f"group of {owner}", "in") as consumer:
            consumer.seek(INPUT, self._number)
            self._note("ending", done)
            consumer.commit()
            self._note("ended", done)

    def expire(self, ms: int = 7_200_000) -> None:
        """Time goes by, until nobody has to keep a position or an id any more."""
        self.clock.advance(ms)
        self.disk.note("expiring", None)
        self.store.scheduler.run_due()
        self.disk.note("expired", None)

    def wear_out(self, owner: str, epoch: int) -> None:
        """As if a transactional id had been used so often that its epoch is this one. The store is opened again."""
        log = internal_log(state_of(self.store), TRANSACTIONS, owner)
        last = [record for record in log.read() if record.key == format_key(owner)][-1]
        assert last.value is not None
        worn = replace(parse_value(last.value), producer_epoch=epoch)
        log.append(NewBatch([(last.key, format_value(worn), last.headers, self.clock())]).encode())
        self.reopen()

    def reopen(self) -> None:
        """Closed in order, and opened."""
        self.store.close()
        self.store = open_for(self.path, self.disk, self.clock)

    def close(self) -> None:
        self.store.close()

    def _note(self, label: Label, done: Done) -> None:
        self.disk.note(label, done)


def open_for(path: Path, disk: Disk, clock: FakeClock) -> Store:
    """A store as the sessions have it."""
    return open_store(path, disk=disk, clock=clock, config=SETTINGS)


@dataclass(frozen=True)
class Story:
    """What a session does: first what is no part of it, then what is looked at moment by moment."""

    name: str
    before: Callable[[TransactionSession], object]
    story: Callable[[TransactionSession], object]
    writes_early: bool = False
    is_whole: bool = False
    """Whether every moment since the directory was made is looked at."""

    def play(self, root: Path) -> tuple[TransactionSession, range]:
        """The session, and the moments to look at."""
        session = TransactionSession(root)
        self.before(session)
        session.writes_early = self.writes_early
        first = 0 if self.is_whole else session.events() + 1
        self.story(session)
        moments = range(first, session.events() + 1)
        session.close()
        return session, moments


def _used(session: TransactionSession) -> None:
    """Everything that is made when it is first used is there."""
    for owner in session.owners:
        session.run(owner, position=True)


def _positions(session: TransactionSession) -> None:
    session.commit_position("one")
    session.run("one", position=True)
    session.run("one", outcome="abort", position=True)
    session.run("one", [A1], position=True)


def _interleaved(session: TransactionSession) -> None:
    end_one = session.begin("one", position=True)
    end_two = session.begin("two", [A0, B0], position=True)
    end_two()
    end_three = session.begin("two", [A0, A1], outcome="abort")
    end_one()
    end_three()


def _again(session: TransactionSession) -> None:
    session.run("one", [A0])
    session.begin("one", position=True)  # its holder is gone
    session.run("one", [A1, B0], position=True)


def _nearly_worn_out(session: TransactionSession) -> None:
    _used(session)
    session.wear_out("one", 32764)


def _worn_out(session: TransactionSession) -> None:
    for _ in range(4):
        session.run("one", [A0, B0])


def _expiring(session: TransactionSession) -> None:
    session.commit_position("one")
    session.expire()


def _left_open(session: TransactionSession) -> None:
    session.begin("one", position=True)
    session.close()


STORIES = (
    Story("commit", _used, lambda session: session.run("one")),
    Story("abort", _used, lambda session: session.run("one", outcome="abort")),
    Story("abort what is written", _used, lambda session: session.run("one", outcome="abort", position=True), writes_early=True),
    Story("positions", _used, _positions),
    Story("interleaved", _used, _interleaved, writes_early=True),
    Story("again", _used, _again, writes_early=True),
    Story("first use", lambda session: None, lambda session: session.run("one", position=True)),
    Story("from the first byte", lambda session: None, lambda session: session.run("one", [A0], position=True), is_whole=True),
    Story("worn out", _nearly_worn_out, _worn_out),
    Story("expiring", _used, _expiring),
    Story("left open", _used, _left_open, writes_early=True),
)

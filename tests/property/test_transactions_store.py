"""Transactions of several ids over several partitions, against a plain model: committed readers see all of each or nothing, in its place.

The model knows for every partition what is in it in order, and of every transaction whether it is committed. Reading committed gives the
records of committed transactions, and those outside of any, up to the first transaction that is open.
"""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.logs import FakeClock
from tests.support.small_stores import open_store
from tests.support.transactions import write_out
from tidelog.errors import ProducerFencedError, TransactionError
from tidelog.record.kernel.gathering import WriteHandle
from tidelog.schema.transaction_state import TransactionStatus
from tidelog.store.store import Store
from tidelog.store.transactions.transaction import Transaction

IDS = st.sampled_from(["one", "two", "three"])
TARGETS = st.sampled_from([("a", 0), ("a", 1), ("b", 0)])
PARTITIONS = [("a", 0), ("a", 1), ("b", 0)]
Target = tuple[str, int]


@dataclass
class Written:
    """A transaction as the model has it."""

    transaction: Transaction
    gathered: list[tuple[Target, bytes]] = field(default_factory=list)
    handles: list[tuple[Target, bytes, WriteHandle]] = field(default_factory=list)
    is_written: bool = False
    status: str = "open"


class Transactions(RuleBasedStateMachine):
    """Ids begin, append, write, commit, abort, fence each other; the store is closed, or copied as by a kill, and opened again."""

    store: Store

    @initialize()
    def begin_store(self) -> None:
        self.home = Path(tempfile.mkdtemp())
        self.clock = FakeClock()
        self.generation = 0
        self.number = 0
        self.open: dict[str, Written] = {}
        self.over: list[Written] = []
        self.logs: dict[Target, list[tuple[bytes, Written | None]]] = {target: [] for target in PARTITIONS}
        self.epochs: dict[str, int] = {}
        self.store = open_store(self.home / "0", clock=self.clock)
        self.store.create_topic("a", 2)
        self.store.create_topic("b", 1)

    # What users do

    @rule(name=IDS)
    def begin(self, name: str) -> None:
        before = self.open.get(name)
        self.open[name] = Written(self.store.transaction(name))
        if before is not None:
            self.end(before, "aborted")
            for use in (before.transaction.commit, before.transaction.abort):
                try:
                    use()
                except ProducerFencedError:
                    continue
                raise AssertionError("it was fenced")

    @precondition(lambda self: self.open)
    @rule(data=st.data(), place=TARGETS)
    def append(self, data: st.DataObject, place: Target) -> None:
        found = self.open[data.draw(st.sampled_from(sorted(self.open)))]
        value = self.value()
        handle = found.transaction.append(place[0], value, partition=place[1])
        found.gathered.append((place, value))
        found.handles.append((place, value, handle))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.open)))
        write_out(self.open[name].transaction)
        self.taken(name, self.open[name])

    @precondition(lambda self: self.open)
    @rule(data=st.data(), is_commit=st.booleans())
    def finish(self, data: st.DataObject, is_commit: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.open)))
        found = self.open.pop(name)
        if is_commit:
            self.taken(name, found)
            found.transaction.commit()
        else:
            found.transaction.abort()
        self.end(found, "committed" if is_commit else "aborted")
        for use in (found.transaction.commit, found.transaction.abort):
            try:
                use()
            except TransactionError:
                continue
            raise AssertionError("it is over")

    @rule(place=TARGETS)
    def append_plainly(self, place: Target) -> None:
        value = self.value()
        self.store.topic(place[0]).append(value, partition=place[1])
        self.logs[place].append((value, None))

    @rule(how=st.sampled_from(["close", "kill"]))
    def open_again(self, how: str) -> None:
        before = self.home / str(self.generation)
        self.generation += 1
        after = self.home / str(self.generation)
        if how == "kill":
            shutil.copytree(before, after, ignore=shutil.ignore_patterns(".lock"))
            self.store.close()
        else:
            self.store.close()
            shutil.copytree(before, after, ignore=shutil.ignore_patterns(".lock"))
        shutil.rmtree(before)
        self.store = open_store(after, clock=self.clock)
        for found in self.open.values():
            self.end(found, "aborted")
        self.open = {}

    # What must be so

    @invariant()
    def committed_is_all_or_nothing(self) -> None:
        for target, content in self.logs.items():
            expected = []
            for value, found in content:
                if found is not None and found.status == "open":
                    break
                if found is None or found.status == "committed":
                    expected.append(value)
            read = [record.value for record in self.store.topic(target[0]).read(partition=target[1])]
            assert read == expected, target
            everything = [r.value for r in self.store.log(*target).read(isolation="log_end")]
            assert everything == [value for value, _ in content]

    @invariant()
    def states_are_right(self) -> None:
        states = {found.transactional_id: found for found in self.store.transactions()}
        assert self.store.hanging_transactions() == []
        for name, epoch in self.epochs.items():
            assert states[name].producer_epoch == epoch
            is_open = name in self.open and self.open[name].is_written
            assert (states[name].status is TransactionStatus.ONGOING) == is_open
        assert states.keys() == self.epochs.keys()

    def value(self) -> bytes:
        self.number += 1
        return b"%d" % self.number

    def taken(self, name: str, found: Written) -> None:
        """What was gathered is in the logs, in the order of the topics and partitions that it came for first."""
        if found.gathered and not found.is_written:
            found.is_written = True
            self.epochs[name] = self.epochs.get(name, -1) + 1
        for target, value in found.gathered:
            self.logs[target].append((value, found))
        found.gathered = []

    def end(self, found: Written, status: str) -> None:
        found.status = status
        for place, value, handle in found.handles:
            assert handle.done()
            if status == "committed":
                offset = handle.result().offset
                (record,) = self.store.log(*place).read(offset, offset + 1)
                assert record.value == value

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.home)


TestTransactions = Transactions.TestCase

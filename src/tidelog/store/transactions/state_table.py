"""The last state of every transactional id, as the logs of `__transaction_state` have it.

A partition is read when one of its ids is first asked for; what this store writes from then on is taken in at once.
"""

import threading

from tidelog.disk.names import TopicPartition
from tidelog.errors import TidelogError
from tidelog.log.log import Log
from tidelog.log.log_reading import Isolation, LogReading
from tidelog.schema.transaction_state import TransactionLogValue
from tidelog.store.internal_logs import existing_partitions
from tidelog.store.internal_topics import TRANSACTIONS, partition_of_id
from tidelog.store.state import StoreState
from tidelog.store.transactions.decisions import IdState
from tidelog.store.transactions.state_records import RawState, StateWriting, fold, parse_state


def read_states(log: LogReading, header: bytes | None, isolation: Isolation = "log_end") -> dict[str, IdState]:
    """All of one partition. Memory is needed for the last record of each id, not for the log."""
    raw: dict[bytes, RawState] = {}
    fold(log.read(isolation=isolation, when_overtaken="skip"), raw)
    states = (parse_state(key, last, header, log.directory) for key, last in raw.items())
    return {state.transactional_id: state for state in states if state is not None}


class StateTable:
    """The states of a store that this process owns. May be shared between threads."""

    def __init__(self, state: StoreState) -> None:
        self._state = state
        self.writing = StateWriting.of(state.file.store_id)
        self._lock = threading.Lock()
        self._partitions: dict[int, tuple[Log, dict[str, IdState]]] = {}
        """By partition the log that was read, and its states. It is another log when the topic was deleted, or somebody has closed it."""

    def get(self, transactional_id: str) -> IdState | None:
        """The state of an id; None if there is none."""
        number = self._number(transactional_id)
        return None if number is None else self._states(number).get(transactional_id)

    def all(self) -> list[IdState]:
        """Every state that can be read here. A partition that cannot be opened is passed over: `Store.failures` tells why."""
        return self.read_all()[0]

    def read_all(self) -> tuple[list[IdState], dict[TopicPartition, TidelogError]]:
        """The same, and the partitions that cannot be read."""
        entry = self._state.file.topics.get(TRANSACTIONS.name)
        found: list[IdState] = []
        failures: dict[TopicPartition, TidelogError] = {}
        for number in [] if entry is None else existing_partitions(self._state, TRANSACTIONS, entry):
            try:
                found += list(self._states(number).values())
            except TidelogError as error:
                failures[TopicPartition(TRANSACTIONS.name, number)] = error
        return found, failures

    def append(self, log: Log, transactional_id: str, value: TransactionLogValue | None) -> int:
        """Write a state, or a tombstone; it is not waited for. Gives back the offset behind it."""
        number = log.partition.partition
        try:
            info = log.append(self.writing.batch(transactional_id, value, self._state.clock()), wait=False)
            self._take_in(number, transactional_id, value)
        except Exception:
            raise  # the log does not have it
        except BaseException:  # an interrupt: the log may have what nobody has taken in, and it is the log that counts
            self._forget(number)
            raise
        return info.last_offset + 1

    def look_again(self, log: Log, transactional_id: str, offset: int) -> None:
        """Find out what an interrupted call has written about an id, from an offset on."""
        raw: dict[bytes, RawState] = {}
        start = min(max(offset, log.log_start_offset), log.log_end_offset)
        fold(log.read(start, isolation="log_end", when_overtaken="skip"), raw)
        for key, last in raw.items():
            state = parse_state(key, last, self.writing.header, log.directory)
            if state is not None and state.transactional_id == transactional_id:
                self._take_in(log.partition.partition, transactional_id, state.value)

    def _take_in(self, number: int, transactional_id: str, value: TransactionLogValue | None) -> None:
        states = self._states(number)
        if value is None:
            states.pop(transactional_id, None)
        else:
            states[transactional_id] = IdState(transactional_id, value, True)

    def _forget(self, number: int) -> None:
        """What was read of a partition is read again when somebody asks."""
        with self._lock:
            self._partitions.pop(number, None)

    def _number(self, transactional_id: str) -> int | None:
        """The partition of an id, if it is there already."""
        entry = self._state.file.topics.get(TRANSACTIONS.name)
        if entry is None:
            return None
        number = partition_of_id(transactional_id, entry.partitions)
        return number if number in existing_partitions(self._state, TRANSACTIONS, entry) else None

    def _states(self, number: int) -> dict[str, IdState]:
        log = self._state.log(TopicPartition(TRANSACTIONS.name, number))
        with self._lock:
            known = self._partitions.get(number)
            if known is None or known[0] is not log:
                known = self._partitions[number] = log, read_states(log, self.writing.header)
            return known[1]

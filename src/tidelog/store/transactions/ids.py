"""Ids: what a transactional id may be, and the producer ids that a store gives out.

A producer id of ours is 2^52, plus 21 bits of the store's id in front of a counter of 31 bits. So it is far from what a broker counts up
from 0, it differs from store to store, and it is exact as a number in JSON. The counter is set apart in blocks in the store's file, before
the first of a block is used: none is given out twice, whatever a crash takes away.
"""

import threading
from dataclasses import replace
from uuid import UUID

from tidelog.errors import InvalidConfigError, InvalidRecordTypeError, TransactionError
from tidelog.store.file_changes import write
from tidelog.store.state import StoreState

FIRST_PRODUCER_ID = 1 << 52
COUNTER_BITS = 31
STORE_BITS = 21
BLOCK = 1000
"""How many are set apart at a time."""
MAX_EPOCH = 0x7FFF - 1
"""The last that a producer id is used with, as in Kafka; the next transaction gets another id."""
DEFAULT_TIMEOUT_MS = 60_000
"""Kafka's `transaction.timeout.ms` of producers."""
MAX_ID_BYTES = 0x7FFF - 2
"""What fits the key of a state record."""


def producer_ids_of(store_id: UUID) -> range:
    """Those that a store may give out."""
    first = FIRST_PRODUCER_ID + ((store_id.int & ((1 << STORE_BITS) - 1)) << COUNTER_BITS)
    return range(first, first + (1 << COUNTER_BITS))


def check_transactional_id(transactional_id: object) -> str:
    """A name for a line of transactions, of which one is open at a time."""
    if not isinstance(transactional_id, str):
        raise InvalidRecordTypeError("a transactional id that is no text", expected="str", found=type(transactional_id).__name__)
    try:
        size = len(transactional_id.encode())
    except UnicodeEncodeError as error:
        raise InvalidConfigError("a transactional id that cannot be written in UTF-8", found=repr(transactional_id)) from error
    if not 0 < size <= MAX_ID_BYTES:
        raise InvalidConfigError("the length of a transactional id", expected=f"1 to {MAX_ID_BYTES} bytes in UTF-8", found=size)
    return transactional_id


def check_timeout(timeout_ms: object, highest_ms: int) -> int:
    """How long a transaction may stay open; None is Kafka's default, if the store allows as much."""
    if timeout_ms is None:
        return min(DEFAULT_TIMEOUT_MS, highest_ms)
    if type(timeout_ms) is not int or not 1 <= timeout_ms <= highest_ms:
        raise InvalidConfigError(
            "timeout_ms of a transaction",
            expected=f"1 to {highest_ms} milliseconds",
            found=repr(timeout_ms),
            hint="transaction.max.timeout.ms of the store sets the limit",
        )
    return timeout_ms


class ProducerIds:
    """Gives out producer ids. May be shared between threads."""

    def __init__(self, state: StoreState) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._next = self._end = 0

    def take(self) -> int:
        """One that nobody has had."""
        with self._lock:
            if self._next == self._end:
                self._set_apart()
            self._next += 1
            return producer_ids_of(self._state.file.store_id)[self._next - 1]

    def set_apart(self) -> None:
        """Write down that transactions are used here, also where the first of them needs no id of ours."""
        with self._lock:
            if self._state.file.next_producer_id == 0:
                self._set_apart()

    def _set_apart(self) -> None:
        state = self._state
        with state.changing():
            first = state.file.next_producer_id
            if first + BLOCK > 1 << COUNTER_BITS:
                raise TransactionError("the store has no producer ids left", path=state.paths[0])
            write(state, replace(state.file, next_producer_id=first + BLOCK))
            self._next, self._end = first, first + BLOCK

"""What a process remembers of a transactional id, and of what its transaction has written in a partition."""

import threading
from typing import TYPE_CHECKING

from tidelog.log.log import Log

if TYPE_CHECKING:
    from tidelog.store.transactions.open_transaction import OpenTransaction


class TransactionalId:
    """An id that this process has used. Its lock is held for everything about its transactions; one of them is open at a time."""

    __slots__ = ("current", "floor_epoch", "lock", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.RLock()
        self.current: OpenTransaction | None = None
        """The transaction that is open, or has ended and is not settled yet."""
        self.floor_epoch = -1
        """An epoch that some log knows already."""


class Written:
    """What a transaction has in one partition."""

    __slots__ = ("end_offset", "log", "next_sequence")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.next_sequence = 0
        self.end_offset = 0

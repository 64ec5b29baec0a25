"""A data directory that looks after itself: topics, their settings, their partitions, and what is done in the background."""

from tidelog.record.kernel.gathering import WriteHandle
from tidelog.record.record_metadata import RecordMetadata
from tidelog.store.appended import AppendSummary
from tidelog.store.groups.consumer import Consumer
from tidelog.store.groups.group import Group
from tidelog.store.groups.position import GroupLag, Position
from tidelog.store.opening import open  # noqa: A004
from tidelog.store.read_only_store import ReadOnlyStore, ReadOnlyTopic
from tidelog.store.store import Store
from tidelog.store.topic import Topic
from tidelog.store.transactions.hanging import HangingTransaction, TransactionDescription
from tidelog.store.transactions.transaction import Transaction
from tidelog.store.what_if import grid
from tidelog.store.writer import Writer

__all__ = [
    "AppendSummary",
    "Consumer",
    "Group",
    "GroupLag",
    "HangingTransaction",
    "Position",
    "ReadOnlyStore",
    "ReadOnlyTopic",
    "RecordMetadata",
    "Store",
    "Topic",
    "Transaction",
    "TransactionDescription",
    "WriteHandle",
    "Writer",
    "grid",
    "open",
]

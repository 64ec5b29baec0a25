"""A data directory that looks after itself: topics, their settings, their partitions, and what is done in the background."""

from tidelog.store.appended import AppendSummary, RecordMetadata
from tidelog.store.opening import open  # noqa: A004
from tidelog.store.read_only_store import ReadOnlyStore, ReadOnlyTopic
from tidelog.store.store import Store
from tidelog.store.topic import Topic
from tidelog.store.what_if import grid
from tidelog.store.write_batch import WriteHandle
from tidelog.store.writer import Writer

__all__ = [
    "AppendSummary",
    "ReadOnlyStore",
    "ReadOnlyTopic",
    "RecordMetadata",
    "Store",
    "Topic",
    "WriteHandle",
    "Writer",
    "grid",
    "open",
]

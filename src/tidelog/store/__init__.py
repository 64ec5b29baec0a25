"""A data directory that looks after itself: topics, their settings, their partitions, and what is done in the background."""

from tidelog.store.opening import open  # noqa: A004
from tidelog.store.read_only_store import ReadOnlyStore, ReadOnlyTopic
from tidelog.store.store import Store
from tidelog.store.topic import Topic
from tidelog.store.what_if import grid

__all__ = ["ReadOnlyStore", "ReadOnlyTopic", "Store", "Topic", "grid", "open"]

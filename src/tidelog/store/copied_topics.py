"""What a new store writes down about topics that were copied: ids, settings and partitions as the source has them.

Settings come from the source's store, or from the metadata log of its broker where that is asked for. Where nobody says, nothing is known
of them in the new store either, and it leaves them alone until they are given.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

from tidelog.config import LogConfig
from tidelog.disk.checkpoints import read_offsets
from tidelog.disk.disk import Disk
from tidelog.disk.names import CLEANER_CHECKPOINT, TopicPartition
from tidelog.errors import TidelogError
from tidelog.store.adopting import with_settings
from tidelog.store.cluster_metadata import read_cluster_metadata
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.store_file import StoreFile, TopicEntry, read_store_file


def new_store_file(store: ReadOnlyStore, partitions: Iterable[TopicPartition], *, cluster_metadata: bool) -> StoreFile:
    """The file of a store with these partitions of another one, or of a broker's directory."""
    disk = store._pool.disk
    here: dict[str, set[int]] = {}
    for partition in partitions:
        here.setdefault(partition.topic, set()).add(partition.partition)
    topics = {name: _entry(store, name, found) for name, found in sorted(here.items())}
    content = StoreFile(uuid4(), topics=topics, revision=1, next_producer_id=_next_producer_id(disk, store.paths))
    if cluster_metadata:
        content = with_settings(content, read_cluster_metadata(disk, store.paths), LogConfig())
    return content


def cleaner_offsets(disk: Disk, paths: Sequence[str]) -> Mapping[TopicPartition, int]:
    """How far logs were compacted, by their checkpoints. One that cannot be read says nothing."""
    found: dict[TopicPartition, int] = {}
    for path in paths:
        with suppress(TidelogError, OSError):
            found |= read_offsets(disk, f"{path}/{CLEANER_CHECKPOINT}")
    return found


def _entry(store: ReadOnlyStore, name: str, found: set[int]) -> TopicEntry:
    facts, known = store.facts(name), store.found_topic(name).entry
    count = max(facts.partitions, max(found) + 1)
    absent = frozenset(set(range(count)) - found)
    if known is None:
        return TopicEntry(facts.topic_id, count, None, absent=absent)
    return replace(known, topic_id=facts.topic_id, partitions=count, absent=absent, is_incomplete=False)


def _next_producer_id(disk: Disk, paths: Sequence[str]) -> int:
    """Ids that were given out before are in the copy too."""
    highest = 0
    for path in paths:
        with suppress(TidelogError):
            content = read_store_file(disk, path)
            highest = max(highest, 0 if content is None else content.next_producer_id)
    return highest

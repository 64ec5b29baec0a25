"""The topics that the positions of a transaction are about. One that is deleted before they are written takes them with it.

A new topic of the name begins from its own beginning: at a position of the old one, a group would never see what lies before it.
"""

import logging
from collections.abc import Iterable
from uuid import UUID

from tidelog.schema.consumer_offsets import OffsetCommitKey, parse_key
from tidelog.store.state import StoreState
from tidelog.store.write_batch import Row

_logger = logging.getLogger(__name__)


class InputTopics:
    """Of a batch of a transaction, its lock held. A topic that is not in its store, but in the one that is read, is not deleted here."""

    def __init__(self, state: StoreState) -> None:
        self._state = state
        self._ids: dict[str, UUID | None] = {}

    def note(self, keys: Iterable[bytes]) -> None:
        """Positions are about these topics, as they are now."""
        for topic in {topic_of(key) for key in keys}:
            entry = self._state.file.topics.get(topic)
            if entry is not None:
                self._ids.setdefault(topic, entry.topic_id)

    def left_of(self, rows: list[Row]) -> list[Row]:
        """The positions without those in topics that are gone since, or are others by now."""
        topics = self._state.file.topics
        gone = {topic for topic, topic_id in self._ids.items() if topic not in topics or topics[topic].topic_id != topic_id}
        if not gone:
            return rows
        for topic in sorted(gone):
            del self._ids[topic]
            _logger.warning("positions in topic %s are not committed: it was deleted meanwhile", topic)
        return [row for row in rows if topic_of(row[0] or b"") not in gone]


def topic_of(data: bytes) -> str:
    """The topic that a position of ours is about."""
    key = parse_key(data)
    assert isinstance(key, OffsetCommitKey), "written as one"
    return key.topic

"""A group, as whoever looks after it sees it: its positions, how far behind it is; reset and delete."""

import logging
from collections.abc import Iterable

from tidelog.disk.names import TopicPartition
from tidelog.errors import CorruptError, InvalidGroupError, LogNotFoundError, StorageError, UnknownTopicError
from tidelog.log.positions import Position as LogPosition
from tidelog.log.reading import resolve
from tidelog.store.groups.consumer import check_topics
from tidelog.store.groups.members import check_unused, live_member
from tidelog.store.groups.position import GroupLag, Position
from tidelog.store.groups.positions import Positions
from tidelog.store.groups.source import Source
from tidelog.store.topic_range import check_position

_logger = logging.getLogger(__name__)


class Group:
    """Made by `Store.group`. It is a name and asks whenever it is asked: a group that nobody has used yet has no positions."""

    def __init__(self, source: Source, keeper: Source, name: str) -> None:
        self.name = name
        self._source = source
        self._keeper = keeper
        self._positions = Positions(keeper)

    @property
    def kind(self) -> str:
        """`simple`: positions and nothing else, as with all groups of a store. A broker's may be classic, consumer, share or streams."""
        return self._positions.records(self.name).kind

    @property
    def is_in_use(self) -> bool:
        """Whether a consumer of this process is its member."""
        return live_member(self._keeper.paths[0], self.name) is not None

    def positions(self) -> dict[TopicPartition, Position]:
        """What it has committed, by partition."""
        return self._positions.of(self.name)

    def lag(self) -> dict[TopicPartition, GroupLag]:
        """How far it is behind the end of each partition that it has a position in."""
        return {partition: lag_of(self._source, partition, found.offset) for partition, found in self.positions().items()}

    def reset(self, to: LogPosition, topics: str | Iterable[str] | None = None) -> dict[TopicPartition, int]:
        """Move its positions: to an offset, a time, EARLIEST or LATEST. Where they are now.

        Of the topics that are named all partitions, otherwise those that it has positions in. As with Kafka's group tool an offset that a
        partition does not have becomes the nearest that it has. Refused while a consumer of this process is its member.
        """
        self._keeper.owned()
        check_unused(self._keeper.paths[0], self.name)
        moved = self.would_reset(to, topics)
        self._positions.commit(self.name, {partition: Position(offset) for partition, offset in moved.items()})
        return moved

    def would_reset(self, to: LogPosition, topics: str | Iterable[str] | None = None) -> dict[TopicPartition, int]:
        """Where `reset` would move its positions to. Changes nothing, and asks nobody."""
        check_position(to)
        if isinstance(to, int) and to < 0:
            raise InvalidGroupError("no offset to reset to", expected="0 or more", found=to)
        return {partition: self._nearest(partition, to) for partition in self._wanted(topics)}

    def _wanted(self, topics: str | Iterable[str] | None) -> list[TopicPartition]:
        if topics is None:
            return list(self.positions())
        names = check_topics(topics)
        return [TopicPartition(name, number) for name in names for number in self._source.look(name, again=True)[1]]

    def _nearest(self, partition: TopicPartition, to: LogPosition) -> int:
        log = self._source.log(partition)
        log.refresh()
        # As the tool: what is there for everybody, not only for those who read committed records.
        wanted = resolve(log, to, "high_watermark")
        offset = min(max(wanted, log.log_start_offset), log.high_watermark)
        if offset != wanted:
            _logger.warning("%s has no offset %d, group %s is set to %d", partition, wanted, self.name, offset)
        return offset

    def delete(self) -> None:
        """Forget the group and all of its positions. Refused while a consumer of this process is its member."""
        self._keeper.owned()
        check_unused(self._keeper.paths[0], self.name)
        records = self._positions.records(self.name)
        if records.others:
            raise InvalidGroupError(
                f"{self.name!r} is a {records.kind} group of a broker, with members of its own",
                expected="a simple or a classic group",
                found=records.kind,
                hint="only the broker can delete it",
            )
        keys = [stored.key for stored in records.positions.values()]
        self._positions.delete(self.name, keys if records.metadata_key is None else [*keys, records.metadata_key])

    def __repr__(self) -> str:
        return f"Group({self.name!r})"


def lag_of(source: Source, partition: TopicPartition, offset: int) -> GroupLag:
    """How far a position is behind. Of a partition that is not in the store, or that cannot be opened, nobody knows."""
    try:
        log = source.log(partition)
        log.refresh()
    except (UnknownTopicError, LogNotFoundError, CorruptError, StorageError):
        return GroupLag(offset, None, None)
    end = log.high_watermark
    return GroupLag(offset, end, max(0, end - offset))

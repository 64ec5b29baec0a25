"""The positions of groups, in the store that keeps them."""

from collections.abc import Iterable, Mapping

from tidelog.disk.names import TopicPartition
from tidelog.log.log import Log
from tidelog.store.groups.offset_commits import append_rows, commit_rows
from tidelog.store.groups.position import Position
from tidelog.store.groups.positions_table import GroupRecords, Stored
from tidelog.store.groups.source import Source
from tidelog.store.internal_logs import internal_log
from tidelog.store.internal_topics import OFFSETS
from tidelog.store.state import StoreState
from tidelog.store.store_file import TopicEntry


class Positions:
    """Reads and writes the positions of groups. May be used from any thread."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._found: tuple[str, Log] | None = None
        """The group that was written for last, and its log."""

    def of(self, group: str) -> dict[TopicPartition, Position]:
        """What a group has committed, by partition."""
        with self._source.tables.current(self._source.offsets_logs(group)) as tables:
            found = [table.groups[group].positions for table in tables if group in table.groups]
            return {partition: _position(stored) for positions in found for partition, stored in sorted(positions.items())}

    def of_and_pending(self, group: str) -> tuple[dict[TopicPartition, Position], set[TopicPartition]]:
        """The same, and where a transaction that is not over is about to replace it."""
        with self._source.tables.current(self._source.offsets_logs(group)) as tables:
            found = [table.groups[group].positions for table in tables if group in table.groups]
            positions = {partition: _position(stored) for one in found for partition, stored in one.items()}
            return positions, {partition for table in tables for partition in table.pending(group)}

    def all(self) -> dict[str, dict[TopicPartition, Position]]:
        """What every group has committed."""
        with self._source.tables.current(self._source.offsets_logs(None)) as tables:
            return {
                name: {partition: _position(stored) for partition, stored in sorted(group.positions.items())}
                for table in tables
                for name, group in table.groups.items()
            }

    def kinds(self) -> dict[str, str]:
        """All groups by name, and of which kind each is."""
        with self._source.tables.current(self._source.offsets_logs(None)) as tables:
            return {name: group.kind for table in tables for name, group in table.groups.items()}

    def records(self, group: str) -> GroupRecords:
        """What is known of a group, as a copy; of one that nobody knows, nothing."""
        with self._source.tables.current(self._source.offsets_logs(group)) as tables:
            for table in tables:
                if group in table.groups:
                    known = table.groups[group]
                    return GroupRecords(dict(known.positions), known.metadata, known.metadata_key, dict(known.others))
        return GroupRecords()

    def commit(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions, all of them or none, durable when this returns. Those in a topic that is deleted meanwhile go with it."""
        state = self._source.owned()
        if positions:
            topics = state.file.topics
            log = self._log(state, group)
            now_ms = state.clock()
            rows = commit_rows(group, positions, now_ms)
            with self._source.tables.writing(group):
                append_rows(log, rows, now_ms)
                if state.file.topics is not topics:
                    # Who deletes a topic takes back what is there, and this may have come behind it.
                    gone = {name for name in {partition.topic for partition in positions} if _is_other(topics, state.file.topics, name)}
                    late = [(key, None) for partition, (key, _) in zip(positions, rows, strict=True) if partition.topic in gone]
                    append_rows(log, late, now_ms)

    def _log(self, state: StoreState, group: str) -> Log:
        """The log to write to. It takes a while to find, and a consumer asks for the same one again and again."""
        found = self._found
        if found is None or found[0] != group or found[1].is_closed:  # as it is when the topic was deleted
            found = self._found = group, internal_log(state, OFFSETS, group)
        return found[1]

    def delete(self, group: str, keys: Iterable[bytes]) -> None:
        """Take back records of a group by their keys, durable when this returns."""
        state = self._source.owned()
        rows = [(key, None) for key in keys]
        if rows:
            log = internal_log(state, OFFSETS, group)
            with self._source.tables.writing(group):
                append_rows(log, rows, state.clock())


def _is_other(before: Mapping[str, TopicEntry], now: Mapping[str, TopicEntry], topic: str) -> bool:
    """Whether a topic was deleted, and perhaps made again. One that was not here is read in another store."""
    return topic in before and (topic not in now or now[topic].topic_id != before[topic].topic_id)


def _position(stored: Stored) -> Position:
    value = stored.value
    return Position(value.offset, value.leader_epoch, value.metadata, value.commit_timestamp_ms)

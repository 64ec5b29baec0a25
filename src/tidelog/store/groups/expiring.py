"""Take back positions: those that are too old, by the clock, and those of a topic that is deleted. Tombstones are written for them.

And keep those that somebody has just stopped to use.
"""

import logging
from collections.abc import Callable, Collection

from tidelog.disk.names import TopicPartition
from tidelog.errors import ReadOnlyStoreError, TidelogError
from tidelog.log.log import Log
from tidelog.store.groups.expiry import expired, is_half_forgotten
from tidelog.store.groups.members import live_member
from tidelog.store.groups.offset_commits import append_rows, commit_rows
from tidelog.store.groups.position import Position
from tidelog.store.groups.positions_table import GroupRecords, PositionsTable
from tidelog.store.groups.source import Source
from tidelog.store.internal_logs import existing_log, existing_partitions
from tidelog.store.internal_topics import OFFSETS
from tidelog.store.state import StoreState

_logger = logging.getLogger(__name__)
_MINUTE_MS = 60_000
_BATCH = 1_000
"""Tombstones in one batch, at most."""

Chosen = Callable[[PositionsTable, str], list[bytes]]
"""The keys that are to go of a group."""


def expire_positions(state: StoreState) -> int:
    """Take back what is too old: how many records. Of an adopted topic nothing, until somebody has said how it is set.

    What goes wrong with one partition is raised when all had their turn.
    """
    state.check()
    entry = state.file.topics.get(OFFSETS.name)
    if entry is None or not entry.is_set:
        return 0
    retention_ms = _retention_ms(state)

    def too_old(table: PositionsTable, name: str) -> list[bytes]:
        group, member = table.groups.get(name) or GroupRecords(), live_member(state.paths[0], name)
        pending = table.pending(name)
        live_topics = None if member is None else member.topics
        found = expired(group, now_ms=state.clock(), retention_ms=retention_ms, live_topics=live_topics, pending=pending)
        keys = [group.positions[partition].key for partition in found.partitions]
        if found.is_group_gone and group.metadata_key is not None:
            keys.append(group.metadata_key)
        return keys

    count, error = _take_back(state, too_old)
    if count:
        _logger.info("%d records of __consumer_offsets have expired", count)
    if error is not None:
        raise error
    return count


def keep_positions(keeper: Source, group: str, topics: Collection[str]) -> None:
    """Commit once more, as it is, what the member that leaves a group was the reason to keep, where it is half forgotten.

    There may have been nothing to read for long, and so nothing to commit. Kafka counts from when a group became empty, and writes that
    down about the group; ours have nothing but positions, each with its time.
    """
    try:
        if not keeper.is_closed:
            _keep_positions(keeper.owned(), group, topics)
    except ReadOnlyStoreError:
        pass  # it keeps nothing
    except TidelogError as error:
        _logger.warning("positions of group %s, whose consumer was closed, expire as of their commit: %s", group, error)


def _keep_positions(state: StoreState, group: str, topics: Collection[str]) -> None:
    entry = state.file.topics.get(OFFSETS.name)
    log = existing_log(state, OFFSETS, group)
    if entry is None or not entry.is_set or log is None:
        return
    now_ms = state.clock()
    with state.changing(), state.position_tables.writing(group):  # as a transaction that writes positions: none comes in between
        log.wait_until_durable(log.log_end_offset)  # what one has written is not seen before
        with state.position_tables.current({log.partition.partition: log}) as (table,):
            known, pending = table.groups.get(group) or GroupRecords(), table.pending(group)
            old = {
                partition: Position(stored.value.offset, stored.value.leader_epoch, stored.value.metadata)
                for partition, stored in known.positions.items()
                if partition.topic in topics and is_half_forgotten(stored.value, now_ms=now_ms, retention_ms=_retention_ms(state))
            }
        # Behind what a transaction has written, it would count instead of that. And a group of a broker has a time of its own.
        if old and not pending and known.kind == "simple":
            append_rows(log, commit_rows(group, old, now_ms), now_ms)


def _retention_ms(state: StoreState) -> int:
    return state.config.offsets_retention_minutes * _MINUTE_MS


def forget_topic(state: StoreState, topic: str) -> int:
    """Take back the positions that all groups have in a topic: how many. What cannot be written stays, and is said in the log.

    As in Kafka, those too that an open transaction has written: its commit must not bring them back.
    """
    count, error = _take_back(state, lambda table, name: table.keys_in(topic, name))
    if error is not None:
        _logger.warning("not all positions in topic %s, which is deleted, could be taken back: %s", topic, error)
    return count


def _take_back(state: StoreState, choose: Chosen) -> tuple[int, TidelogError | None]:
    """Write tombstones for what is chosen: how many, and the first error."""
    entry = state.file.topics.get(OFFSETS.name)
    if entry is None:
        return 0, None
    count, first = 0, None
    for number in sorted(existing_partitions(state, OFFSETS, entry)):
        try:
            log = state.log(TopicPartition(OFFSETS.name, number))
            log.wait_until_durable(log.log_end_offset)  # what a transaction has written is not seen before
            with state.position_tables.current({number: log}) as (table,):
                groups = [name for name in table.names() if choose(table, name)]
            for name in groups:
                count += _take_back_of(state, log, name, choose)
        except TidelogError as error:
            first = first or error
    return count, first


def _take_back_of(state: StoreState, log: Log, name: str, choose: Chosen) -> int:
    """Look again, now that nobody commits for the group, and write the tombstones."""
    with state.position_tables.writing(name):
        with state.position_tables.current({log.partition.partition: log}) as (table,):
            keys = choose(table, name)
        for start in range(0, len(keys), _BATCH):
            append_rows(log, [(key, None) for key in keys[start : start + _BATCH]], state.clock())
    return len(keys)

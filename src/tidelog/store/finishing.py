"""Finish the commits of compactions that were cut off: by whoever owns the store next, before it does anything else.

    the decision holds        what is left is swapped in, the cleaner's checkpoint written, and the decision removed
    it does not hold          nothing is changed; it goes with its staging directory
    its log is not open       it is left for who opens that
    the system refuses        it is left for the next time

Whoever has the store's locks knows that who wrote the decision has them no more, even where nobody can tell whether he lives. It may be of
another store that is called the same, as in a place that several share: then it is none of ours.
"""

import logging
from contextlib import suppress

from tidelog.compaction.commit_decision import CommitDecision, DecisionVoidError, parse_decision, what_is_left
from tidelog.compaction.parts_commit import file_facts, finish_groups
from tidelog.disk.names import LOG, TopicPartition, parse_partition, segment_file
from tidelog.errors import TidelogError
from tidelog.log.log import Log
from tidelog.store.staging import left_decisions, remove_decision, remove_left_decision
from tidelog.store.state import StoreState

_logger = logging.getLogger(__name__)


def finish_commits(state: StoreState, *, within: str | None = None) -> None:
    """Finish what is decided about logs that are open, beside the log directories or `within` another place. Never raises for one."""
    for data_directory in state.paths:
        try:
            decisions = left_decisions(state.disk, data_directory, within=within)
        except OSError as error:
            _logger.warning("it could not be seen whether a compaction was cut off: %s", error)
            continue
        for staging, name, is_gone in decisions:
            path = f"{staging}/{name}"
            try:
                if _finish(state, staging, path):
                    remove_left_decision(state.disk, path)
            except DecisionVoidError as reason:
                _logger.warning("a compaction that was cut off is not finished, %s; %s", reason, path)
                if is_gone:
                    with suppress(OSError):
                        remove_decision(state.disk, path)
            except (OSError, TidelogError) as error:
                _logger.warning("a compaction that was cut off could not be finished yet: %s: %s", path, error)


def _finish(state: StoreState, staging: str, path: str) -> bool:
    """Do what is left; False if that is not ours, or not now."""
    try:
        decision = parse_decision(state.disk.read_file(path))
    except ValueError as error:
        raise DecisionVoidError(f"it cannot be read: {error}") from error
    home, _, name = decision.directory.rpartition("/")
    partition = parse_partition(name)
    if partition is None or home not in state.paths:
        return False
    log = _log(state, partition, home)
    if log is None:
        return False
    _check(decision, log)
    disk = state.disk
    facts, staged = file_facts(disk, log.directory), file_facts(disk, staging)
    found = {segment.base_offset: facts[segment_file(segment.base_offset, LOG)] for segment in log.segments}
    left = what_is_left(decision, found, staged)
    finish_groups(log, staging, left)
    if (state.cleaner_offset(partition) or 0) < decision.next_dirty_offset:
        state.checkpoint_cleaner(partition, decision.next_dirty_offset)
    _logger.info("finished the compaction of %s that was cut off: %d of %d segments were left", partition, len(left), len(decision.groups))
    return True


def _log(state: StoreState, partition: TopicPartition, home: str) -> Log | None:
    found = state.homes.get(partition)
    if partition.topic not in state.file.topics or found is None or found.path != home:
        raise DecisionVoidError(f"{partition} is not there any more")
    return state.logs.get(partition)


def _check(decision: CommitDecision, log: Log) -> None:
    if None not in (decision.topic_id, log.topic_id) and decision.topic_id != log.topic_id:
        raise DecisionVoidError(f"{log.partition} is another topic's of this name")
    if not log.config.is_compacted:
        raise DecisionVoidError(f"{log.partition} is not to be compacted any more")

"""What sinks write for themselves, looked after by sinks: where a store is only ever opened for commits, no cleaner runs.

Each commit reads the ledger, and opening reads the states of transactions. Both grow with every commit, and say something about the last of
each key only. So who commits compacts them when there is a mebibyte or more to go through.
"""

from tidelog.disk.names import TopicPartition
from tidelog.store.state import StoreState
from tidelog.store.store_care import StoreCare
from tidelog.store.topic_names import SINK_COMMITS, TRANSACTION_STATE
from tidelog.store.transactions.coordinator import Coordinator
from tidelog.store.transactions.expiring import expire_ids

DIRTY_BYTES = 1 << 20


def look_after_sinks(store: StoreCare, coordinator: Coordinator) -> list[str]:
    """Compact what is worth it: which topics."""
    state = coordinator.state
    found = []
    for topic in (SINK_COMMITS, TRANSACTION_STATE):
        entry = state.file.topics.get(topic)
        if entry is None or not entry.is_set or entry.is_incomplete:
            continue
        if max((dirty_bytes(state, TopicPartition(topic, number)) for number in entry.partition_ids()), default=0) >= DIRTY_BYTES:
            if topic == TRANSACTION_STATE:
                expire_ids(coordinator)
            store.compact(topic, roll=True)
            found.append(topic)
    return found


def dirty_bytes(state: StoreState, partition: TopicPartition) -> int:
    """About what was written to an open log since it was last compacted."""
    log = state.logs.get(partition)
    if log is None or log.is_closed:
        return 0
    clean_end = state.cleaner_offset(partition) or 0
    return sum(segment.size_bytes for segment in log.segments if segment.base_offset >= clean_end)

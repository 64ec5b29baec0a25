"""What compaction would do to directories that this process only reads. Nothing is written, and their owner is not asked.

Which producers are active is known to the owner alone: where one is, a header that it keeps of their last batches is not counted here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from tidelog.compaction.cleaning import clean_log
from tidelog.compaction.offset_map import OffsetMap
from tidelog.compaction.plan import plan_cleaning
from tidelog.compaction.results import CompactFailure, CompactResult, PartitionCompacted, gather
from tidelog.config import StoreConfig
from tidelog.disk.names import TopicPartition
from tidelog.errors import TidelogError
from tidelog.log.read_only import ReadOnlyLog
from tidelog.log.storage_errors import storage_error
from tidelog.store.cleaning_passes import map_memory
from tidelog.store.compacting import Outcome, not_compacted, why_nothing
from tidelog.store.read_only_settings import FoundSettings


def would_compact(
    partitions: Iterable[tuple[TopicPartition, FoundSettings]],
    open_log: Callable[[TopicPartition], ReadOnlyLog],
    checkpoints: Mapping[TopicPartition, int],
    config: StoreConfig,
    now_ms: int,
    *,
    drop_null_keys: bool,
) -> CompactResult:
    """What a compaction of these partitions would do."""

    def each() -> Iterator[Outcome]:
        for partition, settings in partitions:
            if settings.left_alone is not None:
                yield partition, settings.left_alone
                continue
            try:
                yield _look(open_log(partition), settings, checkpoints.get(partition), config, now_ms, drop_null_keys=drop_null_keys)
            except TidelogError as error:
                yield CompactFailure(partition, error)

    return gather(now_ms, dry_run=True, found=list(each()))


def _look(
    log: ReadOnlyLog, settings: FoundSettings, checkpoint: int | None, config: StoreConfig, now_ms: int, *, drop_null_keys: bool
) -> PartitionCompacted:
    if not settings.config.is_compacted:
        return PartitionCompacted(log.partition, (), not_compacted(settings.config.cleanup_policy))
    try:
        plan = plan_cleaning(log, settings.config, checkpoint, now_ms)
        if plan.is_empty:
            return PartitionCompacted(log.partition, (), why_nothing(log, plan, can_roll=False))
        offset_map = OffsetMap(map_memory(config, plan), config.log_cleaner_io_buffer_load_factor)
        cleaned = clean_log(log, plan, offset_map, now_ms, drop_null_keys=drop_null_keys, dry_run=True)
    except OSError as error:
        if isinstance(error, TidelogError):
            raise
        raise storage_error(error, log.directory, "looking at what would be compacted failed") from error
    return PartitionCompacted(log.partition, (cleaned,), None, f"settings from {settings.source}")

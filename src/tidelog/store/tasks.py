"""What a store does by the clock, and how often: Kafka's periodic tasks, under Kafka's settings.

| task                | period                                          | first run             |
|---------------------|-------------------------------------------------|-----------------------|
| retention           | log.retention.check.interval.ms                 | after the first delay |
| flush               | log.flush.scheduler.interval.ms                 | after the first delay |
| recovery points     | log.flush.offset.checkpoint.interval.ms         | after the first delay |
| log start offsets   | log.flush.start.offset.checkpoint.interval.ms   | after the first delay |
| high watermarks     | replica.high.watermark.checkpoint.interval.ms   | after one period      |
| silent producers    | producer.id.expiration.check.interval.ms        | after one period      |
| deleted files       | a second; what waits has a time of its own      | after one period      |
| rates               | five seconds, as Kafka's meters                 | after one period      |
| cleaner             | log.cleaner.backoff.ms                          | after one period      |
| positions           | offsets.retention.check.interval.ms             | after one period      |
| transactions        | ten seconds, as Kafka's coordinator             | after one period      |
| transactional ids   | transaction.remove.expired.transaction.cleanup.interval.ms | after one period |

The cleaner has threads of its own, and the task nothing to do, unless the store was opened without threads.
The first delay is `log.initial.task.delay.ms`. Recovery points and log starts are written down by the logs themselves when they move; the
tasks do it again where that has failed.
"""

from collections.abc import Callable, Mapping
from functools import partial

from tidelog.disk.log_directory import LogDirectory
from tidelog.disk.names import TopicPartition
from tidelog.log.log import Log
from tidelog.store import topic_deletion
from tidelog.store.groups.expiring import expire_positions
from tidelog.store.retaining import Retention
from tidelog.store.scheduler import Task
from tidelog.store.state import StoreState

REMOVAL_PERIOD_MS = 1_000
RATES_PERIOD_MS = 5_000


def tasks_of(state: StoreState, retention: Retention, tick: Callable[[], object], clean: Callable[[], object]) -> list[Task]:
    """The tasks of a store; `tick` is for the rates of its metrics, `clean` takes the cleaner's turns where it has no threads."""
    config, delay_ms = state.config, state.config.log_initial_task_delay_ms
    watermark_ms, producers_ms = config.replica_high_watermark_checkpoint_interval_ms, config.producer_id_expiration_check_interval_ms
    positions_ms = config.offsets_retention_check_interval_ms
    each = partial(for_each_log, state)
    return [
        Task("retention", config.log_retention_check_interval_ms, partial(retain, state, retention), delay_ms),
        Task("flush", config.log_flush_scheduler_interval_ms, partial(each, Log.flush_if_due), delay_ms),
        Task("recovery points", config.log_flush_offset_checkpoint_interval_ms, partial(each, Log.checkpoint_recovery_point), delay_ms),
        Task("log start offsets", config.log_flush_start_offset_checkpoint_interval_ms, partial(each, Log.checkpoint_start), delay_ms),
        Task("high watermarks", watermark_ms, partial(checkpoint_high_watermarks, state), watermark_ms),
        Task("silent producers", producers_ms, partial(each, Log.expire_producers), producers_ms),
        Task("deleted files", REMOVAL_PERIOD_MS, partial(remove_deleted, state), REMOVAL_PERIOD_MS),
        Task("rates", RATES_PERIOD_MS, tick, RATES_PERIOD_MS),
        Task("cleaner", config.log_cleaner_backoff_ms, clean, config.log_cleaner_backoff_ms),
        Task("positions", positions_ms, partial(expire_positions, state), positions_ms),
    ]


def for_each_log(state: StoreState, act: Callable[[Log], object]) -> None:
    """Do something to every log that is open and well. What goes wrong with one is raised when all had their turn."""
    errors: list[Exception] = []
    for log in well(state):
        try:
            act(log)
        except Exception as error:
            if not log.is_closed:  # its topic may have been deleted meanwhile
                errors.append(error)
    raise_first(errors)


def well(state: StoreState) -> list[Log]:
    """The logs that are open and take writes. What is wrong with the others is known: `metrics` shows it."""
    state.check()
    return [log for log in list(state.logs.values()) if not log.is_closed and log.failure is None]


def raise_first(errors: list[Exception]) -> None:
    """Raise the first of several errors, with a word about the others."""
    if errors:
        for other in errors[1:]:
            errors[0].add_note(f"also: {other}")
        raise errors[0]


def retain(state: StoreState, retention: Retention) -> None:
    """A round of retention."""
    state.check()
    raise_first([failure.error for failure in retention.run(wait=False).failures])


def checkpoint_high_watermarks(state: StoreState) -> None:
    """Write down the high watermarks, in one file a log directory."""
    state.check()
    errors: list[Exception] = []
    for directory in state.directories:
        try:
            directory.checkpoint_high_watermarks(partial(_high_watermarks, state, directory))
        except OSError as error:
            errors.append(error)
    raise_first(errors)


def _high_watermarks(state: StoreState, directory: LogDirectory) -> Mapping[TopicPartition, int]:
    return {log.partition: log.high_watermark for log in well(state) if state.homes.get(log.partition) is directory}


def remove_deleted(state: StoreState) -> None:
    """Remove the files of segments and topics that were deleted, when their time has come."""
    errors: list[Exception] = []
    for remove in (partial(for_each_log, state, Log.remove_deleted), partial(_remove_topics, state)):
        try:
            remove()
        except Exception as error:
            errors.append(error)
    raise_first(errors)


def _remove_topics(state: StoreState) -> None:
    if state.file.deleted:
        topic_deletion.remove_due(state)

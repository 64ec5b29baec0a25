"""The settings of a whole store: what a broker's file of properties says about its logs.

Two kinds. Some are the defaults of every topic, under a broker's names (`log.roll.hours` for `segment.ms`): the first name that is set
wins, as `Setting.broker_names` has them. The others are the store's own: how often to look after what.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.config.log_config import SETTINGS, LogConfig
from tidelog.config.setting import DOUBLE_MAX, INT_MAX, LONG_MAX, LONG_MIN, Kind, Rate, Ratio, Setting, Switch, int_from, long_from, to_text
from tidelog.errors import InvalidConfigError

_UNITS_MS = {"hours": 60 * 60 * 1000, "minutes": 60 * 1000}
_MINUTE_MS = 60_000
INT_MIN = -INT_MAX - 1
_COUNTS = {"segment.ms": int_from(1), "segment.jitter.ms": int_from(0), "retention.ms": int_from(INT_MIN)}
"""What may be counted in hours or minutes, and from where on."""


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """The settings of one store. Made by `of` from Kafka's names."""

    topic_defaults: LogConfig = field(default_factory=LogConfig)
    """What a topic has that does not say otherwise."""
    num_partitions: int = 1
    num_recovery_threads_per_data_dir: int = 2
    log_retention_check_interval_ms: int = 5 * _MINUTE_MS
    log_flush_scheduler_interval_ms: int = LONG_MAX
    log_flush_offset_checkpoint_interval_ms: int = _MINUTE_MS
    log_flush_start_offset_checkpoint_interval_ms: int = _MINUTE_MS
    log_initial_task_delay_ms: int = 30_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    log_cleaner_enable: bool = True
    log_cleaner_threads: int = 1
    log_cleaner_dedupe_buffer_size: int = 128 << 20
    log_cleaner_io_buffer_size: int = 512 << 10
    log_cleaner_io_buffer_load_factor: float = 0.9
    log_cleaner_io_max_bytes_per_second: float = DOUBLE_MAX
    log_cleaner_backoff_ms: int = 15_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    tidelog_cleaner_free_space_floor_bytes: int = 1 << 30
    offsets_topic_num_partitions: int = 50
    offsets_topic_segment_bytes: int = 100 << 20
    offsets_retention_minutes: int = 7 * 24 * 60
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4096
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_segment_bytes: int = 100 << 20
    transaction_max_timeout_ms: int = 15 * _MINUTE_MS
    transactional_id_expiration_ms: int = 7 * 24 * 60 * _MINUTE_MS
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 60 * _MINUTE_MS
    given: frozenset[str] = field(default=frozenset(), compare=False)
    """The names that were set."""

    @classmethod
    def of(cls, settings: "Mapping[str, object] | StoreConfig | None") -> "StoreConfig":
        """From Kafka's dotted names, with values as text or in their own types; the rest has its default."""
        if isinstance(settings, StoreConfig):
            return settings
        if settings is not None and not isinstance(settings, Mapping):
            raise InvalidConfigError("settings of a store that are none", expected="a mapping of names to values", found=repr(settings))
        given = dict(settings or {})
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name in _BY_NAME:
                values[_BY_NAME[name].field] = _BY_NAME[name].parse(value)
            elif name not in _TOPIC_SETTINGS:
                raise _unknown(name)
        return cls(topic_defaults=LogConfig.of(_topic_defaults(given)), given=frozenset(given), **values)

    def __post_init__(self) -> None:
        for setting in STORE_SETTINGS:
            object.__setattr__(self, setting.field, setting.parse(getattr(self, setting.field)))

    def describe(self) -> dict[str, str]:
        """Every setting of the store itself as text by dotted name."""
        return {setting.name: to_text(getattr(self, setting.field)) for setting in STORE_SETTINGS}


def _topic_defaults(given: Mapping[str, object]) -> dict[str, object]:
    """Topic settings by their own names, from a broker's: of several that are set, the first in order of precedence."""
    found: dict[str, object] = {}
    for setting in SETTINGS:
        for name in setting.broker_names:
            if name in given:
                found.setdefault(setting.name, _in_ms(setting, name, given[name]))
    return found


def _in_ms(setting: Setting, name: str, value: object) -> object:
    """What the topic's setting would be: a broker may count in hours or minutes. A negative retention is none, whatever the unit."""
    unit_ms = _UNITS_MS.get(name.rpartition(".")[2])
    if unit_ms is not None:
        kind: Kind = _COUNTS[setting.name]
    else:
        kind = long_from(LONG_MIN) if name == "log.retention.ms" else setting.kind
    parsed = Setting(name, setting.field, kind, None, None, (), setting.meaning).parse(value)
    if setting.name == "retention.ms" and isinstance(parsed, int) and parsed < 0:
        return -1
    return parsed if unit_ms is None or not isinstance(parsed, int) else parsed * unit_ms


def _setting(name: str, kind: Kind, meaning: str) -> Setting:
    attribute = name.replace(".", "_")
    default: Any = StoreConfig.__dataclass_fields__[attribute].default
    return Setting(name, attribute, kind, default, default, (), meaning)


STORE_SETTINGS = (
    _setting("num.partitions", int_from(1), "partitions of a topic that is created without a number"),
    _setting("num.recovery.threads.per.data.dir", int_from(1), "logs that are loaded and closed at a time"),
    _setting("log.retention.check.interval.ms", long_from(1), "how often old segments are looked for"),
    _setting("log.flush.scheduler.interval.ms", long_from(1), "how often logs whose flush is due are looked for"),
    _setting("log.flush.offset.checkpoint.interval.ms", int_from(0), "how often recovery points are written down"),
    _setting("log.flush.start.offset.checkpoint.interval.ms", int_from(0), "how often log start offsets are written down"),
    _setting("log.initial.task.delay.ms", long_from(0), "wait before the first of these"),
    _setting("replica.high.watermark.checkpoint.interval.ms", long_from(1), "how often high watermarks are written down"),
    _setting("log.cleaner.enable", Switch(), "whether compacted topics are compacted"),
    _setting("log.cleaner.threads", int_from(0), "logs that are compacted at a time"),
    _setting("log.cleaner.dedupe.buffer.size", long_from(LONG_MIN), "memory of the offset maps, all together"),
    _setting("log.cleaner.io.buffer.size", int_from(0), "memory of the buffers: kept, without effect"),
    _setting("log.cleaner.io.buffer.load.factor", Ratio(), "how full an offset map gets"),
    _setting("log.cleaner.io.max.bytes.per.second", Rate(), "what all cleaner threads read and write together, at most"),
    _setting("log.cleaner.backoff.ms", long_from(0), "pause when there is nothing to compact"),
    _setting("producer.id.expiration.ms", int_from(1), "how long a silent producer is remembered"),
    _setting("producer.id.expiration.check.interval.ms", int_from(1), "how often silent producers are looked for"),
    _setting("offsets.topic.num.partitions", int_from(1), "partitions of __consumer_offsets, when it is made"),
    _setting("offsets.topic.segment.bytes", int_from(1), "size of its segments"),
    _setting("offsets.retention.minutes", int_from(1), "how long positions are kept of a group without members"),
    _setting("offsets.retention.check.interval.ms", long_from(1), "how often such positions are looked for"),
    _setting("offset.metadata.max.bytes", int_from(0), "the largest note that a position may have"),
    _setting("transaction.state.log.num.partitions", int_from(1), "partitions of __transaction_state, when it is made"),
    _setting("transaction.state.log.segment.bytes", int_from(1), "size of its segments"),
    _setting("transaction.max.timeout.ms", int_from(1), "the longest time that a transaction may ask for"),
    _setting("transactional.id.expiration.ms", int_from(1), "how long a transactional id is kept that nobody uses"),
    _setting("transaction.remove.expired.transaction.cleanup.interval.ms", int_from(1), "how often such ids are looked for"),
    _setting("tidelog.cleaner.free.space.floor.bytes", long_from(0), "with less free, what compaction has replaced is removed at once"),
)
"""Every setting of a store that is not a topic's default."""

_BY_NAME = {setting.name: setting for setting in STORE_SETTINGS}
_TOPIC_SETTINGS = {name: setting for setting in SETTINGS for name in setting.broker_names}
_TOPIC_NAMES = {setting.name: setting for setting in SETTINGS}


def _unknown(name: str) -> InvalidConfigError:
    if name in _TOPIC_NAMES and _TOPIC_NAMES[name].broker_names:
        hint = f"that is a topic's name, a store has {_TOPIC_NAMES[name].broker_names[0]}"
    elif name in _TOPIC_NAMES:
        hint = "that is a topic's setting: give it to create_topic"
    elif close := difflib.get_close_matches(str(name), [*_BY_NAME, *_TOPIC_SETTINGS]):
        hint = f"did you mean {' or '.join(close)}?"
    else:
        hint = "tidelog.config.STORE_SETTINGS lists the store's own"
    return InvalidConfigError(f"unknown setting {name!r}", hint=hint)

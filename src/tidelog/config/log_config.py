"""The settings in force for one log, and the table of all of them.

A field of `LogConfig` is Kafka's name with underscores and holds the default; `SETTINGS` says the rest: what values each takes, what it
means and what it is called for a whole broker. Names, ranges and defaults are those of Kafka 4.2, but for `flush.messages`: here a record
is on disk when the append returns, until the user says otherwise.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidelog.config.setting import LONG_MAX, LONG_MIN, AnyOf, Kind, OneOf, Ratio, Setting, Switch, Whole, int_from, long_from, to_text
from tidelog.errors import InvalidConfigError

_HOUR_MS = 60 * 60 * 1000
_DAY_MS = 24 * _HOUR_MS


@dataclass(frozen=True, slots=True, repr=False)
class LogConfig:
    """The settings of one log, explained in `SETTINGS`. Made by `of` from Kafka's names, or by field; either way the values are checked."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    preallocate: bool = False
    internal_segment_bytes: int | None = None

    flush_messages: int = 1
    flush_ms: int = LONG_MAX

    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    file_delete_delay_ms: int = 60_000

    cleanup_policy: tuple[str, ...] = ("delete",)
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    min_cleanable_dirty_ratio: float = 0.5

    max_message_bytes: int = 1_048_588
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = _HOUR_MS

    # About replication and tiered storage: kept, without effect.
    unclean_leader_election_enable: bool = False
    min_insync_replicas: int = 1
    remote_storage_enable: bool = False
    local_retention_ms: int = -2
    local_retention_bytes: int = -2
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False

    given: frozenset[str] = field(default=frozenset(), compare=False)
    """The names that were set, be it to their default; what differs from its default is always among them."""

    # What the engine asks again and again, worked out once.
    segment_size_limit: int = field(init=False, compare=False)
    """The size limit in force for one `.log` file."""
    max_segment_ms: int = field(init=False, compare=False)
    """The age limit in force for the active segment: a compacted log must be able to clean in time."""
    is_compacted: bool = field(init=False, compare=False)
    is_deleted_by_age: bool = field(init=False, compare=False)
    """Whether old segments go, by age or by size."""
    is_append_time: bool = field(init=False, compare=False)
    is_durable: bool = field(init=False, compare=False)
    """Whether each append is on disk when it returns."""

    @classmethod
    def of(cls, settings: "Mapping[str, object] | LogConfig | None") -> "LogConfig":
        """From Kafka's dotted names, with values as text or as numbers, booleans and lists; the rest has its default."""
        if isinstance(settings, LogConfig):
            return settings
        return _DEFAULT.with_changes(settings) if settings else _DEFAULT

    def with_changes(self, settings: Mapping[str, object], *, reset: Iterable[str] = ()) -> "LogConfig":
        """A copy with some settings given anew, and those named by `reset` at their default as if never given."""
        if not isinstance(settings, Mapping):
            raise InvalidConfigError("settings that are none", expected="a mapping of names to values", found=repr(settings))
        back = [_setting_named(name) for name in reset]
        values: dict[str, Any] = {setting.field: setting.default for setting in back}
        for name, value in settings.items():
            setting = _setting_named(name)
            values[setting.field] = setting.parse(value)
        given = self.given.difference(setting.name for setting in back).union(settings)
        return replace(self, given=given, **values)

    def overrides(self) -> dict[str, str]:
        """What was given, as text by dotted name; `of` makes the same settings from it."""
        return {name: text for name, text in self.describe().items() if name in self.given}

    def describe(self) -> dict[str, str]:
        """Every setting as text by dotted name, but for what has no value."""
        values = ((setting.name, getattr(self, setting.field)) for setting in SETTINGS)
        return {name: to_text(value) for name, value in values if value is not None}

    def __post_init__(self) -> None:
        given = set(self.given)
        for setting in SETTINGS:
            value = getattr(self, setting.field)
            if value is setting.default:
                continue
            parsed = setting.parse(value)
            object.__setattr__(self, setting.field, parsed)
            if parsed != setting.default:
                given.add(setting.name)
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise InvalidConfigError(
                "min.compaction.lag.ms is above max.compaction.lag.ms",
                expected=f"at most {self.max_compaction_lag_ms}",
                found=self.min_compaction_lag_ms,
            )
        compacted = "compact" in self.cleanup_policy
        worked_out = {
            "given": frozenset(given),
            "segment_size_limit": self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes,
            "max_segment_ms": min(self.segment_ms, self.max_compaction_lag_ms) if compacted else self.segment_ms,
            "is_compacted": compacted,
            "is_deleted_by_age": "delete" in self.cleanup_policy,
            "is_append_time": self.message_timestamp_type == "LogAppendTime",
            "is_durable": self.flush_messages == 1,
        }
        for name, value in worked_out.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"LogConfig.of({self.overrides()})"


def _setting(name: str, kind: Kind, meaning: str, *broker_names: str) -> Setting:
    attribute = name.replace(".", "_")
    default: Any = LogConfig.__dataclass_fields__[attribute].default
    kafka_default = LONG_MAX if name == "flush.messages" else default
    return Setting(name, attribute, kind, default, kafka_default, broker_names, meaning)


_CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")

SETTINGS = (
    _setting("segment.bytes", int_from(1 << 20), "size limit of one .log file", "log.segment.bytes"),
    _setting("segment.ms", long_from(1), "age limit of the active segment, in data time", "log.roll.ms", "log.roll.hours"),
    _setting("segment.jitter.ms", long_from(0), "random part off the age limit", "log.roll.jitter.ms", "log.roll.jitter.hours"),
    _setting("segment.index.bytes", int_from(4), "size of each index while its segment is active", "log.index.size.max.bytes"),
    _setting("index.interval.bytes", int_from(0), "bytes of log between two index entries", "log.index.interval.bytes"),
    _setting("preallocate", Switch(), "make a .log file at its full size", "log.preallocate"),
    _setting("internal.segment.bytes", int_from(1), "for tests: goes before segment.bytes, and may be small"),
    _setting("flush.messages", long_from(1), "fsync after this many records", "log.flush.interval.messages"),
    _setting("flush.ms", long_from(0), "fsync what is older than this", "log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    _setting("retention.bytes", long_from(LONG_MIN), "size limit of a partition; below 0 none", "log.retention.bytes"),
    _setting("retention.ms", long_from(-1), "age limit; -1 none", "log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    _setting("file.delete.delay.ms", long_from(0), "wait before a .deleted file is removed", "log.segment.delete.delay.ms"),
    _setting("cleanup.policy", AnyOf(("compact", "delete")), "compaction, retention, both or nothing", "log.cleanup.policy"),
    _setting("delete.retention.ms", long_from(0), "how long compaction keeps tombstones", "log.cleaner.delete.retention.ms"),
    _setting("min.compaction.lag.ms", long_from(0), "younger records are not compacted", "log.cleaner.min.compaction.lag.ms"),
    _setting("max.compaction.lag.ms", long_from(1), "older records must be compacted", "log.cleaner.max.compaction.lag.ms"),
    _setting("min.cleanable.dirty.ratio", Ratio(), "share of dirty bytes that calls for compaction", "log.cleaner.min.cleanable.ratio"),
    _setting("max.message.bytes", int_from(0), "largest batch taken, as compressed, header included", "message.max.bytes"),
    _setting("compression.type", OneOf(_CODECS), "codec on disk; producer keeps the batch's own", "compression.type"),
    _setting("compression.gzip.level", Whole("int", 1, 9, besides=-1), "level when the log compresses", "compression.gzip.level"),
    _setting("compression.lz4.level", Whole("int", 1, 17), "level when the log compresses", "compression.lz4.level"),
    _setting("compression.zstd.level", Whole("int", -131072, 22), "level when the log compresses", "compression.zstd.level"),
    _setting("message.timestamp.type", OneOf(("CreateTime", "LogAppendTime")), "who stamps the records", "log.message.timestamp.type"),
    _setting("message.timestamp.before.max.ms", long_from(0), "how old a create time may be", "log.message.timestamp.before.max.ms"),
    _setting("message.timestamp.after.max.ms", long_from(0), "how far ahead a create time may be", "log.message.timestamp.after.max.ms"),
    _setting("unclean.leader.election.enable", Switch(), "replication: kept, without effect", "unclean.leader.election.enable"),
    _setting("min.insync.replicas", int_from(1), "replication: kept, without effect", "min.insync.replicas"),
    _setting("remote.storage.enable", Switch(), "tiered storage: kept, without effect"),
    _setting("local.retention.ms", long_from(-2), "tiered storage: kept, without effect", "log.local.retention.ms"),
    _setting("local.retention.bytes", long_from(-2), "tiered storage: kept, without effect", "log.local.retention.bytes"),
    _setting("remote.log.copy.disable", Switch(), "tiered storage: kept, without effect"),
    _setting("remote.log.delete.on.disable", Switch(), "tiered storage: kept, without effect"),
)
"""Every setting, in the order of the fields of `LogConfig`."""

_BY_NAME = {setting.name: setting for setting in SETTINGS}
_BY_BROKER_NAME = {name: setting for setting in SETTINGS for name in setting.broker_names}
_DEFAULT = LogConfig()


def _setting_named(name: str) -> Setting:
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name in _BY_BROKER_NAME:
        hint = f"that is a broker's name, a log has {_BY_BROKER_NAME[name].name}"
    elif close := difflib.get_close_matches(str(name), _BY_NAME):
        hint = f"did you mean {' or '.join(close)}?"
    else:
        hint = "tidelog.config.SETTINGS lists them all"
    raise InvalidConfigError(f"unknown setting {name!r}", hint=hint)

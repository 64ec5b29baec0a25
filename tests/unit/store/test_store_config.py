"""Settings of a store: a broker's names, their order of precedence, their ranges, and what is said about others."""

from collections.abc import Mapping

import pytest

from tidelog.config import LONG_MAX, SETTINGS, LogConfig, StoreConfig
from tidelog.config.store_config import STORE_SETTINGS
from tidelog.errors import InvalidConfigError

INT_MAX = 2**31 - 1
HOUR_MS, MINUTE_MS = 3_600_000, 60_000

OF_KAFKA = """
num.partitions | INT | 1 | [1,...]
num.recovery.threads.per.data.dir | INT | 2 | [1,...]
log.retention.check.interval.ms | LONG | 300000 | [1,...]
log.flush.scheduler.interval.ms | LONG | 9223372036854775807 | null
log.flush.offset.checkpoint.interval.ms | INT | 60000 | [0,...]
log.flush.start.offset.checkpoint.interval.ms | INT | 60000 | [0,...]
log.initial.task.delay.ms | LONG | 30000 | [0,...]
replica.high.watermark.checkpoint.interval.ms | LONG | 5000 | null
log.cleaner.enable | BOOLEAN | true | null
log.cleaner.threads | INT | 1 | [0,...]
log.cleaner.dedupe.buffer.size | LONG | 134217728 | null
log.cleaner.io.buffer.size | INT | 524288 | [0,...]
log.cleaner.io.buffer.load.factor | DOUBLE | 0.9 | null
log.cleaner.io.max.bytes.per.second | DOUBLE | 1.7976931348623157E308 | null
log.cleaner.backoff.ms | LONG | 15000 | [0,...]
producer.id.expiration.ms | INT | 86400000 | [1,...]
producer.id.expiration.check.interval.ms | INT | 600000 | [1,...]
offsets.topic.num.partitions | INT | 50 | [1,...]
offsets.topic.segment.bytes | INT | 104857600 | [1,...]
offsets.retention.minutes | INT | 10080 | [1,...]
offsets.retention.check.interval.ms | LONG | 600000 | [1,...]
offset.metadata.max.bytes | INT | 4096 | null
transaction.state.log.num.partitions | INT | 50 | [1,...]
transaction.state.log.segment.bytes | INT | 104857600 | [1,...]
transaction.max.timeout.ms | INT | 900000 | [1,...]
transactional.id.expiration.ms | INT | 604800000 | [1,...]
transaction.remove.expired.transaction.cleanup.interval.ms | INT | 3600000 | [1,...]
"""
"""As Kafka 4.2.0 defines them (`AbstractKafkaConfig.CONFIG_DEF`): name, type, default, range."""

OWN_RANGE = {
    "log.flush.scheduler.interval.ms",
    "replica.high.watermark.checkpoint.interval.ms",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.max.bytes.per.second",
}
"""Kafka takes any number, and does something strange with those below."""


@pytest.mark.parametrize("line", OF_KAFKA.strip().splitlines())
def test_names_defaults_and_ranges_are_kafkas(line: str) -> None:
    name, kind, default, valid = line.split(" | ")
    (setting,) = [setting for setting in STORE_SETTINGS if setting.name == name]
    assert setting.kind.type_name == kind.lower()
    assert StoreConfig().describe()[name] == default
    assert StoreConfig.of({name: default}) == StoreConfig()
    if valid.startswith("[") and name not in OWN_RANGE:
        lowest = int(valid[1:].split(",")[0])
        assert getattr(StoreConfig.of({name: str(lowest)}), setting.field) == lowest
        with pytest.raises(InvalidConfigError, match=f"bad value of {name}: expected a whole number from {lowest}"):
            StoreConfig.of({name: lowest - 1})


def test_there_are_no_others() -> None:
    of_kafka = {line.split(" | ")[0] for line in OF_KAFKA.strip().splitlines()}
    assert {setting.name for setting in STORE_SETTINGS} == of_kafka | {"tidelog.cleaner.free.space.floor.bytes"}


@pytest.mark.parametrize("value", [0, -1, "nan", "Infinity", "fast", True])
def test_a_throttle_is_a_number_above_nothing(value: object) -> None:
    assert StoreConfig.of({"log.cleaner.io.max.bytes.per.second": "1e6"}).log_cleaner_io_max_bytes_per_second == 1e6
    with pytest.raises(InvalidConfigError, match="expected a number above 0"):
        StoreConfig.of({"log.cleaner.io.max.bytes.per.second": value})


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"log.roll.hours": 2}, "segment_ms", 2 * HOUR_MS),
        ({"log.roll.hours": "2", "log.roll.ms": "5"}, "segment_ms", 5),
        ({"log.roll.ms": 5, "log.roll.hours": 2}, "segment_ms", 5),
        ({"log.roll.jitter.hours": 1}, "segment_jitter_ms", HOUR_MS),
        ({"log.roll.jitter.hours": 1, "log.roll.jitter.ms": 0}, "segment_jitter_ms", 0),
        ({"log.retention.hours": 3}, "retention_ms", 3 * HOUR_MS),
        ({"log.retention.hours": 3, "log.retention.minutes": 4}, "retention_ms", 4 * MINUTE_MS),
        ({"log.retention.hours": 3, "log.retention.minutes": 4, "log.retention.ms": 5}, "retention_ms", 5),
        ({"log.retention.ms": 5, "log.retention.minutes": 4, "log.retention.hours": 3}, "retention_ms", 5),
        ({"log.retention.hours": INT_MAX}, "retention_ms", INT_MAX * HOUR_MS),
        ({"log.retention.hours": -7}, "retention_ms", -1),
        ({"log.retention.minutes": "-1"}, "retention_ms", -1),
        ({"log.retention.ms": -5}, "retention_ms", -1),
        ({"log.retention.ms": -1, "log.retention.hours": 3}, "retention_ms", -1),
        ({"log.flush.scheduler.interval.ms": 9}, "flush_ms", 9),
        ({"log.flush.scheduler.interval.ms": 9, "log.flush.interval.ms": 8}, "flush_ms", 8),
        ({"log.cleanup.policy": "compact,delete"}, "cleanup_policy", ("compact", "delete")),
        ({"message.max.bytes": 7}, "max_message_bytes", 7),
        ({"compression.type": "zstd"}, "compression_type", "zstd"),
    ],
)
def test_of_several_names_the_first_in_kafkas_order_counts(given: Mapping[str, object], name: str, value: object) -> None:
    config = StoreConfig.of(given)
    assert getattr(config.topic_defaults, name) == value
    assert config.given == set(given)


def test_every_brokers_name_sets_its_topics_setting() -> None:
    for setting in SETTINGS:
        for name in setting.broker_names:
            is_counted = name.endswith((".hours", ".minutes"))
            given = 1 if is_counted else setting.default
            config = StoreConfig.of({name: given})
            assert setting.name in config.topic_defaults.given
            unit_ms = {"hours": HOUR_MS, "minutes": MINUTE_MS}.get(name.rpartition(".")[2], 1)
            assert getattr(config.topic_defaults, setting.field) == (unit_ms if is_counted else setting.default)


def test_nothing_given_is_nothing_changed() -> None:
    assert StoreConfig.of(None) == StoreConfig.of({}) == StoreConfig()
    assert StoreConfig().topic_defaults == LogConfig()
    assert StoreConfig().topic_defaults.flush_messages == 1
    assert StoreConfig().log_flush_scheduler_interval_ms == LONG_MAX
    config = StoreConfig.of({"num.partitions": 3})
    assert StoreConfig.of(config) is config


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num.partition": 1}, r"did you mean num\.partitions"),
        ({"log.retention.hour": 1}, r"did you mean log\.retention\.hours"),
        ({"retention.ms": 1}, r"a store has log\.retention\.ms"),
        ({"remote.storage.enable": True}, "give it to create_topic"),
        ({"internal.segment.bytes": 100}, "give it to create_topic"),
        ({"xyz": 1}, "STORE_SETTINGS"),
        ({5: 1}, "unknown setting 5"),
        ({"num.partitions": 0}, "expected a whole number from 1 to 2147483647, found 0"),
        ({"num.partitions": True}, "found True"),
        ({"num.partitions": None}, "leave it out for the default"),
        ({"log.roll.hours": 0}, "bad value of log.roll.hours: expected a whole number from 1 to 2147483647"),
        ({"log.roll.ms": 5, "log.roll.hours": 0}, "bad value of log.roll.hours"),
        ({"log.retention.hours": INT_MAX + 1}, "bad value of log.retention.hours"),
        ({"log.segment.bytes": 5}, "bad value of log.segment.bytes: expected a whole number from 1048576"),
        ({"log.cleaner.enable": 1}, "expected true or false"),
        ({"log.cleaner.io.buffer.load.factor": 1.5}, "expected a number from 0 to 1"),
        ({"log.cleaner.min.compaction.lag.ms": 5, "log.cleaner.max.compaction.lag.ms": 4}, "min.compaction.lag.ms is above"),
        (["num.partitions"], "a mapping of names to values"),
    ],
)
def test_what_is_wrong_is_told(given: Mapping[str, object], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        StoreConfig.of(given)


def test_fields_are_checked_too() -> None:
    with pytest.raises(InvalidConfigError, match=r"num\.partitions"):
        StoreConfig(num_partitions=0)

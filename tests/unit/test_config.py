"""Settings: Kafka's names, defaults, ranges and ways of reading text, and what the engine makes of them.

What Kafka answers is written out here as Kafka 4.2.0 gave it (`LogConfig.validate`, and the values of the `LogConfig` made from the text).
"""

import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.config import SETTINGS, LogConfig, Setting
from tidelog.errors import InvalidConfigError

INT_MAX, LONG_MIN, LONG_MAX = 2**31 - 1, -(2**63), 2**63 - 1
BY_NAME = {setting.name: setting for setting in SETTINGS}

NUMBERS = {  # type, default, lowest, highest
    "segment.bytes": ("int", 1073741824, 1048576, INT_MAX),
    "segment.ms": ("long", 604800000, 1, LONG_MAX),
    "segment.jitter.ms": ("long", 0, 0, LONG_MAX),
    "segment.index.bytes": ("int", 10485760, 4, INT_MAX),
    "index.interval.bytes": ("int", 4096, 0, INT_MAX),
    "internal.segment.bytes": ("int", None, 1, INT_MAX),  # Kafka has no lower limit
    "flush.messages": ("long", 1, 1, LONG_MAX),  # Kafka: LONG_MAX
    "flush.ms": ("long", LONG_MAX, 0, LONG_MAX),
    "retention.bytes": ("long", -1, LONG_MIN, LONG_MAX),
    "retention.ms": ("long", 604800000, -1, LONG_MAX),
    "file.delete.delay.ms": ("long", 60000, 0, LONG_MAX),
    "delete.retention.ms": ("long", 86400000, 0, LONG_MAX),
    "min.compaction.lag.ms": ("long", 0, 0, LONG_MAX),
    "max.compaction.lag.ms": ("long", LONG_MAX, 1, LONG_MAX),
    "max.message.bytes": ("int", 1048588, 0, INT_MAX),
    "compression.gzip.level": ("int", -1, 1, 9),  # and -1
    "compression.lz4.level": ("int", 9, 1, 17),
    "compression.zstd.level": ("int", 3, -131072, 22),
    "message.timestamp.before.max.ms": ("long", LONG_MAX, 0, LONG_MAX),
    "message.timestamp.after.max.ms": ("long", 3600000, 0, LONG_MAX),
    "min.insync.replicas": ("int", 1, 1, INT_MAX),
    "local.retention.ms": ("long", -2, -2, LONG_MAX),
    "local.retention.bytes": ("long", -2, -2, LONG_MAX),
}
SWITCHES = [
    "preallocate",
    "unclean.leader.election.enable",
    "remote.storage.enable",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
]
OTHERS: dict[str, tuple[str, object]] = {
    "cleanup.policy": ("list", ("delete",)),
    "compression.type": ("string", "producer"),
    "message.timestamp.type": ("string", "CreateTime"),
    "min.cleanable.dirty.ratio": ("double", 0.5),
}

BROKER_NAMES = {
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms log.roll.hours",
    "segment.jitter.ms": "log.roll.jitter.ms log.roll.jitter.hours",
    "segment.index.bytes": "log.index.size.max.bytes",
    "index.interval.bytes": "log.index.interval.bytes",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms log.flush.scheduler.interval.ms",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms log.retention.minutes log.retention.hours",
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "max.message.bytes": "message.max.bytes",
    "compression.type": "compression.type",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.zstd.level": "compression.zstd.level",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "preallocate": "log.preallocate",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
    "min.insync.replicas": "min.insync.replicas",
    "local.retention.ms": "log.local.retention.ms",
    "local.retention.bytes": "log.local.retention.bytes",
}


def in_force(name: str, value: object) -> object:
    return getattr(LogConfig.of({name: value}), name.replace(".", "_"))


def test_every_setting_has_its_type_and_default() -> None:
    expected: dict[str, tuple[str, object]] = {name: (kind, default) for name, (kind, default, _, _) in NUMBERS.items()}
    expected |= dict.fromkeys(SWITCHES, ("boolean", False)) | OTHERS
    assert {setting.name: (setting.kind.type_name, setting.default) for setting in SETTINGS} == expected
    config = LogConfig()
    assert {name: getattr(config, name.replace(".", "_")) for name in expected} == {
        name: default for name, (_, default) in expected.items()
    }


def test_only_durability_differs_from_kafka() -> None:
    differing = {setting.name: setting.kafka_default for setting in SETTINGS if setting.kafka_default != setting.default}
    assert differing == {"flush.messages": LONG_MAX}


def test_the_table_names_the_fields_in_order_and_says_what_they_mean() -> None:
    names = [field.name for field in fields(LogConfig)]
    assert [setting.field for setting in SETTINGS] == names[: len(SETTINGS)]
    assert [setting.name.replace(".", "_") for setting in SETTINGS] == names[: len(SETTINGS)]
    assert all(setting.meaning and "\n" not in setting.meaning for setting in SETTINGS)


def test_broker_names_in_order_of_precedence() -> None:
    assert {setting.name: " ".join(setting.broker_names) for setting in SETTINGS if setting.broker_names} == BROKER_NAMES


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("write", [str, int], ids=["text", "number"])
def test_ranges_include_their_ends_and_nothing_beyond(name: str, write: type) -> None:
    _, _, lowest, highest = NUMBERS[name]
    for value in (lowest, highest):
        assert in_force(name, write(value)) == value
    for value in (lowest - 1, highest + 1):
        with pytest.raises(
            InvalidConfigError, match=rf"^bad value of {name}: expected a whole number from {lowest} to {highest}\b.*, found"
        ):
            LogConfig.of({name: write(value)})


def test_gzip_has_one_level_outside_its_range() -> None:
    assert in_force("compression.gzip.level", "-1") == -1
    with pytest.raises(InvalidConfigError, match="a whole number from 1 to 9, or -1, found '-2'"):
        LogConfig.of({"compression.gzip.level": "-2"})


KAFKA_READS: list[tuple[str, str, object]] = [
    ("cleanup.policy", "", ()),
    ("cleanup.policy", " ", ()),
    ("cleanup.policy", "compact,delete", ("compact", "delete")),
    ("cleanup.policy", "delete,compact", ("delete", "compact")),
    ("cleanup.policy", " compact\t,\n delete ", ("compact", "delete")),
    ("segment.ms", "+5", 5),
    ("segment.ms", "007", 7),
    ("segment.ms", " 5\n", 5),
    ("segment.ms", "\x005\x1f", 5),
    ("segment.ms", "\u0663", 3),  # any decimal digit is one to Java
    ("retention.ms", "-1", -1),
    ("min.cleanable.dirty.ratio", "0", 0.0),
    ("min.cleanable.dirty.ratio", "1.", 1.0),
    ("min.cleanable.dirty.ratio", "+.5", 0.5),
    ("min.cleanable.dirty.ratio", "5e-1", 0.5),
    ("min.cleanable.dirty.ratio", "1.0E-4", 0.0001),
    ("min.cleanable.dirty.ratio", " 0.5d", 0.5),
    ("min.cleanable.dirty.ratio", "0.5F", 0.5),
    ("preallocate", "TRUE", True),
    ("preallocate", " False ", False),
    ("compression.type", " zstd ", "zstd"),
    ("compression.type", "uncompressed", "uncompressed"),
    ("message.timestamp.type", "LogAppendTime ", "LogAppendTime"),
]


@pytest.mark.parametrize(("name", "text", "value"), KAFKA_READS)
def test_text_that_kafka_reads(name: str, text: str, value: object) -> None:
    found = in_force(name, text)
    assert found == value
    assert type(found) is type(value)


KAFKA_REFUSES = {
    "cleanup.policy": ["Compact", "compact,", ",", "compact delete", "compact;delete", "compact\u00a0", "compress"],
    "segment.ms": ["", "1_000", "5L", "5.0", "1e3", "0x10", "--5", "- 5", "\u00a05", "ten", "9" * 5000],
    "min.cleanable.dirty.ratio": ["", "Infinity", "nan", "inf", "0_1", "1e400", "0.5ff", "d", "\u0660", "1.01", "-0.01", "half"],
    "preallocate": ["", "yes", "on", "1", "true\u00a0"],
    "compression.type": ["", "ZSTD", "none", "brotli"],
    "message.timestamp.type": ["", "createtime", "NoTimestampType"],
}
WE_REFUSE = {"cleanup.policy": ["compact,compact"], "min.cleanable.dirty.ratio": ["NaN"]}  # Kafka drops the second, and keeps NaN


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for refused in (KAFKA_REFUSES, WE_REFUSE) for name, texts in refused.items() for text in texts]
)
def test_text_that_is_no_value(name: str, text: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"^bad value of {name}: expected ") as caught:
        LogConfig.of({name: text})
    assert caught.value.found == repr(text)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("cleanup.policy", ["delete", "compact"], ("delete", "compact")),
        ("cleanup.policy", ("compact",), ("compact",)),
        ("cleanup.policy", [], ()),
        ("min.cleanable.dirty.ratio", 1, 1.0),
        ("min.cleanable.dirty.ratio", 0.25, 0.25),
        ("preallocate", True, True),
        ("segment.ms", 5, 5),
    ],
)
def test_values_as_a_program_has_them(name: str, value: object, expected: object) -> None:
    found = in_force(name, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("segment.ms", True, "a whole number from 1 to "),
        ("segment.ms", 5.0, "a whole number from 1 to "),
        ("segment.ms", b"5", "a whole number from 1 to "),
        ("min.cleanable.dirty.ratio", True, "a number from 0 to 1"),
        ("min.cleanable.dirty.ratio", float("nan"), "a number from 0 to 1"),
        ("min.cleanable.dirty.ratio", 10**400, "a number from 0 to 1"),
        ("preallocate", 1, "true or false"),
        ("compression.type", 4, "one of uncompressed, gzip, snappy, lz4, zstd, producer"),
        ("cleanup.policy", ["compact", "compact"], "any of compact, delete, each at most once"),
        ("cleanup.policy", [["compact"]], "any of compact, delete, each at most once"),
        ("cleanup.policy", {"compact"}, "any of compact, delete, each at most once"),
    ],
)
def test_values_that_leave_a_doubt(name: str, value: object, expected: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"^bad value of {name}") as caught:
        LogConfig.of({name: value})
    assert str(caught.value.expected).startswith(expected)


@pytest.mark.parametrize("name", BY_NAME)
def test_none_is_no_value(name: str) -> None:
    with pytest.raises(InvalidConfigError, match=rf"^bad value of {name}: .* found None \(leave it out for the default\)$"):
        LogConfig.of({name: None})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("retention.mss", "did you mean retention.ms or "),
        ("cleanup_policy", "did you mean cleanup.policy"),
        ("log.roll.hours", "that is a broker's name, a log has segment.ms"),
        ("message.max.bytes", "that is a broker's name, a log has max.message.bytes"),
        ("zzz", "tidelog.config.SETTINGS lists them all"),
    ],
)
def test_unknown_names_lead_to_known_ones(name: str, hint: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"^unknown setting '{name}' ") as caught:
        LogConfig.of({name: 1})
    assert (caught.value.hint or "").startswith(hint)
    with pytest.raises(InvalidConfigError, match=f"^unknown setting '{name}' "):
        LogConfig().with_changes({}, reset=[name])


def test_the_compaction_lags_must_not_cross() -> None:
    assert LogConfig.of({"min.compaction.lag.ms": 5, "max.compaction.lag.ms": 5}).min_compaction_lag_ms == 5
    assert in_force("min.compaction.lag.ms", LONG_MAX) == LONG_MAX
    with pytest.raises(InvalidConfigError, match=r"^min.compaction.lag.ms is above max.compaction.lag.ms: expected at most 4, found 5$"):
        LogConfig.of({"min.compaction.lag.ms": 5, "max.compaction.lag.ms": 4})
    with pytest.raises(InvalidConfigError, match="expected at most 4, found 5"):
        LogConfig(min_compaction_lag_ms=5).with_changes({"max.compaction.lag.ms": "4"})


def test_fields_are_checked_like_names() -> None:
    assert LogConfig(retention_ms=5) == LogConfig.of({"retention.ms": 5})
    with pytest.raises(InvalidConfigError, match=r"bad value of segment\.bytes"):
        LogConfig(segment_bytes=5)
    with pytest.raises(InvalidConfigError, match=r"bad value of segment\.bytes"):
        LogConfig(segment_bytes=None)  # type: ignore[arg-type]
    assert LogConfig(cleanup_policy=["compact"]).cleanup_policy == ("compact",)  # type: ignore[arg-type]


def test_of_takes_what_there_is() -> None:
    config = LogConfig(retention_ms=5)
    assert LogConfig.of(config) is config
    assert LogConfig.of(None) is LogConfig.of({})
    assert LogConfig.of(None) == LogConfig()


def test_overrides_are_what_was_given() -> None:
    assert LogConfig().overrides() == {}
    config = LogConfig.of({"retention.ms": 604800000, "cleanup.policy": ["compact", "delete"], "preallocate": True, "flush.messages": "05"})
    assert config.overrides() == {
        "preallocate": "true",
        "flush.messages": "5",
        "retention.ms": "604800000",  # the default, but given
        "cleanup.policy": "compact,delete",
    }
    assert repr(config) == f"LogConfig.of({config.overrides()})"
    assert config == LogConfig(cleanup_policy=("compact", "delete"), preallocate=True, flush_messages=5)


def test_overrides_of_fields_are_what_differs() -> None:
    config = LogConfig(retention_ms=-1, segment_ms=604800000, cleanup_policy=(), internal_segment_bytes=100)
    assert config.overrides() == {"internal.segment.bytes": "100", "retention.ms": "-1", "cleanup.policy": ""}
    assert replace(config, internal_segment_bytes=None).overrides() == {"retention.ms": "-1", "cleanup.policy": ""}


def test_changes_and_resets() -> None:
    before = LogConfig.of({"retention.ms": -1, "segment.ms": 10})
    after = before.with_changes({"segment.ms": "20", "flush.ms": 30}, reset=["retention.ms", "flush.ms", "preallocate"])
    assert after.overrides() == {"segment.ms": "20", "flush.ms": "30"}
    assert after.retention_ms == 604800000
    assert before.overrides() == {"segment.ms": "10", "retention.ms": "-1"}


def test_describe_prints_every_setting_that_has_a_value() -> None:
    described = LogConfig.of({"cleanup.policy": "delete, compact", "preallocate": "TRUE"}).describe()
    assert set(described) == set(BY_NAME) - {"internal.segment.bytes"}
    assert described["cleanup.policy"] == "delete,compact"
    assert described["preallocate"] == "true"
    assert described["remote.storage.enable"] == "false"
    assert described["min.cleanable.dirty.ratio"] == "0.5"
    assert described["max.compaction.lag.ms"] == "9223372036854775807"
    assert LogConfig.of(LogConfig(internal_segment_bytes=7).describe()).describe()["internal.segment.bytes"] == "7"


def test_the_internal_segment_size_goes_first() -> None:
    assert LogConfig.of({"segment.bytes": 2000000}).segment_size_limit == 2000000
    config = LogConfig.of({"segment.bytes": 2000000, "internal.segment.bytes": "100"})
    assert (config.segment_bytes, config.segment_size_limit) == (2000000, 100)


@pytest.mark.parametrize(
    ("policy", "is_compacted", "is_deleted"),
    [("", False, False), ("compact", True, False), ("delete", False, True), ("delete,compact", True, True)],
)
def test_policies(policy: str, is_compacted: bool, is_deleted: bool) -> None:
    config = LogConfig.of({"cleanup.policy": policy})
    assert (config.is_compacted, config.is_deleted_by_age) == (is_compacted, is_deleted)


def test_a_compacted_log_rolls_in_time_to_be_compacted() -> None:
    lags: Mapping[str, object] = {"segment.ms": 50, "max.compaction.lag.ms": 20}
    assert LogConfig.of(lags).max_segment_ms == 50
    assert LogConfig.of({**lags, "cleanup.policy": "compact"}).max_segment_ms == 20
    assert LogConfig.of({**lags, "cleanup.policy": "compact,delete", "segment.ms": 10}).max_segment_ms == 10


def test_stamping_and_durability() -> None:
    assert (LogConfig().is_append_time, LogConfig().is_durable) == (False, True)
    config = LogConfig.of({"message.timestamp.type": "LogAppendTime", "flush.messages": 2})
    assert (config.is_append_time, config.is_durable) == (True, False)


def test_a_config_is_a_small_value_that_does_not_change() -> None:
    config = LogConfig(retention_ms=5)
    with pytest.raises(FrozenInstanceError):
        config.retention_ms = 6  # type: ignore[misc]
    assert not hasattr(config, "__dict__")
    assert {config: "found"}[LogConfig.of({"retention.ms": "5"})] == "found"
    assert config != LogConfig()
    again = pickle.loads(pickle.dumps(config))
    assert (again, again.overrides(), again.segment_size_limit) == (config, config.overrides(), config.segment_size_limit)


def values_of(setting: Setting) -> st.SearchStrategy[object]:
    if setting.name in NUMBERS:
        _, _, lowest, highest = NUMBERS[setting.name]
        whole = st.integers(lowest, highest)
        return whole | whole.map(str)
    if setting.name in SWITCHES:
        return st.booleans() | st.sampled_from(["true", "FALSE"])
    if setting.name == "cleanup.policy":
        return st.lists(st.sampled_from(["compact", "delete"]), unique=True).flatmap(
            lambda names: st.sampled_from([names, ",".join(names)])
        )
    if setting.name == "min.cleanable.dirty.ratio":
        ratio = st.floats(0, 1)
        return ratio | ratio.map(str)
    return st.sampled_from(
        {"compression.type": ["gzip", "producer"], "message.timestamp.type": ["CreateTime", "LogAppendTime"]}[setting.name]
    )


def lags_in_order(given: dict[str, object]) -> dict[str, object]:
    lags = [name for name in ("min.compaction.lag.ms", "max.compaction.lag.ms") if name in given]
    if len(lags) == 2:
        given.update(zip(lags, sorted(int(str(given[name])) for name in lags), strict=True))
        given["max.compaction.lag.ms"] = max(1, int(str(given["max.compaction.lag.ms"])))
    return given


@given(st.fixed_dictionaries({}, optional={setting.name: values_of(setting) for setting in SETTINGS}).map(lags_in_order))
@settings(max_examples=200, derandomize=True, deadline=None, database=None)
def test_overrides_round_trip(written: dict[str, object]) -> None:
    config = LogConfig.of(written)
    assert set(config.overrides()) == set(written)
    again = LogConfig.of(config.overrides())
    assert again == config
    assert again.overrides() == config.overrides()
    assert LogConfig.of(config.describe()) == config
    assert config.with_changes({}, reset=written).overrides() == {}

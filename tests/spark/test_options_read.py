"""Options of a read: what they take, what they mean together, and what is said of one that is wrong."""

import logging
import pickle
from typing import Any

import pytest

from tests.support.spark_reads import read_options
from tidelog.errors import InvalidConfigError
from tidelog.spark.option_values import parse_time_ms
from tidelog.spark.read_options import DEFAULT_BYTES_PER_PARTITION, ReadOptions
from tidelog.spark.schema import COLUMNS, schema_text


def of(is_stream: bool = False, /, **options: Any) -> ReadOptions:
    return read_options("data", options, is_stream=is_stream)


def refused(is_stream: bool = False, /, **options: Any) -> str:
    with pytest.raises(InvalidConfigError) as caught:
        of(is_stream, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 600
    return text


def test_the_defaults_are_those_of_sparks_kafka_source() -> None:
    options = of(subscribe="emails")
    assert (options.starting.kind, options.ending.kind) == ("earliest", "latest")
    assert of(True, subscribe="emails").starting.kind == "latest"
    assert options.columns == COLUMNS[:-1]
    assert options.isolation == "committed"
    assert options.fail_on_data_loss
    assert not options.allow_missing_partitions
    assert options.on_no_match == "error"
    assert options.target_bytes == DEFAULT_BYTES_PER_PARTITION
    assert of(True, subscribe="emails").target_bytes is None
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_are_in_any_case() -> None:
    assert ReadOptions.of({"PATH": "data", "SUBSCRIBE": "a, b", "startingoffsets": "EARLIEST"}, False).subscribe == ("a", "b")


def test_an_unknown_option_is_told_with_the_one_that_was_meant() -> None:
    assert refused(startingOffset="earliest") == (
        "unknown option startingOffset (did you mean startingOffsets or startingOffsetsByTimestamp?)"
    )
    assert refused(subcribe="emails") == "unknown option subcribe (did you mean subscribe?)"
    assert "there are: path, paths, assign, subscribe" in refused(nonsense="1")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("startingOffsets", "begin", "earliest, latest, or JSON"),
        ("startingOffsets", '{"emails": {"0": "a"}}', "JSON with the offset of each partition"),
        ("startingOffsets", '{"emails": {"0": -3}}', "-1 for the latest or -2 for the earliest"),
        ("startingOffsets", '{"emails": [1]}', "JSON with the offset of each partition"),
        ("endingOffsets", "{", "JSON with the offset of each partition"),
        ("startingTimestamp", "yesterday", "milliseconds since 1970"),
        ("startingTimestamp", "-5", "a time from 1970 on"),
        ("startingOffsetsByTimestamp", '{"emails": {"0": -1}}', "times from 1970 on"),
        ("startingOffsetsByTimestampStrategy", "earliest", "one of error, latest"),
        ("includeHeaders", "perhaps", "true or false"),
        ("failOnDataLoss", "2", "true or false"),
        ("minPartitions", "0", "a whole number of 1 or more"),
        ("maxRecordsPerPartition", "x", "a whole number of 1 or more"),
        ("bytesPerPartition", "64q", "a number of bytes"),
        ("columns", "offset,colour", "some of key, value"),
        ("columns", "offset,offset", "each column once"),
        ("isolation", "serializable", "one of committed, high_watermark"),
        ("kafka.isolation.level", "committed", "one of read_committed, read_uncommitted"),
        ("keyPartitioner", "crc32", "one of murmur2"),
        ("keys", "[1]", "keys, as in a,b"),
        ("keys", '[{"base64": "*"}]', "keys, as in a,b"),
        ("keys", "[", "keys, as in a,b"),
        ("maxTriggerDelay", "soon", "a time span"),
    ],
)
def test_a_value_that_cannot_be_is_told_with_what_can(name: str, value: str, expected: str) -> None:
    text = refused(subscribe="emails", **{name: value})
    assert name in text
    assert expected in text


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"assign": "emails"}, "JSON with the partitions"),
        ({"assign": '{"emails": [-1]}'}, "JSON with the partitions"),
        ({"assign": '{"emails": [true]}'}, "JSON with the partitions"),
        ({"assign": "{}"}, "JSON with the partitions"),
        ({"subscribe": " , "}, "names, with commas"),
        ({"subscribePattern": "("}, "a regular expression"),
        ({"subscribePattern": ""}, "a regular expression"),
    ],
)
def test_which_topics(choice: dict[str, str], expected: str) -> None:
    assert expected in refused(**choice)


def test_topics_are_chosen_in_one_way() -> None:
    both = {"path": "data", "subscribe": "a", "assign": '{"a": [0]}'}
    with pytest.raises(
        InvalidConfigError, match="said twice: expected one of assign, subscribe, subscribePattern, found assign and subscribe"
    ):
        ReadOptions.of(both, False)
    with pytest.raises(InvalidConfigError, match="is not said: expected one of assign"):
        ReadOptions.of({"path": "data"}, False)
    with pytest.raises(InvalidConfigError, match="no directory was given"):
        ReadOptions.of({"subscribe": "a"}, False)


def test_the_more_exact_of_the_starts_counts() -> None:
    by_time = '{"a": {"0": 5}}'
    assert of(startingTimestamp="7", startingOffsetsByTimestamp=by_time, startingOffsets="earliest").starting.timestamp_ms == 7
    assert of(startingOffsetsByTimestamp=by_time, startingOffsets="earliest").starting.numbers == {("a", 0): 5}
    assert of(endingTimestamp="7", endingOffsetsByTimestamp=by_time).ending.kind == "timestamp"


def test_a_batch_cannot_begin_at_the_latest_nor_end_at_the_earliest() -> None:
    assert "reads nothing" in refused(startingOffsets="latest")
    assert "reads nothing" in refused(startingOffsets='{"a": {"0": -1}}')
    assert "reads nothing" in refused(endingOffsets="earliest")
    assert "reads nothing" in refused(endingOffsets='{"a": {"0": -2}}')
    assert of(True, startingOffsets='{"a": {"0": -1}}').starting.kind == "offsets"


def test_a_stream_has_no_end() -> None:
    assert "not for streams" in refused(True, endingOffsets="latest")
    assert "not for streams" in refused(True, endingTimestamp="5")


def test_isolation_by_kafkas_name() -> None:
    assert of(**{"kafka.isolation.level": "read_uncommitted"}).isolation == "high_watermark"
    assert of(isolation="uncommitted").isolation == "high_watermark"
    assert of(isolation="committed", **{"kafka.isolation.level": "read_committed"}).isolation == "committed"
    assert "what kafka.isolation.level says" in refused(isolation="committed", **{"kafka.isolation.level": "read_uncommitted"})


def test_other_options_of_kafka_give_one_line(caplog: pytest.LogCaptureFixture) -> None:
    options = of(**{"kafka.bootstrap.servers": "host:1", "kafka.group.id": "g", "groupIdPrefix": "p", "maxOffsetsPerTrigger": "5"})
    with caplog.at_level(logging.WARNING, "tidelog.spark"):
        options.tell_ignored()
        options.tell_ignored()
    assert [record.getMessage() for record in caplog.records] == [
        "tidelog: these options mean nothing here and are ignored: "
        "groupIdPrefix, kafka.bootstrap.servers, kafka.group.id, maxOffsetsPerTrigger"
    ]


def test_where_keys_are_is_only_asked_where_there_are_keys() -> None:
    assert (
        of(keys="a", keyPartitioner="murmur2").key_partitioner == of(True, keys="a", keyPartitioner="murmur2").key_partitioner == "murmur2"
    )
    assert of(keyPartitioner="murmur2", pushFilters="true").key_partitioner == "murmur2", "a filter may bring keys"
    for is_stream, more in ((False, {}), (True, {}), (True, {"pushFilters": "true"})):
        assert "the option keys names them" in refused(is_stream, keyPartitioner="murmur2", **more)


def test_keys_as_text_or_as_bytes() -> None:
    assert of(keys="a, b").keys == frozenset({b"a", b"b"})
    assert of(keys='["a,b", {"base64": "AAH/"}]').keys == frozenset({b"a,b", b"\x00\x01\xff"})


def test_where_gaps_are_told() -> None:
    for given, meant in (("LOG", "log"), ("None", "none"), ("", "log"), ("./LOG", "./LOG"), ("Gaps.json", "Gaps.json")):
        assert of(True, gapReport=given).gap_report == meant
    assert of(True).gap_report == "log"


def test_columns_make_the_schema() -> None:
    assert of(columns="Offset,key").columns == ("offset", "key")
    assert of(includeHeaders="true").columns == COLUMNS
    assert schema_text(of(columns="timestampType,headers").columns) == "timestampType int, headers array<struct<key:string,value:binary>>"


def test_sizes_and_times() -> None:
    assert of(bytesPerPartition="64m").bytes_per_partition == 64 << 20
    assert of(bytesPerPartition="1KiB").target_bytes == 1024
    assert of(splitPartitions="false").target_bytes is None
    assert of(True, minPartitions="4").target_bytes == DEFAULT_BYTES_PER_PARTITION
    assert of(True, maxTriggerDelay="2m").max_trigger_delay_ms == 120_000
    assert "minOffsetsPerTrigger" in refused(True, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="4")
    assert of(minPartitions="100000").min_partitions == 100_000
    assert "minPartitions: expected at most 100000, found '100001'" in refused(minPartitions="100001")
    for text in ("--5", "-", "5-", "-5"):
        assert "option startingTimestamp: expected " in refused(startingTimestamp=text)
    assert parse_time_ms("at", "2023-11-14T22:13:20Z") == parse_time_ms("at", "2023-11-14 22:13:20") == 1_700_000_000_000
    assert parse_time_ms("at", "2023-11-14T23:13:20.0005+01:00") == 1_700_000_000_001

"""The rules of retention: each at its boundary, their order, and what stays whatever they say. Kafka itself is asked in interop."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import TIME, numbered, open_log
from tidelog.config import LogConfig
from tidelog.disk.names import TopicPartition
from tidelog.log.log import Log
from tidelog.retention import KAFKA_POLICIES, LogFacts, SegmentFacts, deletable, delete_old_segments, facts_of, policies_for
from tidelog.retention.rules import above_size, below_log_start, older_than_time

KEEP = {"retention.ms": -1, "retention.bytes": -1}


def facts(*sizes: int, start: int = 0, watermark: int | None = None, times: tuple[int, ...] = ()) -> LogFacts:
    """Segments of ten offsets each, of these sizes."""
    segments = [
        SegmentFacts(10 * number, 10 * number + 10, size, times[number] if times else TIME, number == len(sizes) - 1)
        for number, size in enumerate(sizes)
    ]
    return LogFacts(segments, start, 10 * len(sizes) if watermark is None else watermark)


def config(**changes: Any) -> LogConfig:
    return LogConfig.of(KEEP | {name.replace("_", "."): value for name, value in changes.items()})


@pytest.mark.parametrize(("start", "count"), [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (30, 2)])
def test_log_start(start: int, count: int) -> None:
    """The active segment never goes for it."""
    assert below_log_start(facts(5, 5, 5, start=start), config(), TIME) == count


@pytest.mark.parametrize(("limit", "count"), [(-1, 0), (16, 0), (15, 0), (11, 0), (10, 1), (6, 1), (5, 2), (1, 2), (0, 3)])
def test_size(limit: int, count: int) -> None:
    """What is left is at least as large as the limit."""
    assert above_size(facts(5, 5, 5), config(retention_bytes=limit), TIME) == count


@pytest.mark.parametrize(("limit", "count"), [(-1, 0), (100, 0), (99, 1), (50, 1), (49, 2), (0, 2)])
def test_time(limit: int, count: int) -> None:
    """A segment as old as the limit stays; one that is dated ahead keeps all behind it."""
    log = facts(5, 5, 5, 5, times=(TIME - 100, TIME - 50, TIME + 1, TIME - 100))
    assert older_than_time(log, config(retention_ms=limit), TIME) == count


@pytest.mark.parametrize(("watermark", "count"), [(9, 0), (10, 1), (29, 2), (30, 3)])
def test_the_high_watermark_keeps_what_reaches_above_it(watermark: int, count: int) -> None:
    assert deletable(facts(5, 5, 5, watermark=watermark), 3) == count


def test_an_empty_active_segment_stays() -> None:
    assert deletable(facts(5, 5, 0), 3) == 2


@pytest.mark.parametrize(("policy", "rules"), [("delete", 3), ("compact,delete", 3), ("compact", 1), ("", 1)])
def test_only_a_log_that_is_deleted_by_age_loses_more_than_was_asked(policy: str, rules: int) -> None:
    assert policies_for(LogConfig.of({"cleanup.policy": policy})) == KAFKA_POLICIES[:rules]


def filled(home: Path, **changes: Any) -> Log:
    """Three segments of two batches of 77 bytes, the second second after the first, and so on."""
    log = open_log(home, KEEP | {"internal.segment.bytes": 160} | {name.replace("_", "."): value for name, value in changes.items()})
    for number in range(6):
        log.append(numbered(number, timestamp_ms=TIME + 1000 * (number // 2)))
    assert [segment.size_bytes for segment in log.segments] == [len(numbered(0)) * 2] * 3
    return log


def test_facts_of_a_log(tmp_path: Path) -> None:
    size = 2 * len(numbered(0))
    with filled(tmp_path) as log:
        expected = [SegmentFacts(2 * number, 2 * number + 2, size, TIME + 1000 * number, number == 2) for number in range(3)]
        assert facts_of(log) == LogFacts(expected, 0, 6, TopicPartition("tide", 0))


def by_rule(log: Log, now_ms: int) -> list[tuple[str, int]]:
    return [(deleted.rule, deleted.segments) for deleted in delete_old_segments(log, now_ms)]


def test_a_round_deletes_rule_by_rule(tmp_path: Path) -> None:
    with filled(tmp_path, retention_ms=1500) as log:
        log.delete_records_before(3)
        assert by_rule(log, TIME + 2500) == [("log start", 1)]
        assert by_rule(log, TIME + 2501) == [("time", 1)]
        assert (log.log_start_offset, [record.offset for record in log.read()]) == (4, [4, 5])
        assert by_rule(log, TIME + 9999) == [("time", 1)]
        assert (log.log_start_offset, log.log_end_offset, [segment.base_offset for segment in log.segments]) == (6, 6, [6])
        assert delete_old_segments(log, TIME + 99999) == []


def test_nothing_goes_unasked(tmp_path: Path) -> None:
    with filled(tmp_path) as log:
        assert delete_old_segments(log, TIME + 2**40) == []
        assert len(log.segments) == 3

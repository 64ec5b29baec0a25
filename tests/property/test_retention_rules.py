"""The decisions of retention against a plain loop: order, guards, and that a second round finds nothing. And what `outlook` foretells."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.logs import TIME, QuietDisk, numbered, open_log
from tidelog.config import LogConfig
from tidelog.disk.names import TopicPartition
from tidelog.retention import (
    DirectoryFacts,
    FreeSpaceFloor,
    LogFacts,
    PartitionFacts,
    RetentionPolicy,
    SegmentFacts,
    StoreFacts,
    decide,
    delete_old_segments,
    outlook,
)
from tidelog.retention.decision import by_partition, held_to, left_of

RULES = ("log start", "size", "time")


@dataclass
class Named:
    """A policy that names what it was told to."""

    offsets: frozenset[int]
    name: str = "named"

    def expired(self, log: LogFacts, config: LogConfig, now_ms: int) -> Mapping[int, str]:
        return dict.fromkeys(self.offsets, "named")


@st.composite
def logs(draw: st.DrawFn) -> LogFacts:
    """Segments of ten offsets each."""
    drawn = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(-9, 9)), min_size=1, max_size=6))
    segments = [
        SegmentFacts(10 * number, 10 * number + 10, max(size, int(number < len(drawn) - 1)), TIME + at, number == len(drawn) - 1)
        for number, (size, at) in enumerate(drawn)
    ]
    return LogFacts(segments, draw(st.integers(0, 60)), draw(st.integers(0, 60) | st.just(10 * len(drawn))))


configs = st.builds(
    lambda policy, limit_bytes, limit_ms: LogConfig.of(
        {"cleanup.policy": policy, "retention.bytes": limit_bytes, "retention.ms": limit_ms}
    ),
    st.sampled_from(("delete", "delete", "compact,delete", "compact", "")),
    st.integers(-1, 30),
    st.integers(-1, 9),
)
policies = st.sets(st.integers(0, 5)).map(lambda numbers: Named(frozenset(10 * number for number in numbers)))


def plain_round(log: LogFacts, config: LogConfig, policy: RetentionPolicy | None) -> list[tuple[str, int]]:
    """One segment after the other, each rule asked about the oldest that is left, until none has anything to say."""
    gone, rest = [], list(log.segments)
    named = policy.offsets if isinstance(policy, Named) else frozenset()
    names = (*RULES, "named") if "delete" in config.cleanup_policy else RULES[:1]
    for name in names * (len(rest) + 1):
        while rest:
            first = rest[0]
            if first.end_offset > log.high_watermark or (first.is_active and first.size_bytes == 0):
                break
            size = sum(segment.size_bytes for segment in rest)
            says = {
                "log start": not first.is_active and first.end_offset <= log.log_start_offset,
                "size": 0 <= config.retention_bytes <= size - first.size_bytes,
                "time": 0 <= config.retention_ms < TIME - first.largest_timestamp_ms,
                "named": first.base_offset in named,
            }
            if not says[name]:
                break
            gone.append((name, rest.pop(0).base_offset))
    return gone


HELD_UP = LogFacts([SegmentFacts(10 * number, 10 * number + 10, 1, TIME + at, number == 2) for number, at in enumerate((1, -9, 1))], 0, 30)
"""What is old waits behind what is not."""


@given(logs(), configs, policies | st.none())
@example(HELD_UP, LogConfig.of({"retention.ms": 5}), Named(frozenset({0})))
def test_a_decision_is_what_a_plain_loop_does(log: LogFacts, config: LogConfig, policy: Named | None) -> None:
    more = [policy] if policy is not None else []
    removals = decide(log, config, TIME, more)
    assert [(removal.rule, removal.segment.base_offset) for removal in removals] == plain_round(log, config, policy)
    assert [removal.segment for removal in removals] == list(log.segments[: len(removals)]), "the oldest, and no hole"
    left = left_of(log, removals)
    assert decide(left, config, TIME, more) == [], "a second round finds nothing"


@given(logs(), configs, st.integers(0, 30))
def test_time_takes_no_segment_back(log: LogFacts, config: LogConfig, later_ms: int) -> None:
    now, later = decide(log, config, TIME), decide(log, config, TIME + later_ms)
    assert [removal.segment for removal in later[: len(now)]] == [removal.segment for removal in now]


@given(logs(), configs)
def test_a_segment_goes_when_the_outlook_says(log: LogFacts, config: LogConfig) -> None:
    """Not a millisecond, nor a byte, before; and what has a guard stays."""
    for one in outlook(log, config, TIME):
        base_offset = one.segment.base_offset

        def goes(facts: LogFacts, now_ms: int, base_offset: int = base_offset) -> bool:
            return base_offset in {removal.segment.base_offset for removal in decide(facts, config, now_ms)}

        assert goes(log, TIME) == (one.goes_by is not None)
        if one.goes_by is not None:
            continue
        watched = log._replace(log_start_offset=0, high_watermark=10 * len(log.segments))  # no other way out, nor a guard of an older one
        still = outlook(watched, config, TIME)[base_offset // 10]
        if still.goes_by is None and still.when_ms is not None:
            by_size = still.after_bytes is not None
            assert goes(watched, still.when_ms)
            assert by_size or not goes(watched, still.when_ms - 1)
        if still.goes_by is None and still.after_bytes is not None and config.retention_ms < 0:
            assert goes(grown(watched, still.after_bytes), TIME)
            assert still.after_bytes > 0
            assert not goes(grown(watched, still.after_bytes - 1), TIME)
        if one.guards:
            assert not goes(log, TIME + 10**9)


def grown(log: LogFacts, size_bytes: int) -> LogFacts:
    """More bytes have arrived, in a segment of their own."""
    *rest, active = log.segments
    after = SegmentFacts(active.end_offset, active.end_offset + 1, size_bytes, TIME, True)
    return log._replace(segments=[*rest, active._replace(is_active=False), after], high_watermark=after.end_offset)


stores = st.lists(st.tuples(logs(), configs, st.booleans()), min_size=1, max_size=4)


@given(stores, st.integers(0, 120), st.integers(0, 60), st.integers(0, 20))
def test_the_floor_takes_the_oldest_and_no_more_than_needed(
    drawn: list[tuple[LogFacts, LogConfig, bool]], floor: int, free: int, deleted: int
) -> None:
    partitions = [PartitionFacts(TopicPartition("t", number), "ab"[on_b], log, config) for number, (log, config, on_b) in enumerate(drawn)]

    def ask(free_a: int, deleted_a: int) -> dict[TopicPartition, dict[int, str]]:
        here = [DirectoryFacts("a", 1, free_a, deleted_a), DirectoryFacts("b", 2, 10**9, 0)]
        return by_partition(FreeSpaceFloor(floor).expired_in_store(StoreFacts(partitions, here), TIME))

    named = ask(free, deleted)
    taken: list[SegmentFacts] = []
    kept: list[SegmentFacts] = []
    for facts in partitions:
        going = {removal.segment for removal in held_to(facts.log, "free space", named.get(facts.partition, {}))}
        assert {segment.base_offset for segment in going} == set(named.get(facts.partition, {})), "it names nothing that must stay"
        may_go = [
            segment
            for segment in facts.log.segments
            if facts.directory == "a"
            and facts.config.is_deleted_by_age
            and not segment.is_active
            and segment.end_offset <= facts.log.high_watermark
        ]
        assert going <= set(may_go)
        taken += going
        kept += [segment for segment in may_go if segment not in going][:1]
    needed, won = max(0, floor - free - deleted), sum(segment.size_bytes for segment in taken)
    assert (won >= needed) or not kept
    if taken:
        assert needed > 0
        assert any(won - segment.size_bytes < needed for segment in taken), "one fewer would not have been enough"
    if won >= needed:
        assert ask(free, deleted + won) == {}, "what waits to be removed counts"


@given(
    st.lists(st.integers(-9, 9), min_size=1, max_size=9),
    st.integers(-1, 5),
    st.integers(-1, 9),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_a_round_over_a_real_log(ages: list[int], limit_segments: int, limit_ms: int, start: int, watermark: int) -> None:
    """What a plain loop says is what is gone from the disk, and a second round deletes nothing."""
    size = 2 * len(numbered(0))
    settings = {
        "internal.segment.bytes": size,
        "retention.ms": limit_ms,
        "retention.bytes": limit_segments * size if limit_segments >= 0 else -1,
        "message.timestamp.after.max.ms": 2**40,
    }
    with tempfile.TemporaryDirectory() as home, open_log(Path(home), settings, disk=QuietDisk()) as log:
        for number, age in enumerate(ages):
            log.append(numbered(number, timestamp_ms=TIME + age))
        end = len(ages)
        log.high_watermark = min(watermark, end)
        log.delete_records_before(min(start, log.high_watermark))
        bases = [*range(0, end, 2)]
        facts = LogFacts(
            [
                SegmentFacts(
                    base, min(base + 2, end), len(numbered(0)) * min(2, end - base), TIME + max(ages[base : base + 2]), base + 2 >= end
                )
                for base in bases
            ],
            log.log_start_offset,
            log.high_watermark,
        )
        expected = plain_round(facts, log.config, None)
        deleted = delete_old_segments(log, TIME)
        assert [one.rule for one in deleted for _ in range(one.segments)] == [rule for rule, _ in expected]
        left = bases[len(expected) :] or [end]
        assert [segment.base_offset for segment in log.segments] == left
        assert log.log_start_offset == max(facts.log_start_offset, left[0])
        assert delete_old_segments(log, TIME) == []

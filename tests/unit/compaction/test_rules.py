"""The rules of compaction, each at its boundary."""

from typing import Any

import numpy as np
import pytest

from tests.support.logs import TIME
from tidelog.compaction.rules import (
    BatchFacts,
    BatchRule,
    LastRecord,
    keeps_legacy_tombstones,
    keeps_tombstones,
    new_horizon_ms,
    records_to_keep,
    rule_for_batch,
)

BOUND = 100


def batch(last_offset: int = 50, *, producer: int = -1, epoch: int = -1, control: bool = False, horizon: int | None = None) -> BatchFacts:
    return BatchFacts(last_offset, producer, epoch, control, horizon)


def rule(facts: BatchFacts, *, discardable: bool = False, last: dict[int, LastRecord] | None = None) -> BatchRule:
    return rule_for_batch(facts, is_discardable=discardable, last_records=last or {}, bound=BOUND, now_ms=TIME)


def test_aborted_data_goes_at_once() -> None:
    assert rule(batch(), discardable=True) == BatchRule(True, False, False)
    assert rule(batch()) == BatchRule(False, False, False)


@pytest.mark.parametrize(("horizon", "drops"), [(None, False), (TIME + 1, False), (TIME, True), (TIME - 1, True)])
def test_a_marker_goes_when_its_horizon_has_come(horizon: int | None, drops: bool) -> None:
    marker = batch(producer=7, control=True, horizon=horizon)
    assert rule(marker, discardable=True) == BatchRule(drops, False, True)
    assert rule(marker) == BatchRule(False, False, False)


@pytest.mark.parametrize(("last_offset", "keeps"), [(BOUND - 2, False), (BOUND - 1, True), (BOUND, False)])
def test_the_batch_before_the_bound_stays_even_if_it_is_empty(last_offset: int, keeps: bool) -> None:
    assert rule(batch(last_offset)).keeps_empty is keeps


@pytest.mark.parametrize(
    ("facts", "keeps"),
    [
        (batch(50, producer=7), True),
        (batch(49, producer=7), False),
        (batch(50, producer=8), False),
        (batch(50), False),
        (batch(60, producer=9, epoch=3, control=True), True),
        (batch(60, producer=9, epoch=2, control=True), False),
        (batch(60, producer=9, epoch=3), False),
        (batch(60, producer=7, epoch=0, control=True), False),
    ],
)
def test_where_a_producer_left_off_stays(facts: BatchFacts, keeps: bool) -> None:
    last = {7: LastRecord(50, 0), 9: LastRecord(-1, 3), -1: LastRecord(50, 0)}
    assert rule(facts, last=last).keeps_empty is keeps


@pytest.mark.parametrize(
    ("offset", "key", "value", "found", "stay", "keeps"),
    [
        (30, True, True, 30, True, True),
        (30, True, True, 31, True, False),
        (30, True, True, -1, True, True),
        (30, True, True, 29, True, True),
        (30, False, True, -1, True, False),
        (30, True, False, 30, True, True),
        (30, True, False, 30, False, False),
        (30, True, False, 31, True, False),
        (40, False, False, 50, False, False),
        (41, False, False, 50, False, True),
        (41, True, True, 50, True, True),
    ],
)
def test_records(offset: int, key: bool, value: bool, found: int, stay: bool, keeps: bool) -> None:
    facts: dict[str, Any] = {"latest_offset": 40, "tombstones_stay": stay}
    columns = records_to_keep(
        np.array([offset], np.int64),
        np.array([3 if key else -1], np.int32),
        np.array([0 if value else -1], np.int32),
        np.array([found], np.int64),
        **facts,
    )
    assert columns.tolist() == [keeps]


@pytest.mark.parametrize(("horizon", "stay"), [(None, True), (TIME - 1, False), (TIME, False), (TIME + 1, True)])
def test_tombstones_stay_until_the_horizon(horizon: int | None, stay: bool) -> None:
    for keeps_legacy in (True, False):
        assert keeps_tombstones(batch(horizon=horizon), keeps_legacy=keeps_legacy, now_ms=TIME) is stay
        assert keeps_tombstones(batch()._replace(magic=1), keeps_legacy=keeps_legacy, now_ms=TIME) is keeps_legacy


def test_legacy_tombstones_go_by_the_age_of_their_segment() -> None:
    assert not keeps_legacy_tombstones(1000, 1500, 500)
    assert keeps_legacy_tombstones(1001, 1500, 500)
    assert keeps_legacy_tombstones(1, None, 500)
    assert not keeps_legacy_tombstones(0, None, 500)


def test_a_horizon_is_set_once() -> None:
    plain, marker = BatchRule(False, False, False), BatchRule(False, False, True)

    def horizon(facts: BatchFacts, of: BatchRule, *, tombstone: bool) -> int | None:
        return new_horizon_ms(facts, of, keeps_tombstone=tombstone, now_ms=TIME, delete_retention_ms=10)

    assert horizon(batch(), plain, tombstone=True) == TIME + 10
    assert horizon(batch(), plain, tombstone=False) is None
    assert horizon(batch(control=True), marker, tombstone=False) == TIME + 10
    assert horizon(batch(horizon=5), plain, tombstone=True) is None
    assert horizon(batch(control=True, horizon=5), marker, tombstone=False) is None

"""A broker's logs are cleaned by us and by a broker's own cleaner, in turn: consumers see the same, each goes on behind the other."""

from collections.abc import Iterable

import pytest

from interop.broker.clients import Read
from interop.broker.compaction import TO_CLEAN, CleanedInTurn
from interop.broker.judging import ISOLATIONS, assert_nothing_mended, complaints, dump_complaints
from interop.broker.scenarios import VERSIONS, Scenarios
from interop.judge import Judge
from tidelog.log.log import Log

UNDECIDED = "transaction-open"
"""Nothing can be cleaned from its open transaction on."""


@pytest.fixture(scope="module", params=VERSIONS)
def cleaned(request: pytest.FixtureRequest, scenarios: Scenarios) -> CleanedInTurn:
    return scenarios.cleaned(request.param)


def latest(records: Iterable[Read]) -> dict[bytes | None, Read]:
    """The last record of each key."""
    return {record.key: record for record in records}


def table(records: Iterable[Read]) -> dict[bytes | None, bytes | None]:
    """The value of each key that has one."""
    return {key: record.value for key, record in latest(records).items() if record.value is not None}


def test_a_store_compacts_all_topics_of_a_broker(cleaned: CleanedInTurn) -> None:
    """Those that the broker keeps for itself too, as far as they have anything to clean. The settings are the broker's."""
    assert cleaned.ours.failures == ()
    assert cleaned.ours.left_alone == ()
    compacted = {done.partition.topic for done in cleaned.ours.compacted}
    assert compacted >= {*TO_CLEAN}
    assert {done.partition.topic for done in cleaned.ours.partitions} > {*TO_CLEAN}


@pytest.mark.parametrize("name", TO_CLEAN)
def test_our_round_leaves_consumers_what_kafkas_leaves(name: str, cleaned: CleanedInTurn) -> None:
    for isolation in ISOLATIONS:
        ours, kafkas = cleaned.by_us[isolation][name], cleaned.by_kafka[isolation][name]
        assert (ours.start, ours.end) == (kafkas.start, kafkas.end)
        assert ours.records == kafkas.records
        assert table(ours.records) == table(cleaned.written[isolation][name].records)
    written = cleaned.written["high_watermark"][name].records
    left = cleaned.left_by_us[name]
    assert len(left) < len(written)
    assert [record for record in left if record.offset < ours.end] == cleaned.by_us["high_watermark"][name].records


@pytest.mark.parametrize("name", TO_CLEAN)
def test_a_broker_goes_on_cleaning_behind_us(name: str, cleaned: CleanedInTurn) -> None:
    before, after = (seen["committed"][name] for seen in (cleaned.by_us, cleaned.by_both))
    if name == UNDECIDED:
        assert after == before
        return
    assert after.end > before.end
    kept = {record.offset for record in after.records}
    dropped = [record for record in before.records if record.offset not in kept]
    assert dropped, "Kafka's cleaner has dropped what was superseded behind our round"
    newest = latest(after.records)
    assert all(record.value is None or newest[record.key].offset > record.offset for record in dropped)


@pytest.mark.parametrize("name", TO_CLEAN)
def test_we_go_on_behind_the_broker(name: str, cleaned: CleanedInTurn) -> None:
    assert_nothing_mended(cleaned.ours_again.reports[name])
    seen = cleaned.by_both["high_watermark"][name].records
    records = cleaned.ours_again.records[name]
    assert table(records) == table(seen)
    known = {record.offset: record for record in seen}
    assert all(known.get(record.offset, record) == record for record in records)


@pytest.mark.parametrize("name", TO_CLEAN)
def test_everybody_finds_it_in_order(name: str, cleaned: CleanedInTurn, judge: Judge) -> None:
    directory = cleaned.data / f"{name}-0"
    assert complaints(directory) == []
    (dumped,) = judge.dump([directory])
    assert dump_complaints(dumped, is_compacted=True) == []
    with Log.open(directory, mode="r") as log:
        assert [record.offset for record in log.read(isolation="log_end")] == [record.offset for record in cleaned.ours_again.records[name]]

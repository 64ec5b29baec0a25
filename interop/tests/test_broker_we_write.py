"""We write the same cases into the directory of a broker, closed in order or not; a broker reads them and goes on, and so do we."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.broker.cases import CASES
from interop.broker.clients import Consumed, Read
from interop.broker.judging import ISOLATIONS, POOL, assert_nothing_mended, assert_same, complaints, dump_complaints, read_all, times_within
from interop.broker.scenarios import VERSIONS, Scenarios
from interop.broker.we_write import KAFKAS_ROW, OWN_FILES, BrokerWentOn, WeWrote, files_of_ours
from interop.judge import Judge
from tests.support.logs import numbered
from tidelog.disk.names import CLEAN_SHUTDOWN, is_set_aside
from tidelog.disk.partition_metadata import format_topic_id
from tidelog.disk.published_end import PUBLISHED_END
from tidelog.log.log import Log

STATES = ("closed", "crashed")
"""How we left the directory before the broker had it."""


@dataclass
class Ours:
    """What we wrote, with a broker of some version, left in some state."""

    wrote: WeWrote
    state: str

    @property
    def broker(self) -> BrokerWentOn:
        return self.wrote.went_on[self.state]


@pytest.fixture(scope="module", params=[(version, state) for version in VERSIONS for state in STATES], ids="-".join)
def ours(request: pytest.FixtureRequest, scenarios: Scenarios) -> Ours:
    version, state = request.param
    return Ours(scenarios.we_wrote(version), state)


# The broker reads it


@pytest.mark.parametrize("name", CASES)
def test_a_consumer_reads_the_same_as_if_kafka_had_written_it(name: str, ours: Ours, scenarios: Scenarios) -> None:
    for isolation in ISOLATIONS:
        expected = scenarios.kafka_wrote(ours.wrote.version).consumed[isolation][name]
        found = ours.broker.consumed[isolation][name]
        assert (found.start, found.end) == (expected.start, expected.end)
        if CASES[name].is_append_time:
            assert without_times(found) == without_times(expected)
        elif CASES[name].is_compacted and ours.state == "crashed":
            assert newest_values(found.records) == newest_values(expected.records)
        else:
            assert found.records == expected.records
        if not (CASES[name].is_append_time or CASES[name].is_compacted or CASES[name].is_transactional):
            assert times_within(found) == times_within(expected)


@pytest.mark.parametrize("name", CASES)
def test_the_broker_finds_times_and_leader_epochs_where_we_do(name: str, ours: Ours) -> None:
    """Each in the same files, with both isolations: also where times depend on who wrote them when."""
    with Log.open(ours.broker.seen / f"{name}-0", mode="r") as log:
        for isolation in ISOLATIONS:
            consumed = ours.broker.consumed[isolation][name]
            assert_same(log, isolation, consumed)
            assert len(consumed.times) >= 3


def without_times(consumed: Consumed) -> list[tuple[object, ...]]:
    return [(record.offset, *record[2:]) for record in consumed.records]


def newest_values(records: list[Read]) -> dict[bytes | None, Read]:
    """By key, without tombstones: what is the same before and after the cleaner was there."""
    return {key: record for key, record in {record.key: record for record in records}.items() if record.value is not None}


def test_the_broker_took_the_directory_as_we_left_it(ours: Ours) -> None:
    assert ours.broker.had_marker == (ours.state == "closed")
    assert [path.name for path in ours.broker.data.iterdir() if is_set_aside(path.name)] == []
    assert (ours.broker.data / CLEAN_SHUTDOWN).exists()


def test_the_broker_leaves_our_own_files_alone(ours: Ours) -> None:
    names = {path.name for path in ours.broker.own_files}
    assert names >= {*OWN_FILES}
    assert (PUBLISHED_END in names) == (ours.state == "crashed")
    assert dict(files_of_ours(ours.broker.data)) == ours.broker.own_files


# We go on


@dataclass
class GoneOn:
    """A copy of a partition to which first we, then a broker, then we again have appended."""

    directory: Path
    offset: int
    """Of what was appended last."""


@pytest.fixture(scope="module")
def gone_on(ours: Ours, scenarios: Scenarios) -> Iterator[dict[str, GoneOn]]:
    """Every case, in one log directory."""
    data = scenarios.home / "gone-on" / f"{ours.wrote.version}-{ours.state}"
    shutil.copytree(ours.broker.data, data)
    gone_on = {}
    for name in CASES:
        directory = data / f"{name}-0"
        with Log.open(directory, config=ours.wrote.configs[name], pool=POOL) as log:
            assert_nothing_mended(log.load_report)
            assert log.topic_id is not None
            assert format_topic_id(log.topic_id) == ours.wrote.topic_ids[name]
            gone_on[name] = GoneOn(directory, log.append(numbered(77)).first_offset)
    yield gone_on
    shutil.rmtree(data)


@pytest.mark.parametrize("name", CASES)
def test_we_read_on_and_append_behind_the_broker(name: str, ours: Ours, gone_on: dict[str, GoneOn]) -> None:
    consumed = ours.broker.consumed["high_watermark"][name]
    appended = ours.broker.appended[name]
    with Log.open(gone_on[name].directory, mode="r") as log:
        *ours_before, kafkas, last = read_all(log, "log_end")
        for timestamp_ms, offset, found_ms in consumed.times:
            if timestamp_ms >= 0 and offset is not None and not CASES[name].is_compacted:
                assert log.offset_for_time(timestamp_ms, isolation="log_end") == (offset, found_ms)
    if CASES[name].is_compacted and ours.state == "crashed":
        assert newest_values(ours_before) == newest_values(consumed.records)
    else:
        assert ours_before == consumed.records
    assert (kafkas.offset, kafkas.key, kafkas.value) == (appended, KAFKAS_ROW.key, KAFKAS_ROW.value)
    assert (last.offset, last.key) == (gone_on[name].offset, b"k")
    assert last.leader_epoch == kafkas.leader_epoch
    assert kafkas.leader_epoch is not None
    assert all(before.leader_epoch == 0 < kafkas.leader_epoch for before in ours_before)
    assert [consumed.end, appended + 1] == [appended, gone_on[name].offset]


@pytest.mark.parametrize("name", CASES)
def test_verify_has_nothing_to_say(name: str, gone_on: dict[str, GoneOn]) -> None:
    assert complaints(gone_on[name].directory) == []


def test_kafkas_dump_tool_has_nothing_to_complain_about(gone_on: dict[str, GoneOn], judge: Judge) -> None:
    for name, dumped in zip(gone_on, judge.dump(gone.directory for gone in gone_on.values()), strict=True):
        assert dump_complaints(dumped, is_compacted=CASES[name].is_compacted) == [], name
        lines = dumped["deep_iteration"]["out"].splitlines()
        assert sum("isvalid: true" in line for line in lines) > 1, name

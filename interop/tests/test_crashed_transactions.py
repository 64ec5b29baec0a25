"""A consumer of Kafka that reads committed never sees half of a transaction of ours, whenever it was cut off."""

import pytest

from interop.broker.crashed_transactions import Crashes
from interop.broker.scenarios import NEWER, Scenarios


@pytest.fixture(scope="module")
def crashes(scenarios: Scenarios) -> Crashes:
    return scenarios.crashes(NEWER)


def test_transactions_are_there_whole_or_not_at_all_whenever_they_are_cut_off(crashes: Crashes) -> None:
    assert len(crashes.recorded) > 60
    faults = {crash.label: found for crash in crashes.recorded if (found := crash.faults())}
    assert faults == {}


def test_kafkas_consumer_gets_what_our_reader_gets(crashes: Crashes) -> None:
    for crash in crashes.recorded:
        assert crash.kafkas["read_committed"] == crash.ours.values, crash.label
    for processes in crashes.killed:
        assert processes.kafkas == processes.ours, processes.topic


def test_who_reads_what_is_not_committed_does_see_halves(crashes: Crashes) -> None:
    """The check itself."""
    faults = [fault for crash in crashes.recorded for fault in crash.faults("read_uncommitted")]
    assert any("half of" in fault for fault in faults)


def test_transactions_of_killed_processes_are_there_whole_or_not_at_all(crashes: Crashes) -> None:
    assert sum(len(processes.killed.acknowledged) for processes in crashes.killed) > 10
    assert {processes.topic: processes.faults() for processes in crashes.killed} == {processes.topic: [] for processes in crashes.killed}

"""The power is cut at every moment of transactions: each is there whole or not at all, in every partition, and so is its position."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.crash_check import CrashViolationError, Tally
from tests.support.crash_images import Bounds, scratch_directory
from tests.support.crash_transaction_check import check_second_crash, check_story
from tests.support.crash_transactions import A0, A1, STORIES, Done, Expected, Found, Story
from tests.support.recording_disk import RecordingDisk
from tidelog.disk.names import TopicPartition

SOME = Bounds(tears=1, zeroed=1, data_prefixes=0, name_prefixes=1, samples=1)
FEW = Bounds(tears=0, zeroed=0, data_prefixes=0, name_prefixes=1, samples=0)
ONE_OF = 90
"""So many of the images are looked at here, beside what a killed process leaves; `make crash` looks at more."""
BY_NAME = {story.name: story for story in STORIES}


@pytest.fixture
def scratch() -> Iterator[Path]:
    with scratch_directory() as directory:
        yield directory


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_every_moment_of_a_story(story: Story, scratch: Path) -> None:
    assert check_story(story, scratch, bounds=SOME, tally=Tally(), every=ONE_OF, most=30) > 0


@pytest.mark.parametrize("name", ["commit", "interleaved", "positions"])
def test_a_crash_while_a_crash_is_recovered_from(name: str, scratch: Path) -> None:
    tally = Tally()
    check_second_crash(BY_NAME[name], scratch, bounds=FEW, tally=tally, count=2, every=ONE_OF, most=20)
    assert tally.opened > 5


def test_a_sync_that_is_left_out_is_found(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself: without syncs of a partition, a transaction whose commit was answered is there in part."""
    sync = RecordingDisk.sync

    def forgetful(disk: RecordingDisk, fd: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink().parent.name != "a-1":
            sync(disk, fd)

    monkeypatch.setattr(RecordingDisk, "sync", forgetful)
    with pytest.raises(CrashViolationError):
        check_story(BY_NAME["commit"], scratch, bounds=SOME, tally=Tally())


def test_half_a_transaction_would_be_found() -> None:
    """The check itself."""
    done = Done(1, "one", {A0: 1, A1: 1}, 1)
    whole = {A0: done.values(A0), A1: done.values(A1)}
    nothing: dict[TopicPartition, list[bytes]] = {A0: [], A1: []}
    expected = Expected()
    assert expected.faults_of(Found(nothing, {})) == []
    assert len(expected.faults_of(Found(whole, {}))) == 2
    expected.follow("ending", done)
    assert expected.faults_of(Found(whole, {"one": 1})) == []
    assert expected.faults_of(Found(nothing, {"one": None})) == []
    assert len(expected.faults_of(Found(whole, {"one": None}))) == 1
    assert len(expected.faults_of(Found(nothing, {"one": 1}))) == 1
    assert len(expected.faults_of(Found({A0: whole[A0], A1: []}, {"one": None}))) == 1
    assert len(expected.faults_of(Found({A0: whole[A0] * 2, A1: whole[A1]}, {"one": None}))) == 1
    expected.follow("ended", done)
    assert expected.faults_of(Found(whole, {"one": 1})) == []
    assert len(expected.faults_of(Found(nothing, {"one": None}))) == 1

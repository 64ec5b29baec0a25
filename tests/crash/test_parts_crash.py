"""The power is cut at every moment of a commit of compaction in parts: opening gives what an undisturbed run gives, or the old log."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.crash_images import Bounds, killed_image, scratch_directory
from tests.support.crash_parts import PARTITIONS, PartsCrash
from tests.support.recording_disk import Link, Rename, SyncDirectory

FEW = Bounds(tears=0, zeroed=0, data_prefixes=0, name_prefixes=1, samples=0)
VERIFY_EVERY = 40


@pytest.fixture
def crash(monkeypatch: pytest.MonkeyPatch) -> Iterator[PartsCrash]:
    with scratch_directory() as directory:
        (directory / "root").mkdir()
        yield PartsCrash(directory / "root", monkeypatch)


def commit_begins(crash: PartsCrash) -> int:
    """Shortly before the first decision is written."""
    return next(n for n, event in enumerate(crash.recording.events) if getattr(event, "path", "").endswith("commit-0.json.tmp")) - 3


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 13])
def test_every_moment_of_a_commit(crash: PartsCrash, step: int) -> None:
    """Several groups of two logs: untouched until the decision is durable, and all of it done from then on."""
    events = crash.recording.events
    assert sum(isinstance(event, Link) for event in events) > 18, "several groups"
    assert any(isinstance(event, Rename) and event.target.endswith(".txnindex.swap") for event in events)
    done = crash.check_images(crash.recording, range(commit_begins(crash), len(events) + 1, step), FEW, VERIFY_EVERY)
    assert len(done) > 1000 // step
    assert set(done) == {frozenset(), frozenset(PARTITIONS[:1]), frozenset(PARTITIONS)}


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 23])
def test_a_crash_while_a_commit_is_finished(crash: PartsCrash, step: int) -> None:
    """As often as it takes: what was decided is done in the end."""
    events = crash.recording.events
    decided = next(
        n
        for n, event in enumerate(events, 1)
        if isinstance(event, SyncDirectory) and n > commit_begins(crash) + 5 and "staging" in event.path
    )
    swaps = [n for n, event in enumerate(events, 1) if isinstance(event, Rename) and event.target.endswith(".log.swap")]
    count = 0
    for cut in (decided, swaps[1], swaps[-2] + 2):
        image = killed_image(crash.recording, cut)
        recording = crash.opening(image)
        done = crash.check_images(recording, range(0, len(recording.events) + 1, step), FEW, VERIFY_EVERY)
        assert frozenset() not in done, f"cut at {cut}: it was decided"
        count += len(done)
    assert count > 300 // step


def test_the_new_files_are_durable_before_the_decision(crash: PartsCrash) -> None:
    """By name too: a decision about files that the power has taken could not be done."""
    begins = commit_begins(crash)
    seen = crash.check_images(
        crash.recording, range(begins, begins + 12), Bounds(tears=1, zeroed=1, data_prefixes=0, name_prefixes=4, samples=0), 1 << 30
    )
    assert set(seen) == {frozenset(), frozenset(PARTITIONS[:1])}


def test_it_is_the_whole_of_a_run(crash: PartsCrash, tmp_path: Path) -> None:
    """What is compared with is what the local cleaner writes."""
    assert crash.compacted_locally(tmp_path / "data") == crash.after

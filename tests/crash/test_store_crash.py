"""The power is cut at every moment of what is done to a store: every image opens, and each topic is as it was, or as it was to be."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.crash_images import Bounds, crash_images, materialise, scratch_directory
from tests.support.crash_store import StoreSession, check_images, found_in
from tests.support.small_stores import open_store

MORE = Bounds(tears=1, zeroed=1, data_prefixes=1, name_prefixes=4, samples=3)
SOME = Bounds(tears=0, zeroed=1, data_prefixes=0, name_prefixes=2, samples=1)
"""Torn and lost bytes of logs are tested by themselves: here it is about names, and about the store's file."""
NAMES = Bounds(tears=0, zeroed=0, data_prefixes=0, name_prefixes=1, samples=0)


@pytest.fixture
def scratch() -> Iterator[Path]:
    with scratch_directory() as directory:
        yield directory


def session_in(scratch: Path, directories: int) -> StoreSession:
    root = scratch / "root"
    root.mkdir()
    return StoreSession(root, directories)


@pytest.mark.parametrize("directories", [1, 2])
def test_the_first_opening(directories: int, scratch: Path) -> None:
    session = session_in(scratch, directories)
    session.close()
    assert check_images(session.disk.recording(), directories, scratch, MORE) > 5


@pytest.mark.parametrize("directories", [1, 2])
def test_a_topic_is_created_altered_and_deleted(directories: int, scratch: Path) -> None:
    session = session_in(scratch, directories)
    session.create("a", 2)
    session.append("a", 1)
    session.alter("a", "retention.bytes", "5")
    session.append("a", 1)
    session.delete("a")
    session.remove_due()
    assert check_images(session.disk.recording(), directories, scratch, SOME) > 80
    session.store.close()


@pytest.mark.slow
def test_a_name_that_comes_again_and_again(scratch: Path) -> None:
    session = session_in(scratch, 1)
    session.create("b")
    session.append("b")
    for _ in range(2):
        session.create("a")
        session.append("a")
        session.delete("a")
    session.create("a")
    session.remove_due()
    session.append("a")
    assert check_images(session.disk.recording(), 1, scratch, SOME) > 80
    session.store.close()


@pytest.mark.parametrize("directories", [1, 2])
def test_a_crash_while_a_crash_is_recovered_from(directories: int, scratch: Path) -> None:
    """What opening finishes, it can be cut off in too."""
    session = session_in(scratch, directories)
    session.create("kept")
    session.append("kept")
    before = len(session.disk.recording().events)
    session.create("a", 2)
    created = len(session.disk.recording().events)
    session.append("a")
    deleted_from = len(session.disk.recording().events)
    session.delete("a")
    recording = session.disk.recording()
    session.store.close()
    count = 0
    for cuts in (range(before, created), range(deleted_from, len(recording.events))):
        images = list(crash_images(recording, cuts=cuts, bounds=NAMES))
        root = scratch / "second"
        materialise(images[len(images) // 2], root)
        second = StoreSession(root, directories)
        opened = second.disk.recording()
        second.store.close()
        with open_store(*second.paths) as store:
            final = found_in(store)
        count += check_images(opened, directories, scratch, NAMES, start=final)
        shutil.rmtree(root)
    assert count > 30

"""The power is cut at every moment of compaction: what is left afterwards is there all the time, and a pass can be done again."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.compacted import LARGE_MAP, SMALL_MAP
from tests.support.crash_compaction import CompactionSession, Moment, check_images, note_opening, story
from tests.support.crash_images import Bounds, crash_images, materialise, scratch_directory
from tests.support.recording_disk import Note, RecordingDisk, Rename

FEW = Bounds(tears=0, zeroed=0, data_prefixes=0, name_prefixes=1, samples=0)


@pytest.fixture
def root() -> Iterator[Path]:
    with scratch_directory() as directory:
        (directory / "root").mkdir()
        yield directory / "root"


@pytest.mark.parametrize(
    ("memory", "delay_ms", "which"),
    [pytest.param(LARGE_MAP, 0, 1, marks=pytest.mark.slow), (LARGE_MAP, 60_000, 0), (SMALL_MAP, 0, 1)],
    ids=["removed at once", "removed later", "several passes"],
)
def test_every_moment_of_a_pass(root: Path, memory: int, delay_ms: int, which: int) -> None:
    """Several groups, indexes of aborted transactions, tombstones, markers, the checkpoint; also where it takes several passes."""
    session = CompactionSession(root, memory, file_delete_delay_ms=delay_ms)
    moments = story(session)
    session.close()
    recording = session.disk.recording()
    names = [event.target for event in recording.events if isinstance(event, Rename)]
    assert sum(name.endswith(".txnindex.swap") for name in names) > 0
    assert sum(name.endswith(".log.swap") for name in names) > 6
    is_whole = memory == LARGE_MAP and not delay_ms
    cuts = moments[which] if is_whole else moments[which][::2]
    assert check_images(recording, root.parent, FEW, memory, cuts) > 100


def test_a_crash_while_a_crash_is_recovered_from(root: Path) -> None:
    """What opening finishes, or undoes, it can be cut off in too."""
    session = CompactionSession(root, LARGE_MAP)
    moments = story(session)
    session.close()
    recording = session.disk.recording()
    swaps = [
        number
        for number, event in enumerate(recording.events, 1)
        if number in moments[1] and isinstance(event, Rename) and (".swap" in event.target or event.target.endswith(".log.deleted"))
    ]
    count = 0
    for cut in swaps[:: max(1, len(swaps) // 5)]:
        moment = next(event.payload for event in reversed(recording.events[:cut]) if isinstance(event, Note))
        assert isinstance(moment, Moment)
        image = next(iter(crash_images(recording, cuts=(cut,), bounds=FEW)))
        again = root.parent / "again"
        materialise(image, again)
        disk = RecordingDisk(again)
        note_opening(again / "data", disk, moment, LARGE_MAP)
        opened = disk.recording()
        shutil.rmtree(again)
        count += check_images(opened, root.parent, FEW, LARGE_MAP, range(1, len(opened.events) + 1))
    assert count > 60

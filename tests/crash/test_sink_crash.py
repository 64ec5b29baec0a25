"""The power is cut at every moment of a pipeline's commit, and the batch comes again: exactly one of the attempts is there."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.crash_check import CrashViolationError, Tally
from tests.support.crash_images import Bounds, scratch_directory
from tests.support.crash_sink import SinkSession, check_recording
from tests.support.recording_disk import RecordingDisk
from tidelog.record import NewBatch
from tidelog.store import sink_commit
from tidelog.store.internal_logs import internal_log
from tidelog.store.internal_topics import COMMITS
from tidelog.store.state import StoreState
from tidelog.store.transactions.ledger import LedgerEntry

SOME = Bounds(tears=1, zeroed=1, data_prefixes=0, name_prefixes=1, samples=1)
ONE_OF, MOST = 60, 40
"""Of the images so many are looked at here, beside what a killed process leaves, and of the moments about so many."""


@pytest.fixture
def scratch() -> Iterator[Path]:
    with scratch_directory() as directory:
        yield directory


def play(scratch: Path, batches: int, *, own_files: bool) -> tuple[SinkSession, range]:
    """Commits, of which the last is looked at moment by moment."""
    staged = scratch / "root" / "staged" if own_files else scratch / "staged"
    staged.mkdir(parents=True)
    (scratch / "root").mkdir(exist_ok=True)
    session = SinkSession(scratch / "root", staged, own_files=own_files)
    session.make()
    for batch_id in range(batches - 1):
        session.run(batch_id)
    first = len(session.disk.recording().events) + 1
    session.run(batches - 1)
    return session, range(first, len(session.disk.recording().events) + 1)


def check(scratch: Path, batches: int, *, every: int = ONE_OF, most: int = MOST, own_files: bool = False) -> int:
    session, moments = play(scratch, batches, own_files=own_files)
    cuts = moments[:: -(-len(moments) // most)]
    bounds = replace(SOME, data_prefixes=3) if own_files else SOME  # of headers some may be written, and some not
    return check_recording(session.disk.recording(), scratch, batches - 1, bounds=bounds, cuts=cuts, tally=Tally(), every=every)


@pytest.mark.parametrize("batches", [1, 2], ids=["the first, with its ledger", "another"])
def test_every_moment_of_a_commit(scratch: Path, batches: int) -> None:
    assert check(scratch, batches) > 10


@pytest.mark.parametrize("batches", [1, 2], ids=["into empty logs", "behind others"])
def test_every_moment_of_a_commit_whose_files_become_segments(scratch: Path, batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_commit, "LEAST_SEGMENT_BYTES", 1)
    assert check(scratch, batches, own_files=True) > 10


def test_a_file_that_is_renamed_before_it_is_synced_is_found(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself: batches as they were staged are sound, and part of no transaction."""
    monkeypatch.setattr(sink_commit, "LEAST_SEGMENT_BYTES", 1)
    sync = RecordingDisk.sync

    def forgetful(disk: RecordingDisk, fd: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink().parent.name != "staged":
            sync(disk, fd)

    monkeypatch.setattr(RecordingDisk, "sync", forgetful)
    with pytest.raises(CrashViolationError):
        check(scratch, 1, every=1, most=1000, own_files=True)


def test_a_sync_that_is_left_out_is_found(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself: without syncs of a partition, a batch whose commit was answered is there in part."""
    sync = RecordingDisk.sync

    def forgetful(disk: RecordingDisk, fd: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink().parent.name != "a-1":
            sync(disk, fd)

    monkeypatch.setattr(RecordingDisk, "sync", forgetful)
    with pytest.raises(CrashViolationError):
        check(scratch, 2, every=1)


def test_a_ledger_apart_from_the_transaction_is_found(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself: a crash between the two would leave a batch that is called done, and is not there."""

    def apart(state: StoreState, transaction: object, entry: LedgerEntry) -> None:
        internal_log(state, COMMITS, entry.name).append(NewBatch([entry.format()], timestamp_ms=state.clock()).encode())

    monkeypatch.setattr(sink_commit, "note_commit", apart)
    with pytest.raises(CrashViolationError, match="by the ledger"):
        check(scratch, 1)

"""The power is cut at every moment of a workload: every image opens, with all that was acknowledged and nothing that was never attempted.

What is looked at in each image is in `crash_check`, what those see who own nothing in `crash_looks`, what may be in it in `crash_model`,
the workloads are in `crash_workloads`. Many more of all of this, with more kinds of damage, in `python -m tests.crash.long_run`: above all
with flushing weakened, where each moment has many times the images.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.support.crash_check import check_recording, open_image
from tests.support.crash_images import FEWEST, killed_image, materialise, scratch_directory
from tests.support.crash_model import Model
from tests.support.crash_session import PARTITION, Session
from tests.support.crash_workloads import (
    FAULTY,
    LONG_MAX,
    PLAIN,
    PRODUCERS,
    THREADED,
    Workload,
    attempted_in,
    check_second_crash,
    check_workload,
    random_producers,
    random_workload,
    record,
    weak,
)
from tests.support.recording_disk import Create, Recording, RecordingDisk, Sync, Truncate, Write


@pytest.fixture
def scratch() -> Iterator[Path]:
    with scratch_directory() as directory:
        yield directory


LONG = {
    *(
        "runs",
        "leader_epochs",
        "truncate_then_append file.delete.delay.ms=60000",
        "truncate_after_checkpoint",
        "truncate_fully_after_deletion",
    ),
    *("truncate_below_the_start", "delete_records_then_truncate", "delete_some_and_checkpoint file.delete.delay.ms=60000"),
    *("replace_two_by_one", "replace_by_two file.delete.delay.ms=60000", "single_appends_and_rolls flush.messages=max"),
    *("transactions_and_reopening", "transactions_are_truncated", "transactions_are_deleted"),
    *("leader_epochs flush.messages=5", "close_and_reopen flush.messages=5", "as_a_follower flush.messages=max"),
    *("delete_records", "replace_one", "truncate_fully", "many_threads"),
}
"""By name: these are for `make slow`."""


def by_name(workload: Workload) -> str:
    return workload.name.replace(str(LONG_MAX), "max")


def marked(workloads: Iterable[Workload]) -> list[ParameterSet]:
    return [pytest.param(one, marks=[pytest.mark.slow] * (by_name(one) in LONG)) for one in workloads]


def marked_seeds(count: int, quick: int) -> list[ParameterSet]:
    return [pytest.param(seed, marks=[pytest.mark.slow] * (seed >= quick)) for seed in range(count)]


# The one that is cut off while a crash is recovered from is left out here.
@pytest.mark.parametrize("workload", marked([*PLAIN[:6], *PLAIN[7:]]), ids=by_name)
def test_nothing_acknowledged_is_lost_and_nothing_else_appears(workload: Workload, scratch: Path) -> None:
    tally = check_workload(workload, scratch, FEWEST)
    assert tally.opened > 50
    assert tally.read > 10
    assert tally.salvaged > 0


@pytest.mark.parametrize("workload", FAULTY, ids=by_name)
def test_what_was_rolled_back_harms_nobody(workload: Workload, scratch: Path) -> None:
    check_workload(workload, scratch, FEWEST)


@pytest.mark.parametrize("workload", marked(workload for workload in PRODUCERS if not workload.settings), ids=by_name)
def test_producers_may_send_again_and_open_transactions_are_open(workload: Workload, scratch: Path) -> None:
    tally = check_workload(workload, scratch, FEWEST)
    assert tally.opened > 50


@pytest.mark.parametrize("seed", marked_seeds(2, 1))
def test_calls_of_producers_drawn_by_lot(seed: int, scratch: Path) -> None:
    check_workload(random_producers(seed), scratch, FEWEST)


@pytest.mark.parametrize("workload", marked(THREADED), ids=by_name)
def test_threads_that_share_a_sync(workload: Workload, scratch: Path) -> None:
    check_workload(workload, scratch, FEWEST)


@pytest.mark.parametrize("seed", marked_seeds(4, 2))
def test_calls_drawn_by_lot(seed: int, scratch: Path) -> None:
    check_workload(random_workload(seed), scratch, FEWEST)


@pytest.mark.parametrize("workload", marked(weak(PLAIN[number], 5) for number in (0, 3, 5)), ids=by_name)
def test_five_messages_a_flush_lose_four_at_most(workload: Workload, scratch: Path) -> None:
    check_workload(workload, scratch, FEWEST)


@pytest.mark.parametrize("workload", marked(weak(PLAIN[number], LONG_MAX) for number in (2, 4, 9)), ids=by_name)
def test_without_flushing_nothing_appears_that_was_not_appended(workload: Workload, scratch: Path) -> None:
    check_workload(workload, scratch, FEWEST)


@pytest.mark.parametrize("workload", marked([PLAIN[0], PLAIN[6], PLAIN[-1], weak(PLAIN[0], LONG_MAX)]), ids=by_name)
def test_a_crash_while_a_crash_is_recovered_from(workload: Workload, scratch: Path) -> None:
    check_second_crash(workload, scratch, FEWEST, count=2)


def test_a_crash_while_transactions_are_recovered(scratch: Path) -> None:
    check_second_crash(PRODUCERS[1], scratch, FEWEST, count=1)


def test_a_crash_while_damage_is_cut_out_as_kafka_does(scratch: Path) -> None:
    """Everything behind damage goes; a crash in the middle of that must not leave later segments behind a hole."""
    recording, settings = record(weak(PLAIN[0], LONG_MAX), scratch)
    image = killed_image(recording)
    damaged = f"{PARTITION}/00000000000000000000.log"
    content = bytearray(image.files[damaged])
    content[100] ^= 1
    files = {name: content for name, content in image.files.items() if name != "recovery-point-offset-checkpoint"}
    image = replace(image, files=files | {damaged: bytes(content)}, digest="")
    found = open_image(image, settings, scratch)
    assert found.end == 1
    root = scratch / "second"
    materialise(image, root)
    disk = RecordingDisk(root)
    Session(root, disk, settings).close()
    model = Model(LONG_MAX, found.batches, found.start, found.end, found.end, found.end, attempted=attempted_in(recording))
    check_recording(disk.recording(), model, settings, scratch, bounds=FEWEST)


def test_indexes_are_durable_that_nobody_builds_again(scratch: Path) -> None:
    """Behind a recovery point inside of the last segment its new indexes count as good as soon as another segment follows."""
    root = scratch / "first"
    root.mkdir()
    disk = RecordingDisk(root)
    session = Session(root, disk, {"flush.messages": LONG_MAX})
    session.append_many(3)
    session.checkpoint()
    image = killed_image(disk.recording())
    session.drop()
    root = scratch / "second"
    materialise(image, root)
    disk = RecordingDisk(root)
    session = Session(root, disk, session.settings)
    unsynced: list[str] = []
    for event in disk.recording().events:
        if isinstance(event, Write) and event.path.endswith("index"):
            unsynced.append(event.path)
        elif isinstance(event, Sync):
            unsynced = [path for path in unsynced if path != event.path]
    session.drop()
    assert unsynced == []


def test_the_last_index_entries_of_a_segment_below_the_recovery_point_are_durable_before_it_is_rolled(scratch: Path) -> None:
    root = scratch / "root"
    root.mkdir()
    disk = RecordingDisk(root)
    session = Session(root, disk, {"flush.messages": LONG_MAX})
    session.append()
    session.checkpoint()
    before = len(disk.recording().events)
    session.roll()
    events = disk.recording().events[before:]
    session.drop()
    rolled = next(number for number, event in enumerate(events) if isinstance(event, Create) and event.path.endswith(".log"))
    written = [event.path for event in events[:rolled] if isinstance(event, Write) and event.path.endswith(".timeindex")]
    synced = [event.path for event in events[:rolled] if isinstance(event, Sync)]
    assert written
    assert set(written) <= set(synced)


@pytest.mark.parametrize("workload", [PRODUCERS[1], weak(PRODUCERS[1], 5), weak(PRODUCERS[1], LONG_MAX)], ids=by_name)
def test_a_transaction_index_is_durable_before_a_snapshot_that_relies_on_it(workload: Workload, scratch: Path) -> None:
    """A reader that finds a snapshot asks only the index what was aborted before it."""
    recording, settings = record(workload, scratch)
    check_snapshots_come_last(recording)
    image = killed_image(recording)
    files = {path: content[: len(content) // 2] if path.endswith(".txnindex") else content for path, content in image.files.items()}
    materialise(replace(image, files=files), scratch / "second")
    disk = RecordingDisk(scratch / "second")
    Session(scratch / "second", disk, settings).close()
    check_snapshots_come_last(disk.recording())


def check_snapshots_come_last(recording: Recording) -> None:
    unsynced: set[str] = set()
    snapshots = 0
    for event in recording.events:
        if isinstance(event, (Write, Truncate)) and event.path.endswith(".txnindex"):
            unsynced.add(event.path)
        elif isinstance(event, Sync):
            unsynced.discard(event.path)
        elif isinstance(event, Create) and ".snapshot" in event.path:
            assert unsynced == set()
            snapshots += 1
    assert snapshots > 0


def test_a_flushing_log_is_cut_at_every_call(scratch: Path) -> None:
    """The recording has what it should: a sync of the `.log` before each acknowledgement, of its directory before the first."""
    recording, _ = record(PLAIN[0], scratch)
    synced: set[str] = set()
    written: set[str] = set()
    for event in recording.events:
        kind = type(event).__name__
        path = getattr(event, "path", "")
        if kind == "Write" and path.endswith(".log"):
            written.add(path)
            synced.discard(path)
        elif kind in ("Sync", "SyncDirectory"):
            synced.add(path)
        elif kind == "Create" and path.endswith(".log"):
            synced.discard(os.path.dirname(path))  # noqa: PTH120
        elif getattr(event, "label", "") == "done":
            assert written <= synced
            assert PARTITION in synced
    assert len(written) > 2

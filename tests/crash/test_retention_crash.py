"""The power is cut at every moment of retention: nothing but what a policy named is gone, and the round can be done again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.crash_images import Bounds, scratch_directory
from tests.support.crash_retention import BATCH_BYTES, RetentionSession, check_images
from tests.support.logs import FakeClock
from tests.support.recording_disk import Remove, Rename
from tidelog.disk.names import TopicPartition

SOME = Bounds(tears=1, zeroed=1, data_prefixes=0, name_prefixes=3, samples=2)
FEW = Bounds(tears=0, zeroed=0, data_prefixes=0, name_prefixes=2, samples=1)
HOUR_MS = 3_600_000
SEGMENT_BYTES = 2 * BATCH_BYTES


@pytest.fixture
def root() -> Iterator[Path]:
    with scratch_directory() as directory:
        (directory / "root").mkdir()
        yield directory / "root"


def events_in(session: RetentionSession) -> int:
    return len(session.disk.recording().events)


def bases(session: RetentionSession, name: str, partition: int = 0) -> list[int]:
    return [segment.base_offset for segment in session.store.log(name, partition).segments]


def test_size(root: Path) -> None:
    session = RetentionSession(root)
    session.create("large", retention_bytes=2 * SEGMENT_BYTES)
    session.append("large", count=11)
    since = events_in(session)
    session.retain()
    assert bases(session, "large") == [6, 8, 10]
    session.append("large", count=2)
    session.retain()
    session.remove_due()
    session.close()
    assert check_images(session, root.parent, SOME, since=since) > 40


@pytest.mark.slow
def test_time_and_several_partitions(root: Path) -> None:
    session = RetentionSession(root)
    session.create("old", 2, retention_ms=HOUR_MS)
    session.append("old", 0, count=5, age_ms=2 * HOUR_MS)
    session.append("old", 0, count=2)
    session.append("old", 1, count=3, age_ms=2 * HOUR_MS)
    session.append("old", 1, count=2)
    since = events_in(session)
    session.retain()
    assert (bases(session, "old", 0), bases(session, "old", 1)) == ([4, 6], [2, 4])
    session.clock.advance(2 * HOUR_MS)
    session.retain()  # by now everything is old: the active segments too
    assert (bases(session, "old", 0), bases(session, "old", 1)) == ([7], [5])
    session.append("old", 0)
    assert check_images(session, root.parent, FEW, since=since, every=2) > 80
    session.store.close()


def test_records_deleted_by_request(root: Path) -> None:
    session = RetentionSession(root)
    session.create("cut")
    session.append("cut", count=7)
    since = events_in(session)
    session.delete_before("cut", 3)
    session.retain()
    assert bases(session, "cut") == [2, 4, 6]
    session.delete_before("cut", 7)
    session.retain()
    assert bases(session, "cut") == [6]
    session.append("cut")
    session.close()
    assert check_images(session, root.parent, SOME, since=since) > 40


@pytest.mark.slow
def test_all_rules_and_a_policy_in_one_round(root: Path) -> None:
    session = RetentionSession(root, named={TopicPartition("all", 0): 12})
    session.create("all", retention_bytes=5 * SEGMENT_BYTES, retention_ms=HOUR_MS)
    session.append("all", count=10, age_ms=2 * HOUR_MS)
    session.append("all", count=7)
    since = events_in(session)
    session.delete_before("all", 3)
    session.retain()
    assert bases(session, "all") == [12, 14, 16]
    session.remove_due()
    session.close()
    assert check_images(session, root.parent, FEW, since=since) > 40


@pytest.mark.slow
def test_the_active_segment_is_rolled_and_deleted_at_once(root: Path) -> None:
    """With no delay files are removed in the same call; the log goes on at its end, however little is left to say where that is."""
    session = RetentionSession(root)
    session.create("gone", retention_bytes=0, delay_ms=0)
    for _ in range(2):
        session.append("gone", count=3)
        session.retain()
        session.retain()  # an empty active segment stays
    assert bases(session, "gone") == [6]
    session.close()
    assert check_images(session, root.parent, FEW) > 80


def test_files_wait_and_are_removed_later(root: Path) -> None:
    session = RetentionSession(root)
    session.create("slow", retention_bytes=SEGMENT_BYTES)
    session.append("slow", count=8)
    session.retain()
    directory = root / "data" / "slow-0"
    assert len(list(directory.glob("*.log.deleted"))) == 3
    since = events_in(session)
    session.append("slow", count=3)
    session.remove_due()
    assert not list(directory.glob("*.deleted"))
    events = session.disk.recording().events[since:]
    assert sum(isinstance(event, Remove) and ".log" in event.path for event in events) == 3
    assert not [event for event in events if isinstance(event, Rename) and event.target.endswith(".deleted")]
    session.close()
    assert check_images(session, root.parent, SOME, since=since) > 20


@pytest.mark.slow
def test_nothing_that_retention_has_removed_comes_back_where_flushing_is_weak(root: Path) -> None:
    """What was not flushed may be lost, and the log may end below its start: then it goes on at its start."""
    session = RetentionSession(root, is_weak=True)
    session.create("weak", retention_bytes=SEGMENT_BYTES)
    session.append("weak", count=7)
    since = events_in(session)
    session.retain()
    session.clock.advance(1)
    session.append("weak", count=2)
    session.retain()
    session.close()
    assert check_images(session, root.parent, FEW, since=since, every=2) > 40


def test_a_clock_that_was_set_back_removes_nothing(root: Path) -> None:
    session = RetentionSession(root)
    session.create("old", retention_ms=HOUR_MS)
    session.append("old", count=5)
    session.clock.now_ms = FakeClock().now_ms - 10 * HOUR_MS
    since = events_in(session)
    session.retain()
    assert bases(session, "old") == [0, 2, 4]
    session.close()
    assert check_images(session, root.parent, SOME, since=since) > 3

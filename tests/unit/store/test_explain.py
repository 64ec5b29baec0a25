"""What `explain` says is what retention then does, and it changes nothing."""

import shutil
from pathlib import Path

import pytest

import tidelog
from tests.support.golden import GOLDEN
from tests.support.kept_stores import BATCH_BYTES, DAY_MS, open_store, small_segments
from tests.support.kept_stores import fill as fill_log
from tests.support.logs import TIME, FakeClock, files_of
from tidelog.disk.disk import OS
from tidelog.disk.names import CLEANER_CHECKPOINT
from tidelog.errors import LogClosedError, StorageError, UnknownTopicError
from tidelog.store.copied_topics import cleaner_offsets

SEGMENT_BYTES = 2 * BATCH_BYTES


def test_each_segment_has_its_time(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        log = store.create_topic("emails", config=small_segments(retention_ms=1000)).log(0)
        fill_log(log, [TIME, TIME, TIME + 500, TIME + 500, TIME + 100])
        found = store.explain("emails")
        [partition] = found.partitions
        assert [(one.segment.base_offset, one.goes_by, one.when_ms, one.after_bytes) for one in partition.segments] == [
            (0, None, TIME + 1001, None),
            (2, None, TIME + 1501, None),
            (4, None, TIME + 1501, None),
        ]
        assert partition.segments[2].ways_out[0].text.endswith(": the segment at 2 has a newer record, and goes first")
        assert found.next_check_ms == TIME + 30_000
        for one in partition.segments[:2]:
            assert one.when_ms is not None
            clock.now_ms = one.when_ms - 1
            assert store.retain().deleted == ()
            clock.now_ms = one.when_ms
            assert store.explain().partitions[0].segments[0].goes_by == "time"
            assert store.retain().deleted[0].segments == (1 if one.segment.base_offset == 0 else 2)


def test_another_time_may_be_asked_about(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        fill_log(store.create_topic("emails", config=small_segments(retention_ms=1000)).log(0), [TIME] * 3)
        assert [one.goes_by for one in store.explain().partitions[0].segments] == [None, None]
        later = store.explain(now_ms=TIME + 1001)
        assert (later.now_ms, [one.goes_by for one in later.partitions[0].segments]) == (TIME + 1001, ["time", "time"])
        assert store.explain(now_ms=0).now_ms == 0


def test_size_guards_and_log_start(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = store.create_topic("emails", config=small_segments(retention_bytes=4 * SEGMENT_BYTES)).log(0)
        fill_log(log, [TIME] * 7)
        log.high_watermark = 3
        first, second, *_, active = store.explain().partitions[0].segments
        missing = 4 * SEGMENT_BYTES + SEGMENT_BYTES - log.size_bytes
        assert (first.after_bytes, second.after_bytes) == (missing, missing + SEGMENT_BYTES)
        assert first.guards == ()
        assert second.guards == ("it reaches above the high watermark, which is 3",)
        assert second.why == second.guards[0]
        assert [way.rule for way in first.ways_out] == ["size", "log start"]
        assert [way.rule for way in active.ways_out] == ["size"]
        log.delete_records_before(2)
        assert store.explain().partitions[0].segments[0].goes_by == "log start"


def test_why_it_is_kept_for_ever(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        store.create_topic("default", config={})
        store.create_topic("table", config=small_segments(cleanup_policy="compact"))
        fill_log(store.log("default", 0), [TIME])
        fill_log(store.log("table", 0), [TIME] * 3)
        text = str(store.explain())
    assert "stays: it is kept for ever: retention.ms=-1 and retention.bytes=-1" in text
    assert "stays: cleanup.policy=compact keeps all that was not deleted by request" in text
    assert "an empty active segment stays" not in text


def test_whether_it_would_be_compacted(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = store.create_topic("table", config=small_segments(cleanup_policy="compact")).log(0)
        store.create_topic("emails")
        fill_log(log, [TIME] * 9)
        emails, table = (partition.cleaning for partition in store.explain().partitions)
        assert table is not None
        assert emails is not None
        assert (table.is_eligible, table.dirty_ratio, table.cleanable_bytes) == (True, 1.0, 4 * SEGMENT_BYTES)
        assert (emails.is_eligible, emails.why) == (False, "cleanup.policy=delete does not have compact")
        (tmp_path / "store" / "cleaner-offset-checkpoint").write_text("0\n1\ntable 0 6\n")
        [cleaned] = [partition.cleaning for partition in store.explain("table").partitions]
        assert cleaned is not None
        assert (cleaned.is_eligible, cleaned.first_dirty_offset, cleaned.dirty_ratio) == (False, 6, 0.25)
        assert "would not be compacted: its dirty ratio 0.250 is not above" in str(store.explain("table"))
        (tmp_path / "store" / "cleaner-offset-checkpoint").write_text("nonsense")
        assert store.explain("table").partitions[0].cleaning == table


def test_an_adopted_topic_is_explained_without_being_opened(tmp_path: Path) -> None:
    home = tmp_path / "broker"
    shutil.copytree(GOLDEN / "partitions" / "transactions" / "closed", home / "emails-3")
    (home / "replication-offset-checkpoint").write_text("0\n1\nemails 3 11\n")
    before = files_of(home / "emails-3")
    with open_store(home, FakeClock(TIME + 900 * DAY_MS), adopt=True) as store:
        [partition] = store.explain().partitions
        assert partition.left_alone is not None
        assert "Topic.alter gives them" in partition.left_alone
        assert partition.cleaning is None
        assert partition.segments != ()
        assert all(one.goes_by is None and one.ways_out == () for one in partition.segments)
        text = str(partition)
        assert text.startswith("emails-3: left alone, its settings are not known: it was adopted.")
        assert f"segment {partition.segments[0].segment.base_offset} to" in text
        assert files_of(home / "emails-3") == before
        store.topic("emails").alter({"retention.ms": 5})
        [partition] = store.explain().partitions
        assert partition.left_alone is None
        # Its owner now, who shows all there is: the broker's high watermark, 11, no longer holds the second one back.
        assert [one.goes_by for one in partition.segments] == ["time", "time"]
        result = store.retain()
        assert [(str(one.partition), one.rule) for one in result.deleted] == [("emails-3", "time")], "from now on it is looked after"


@pytest.mark.leaves
def test_a_partition_that_could_not_be_opened(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        fill_log(store.create_topic("emails", 2, config=small_segments()).log(0), [TIME] * 3)
    shutil.rmtree(tmp_path / "store" / "emails-0")
    with open_store(tmp_path / "store", FakeClock()) as store:
        found = store.explain()
        assert found.partitions[0].left_alone is not None
        assert found.partitions[0].left_alone.startswith("it could not be opened")
        assert found.partitions[1].left_alone is None
        assert store.metrics().failed_partitions == 1


def test_a_checkpoint_of_the_cleaner_that_cannot_be_read(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        store.create_topic("emails").append(b"value", key=b"key")
    (tmp_path / "store" / CLEANER_CHECKPOINT).mkdir()
    with tidelog.open(tmp_path / "store", "r") as store:
        topic = store.topic("emails")
        for ask in (store.explain, lambda: store.compact(dry_run=True), lambda: topic.table(as_of=0)):
            with pytest.raises(StorageError, match="reading the cleaner's checkpoint failed"):
                ask()
        assert topic.table() == {b"key": b"value"}
    assert cleaner_offsets(OS, [str(tmp_path / "store")]) == {}  # a copy does without


def test_what_is_not_there(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock()) as store:
        assert str(store.explain()) == "there is nothing"
        with pytest.raises(UnknownTopicError, match="none"):
            store.explain("none")
    with pytest.raises(LogClosedError):
        store.explain()


def test_as_text(tmp_path: Path) -> None:
    """What a user reads."""
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = store.create_topic("emails", config=small_segments(retention_ms=1000, retention_bytes=400)).log(0)
        fill_log(log, [TIME - 2000, TIME - 2000, TIME, TIME, TIME + 10])
        text = str(store.explain())
    assert text.splitlines() == [
        "emails-0:",
        "  segment 0 to 2 (154 bytes, newest record 2023-11-14T22:13:18Z) goes by time: "
        "its newest record is 2000 ms old, and retention.ms is 1000",
        "  segment 2 to 4 (154 bytes, newest record 2023-11-14T22:13:20Z) stays: no rule lets it go yet. "
        "Goes by size: when 323 more bytes arrive (retention.bytes=400); "
        f"time: from {TIME + 1001} on (retention.ms=1000), 2023-11-14T22:13:21Z; "
        "log start: when the log starts at 4 or above (delete_records_before)",
        "  segment 4 to 5 (77 bytes, newest record 2023-11-14T22:13:20Z, active) stays: no rule lets it go yet. "
        "Goes by size: when 400 more bytes arrive in segments after it (retention.bytes=400); "
        f"time: from {TIME + 1011} on (retention.ms=1000), if nothing is appended until then, 2023-11-14T22:13:21Z",
        "  would not be compacted: cleanup.policy=delete does not have compact",
    ]

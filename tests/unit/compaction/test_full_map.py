"""A map that is full, in the middle of a segment or of a batch: the pass cleans up to there, and says what it would take."""

from pathlib import Path

import pytest

from tests.support.batches import with_crc
from tests.support.cleaning import DELETE_RETENTION_MS, bases, clean, fill, keyed, left, left_batches, open_compacted
from tests.support.logs import TIME, check_log
from tests.support.producers import abort, in_txn
from tidelog.compaction.offset_map import OffsetMap
from tidelog.compaction.stats import estimate_passes


def test_full_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1 b=1 a=2 c=1 a=3", "d=1", "|")
        first = clean(log, entries=2)
        # Two keys fit: a and b, up to where the third comes. The rest was not examined.
        assert first.next_dirty_offset == 2
        assert first.stats.map_was_full
        assert left(log) == ["0:a=1", "1:b=1", "2:a=2", "3:c=1", "4:a=3", "5:d=1"]
        second = clean(log, first.next_dirty_offset, entries=2)
        assert second.next_dirty_offset == 4
        assert left(log) == ["1:b=1", "2:a=2", "3:c=1", "4:a=3", "5:d=1"]
        third = clean(log, second.next_dirty_offset, entries=2)
        assert (third.next_dirty_offset, third.stats.map_was_full) == (6, False)
        assert left(log) == ["1:b=1", "3:c=1", "4:a=3", "5:d=1"]
        check_log(log)


def test_full_before_the_first_record_of_a_batch(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1 b=1", "b=2", "|")
        assert clean(log, entries=2).next_dirty_offset == 2  # also a key that it has is not taken any more
        assert left(log) == ["0:a=1", "1:b=1", "2:b=2"]


def test_exactly_full_at_the_end_is_not_full(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1 a=2 b=1", "|")
        cleaned = clean(log, entries=2)
        assert (cleaned.next_dirty_offset, cleaned.stats.map_was_full, cleaned.stats.passes_needed) == (3, False, 1)


def test_segments_behind_the_end_of_a_pass_are_left_alone(tmp_path: Path) -> None:
    with open_compacted(tmp_path, {"internal.segment.bytes": 200}) as log:
        fill(log, "a=1 b=1 a=2 b=2", "|", "c=1 c=2", "|")
        segment = log.segments[1]
        clean(log, entries=2)
        assert log.segments[1] is segment
        assert left(log) == ["2:a=2", "3:b=2", "4:c=1", "5:c=2"] or left(log)[-2:] == ["4:c=1", "5:c=2"]


@pytest.mark.parametrize("entries", [1, 2, 3, 5, 8])
def test_passes_reach_the_end_and_the_outcome_is_the_same(tmp_path: Path, entries: int) -> None:
    with open_compacted(tmp_path, {"internal.segment.bytes": 400}) as log:
        for number in range(60):
            fill(log, f"k{number % 9}={number} x{number % 4}={number}")
            if number % 13 == 0:
                log.append(in_txn(7, 0, 1, epoch=number))
                abort(log, 7, epoch=number)
        log.roll()
        checkpoint, passes = 0, 0
        while checkpoint < log.log_end_offset:
            cleaned = clean(log, checkpoint, entries=entries)
            assert cleaned.next_dirty_offset > checkpoint  # a pass always gets on
            checkpoint = cleaned.next_dirty_offset
            passes += 1
        assert passes > 1
        newest: dict[bytes | None, int] = {record.key: record.offset for record in log.read()}
        final = clean(log, 0)
        assert final.next_dirty_offset == log.log_end_offset
        assert sorted(record.offset for record in log.read()) == sorted(newest.values())
        check_log(log)


def test_tombstones_behind_the_end_of_a_pass_are_stamped_too(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1 b=1 c", "d", "|")
        cleaned = clean(log, entries=2)
        assert cleaned.next_dirty_offset == 2
        assert all(batch.delete_horizon_ms is not None for batch in left_batches(log))
        assert left(log) == ["0:a=1", "1:b=1", "2:c", "3:d"]
        # The next pass finds horizons in its dirty part, and heeds them.
        assert clean(log, 2, now_ms=TIME + DELETE_RETENTION_MS - 1, dry_run=True).stats.tombstones_removed == 0
        assert clean(log, 2, now_ms=TIME + DELETE_RETENTION_MS).stats.tombstones_removed == 2
        assert left(log) == ["0:a=1", "1:b=1"]


def test_gaps_between_segments_and_behind_the_last_are_clean(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        log.append_as_follower(keyed("a=1", "b=1", partition_leader_epoch=0))
        log.roll()
        log.append_as_follower(keyed("a=2", base_offset=10, partition_leader_epoch=0))
        log.high_watermark = log.log_end_offset
        log.roll()
        log.append_as_follower(keyed("c=1", base_offset=20, partition_leader_epoch=0))
        log.high_watermark = log.log_end_offset
        assert clean(log, entries=2, dry_run=True).next_dirty_offset == 2
        assert clean(log, entries=3).next_dirty_offset == 11
        log.roll()
        assert bases(log) == [0, 11, 21]


def test_a_full_map_behind_a_batch_that_lost_its_end(tmp_path: Path) -> None:
    """The first batch was cleaned before: its last records are gone, its last offset is not."""
    with open_compacted(tmp_path) as log:
        batch = bytearray(keyed("a=1", "b=1", partition_leader_epoch=0))
        batch[23:27] = (4).to_bytes(4, "big")
        log.append_as_follower(with_crc(batch) + keyed("c=1", base_offset=5, partition_leader_epoch=0))
        log.high_watermark = log.log_end_offset
        log.roll()
        assert clean(log, entries=2, dry_run=True).next_dirty_offset == 5


def test_the_estimate() -> None:
    offset_map = OffsetMap(24 * 100, 0.9)
    keys = b"".join(b"%02d" % number for number in range(90))
    offset_map.put(keys, list(range(0, 180, 2)), [2] * 90, list(range(90)))
    assert offset_map.is_full
    all_seen = estimate_passes(offset_map, is_full=False, read_bytes=1000, dirty_bytes=1000)
    assert all_seen == (1, 24 * 102)  # one more than the keys: a full map takes no key that it has either
    quarter_seen = estimate_passes(offset_map, is_full=True, read_bytes=250, dirty_bytes=1000)
    assert quarter_seen.passes_needed == 4
    assert 4 * 90 <= int(quarter_seen.memory_for_one_pass // 24 * 0.9) <= 4 * 90 + 2
    assert estimate_passes(offset_map, is_full=True, read_bytes=999, dirty_bytes=1000).passes_needed == 2
    assert OffsetMap(all_seen.memory_for_one_pass, 0.9).capacity == 91


def test_the_budget_that_is_named_does_it_in_one_pass(tmp_path: Path) -> None:
    with open_compacted(tmp_path, {"internal.segment.bytes": 2000}) as log:
        for number in range(200):
            log.append(keyed(f"key-{number}=x", f"again-{number % 3}=y"))
        log.roll()
        tried = clean(log, entries=20, dry_run=True)
        assert tried.stats.map_was_full
        assert tried.stats.passes_needed > 5
        enough = clean(log, entries=tried.stats.memory_for_one_pass // 24, dry_run=True)
        assert not enough.stats.map_was_full
        assert clean(log, entries=203, dry_run=True).stats.map_was_full
        exact = clean(log, entries=enough.stats.memory_for_one_pass // 24)
        assert (exact.stats.map_was_full, exact.stats.map_entries) == (False, 203)

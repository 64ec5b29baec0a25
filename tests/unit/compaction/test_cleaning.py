"""One pass over a log: what goes, what stays, and what is on disk afterwards."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import message
from tests.support.cleaning import (
    DELETE_RETENTION_MS,
    LeftBatch,
    a_map,
    bases,
    clean,
    fill,
    keyed,
    left,
    left_batches,
    names,
    open_compacted,
    plan,
)
from tests.support.logs import TIME, check_log, files_of
from tests.support.producers import abort, commit, in_txn, sent, snapshots_in
from tidelog.compaction.cleaning import clean_log
from tidelog.compaction.offset_map import OffsetMap
from tidelog.errors import NullKeysError
from tidelog.log.log import Log
from tidelog.log.txn_index import parse_entries
from tidelog.record import BatchSettings, Compression, NewBatch

HORIZON = TIME + DELETE_RETENTION_MS


def test_only_the_last_record_of_a_key_stays(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1 b=1", "a=2 c=1", "|", "b=2", "|", "a=3")
        cleaned = clean(log)
        assert left(log) == ["2:a=2", "3:c=1", "4:b=2", "5:a=3"]  # the active segment is not looked at
        assert cleaned.next_dirty_offset == 5
        assert (cleaned.stats.messages_read, cleaned.stats.messages_written) == (5, 3)
        assert bases(log) == [0, 5]
        check_log(log)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4, Compression.ZSTD, Compression.GZIP, Compression.SNAPPY])
def test_every_codec(tmp_path: Path, codec: Compression) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1 b=1 c=1", "a=2 d b=2", "|", "e=1 c=2", "|", compression=codec)
        clean(log)
        assert left(log) == ["3:a=2", "4:d", "5:b=2", "6:e=1", "7:c=2"]
        assert left_batches(log)[0] == LeftBatch(3, 5, 3, HORIZON, False)


def test_what_was_cleaned_before_is_judged_by_what_came_since(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1 b=1 c=1", "|", "d=1", "|")
        first = clean(log)
        fill(log, "b=2 d=2", "|")
        second = clean(log, first.next_dirty_offset)
        assert left(log) == ["0:a=1", "2:c=1", "4:b=2", "5:d=2"]
        assert (second.stats.messages_read, second.stats.map_messages_read) == (6, 2)
        check_log(log)


def test_a_checkpoint_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1 b=1 a=2 b=2", "|")
        clean(log, 2)
        assert left(log) == ["2:a=2", "3:b=2"]
    with open_compacted(tmp_path / "other") as log:
        fill(log, "x=1 x=2 a=1 a=2", "|")
        clean(log, 2)  # what lies below the checkpoint is not put into the map, and stays
        assert left(log) == ["0:x=1", "1:x=2", "3:a=2"]


def test_a_tombstone_is_stamped_first_and_dropped_past_its_horizon(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1 b=1", "a b=2", "|")
        first = clean(log)
        assert left(log) == ["2:a", "3:b=2"]
        assert left_batches(log) == [LeftBatch(2, 3, 2, HORIZON, False)]
        assert [record.timestamp_ms for record in log.read()] == [TIME, TIME]
        assert first.stats.tombstones_removed == 0
        fill(log, "x=1", "|")
        second = clean(log, first.next_dirty_offset, now_ms=HORIZON - 1)
        assert left(log) == ["2:a", "3:b=2", "4:x=1"]
        fill(log, "x=2", "|")
        third = clean(log, second.next_dirty_offset, now_ms=HORIZON)
        assert left(log) == ["3:b=2", "5:x=2"]
        assert third.stats.tombstones_removed == 1
        assert left_batches(log)[0] == LeftBatch(2, 3, 1, HORIZON, False)
        check_log(log)


def test_a_log_append_time_batch_keeps_its_time(tmp_path: Path) -> None:
    with open_compacted(tmp_path, {"message.timestamp.type": "LogAppendTime"}) as log:
        log.append(keyed("a=1", "a=2", "b", timestamp_ms=TIME - 77))
        log.roll()
        clean(log)
        assert [(record.offset, record.timestamp_ms) for record in log.read()] == [(1, TIME), (2, TIME)]
        check_log(log)


def test_the_last_batch_before_the_bound_stays_empty(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "x=1", "|", "a", "|")
        first = clean(log)
        fill(log, "y", "|")
        clean(log, first.next_dirty_offset, now_ms=HORIZON)
        second = clean(log, 2, now_ms=HORIZON + 2 * DELETE_RETENTION_MS)
        assert left(log) == ["0:x=1"]
        assert left_batches(log)[-1] == LeftBatch(2, 2, 0, None, False)
        assert second.stats.batches_kept_empty == 1
        assert log.log_end_offset == 3


def test_where_a_producer_left_off_stays_empty(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        log.append(sent(7, 0, 2))
        log.append(sent(7, 2, 2))
        log.append(sent(8, 0, 1))
        fill(log, "k=9", "|")
        clean(log)
        assert left(log) == ["5:k=9"]
        assert left_batches(log) == [LeftBatch(2, 3, 0, None, False), LeftBatch(4, 4, 0, None, False), LeftBatch(5, 5, 1, None, False)]
    with open_compacted(tmp_path, last_shutdown_clean=False) as log:  # the log still knows where they go on
        assert log.append(sent(7, 4)).first_offset == 6
        assert log.append(sent(8, 1)).first_offset == 7


def test_aborted_data_goes_and_markers_follow_in_time(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        log.append(in_txn(7, 0, 2))
        abort(log, 7)
        log.append(in_txn(8, 0, 1))
        commit(log, 8)
        fill(log, "k=9", "|")
        first = clean(log)
        txn_index = Path(log.segments[0].path_of(".txnindex"))
        assert [entry[:3] for entry in parse_entries(txn_index.read_bytes())] == [(7, 0, 2)]
        assert left(log) == ["5:k=9"]
        assert [batch[:3] for batch in left_batches(log)] == [(0, 1, 0), (2, 2, 1), (3, 3, 0), (4, 4, 1), (5, 5, 1)]
        assert first.stats.aborted_messages_removed == 2
        fill(log, "x=1", "|")
        second = clean(log, first.next_dirty_offset, now_ms=TIME)
        # The emptied batches of both transactions are still there, so neither marker may go yet.
        assert [batch for batch in left_batches(log) if batch.is_control] == [
            LeftBatch(2, 2, 1, None, True),
            LeftBatch(4, 4, 1, None, True),
        ]
        assert second.stats.markers_removed == 0


def test_markers_of_forgotten_producers_go_past_a_horizon(tmp_path: Path) -> None:
    with open_compacted(tmp_path, producer_id_expiration_ms=1) as log:
        clock = log._state.clock
        log.append(in_txn(7, 0, 2))
        abort(log, 7)
        log.append(in_txn(8, 0, 1))
        commit(log, 8)
        fill(log, "k=9", "|")
        clock.advance(10)  # type: ignore[attr-defined]
        assert log.expire_producers() == 2
        checkpoint = clean(log).next_dirty_offset
        assert [batch[:4] for batch in left_batches(log)] == [(2, 2, 1, None), (4, 4, 1, None), (5, 5, 1, None)]
        fill(log, "x=1", "|")
        checkpoint = clean(log, checkpoint).next_dirty_offset
        assert [batch[:4] for batch in left_batches(log)][:2] == [(2, 2, 1, HORIZON), (4, 4, 1, HORIZON)]
        assert not Path(log.segments[0].path_of(".txnindex")).exists()
        fill(log, "x=2", "|")
        third = clean(log, checkpoint, now_ms=HORIZON)
        assert left(log) == ["5:k=9", "7:x=2"]
        assert third.stats.markers_removed == 2
        check_log(log)


def test_an_open_transaction_is_a_guard(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1", "a=2", "|", "b=1")
        log.append(in_txn(7, 0, 1))
        fill(log, "|", "b=2", "|")
        assert plan(log).bound == 2
        clean(log)
        assert [line for line in left(log) if "k=" not in line] == ["1:a=2", "2:b=1", "4:b=2"]


def test_segments_are_merged_and_files_keep_their_age(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1 b=1", "|", "a=2", "|", "c=1", "|")
        for number, segment in enumerate(log.segments[:-1]):
            os.utime(segment.path_of(".log"), ns=(0, (TIME + number) * 1_000_000))
        cleaned = clean(log)
        assert bases(log) == [0, 4]
        assert (cleaned.stats.segments_before, cleaned.stats.segments_after) == (3, 1)
        for kind in (".log", ".index", ".timeindex"):
            assert Path(log.segments[0].path_of(kind)).stat().st_mtime_ns == (TIME + 2) * 1_000_000
        assert [name.partition(".")[2] for name in names(log) if name.startswith("0" * 20)] == ["index", "log", "timeindex"]
        assert snapshots_in(log.directory) == [4]  # those of segments that are gone went with them
        check_log(log)


def test_a_group_of_which_nothing_is_left_becomes_an_empty_segment(tmp_path: Path) -> None:
    with open_compacted(tmp_path, {"internal.segment.bytes": 90}) as log:
        fill(log, "a=1", "b=1", "|", "a=2", "b=2", "|")
        clean(log)
        assert left(log) == ["2:a=2", "3:b=2"]
        assert [(segment.base_offset, segment.size_bytes) for segment in log.segments[:2]] == [(0, 0), (1, 0)]
        assert [Path(log.segments[0].path_of(kind)).stat().st_size for kind in (".log", ".index", ".timeindex")] == [0, 0, 0]


def test_legacy_batches_become_v2(tmp_path: Path) -> None:
    directory = tmp_path / "tide-0"
    directory.mkdir(parents=True)
    data = b"".join(
        message(offset, key, value, magic=magic)
        for offset, (key, value, magic) in enumerate([(b"a", b"1", 0), (b"b", b"1", 1), (b"a", b"2", 1), (b"c", None, 1), (b"d", b"1", 0)])
    )
    (directory / "00000000000000000000.log").write_bytes(data)
    (directory / "00000000000000000000.index").write_bytes(b"")
    (directory / "00000000000000000000.timeindex").write_bytes(b"")
    with open_compacted(tmp_path, last_shutdown_clean=True) as log:
        log.roll()
        clean(log)
        assert left(log) == ["1:b=1", "2:a=2", "3:c", "4:d=1"]
        assert left_batches(log) == [
            LeftBatch(1, 1, 1, None, False),
            LeftBatch(2, 2, 1, None, False),
            LeftBatch(3, 3, 1, HORIZON, False),
            LeftBatch(4, 4, 1, None, False),
        ]


def test_null_keys_are_refused_until_they_may_be_dropped(tmp_path: Path) -> None:
    with open_compacted(tmp_path, {"cleanup.policy": "delete"}) as log:
        fill(log, "a=1 =1", "=2 a=2", "|", "=3")
        log.reconfigure(log.config.with_changes({"cleanup.policy": "compact"}))
        before = files_of(log)
        with pytest.raises(NullKeysError, match="drop_null_keys") as raised:
            clean(log)
        assert (raised.value.offsets, raised.value.count, str(raised.value.partition)) == ((1, 2), 2, "tide-0")
        assert files_of(log) == before
        cleaned = clean(log, drop_null_keys=True)
        assert left(log) == ["3:a=2", "4:=3"]
        assert (cleaned.null_key_offsets, cleaned.stats.invalid_messages_read) == ((1, 2), 2)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_a_null_key_below_a_checkpoint_is_not_dropped_in_silence(tmp_path: Path, codec: Compression) -> None:
    with open_compacted(tmp_path, {"cleanup.policy": "delete"}) as log:
        fill(log, "a=1 =1", "b=1", "|", "c=1", "|", compression=codec)
        log.reconfigure(log.config.with_changes({"cleanup.policy": "compact"}))
        before = files_of(log)
        with pytest.raises(NullKeysError) as raised:
            clean(log, 3)  # a checkpoint that says what is not so
        assert raised.value.offsets == (1,)
        assert files_of(log) == before
        assert clean(log, 3, drop_null_keys=True).null_key_offsets == (1,)
        assert left(log) == ["0:a=1", "2:b=1", "3:c=1"]


def test_only_the_first_hundred_null_keys_are_named(tmp_path: Path) -> None:
    with open_compacted(tmp_path, {"cleanup.policy": "delete"}) as log:
        log.append(keyed(*["=x"] * 250))
        log.roll()
        log.reconfigure(log.config.with_changes({"cleanup.policy": "compact"}))
        with pytest.raises(NullKeysError) as raised:
            clean(log)
        assert (raised.value.offsets, raised.value.count) == (tuple(range(100)), 250)


def test_a_dry_run_says_the_same_and_writes_nothing(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1 b=1", "a b=2", "|", "c=1", "|")
        log.append(in_txn(7, 0, 2))
        abort(log, 7)
        log.roll()
        before = files_of(log)
        tried = clean(log, dry_run=True)
        assert files_of(log) == before
        log.flush()
        with Log.open(log.directory, "r") as reader:
            seen = clean_log(reader, plan(log), OffsetMap(24 * 1000, 1.0), TIME, dry_run=True)
        done = clean(log)
        without_times: dict[str, Any] = {"map_ms": 0, "elapsed_ms": 0, "peak_extra_bytes": 0}
        assert tried.dry_run
        assert tried.stats._replace(**without_times) == done.stats._replace(**without_times)
        assert tried.next_dirty_offset == seen.next_dirty_offset == done.next_dirty_offset
        assert seen.stats.messages_written == done.stats.messages_written


def test_a_plan_with_nothing_to_do(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1", "a=2")
        empty = plan(log)
        assert empty.is_empty
        assert clean(log).next_dirty_offset == 0
        assert str(empty) == "tide-0: nothing to clean: nothing is dirty below offset 0: the active segment begins there"


def test_a_plan_prints_itself(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1", "|", "a=2", "|")
        text = str(plan(log, 1))
        assert text.splitlines()[0].startswith("tide-0: clean offsets 1 to 2: 70 bytes never cleaned, 70 cleaned before, dirty ratio 0.500")
        assert text.splitlines()[1:] == ["  2 segments into 1:", "  segment 0 from 0, 1: at most 140 bytes"]


def test_readers_go_on_in_the_segments_that_are_replaced(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        for number in range(20):
            fill(log, f"a={number} b={number}", "|")
        reading = log.read()
        assert [shown.offset for _, shown in zip(range(3), reading, strict=False)] == [0, 1, 2]
        clean(log)
        rest = [record.offset for record in reading]
        assert rest[-2:] == [38, 39]
        assert left(log) == ["38:a=19", "39:b=19"]


def test_times_of_what_is_kept_are_what_they_were(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        rows = [(b"k%d" % (number % 7), b"v", ((f"h{number}", b"x"),), TIME + 1000 * number) for number in range(20)]
        log.append(NewBatch(rows, settings=BatchSettings()).encode())
        log.roll()
        before = {record.offset: record for record in log.read()}
        clean(log)
        after = list(log.read())
        assert [record.offset for record in after] == list(range(13, 20))
        for record in after:
            assert (record.timestamp_ms, record.headers) == (before[record.offset].timestamp_ms, before[record.offset].headers)


def test_the_largest_timestamp_of_a_segment_whose_index_is_full(tmp_path: Path) -> None:
    """Rolled segments may have more entries than the settings of today allow for. The last slot of the time index is for the largest."""
    with open_compacted(tmp_path, {"index.interval.bytes": 0, "segment.index.bytes": 1200}) as log:
        for number in range(40):
            log.append(keyed(f"k{number}=v", timestamp_ms=TIME + number))
        log.roll()
        small = plan(log)._replace(config=log.config.with_changes({"segment.index.bytes": 48}))
        clean_log(log, small, a_map(), TIME)
        (segment, _) = log.segments
        assert len(left(log)) == 40
        assert segment.time_index.entries == 4
        assert segment.max_timestamp == (TIME + 39, 39)
        assert log.offset_for_time(TIME + 39) == (39, TIME + 39)

"""What-if: the table says what retention then does, and asking changes nothing."""

import shutil
from pathlib import Path

import pytest

from tests.support.golden import GOLDEN
from tests.support.kept_stores import BATCH_BYTES, DAY_MS, fill, open_store, small_segments
from tests.support.logs import TIME, FakeClock, files_of, follower_batches
from tidelog.errors import InvalidConfigError, UnknownTopicError
from tidelog.store import Store, grid

SEGMENT_BYTES = 2 * BATCH_BYTES
DAYS = [TIME - number * DAY_MS for number in (5, 5, 4, 4, 3, 3, 2, 2, 1)]


def a_store(path: Path) -> Store:
    """Two partitions, of five segments and of one."""
    store = open_store(path, FakeClock())
    topic = store.create_topic("emails", 2, config=small_segments())
    fill(topic.log(0), DAYS)
    fill(topic.log(1), [TIME - 6 * DAY_MS])
    return store


def test_grid() -> None:
    assert grid({"retention.ms": [1, 2], "retention.bytes": [3]}) == [
        {"retention.ms": 1, "retention.bytes": 3},
        {"retention.ms": 2, "retention.bytes": 3},
    ]
    assert grid({}) == [{}]


def test_a_row_for_each_of_the_settings(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        table = store.what_if("emails", [{}, {"retention.ms": "172800000"}, {"retention.bytes": 0}])
        assert (table.topic, table.counted_by, table.now_ms) == ("emails", "offsets", TIME)
        as_it_is, two_days, nothing = table.rows
        assert as_it_is[1:4] == (0, 0, 0)
        assert (as_it_is.config, as_it_is.left_bytes, as_it_is.oldest_left_ms) == ({}, 10 * BATCH_BYTES, TIME - 6 * DAY_MS)
        assert two_days[1:] == (4, 3 * SEGMENT_BYTES + BATCH_BYTES, 7, 2, SEGMENT_BYTES + BATCH_BYTES, TIME - 2 * DAY_MS)
        assert two_days.config == {"retention.ms": "172800000"}
        assert nothing[1:] == (6, 10 * BATCH_BYTES, 10, 0, 0, None)


def test_what_it_says_is_what_happens(tmp_path: Path) -> None:
    asked = grid({"retention.ms": [-1, DAY_MS, 3 * DAY_MS, 10 * DAY_MS], "retention.bytes": [-1, 0, 2 * SEGMENT_BYTES]})
    with a_store(tmp_path / "asked") as store:
        rows = store.what_if("emails", asked).rows
        assert [len(log.segments) for log in (store.log("emails", 0), store.log("emails", 1))] == [5, 1]
    for number, (config, row) in enumerate(zip(asked, rows, strict=True)):
        with a_store(tmp_path / str(number)) as store:
            store.topic("emails").alter(config)
            result = store.retain()
            assert (result.segments, result.size_bytes, result.records) == row[1:4]
            assert sum(store.log("emails", partition).size_bytes for partition in range(2)) == row.left_bytes


def test_records_are_counted_by_offsets_or_by_batches(tmp_path: Path) -> None:
    """In a log with gaps, and one that starts within a segment, offsets are more than there are records."""
    with open_store(tmp_path / "store", FakeClock()) as store:
        log = store.create_topic("emails", config=small_segments(internal_segment_bytes=500)).log(0)
        log.append_as_follower(follower_batches((0, 3), (10, 2), (50, 4)))
        log.high_watermark = 54
        log.roll()
        [by_offsets] = store.what_if("emails", [{"retention.bytes": 0}]).rows
        [by_batches] = store.what_if("emails", [{"retention.bytes": 0}], count_by="batches").rows
        assert (by_offsets.records, by_batches.records) == (54, 9)
        log.delete_records_before(10)
        [by_batches] = store.what_if("emails", [{"retention.bytes": 0}], count_by="batches").rows
        assert by_batches.records == 6
        with pytest.raises(ValueError, match="'offsets' or 'batches'"):
            store.what_if("emails", [{}], count_by="luck")  # type: ignore[arg-type]


def test_a_setting_that_cannot_be_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        with pytest.raises(InvalidConfigError, match=r"retention\.ms"):
            store.what_if("emails", [{}, {"retention.sm": 1}])
        with pytest.raises(UnknownTopicError):
            store.what_if("none", [{}])


def test_an_adopted_topic_may_be_asked_about_before_it_is_set(tmp_path: Path) -> None:
    home = tmp_path / "broker"
    shutil.copytree(GOLDEN / "partitions" / "times-unordered" / "closed", home / "emails-0")
    (home / "replication-offset-checkpoint").write_text("0\n1\nemails 0 9999\n")
    before = files_of(home / "emails-0")
    with open_store(home, FakeClock(TIME + 900 * DAY_MS), adopt=True) as store:
        keep, nothing = store.what_if("emails", [{"retention.ms": -1}, {"retention.ms": 1}]).rows
        assert (keep.segments, nothing.left_segments) == (0, 0)
        assert nothing.segments == keep.left_segments > 0
    assert files_of(home / "emails-0") == before


def test_as_text(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        text = str(store.what_if("emails", [{}, {"retention.ms": 2 * DAY_MS}, {"retention.bytes": 0}]))
    assert text.splitlines() == [
        "config                  segments  bytes  records  bytes left  oldest left",
        "as it is                0         0      0        770         2023-11-08T22:13:20Z",
        "retention.ms=172800000  4         539    7        231         2023-11-12T22:13:20Z",
        "retention.bytes=0       6         770    10       0           -",
    ]

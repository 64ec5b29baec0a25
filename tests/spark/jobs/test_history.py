"""`jobs.history`: versions with the times between which they held, which say at every time what the table says."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.keyed_topics import alive, make_keyed, state
from tests.support.logs import TIME
from tidelog import Time
from tidelog.errors import InvalidConfigError, UnknownPastError
from tidelog.log.positions import EARLIEST, LATEST
from tidelog.spark import jobs
from tidelog.spark.jobs.history_job import plan_history
from tidelog.spark.jobs.keyed_frame import rows_of
from tidelog.spark.jobs.local_tasks import LocalTasks
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIECE_BYTES = 6000
COLUMNS = ("topic", "key", "value", "partition", "offset", "timestamp")


def in_ms(moment: Any) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def held_at(rows: list[Any], timestamp_ms: int) -> dict[bytes, tuple[int, int]]:
    """The version of each key that held at a time: where it lies."""
    found: dict[bytes, tuple[int, int]] = {}
    for row in rows:
        until_ms = in_ms(row.valid_to)
        if (in_ms(row.valid_from) or 0) <= timestamp_ms and (until_ms is None or timestamp_ms < until_ms):
            assert row.key not in found
            found[bytes(row.key)] = row.partition, row.offset
    return found


def local_rows(directory: Path, **asked: Any) -> list[dict[str, Any]]:
    """What the tasks of a history read, in this process."""
    options: dict[str, Any] = {"keys": None, "start": None, "as_of": None, "allow_incomplete": False, **asked}
    _, tasks = plan_history(LocalTasks("history"), directory, "tide", isolation="committed", piece_bytes=PIECE_BYTES, **options)
    return [row for items in tasks for batch in rows_of(items, COLUMNS) for row in batch.to_pylist()]


def test_at_every_time_it_says_what_the_table_says(spark: "SparkSession", tmp_path: Path) -> None:
    """Of keys that are in one partition: those in several are ordered by time, and the states of their partitions by offset."""
    versions = make_keyed(tmp_path, policy="delete")
    result = jobs.history(spark, tmp_path, "tide", piece_bytes=PIECE_BYTES)
    rows = result.history.collect()
    assert len(rows) == sum(one.value is not None for one in versions)
    places: dict[bytes, set[int]] = {}
    for one in versions:
        places.setdefault(one.key, set()).add(one.partition)
    own = [one for one in versions if len(places[one.key]) == 1]
    of_own = [row for row in rows if len(places[bytes(row.key)]) == 1]
    assert 5 < len({one.key for one in own}) < len(places)
    for timestamp_ms in [*sorted({one.timestamp_ms for one in own})[::7], TIME - 100_000, TIME + 1_000_000]:
        expected = {key: (one.partition, one.offset) for key, one in alive(state(own, until_ms=timestamp_ms)).items()}
        assert held_at(of_own, timestamp_ms) == expected
    for key in places:
        mine = sorted((row for row in rows if bytes(row.key) == key), key=lambda row: row.version)
        assert [row.version for row in mine] == list(range(1, len(mine) + 1))
        if len(places[key]) == 1:
            assert [row.offset for row in mine] == sorted(row.offset for row in mine)
        else:
            assert [(row.valid_from, row.offset) for row in mine] == sorted((row.valid_from, row.offset) for row in mine)
        assert all(row.valid_to is None or row.valid_from <= row.valid_to for row in mine)
    assert result.is_complete
    assert result.details.count() == 2


def test_a_part_of_it(spark: "SparkSession", tmp_path: Path) -> None:
    versions = make_keyed(tmp_path, partitions=1)
    key = max({one.key for one in versions}, key=lambda key: sum(one.key == key for one in versions))
    own = [one for one in versions if one.key == key]
    start, end = own[-3].offset, own[-2].offset + 1
    result = jobs.history(spark, tmp_path, "tide", keys=[key], start=start, as_of=end, include_tombstones=True, piece_bytes=1500)
    expected = [one for one in own if start <= one.offset <= end]
    rows = sorted(result.history.collect(), key=lambda row: row.offset)
    assert [(row.offset, row.is_tombstone) for row in rows] == [(one.offset, one.value is None) for one in expected]
    assert len(expected) == 2 < len(own)
    assert f"up to offset {end} of tide-0" in str(result)
    assert dict(result.stages)["versions"] > 2  # so that more than one task has a version from before


def test_tasks_read_what_counts(tmp_path: Path) -> None:
    versions = make_keyed(tmp_path)
    at_ms = versions[len(versions) // 4].timestamp_ms
    found = {(row["partition"], row["offset"]) for row in local_rows(tmp_path, start=Time(at_ms))}
    later = {(one.partition, one.offset) for one in versions if one.timestamp_ms > at_ms}
    assert later <= found
    assert {(one.partition, one.offset) for one in state(versions, until_ms=at_ms).values()} <= found
    assert len(found) < len(versions)
    assert len(local_rows(tmp_path)) == len(versions)
    only = local_rows(tmp_path, keys=frozenset([versions[0].key, b"nobody"]))
    assert {row["offset"] for row in only} == {one.offset for one in versions if one.key == versions[0].key}


def test_a_history_that_was_compacted_away(tmp_path: Path) -> None:
    versions = make_keyed(tmp_path, partitions=1)
    with Store.open(tmp_path, background=False, clock=lambda: TIME + 1_000_000) as store:
        store.compact("tide")
    with pytest.raises(UnknownPastError, match="the history from its beginning cannot be told") as raised:
        local_rows(tmp_path)
    first = raised.value.first_offset
    assert first is not None
    with pytest.raises(UnknownPastError):
        local_rows(tmp_path, start=first - 1)
    found = {row["offset"] for row in local_rows(tmp_path, start=first)}
    at_start = {one.offset for one in state(versions, offsets={0: first}).values()}
    assert {one.offset for one in versions if one.offset > first} <= found
    assert found - {one.offset for one in versions if one.offset > first} == at_start
    left = local_rows(tmp_path, allow_incomplete=True)
    assert {row["is_complete"] for row in left} == {False}
    assert len(left) < len(versions)


@pytest.mark.parametrize(
    "start",
    [{0: Time(TIME)}, {"tide": {0: datetime(2026, 1, 31, tzinfo=UTC)}}, {0: LATEST}, LATEST, EARLIEST, True, "now"],
    ids=lambda start: repr(start)[:20],
)
def test_a_start_that_is_no_offset_is_not_passed_over(start: Any, tmp_path: Path) -> None:
    make_keyed(tmp_path, batches=2)
    with pytest.raises(InvalidConfigError, match="start: expected an offset, offsets by partition, or one Time or datetime"):
        local_rows(tmp_path, start=start)
    assert local_rows(tmp_path, start=datetime.fromtimestamp(TIME / 1000, UTC)) == local_rows(tmp_path, start=Time(TIME))


def test_keys_are_bytes(spark: "SparkSession", tmp_path: Path) -> None:
    make_keyed(tmp_path, batches=2)
    with pytest.raises(InvalidConfigError, match="expected bytes, found 'k'"):
        jobs.history(spark, tmp_path, "tide", keys="key")  # type: ignore[arg-type]

"""`jobs.table`: the latest of each key as a plain model has it, now and as of points; and what cannot be told is not told."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.keyed_topics import Version, alive, make_keyed, state
from tests.support.logs import TIME
from tidelog import Time
from tidelog.errors import InvalidConfigError, UnknownPastError, UnknownTopicError
from tidelog.spark import jobs, latest_by_key, split_reading
from tidelog.spark.jobs.history_job import plan_history
from tidelog.spark.jobs.keyed_frame import rows_of
from tidelog.spark.jobs.local_tasks import LocalTasks
from tidelog.spark.jobs.table_job import DEFAULT_COLUMNS, plan_table
from tidelog.spark.jobs.topic_plan import plan_topics
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LATER = TIME + 1_000_000
PIECE_BYTES = 3000


def found_in(table: "DataFrame") -> dict[bytes, Version]:
    """The rows of a table as the model has them."""
    rows = table.collect()
    found = {bytes(row.key): _version(row) for row in rows}
    assert len(found) == len(rows)
    return found


def _version(row: Any) -> Version:
    timestamp_ms = round(row.timestamp.timestamp() * 1000)
    return Version(bytes(row.key), None if row.value is None else bytes(row.value), row.partition, row.offset, timestamp_ms)


def local_rows(directory: Path, **asked: Any) -> list[dict[str, Any]]:
    """What the tasks of a table read, in this process; keys come once for each task that has them."""
    options: dict[str, Any] = {"as_of": None, "allow_incomplete": False, "piece_bytes": PIECE_BYTES, **asked}
    _, tasks = plan_table(LocalTasks("table"), directory, "tide", columns=DEFAULT_COLUMNS, isolation="committed", **options)
    columns = ("topic", "key", "value", "partition", "offset", "timestamp")
    return [row for items in tasks for batch in rows_of(items, columns) for row in batch.to_pylist()]


def local_state(directory: Path, **asked: Any) -> dict[bytes, Version]:
    """The same, resolved by the model."""
    versions = [
        Version(row["key"], row["value"], row["partition"], row["offset"], round(row["timestamp"].timestamp() * 1000))
        for row in local_rows(directory, **asked)
    ]
    return state(versions)


def test_the_latest_of_each_key(spark: "SparkSession", tmp_path: Path) -> None:
    versions = make_keyed(tmp_path, policy="delete")
    result = jobs.table(spark, tmp_path, "tide", piece_bytes=8000)
    assert found_in(result.table) == alive(state(versions))
    assert dict(result.stages)["latest by key"] == 4
    partitions = [{one.partition for one in versions if one.key == key} for key in {one.key for one in versions}]
    assert result.keys_in_several_partitions == sum(len(own) > 1 for own in partitions) > 0
    assert result.is_complete
    at_ms = versions[len(versions) // 3].timestamp_ms
    as_of = jobs.table(spark, tmp_path, "tide", as_of=Time(at_ms), include_tombstones=True, allow_incomplete=True)
    rows = as_of.table.collect()
    assert {bytes(row.key): _version(row) for row in rows} == state(versions, until_ms=at_ms)
    assert {(row.is_complete, row.is_tombstone) for row in rows} == {(True, True), (True, False)}
    planned = jobs.table(spark, tmp_path, "tide", columns=["key", "headers"], dry_run=True)
    assert planned.table.columns == ["key", "headers"]
    assert "2 partitions" in str(planned)
    assert [(row.topic, row.partition, row.is_complete) for row in planned.details.collect()] == [("tide", 0, True), ("tide", 1, True)]


def test_one_partition_and_columns(spark: "SparkSession", tmp_path: Path) -> None:
    versions = make_keyed(tmp_path, partitions=1)
    result = jobs.table(spark, tmp_path, "tide", as_of=40, columns=["key", "offset"])
    expected = alive(state(versions, offsets={0: 40}))
    assert {(bytes(row.key), row.offset) for row in result.table.collect()} == {(one.key, one.offset) for one in expected.values()}


def test_tasks_leave_one_row_of_each_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = make_keyed(tmp_path, policy="delete")
    whole = local_rows(tmp_path, piece_bytes=1 << 20)
    assert len(whole) == len({(one.key, one.partition) for one in versions})  # one task has both partitions
    for offsets in ({0: 10, 1: 99}, {0: 0, 1: 0}, {0: 500, 1: 70}):
        assert local_state(tmp_path, as_of=offsets) == state(versions, offsets=offsets)
        assert local_state(tmp_path, as_of={"tide": offsets}) == state(versions, offsets=offsets)
    for number in (0, 5, 50, len(versions) - 1):
        until_ms = versions[number].timestamp_ms
        assert local_state(tmp_path, as_of=Time(until_ms)) == state(versions, until_ms=until_ms)
    assert local_state(tmp_path, as_of={0: -1, 1: -1}) == {}
    monkeypatch.setattr(latest_by_key, "MOST_KEYS", 5)
    assert len(local_rows(tmp_path, piece_bytes=1 << 20)) > len(whole)
    assert local_state(tmp_path) == state(versions)


def test_records_that_are_far_apart_are_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = make_keyed(tmp_path, policy="delete")
    for name, size in (("FETCH_BYTES", 700), ("SLACK_BYTES", 60), ("FEW_BYTES_EACH", 0)):
        monkeypatch.setattr(split_reading, name, size)
    assert local_state(tmp_path, piece_bytes=1 << 20) == state(versions)


def test_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path, background=False, clock=lambda: TIME) as store:
        store.create_topic("tide", 2)
    assert local_rows(tmp_path) == local_rows(tmp_path, as_of=Time(TIME)) == local_rows(tmp_path, as_of={0: 5}) == []


def test_what_was_compacted_away_is_not_made_up(tmp_path: Path) -> None:
    versions = make_keyed(tmp_path)
    with Store.open(tmp_path, background=False, clock=lambda: LATER) as store:
        store.compact("tide")
        ends = [store.log("tide", number).segments[-1].base_offset - 1 for number in (0, 1)]
    with pytest.raises(UnknownPastError, match="was compacted up to offset") as raised:
        local_rows(tmp_path, as_of={0: ends[0] - 1, 1: ends[1]})
    assert raised.value.first_offset == ends[0]
    first_ms = raised.value.first_timestamp_ms
    assert first_ms is not None
    with pytest.raises(UnknownPastError):
        local_rows(tmp_path, as_of=Time(first_ms - 1))
    assert local_state(tmp_path, as_of=Time(first_ms)) == state(versions, until_ms=first_ms)
    points = {0: ends[0], 1: ends[1]}
    assert local_state(tmp_path, as_of=points) == state(versions, offsets=points)
    assert local_state(tmp_path) == state(versions)
    left = local_rows(tmp_path, as_of={0: 20, 1: ends[1]}, allow_incomplete=True)
    assert {(row["partition"], row["is_complete"]) for row in left} == {(0, False), (1, True)}
    expected = state(versions, offsets={0: 20, 1: ends[1]})
    assert 0 < len({row["key"] for row in left if row["partition"] == 0}) < len(expected)
    # What is left is right: it was the last of its key then.
    of_first = state([one for one in versions if one.partition == 0], offsets={0: 20})
    assert all(of_first[row["key"]].offset == row["offset"] for row in left if row["partition"] == 0)


def test_a_compaction_since_the_plan_is_noticed(tmp_path: Path) -> None:
    make_keyed(tmp_path, partitions=1)
    how: dict[str, Any] = {"allow_incomplete": False, "columns": DEFAULT_COLUMNS, "isolation": "committed", "piece_bytes": None}
    _, now = plan_table(LocalTasks("table"), tmp_path, "tide", as_of=None, **how)
    _, earlier = plan_table(LocalTasks("table"), tmp_path, "tide", as_of=30, **how)
    columns = ("topic", "key", "offset")
    with Store.open(tmp_path, background=False, clock=lambda: LATER) as store:
        store.compact("tide")
    assert list(rows_of(now[0], columns))
    with pytest.raises(UnknownPastError, match="was compacted since this was planned"):
        list(rows_of(earlier[0], columns))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({0: 3, 2: 3}, "names a partition that is not read: expected some of 0, 1, found 2"),
        ({"tidal": {0: 3}}, "names a topic that is not read: expected some of tide, found 'tidal'"),
        ({"tide": {7: 3}}, "names a partition that is not read: expected some of 0, 1, found 7"),
    ],
)
def test_a_point_of_what_is_not_there_is_refused(given: Any, told: str, tmp_path: Path) -> None:
    """Passed over, it would give the state of now for that of then."""
    make_keyed(tmp_path, batches=3)
    with pytest.raises(UnknownTopicError, match=f"as_of {told}"):
        local_rows(tmp_path, as_of=given)
    how: dict[str, Any] = {"keys": None, "allow_incomplete": False, "isolation": "committed", "piece_bytes": None}
    with pytest.raises(UnknownTopicError, match=f"start {told}"):
        plan_history(LocalTasks("history"), tmp_path, "tide", start=given, as_of=None, **how)
    with pytest.raises(UnknownTopicError, match=f"end {told}"):
        plan_topics(tmp_path, "tide", workers=1, end=given)


def test_what_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    make_keyed(tmp_path, batches=3)
    with pytest.raises(UnknownTopicError):
        jobs.table(spark, tmp_path, "tidal")
    with pytest.raises(InvalidConfigError, match="some of key"):
        jobs.table(spark, tmp_path, "tide", columns=["keys"])
    with pytest.raises(InvalidConfigError, match="as_of=3 is an offset, and there are 2 partitions"):
        jobs.table(spark, tmp_path, "tide", as_of=3)
    with pytest.raises(InvalidConfigError, match=r"as_of: expected an offset, .* found -2"):
        jobs.table(spark, tmp_path, "tide", as_of={0: -2})
    with pytest.raises(InvalidConfigError, match="an offset, offsets by partition"):
        jobs.table(spark, tmp_path, "tide", as_of="now")  # type: ignore[arg-type]

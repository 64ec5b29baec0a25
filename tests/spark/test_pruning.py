"""What filters skip: never anything that matches, whatever the order of timestamps; and in a log in order, nearly everything else."""

import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as spark
from pyspark.sql.datasource import Filter

from tests.support.spark_reads import Row, plan_read, read_rows, rows_of
from tests.support.topics import open_store
from tidelog.disk.disk import Disk
from tidelog.record import BatchSettings, NewBatch
from tidelog.spark.pruning import EVERYTHING, ceil_ms, prune

TIME = 1_700_000_000_000
SMALL = {"segment.index.bytes": 1 << 12, "internal.segment.bytes": 400, "index.interval.bytes": 60}
KEYS = [b"a", b"b", b"\x00", b""]
SPAN_MS = 30


def at(ms: int, us: int = 0) -> datetime:
    return datetime.fromtimestamp(TIME // 1000, UTC) + timedelta(milliseconds=ms, microseconds=us)


COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": lambda found, value: found == value,
    "GreaterThan": lambda found, value: found > value,
    "GreaterThanOrEqual": lambda found, value: found >= value,
    "LessThan": lambda found, value: found < value,
    "LessThanOrEqual": lambda found, value: found <= value,
    "In": lambda found, value: found in value,
    "StringStartsWith": lambda found, value: found.startswith(value),
}


def matches(row: Row, filters: list[Filter]) -> bool:
    """Whether a row passes filters, as Spark checks them."""
    for pushed in filters:
        found = row[pushed.attribute[0]]  # type: ignore[attr-defined]
        if found is None or not COMPARED[type(pushed).__name__](found, pushed.value):  # type: ignore[attr-defined]
            return False
    return True


def filters_on(column: str, values: st.SearchStrategy[Any], *kinds: str) -> st.SearchStrategy[Filter]:
    return st.one_of(
        *(st.builds(getattr(spark, kind), st.just((column,)), values) for kind in kinds),
        st.builds(spark.In, st.just((column,)), st.lists(values, min_size=1, max_size=3)),
    )


ORDERED = ("EqualTo", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual")
MOMENTS = st.builds(at, st.integers(-3, SPAN_MS + 3), st.sampled_from([0, 0, 1, 500, 999]))
FILTERS = st.one_of(
    filters_on("timestamp", MOMENTS, *ORDERED),
    filters_on("timestamp", MOMENTS, "GreaterThan", "GreaterThanOrEqual"),
    filters_on("offset", st.integers(-1, 60), *ORDERED),
    filters_on("partition", st.integers(-1, 2), *ORDERED),
    filters_on("key", st.sampled_from(KEYS), "EqualTo"),
    filters_on("topic", st.sampled_from(["tide", "ti", "ebb"]), "EqualTo", "StringStartsWith"),
)
RECORDS = st.lists(st.tuples(st.sampled_from([*KEYS, None]), st.integers(0, SPAN_MS)), min_size=1, max_size=6)
BATCHES = st.lists(st.tuples(st.integers(0, 1), RECORDS, st.sampled_from(["none", "none", "lz4"]), st.booleans()), min_size=1, max_size=25)


@settings(max_examples=25, derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(BATCHES, st.lists(st.lists(FILTERS, min_size=1, max_size=3), min_size=6, max_size=6), st.booleans())
def test_what_is_skipped_never_matches(batches: list[Any], chosen: list[list[Filter]], is_closed: bool) -> None:
    with tempfile.TemporaryDirectory() as home, open_store(Path(home) / "store") as store:
        store.create_topic("tide", 2, SMALL)
        for number, (partition, records, compression, is_untimed) in enumerate(batches):
            rows = [(key, b"%d" % number, (), -1 if is_untimed else TIME + ms) for key, ms in records]
            store.log("tide", partition).append(NewBatch(rows, settings=BatchSettings(compression=compression)).encode())
        if is_closed:
            store.close()
        path = Path(home) / "store"
        plain = read_rows(path)
        assert len(plain) == sum(len(records) for _, records, _, _ in batches)
        for filters in chosen:
            for cut in ({}, {"bytesPerPartition": 100}):
                pushed = [row for row in read_rows(path, cut, prune(filters)) if matches(row, filters)]
                assert pushed == [row for row in plain if matches(row, filters)]


def test_filters_that_say_nothing() -> None:
    unheard: list[Filter] = [
        spark.LessThan(("timestamp",), at(0)),
        spark.LessThanOrEqual(("timestamp",), at(0)),
        spark.IsNotNull(("key",)),
        spark.IsNull(("key",)),
        spark.Not(spark.EqualTo(("key",), b"a")),
        spark.EqualTo(("key",), None),
        spark.EqualNullSafe(("key",), None),
        spark.In(("key",), (b"a", None)),
        spark.EqualTo(("value",), b"a"),
        spark.EqualTo(("headers", "key"), b"a"),
        spark.StringContains(("topic",), "t"),
        spark.StringEndsWith(("topic",), "t"),
    ]
    assert prune(unheard) == EVERYTHING


def test_the_edges_of_a_range() -> None:
    expected = {"LessThan": (0, 7), "LessThanOrEqual": (0, 8), "GreaterThan": (8, 20), "GreaterThanOrEqual": (7, 20), "EqualTo": (7, 8)}
    for kind, offsets in expected.items():
        assert prune([getattr(spark, kind)(("offset",), 7)]).narrow(0, 20) == offsets
        partitions = prune([getattr(spark, kind)(("partition",), 7)])
        assert [number for number in range(20) if partitions.has_partition("tide", number)] == [*range(*offsets)]


def test_filters_together() -> None:
    pruning = prune(
        [
            spark.GreaterThan(("offset",), 4),
            spark.LessThan(("offset",), 20),
            spark.In(("offset",), (3, 7, 9)),
            spark.GreaterThanOrEqual(("timestamp",), at(5, 1)),
            spark.GreaterThan(("timestamp",), at(3)),
            spark.In(("key",), (b"a", b"b")),
            spark.EqualTo(("key",), b"b"),
        ]
    )
    assert pruning.narrow(0, 100) == (7, 10)
    assert pruning.narrow(50, 100) == (50, 50)
    assert pruning.oldest_ms == TIME + 6
    assert pruning.keys == frozenset({b"b"})
    assert ceil_ms(at(5)) == TIME + 5


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many bytes were read of logs, by partition."""
    counted: Counter[str] = Counter()
    read = Disk.read

    def counting(disk: Disk, fd: int, size: int, position: int) -> bytes:
        data = read(disk, fd, size, position)
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if path.suffix == ".log":
            counted[path.parent.name] += len(data)
        return data

    monkeypatch.setattr(Disk, "read", counting)
    return counted


@pytest.fixture
def in_order(tmp_path: Path) -> Path:
    """Two partitions of two mebibytes in eight segments, every record a millisecond after the one before."""
    with open_store(tmp_path / "store") as store:
        store.create_topic("tide", 2, {"internal.segment.bytes": 1 << 18})
        for number in range(1000):
            rows = [(b"key-%d" % (number % 7), bytes(200), (), TIME + number * 10 + row) for row in range(10)]
            for partition in range(2):
                store.log("tide", partition).append(NewBatch(rows).encode())
    return tmp_path / "store"


@pytest.mark.parametrize(
    ("filters", "expected", "share"),
    [
        ([spark.GreaterThanOrEqual(("timestamp",), at(9900))], 200, 0.2),
        ([spark.GreaterThanOrEqual(("timestamp",), at(4950)), spark.LessThan(("offset",), 5050)], 200, 0.2),
        ([spark.GreaterThanOrEqual(("offset",), 9900)], 200, 0.2),
        ([spark.EqualTo(("offset",), 4321)], 2, 0.2),
        ([spark.EqualTo(("partition",), 1), spark.LessThan(("offset",), 100)], 100, 0.1),
        ([spark.EqualTo(("partition",), 7)], 0, 0.05),
    ],
)
def test_a_slice_costs_what_it_has(in_order: Path, read_bytes: Counter[str], filters: list[Filter], expected: int, share: float) -> None:
    rows = [row for row in rows_of(plan_read(in_order, {"columns": "partition,offset,timestamp"}, prune(filters))) if matches(row, filters)]
    assert len(rows) == expected
    assert read_bytes.total() < share * sum(path.stat().st_size for path in in_order.glob("*/*.log"))


def test_keys_without_spark(in_order: Path) -> None:
    rows = read_rows(in_order, {"keys": "key-3, nobody", "columns": "offset,partition"})
    assert len(rows) == 2 * 10 * 143
    assert {(row["offset"] // 10) % 7 for row in rows} == {3}
    assert list(rows[0]) == ["offset", "partition"]


def test_a_key_is_looked_for_everywhere_unless_its_partitioner_is_known(in_order: Path) -> None:
    everywhere = {row["partition"] for row in read_rows(in_order, {"keys": "key-3"})}
    assert everywhere == {0, 1}
    where = {row["partition"] for row in read_rows(in_order, {"keys": "key-3", "keyPartitioner": "murmur2"})}
    assert len(where) == 1

"""Reading a topic as columns: which, how much at a time, and what damage says."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.logs import TIME
from tests.support.topics import SMALL, TopicModel, open_store, plain, plain_rows
from tidelog import LATEST, NewBatch, Time
from tidelog.errors import ChecksumError, CorruptBatchError, MissingPackageError, OffsetOutOfRangeError
from tidelog.log.log import Log
from tidelog.record import RECORD_COLUMNS, encode_batches
from tidelog.store import frames, topic_columns
from tidelog.store.store import Store
from tidelog.store.topic import Topic


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store") as store:
        yield store


@pytest.fixture
def topic(store: Store) -> Topic:
    topic = store.create_topic("tide", 2, SMALL)
    model = TopicModel(topic)
    for number in range(20):
        model.append(number % 2, [(b"k%d" % number, None if number == 7 else b"v%d" % number, TIME + number)] * 3)
    return topic


def test_the_default_columns(topic: Topic) -> None:
    table = topic.to_arrow()
    assert table.schema.names == ["partition", *RECORD_COLUMNS]
    assert table.schema.field("partition").type == pa.int32()
    assert sorted(plain_rows([table])) == sorted(plain(topic.read()))
    assert table["headers"].to_pylist() == [[]] * 60


def test_only_what_is_asked_for_in_the_order_asked_for(topic: Topic) -> None:
    table = topic.to_arrow(1, 4, ["value", "topic", "producer_id", "partition"], partition=1)
    assert table.schema.names == ["value", "topic", "producer_id", "partition"]
    assert table.to_pylist() == [{"value": value, "topic": "tide", "producer_id": -1, "partition": 1} for value in (b"v1", b"v1", b"v3")]


def test_headers(store: Store) -> None:
    topic = store.create_topic("headed")
    topic.log(0).append(encode_batches([(b"k", b"v", [("a", b"1"), ("b", None)])], timestamp_ms=TIME))
    assert topic.to_arrow(columns=["headers"])["headers"].to_pylist() == [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}]]


def test_a_topic_without_records_has_columns_all_the_same(store: Store) -> None:
    table = store.create_topic("empty", 2).to_arrow(columns=["partition", "key"])
    assert (table.num_rows, table.schema.names) == (0, ["partition", "key"])


@pytest.mark.parametrize("fetch_bytes", [1, 200, 1000, 1 << 20])
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_every_range_is_cut_to_the_record(store: Store, monkeypatch: pytest.MonkeyPatch, fetch_bytes: int, compression: str) -> None:
    monkeypatch.setattr(topic_columns, "FETCH_BYTES", fetch_bytes)
    topic = store.create_topic("cut", 1, SMALL)
    model = TopicModel(topic)
    for number in range(6):
        model.append(0, [(b"k", b"%d" % number, TIME)] * 3, compression)
    for start in range(18):
        for end in range(start, 19):
            assert plain_rows(topic.arrow(start, end)) == model.committed(0, start, end)


def test_aborted_records_and_markers_are_left_out(store: Store) -> None:
    topic = store.create_topic("txn", 1, SMALL)
    model = TopicModel(topic)
    for number in range(12):
        model.append(0, [(b"k", b"%d" % number, TIME)] * 2, "lz4" if number % 3 else "none", producer=number % 2)
        if number % 4 in (2, 3):
            model.end(0, number % 2, "abort" if number % 8 in (2, 7) else "commit")
    assert 0 < len(model.committed(0)) < 20
    assert plain_rows(topic.arrow()) == model.committed(0) == plain(topic.read())
    assert topic.to_arrow(isolation="log_end").num_rows == 24


def test_times_and_ends(topic: Topic) -> None:
    when = Time(TIME + 10), Time(TIME + 14)
    assert sorted(plain_rows(topic.arrow(*when))) == sorted(plain(topic.read(*when)))
    assert topic.to_arrow(LATEST).num_rows == 0


def test_what_comes_after_the_call_is_not_read(topic: Topic) -> None:
    reading = topic.arrow()
    TopicModel(topic).append(1, [(b"k", b"late", TIME)])
    assert sum(batch.num_rows for batch in reading) == 60


def test_memory_is_bounded_by_a_fetch(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_columns, "FETCH_BYTES", 64 << 10)
    topic = store.create_topic("large")
    value = bytes(1000)
    topic.log(0).append_run([NewBatch([(b"k", value)] * 15, timestamp_ms=TIME).encode() for _ in range(400)])
    before = pa.total_allocated_bytes()
    peak = rows = 0
    for batch in topic.arrow():
        rows += batch.num_rows
        peak = max(peak, pa.total_allocated_bytes() - before)
        del batch
    assert rows == 6000
    assert peak < 400_000 < rows * len(value)


def test_overtaken(store: Store) -> None:
    topic = store.create_topic("old", 1, SMALL)
    model = TopicModel(topic)
    for number in range(8):
        model.append(0, [(b"k", b"%d" % number, TIME)])
    topic.log(0).delete_records_before(5)
    with pytest.raises(OffsetOutOfRangeError):
        list(topic.arrow(2))
    assert [row.offset for row in plain_rows(topic.arrow(2, when_overtaken="skip"))] == [5, 6, 7]
    assert [row.offset for row in plain_rows(topic.arrow())] == [5, 6, 7]


@pytest.mark.leaves
def test_damage_is_told_with_file_and_place_after_what_is_before_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_columns, "FETCH_BYTES", 100)
    topic = store.create_topic("rotten")
    model = TopicModel(topic)
    for number in range(3):
        model.append(0, [(b"k", b"%d" % number, TIME)])
    path = Path(topic.log(0).directory) / "00000000000000000000.log"
    rotten = bytearray(path.read_bytes())
    size = len(rotten) // 3
    rotten[2 * size - 1] ^= 1
    path.write_bytes(rotten)
    reading = topic.arrow()
    assert next(reading).num_rows == 1
    with pytest.raises(ChecksumError) as raised:
        next(reading)
    assert (raised.value.path, raised.value.position) == (str(path), size)
    assert isinstance(raised.value, CorruptBatchError)


def test_bytes_that_change_under_the_reading_are_fetched_again_and_no_row_comes_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = store.create_topic("cut")
    model = TopicModel(topic)
    for number in range(4):
        model.append(0, [(b"k", b"%d" % number, TIME)] * 2)
    asked: list[int] = []

    class Changing(Log):
        """Its owner cuts it and goes on differently while the first fetch is decoded."""

        def fetch(self, offset: int, *arguments: Any, **options: Any) -> Any:
            fetched = super().fetch(offset, *arguments, **options)
            if not asked:
                rotten = bytearray(fetched.data)
                rotten[len(rotten) // 4 * 3 - 1] ^= 1
                fetched.data = bytes(rotten)
            asked.append(offset)
            return fetched

        def is_outdated(self, fetched: Any) -> bool:
            return True

    monkeypatch.setattr(topic.log(0), "__class__", Changing)
    assert plain_rows(topic.arrow()) == model.committed(0)
    assert asked == [0, 4]


def test_columns_that_do_not_exist(topic: Topic) -> None:
    with pytest.raises(ValueError, match="unknown column 'time': choose from topic, partition, offset"):
        topic.arrow(columns=["time"])
    with pytest.raises(ValueError, match="no columns were asked for"):
        topic.arrow(columns=[])
    with pytest.raises(ValueError, match="a column is asked for twice: key, value, key"):
        topic.arrow(columns=["key", "value", "key"])
    with pytest.raises(TypeError, match="columns is a list of names, not 'value'"):
        topic.arrow(columns="value")


# Frames


def test_pandas(topic: Topic) -> None:
    frame = topic.to_pandas(columns=["offset", "key"], partition=0)
    assert list(frame.columns) == ["offset", "key"]
    assert frame["key"].tolist() == [record.key for record in topic.read(partition=0)]


def test_polars(topic: Topic) -> None:
    frame = topic.to_polars(columns=["topic", "value"], partition=1)
    assert frame["value"].to_list() == [record.value for record in topic.read(partition=1)]
    assert frame["topic"].to_list() == ["tide"] * 30


def test_duckdb(topic: Topic) -> None:
    import duckdb

    relation = topic.to_duckdb(columns=["partition", "value"])
    assert relation.aggregate("partition, count(value)").order("partition").fetchall() == [(0, 30), (1, 27)]
    with duckdb.connect() as connection:
        own = topic.to_duckdb(connection, 0, 3, partition=1)
        assert own.aggregate("count(*), min(value)").fetchall() == [(3, b"v1")]


@pytest.mark.parametrize(("call", "package"), [("to_pandas", "pandas"), ("to_polars", "polars"), ("to_duckdb", "duckdb")])
def test_a_package_that_is_missing(topic: Topic, monkeypatch: pytest.MonkeyPatch, call: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=f"needs the package {package}, which is not installed .pip install {package}."):
        getattr(topic, call)()


def test_an_error_inside_of_a_package_is_not_taken_for_its_absence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken_package.py").write_text("import is_not_there_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="is_not_there_at_all"):
        frames.need("broken_package")


def test_reading_records_imports_no_pyarrow(tmp_path: Path) -> None:
    code = (
        "import sys, tidelog\n"
        f"with tidelog.open({str(tmp_path / 'store')!r}) as store:\n"
        "    topic = store.create_topic('tide'); topic.append(b'v'); print([record.value for record in topic.read()])\n"
        "print(sorted({'pyarrow', 'pandas', 'polars', 'duckdb'} & set(sys.modules)))"
    )
    done: Any = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.split("\n")[:2] == ["[b'v']", "[]"], done.stderr

"""The writers by themselves, without a session: what is pickled, who makes staging, and tasks that come late or see another disk."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

import tidelog
from tests.spark.sink_support import assert_nothing_staged, records_of, values_of
from tests.support.faulty_disk import FaultyDisk
from tidelog.disk.disk import OS
from tidelog.disk.names import TopicPartition
from tidelog.errors import DiskFullError, LockedError, StagingError, StorageError, TransactionError
from tidelog.spark import sink_tasks
from tidelog.spark.sink_columns import find_columns
from tidelog.spark.sink_tasks import stage
from tidelog.spark.sink_writers import Staged, TidelogStreamWriter, TidelogWriter
from tidelog.spark.write_options import WriteOptions
from tidelog.store.staging import STAGED_SUFFIX, find_staging

SCHEMA = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
OWNER = """
import sys, tidelog
with tidelog.open(sys.argv[1]):
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("t", 2)
    return tmp_path / "data"


def options(data: Path, *, is_stream: bool = False, **more: str) -> WriteOptions:
    return WriteOptions.of({"path": str(data), "topic": "t", "lockTimeout": "100ms", **more}, is_stream)


def rows(*values: str) -> Iterator[pa.RecordBatch]:
    return iter([pa.record_batch({"key": list(values), "value": pa.array([value.encode() for value in values], pa.binary())})])


def sent(writer: Any) -> Any:
    """The writer as it arrives elsewhere."""
    return pickle.loads(pickle.dumps(writer))


def test_staging_is_made_when_the_writer_is_sent_and_once(data: Path) -> None:
    writer = TidelogWriter(options(data), SCHEMA)
    assert_nothing_staged(data)
    first, second = sent(writer), sent(writer)
    assert len(find_staging(OS, str(data))) == 1
    messages = [sent(first.write(rows("a", "b"))), sent(second.write(rows())), None]
    assert messages[1].files == ()
    second.commit(messages)
    assert values_of(data) == ["a", "b"]
    assert_nothing_staged(data)


def test_a_stream_is_committed_by_a_writer_that_has_seen_nothing(data: Path) -> None:
    def begin() -> Staged:
        found = sent(TidelogStreamWriter(options(data, is_stream=True, queryId="q"), SCHEMA)).write(rows("a"))
        assert isinstance(found, Staged)
        return found

    for _ in range(2):
        message = begin()
        TidelogStreamWriter(options(data, is_stream=True, queryId="q"), SCHEMA).commit([message], 0)
        assert values_of(data) == ["a"]
        assert_nothing_staged(data)
    TidelogStreamWriter(options(data, is_stream=True, queryId="q"), SCHEMA).commit([begin(), None], 1)
    assert values_of(data) == ["a", "a"]
    TidelogStreamWriter(options(data, is_stream=True, queryId="q"), SCHEMA).commit([], 2)
    TidelogStreamWriter(options(data, is_stream=True, queryId="q"), SCHEMA).commit([None], 3)
    assert values_of(data) == ["a", "a"]


def test_a_stream_without_an_id_is_refused(data: Path) -> None:
    """Where Spark does not tell it to tasks any more: never an id of our own making."""
    message = sent(TidelogStreamWriter(options(data, is_stream=True), SCHEMA)).write(rows("a"))
    with pytest.raises(TransactionError, match="the stream does not say its id"):
        TidelogStreamWriter(options(data, is_stream=True), SCHEMA).commit([message], 0)
    assert values_of(data) == []
    TidelogStreamWriter(options(data, is_stream=True), SCHEMA).abort([message], 0)
    assert_nothing_staged(data)


def test_a_task_that_comes_after_the_abort_fails_and_leaves_nothing(data: Path, tmp_path: Path) -> None:
    writer = sent(TidelogWriter(options(data), SCHEMA))
    message = writer.write(rows("a"))
    writer.abort([message, None])
    with pytest.raises(StagingError, match="given up meanwhile"):
        writer.write(rows("b"))
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    writer.abort([None])
    with pytest.raises(StagingError, match="gone"):
        writer.commit([message])
    assert values_of(data) == []


def test_an_executor_that_sees_another_disk_says_so(data: Path) -> None:
    writer = sent(TidelogWriter(options(data), SCHEMA))
    staging = find_staging(OS, str(data))[0]
    (Path(staging) / "owner.json").write_text('{"token": "of another machine"}')
    with pytest.raises(StagingError, match="share"):
        writer.write(rows("a"))
    assert [path.name for path in Path(staging).iterdir()] == ["owner.json"]


def test_a_full_disk_under_a_task_leaves_no_file(data: Path) -> None:
    writer = sent(TidelogWriter(options(data), SCHEMA))
    disk = FaultyDisk()
    disk.limit(100)
    columns = find_columns(SCHEMA, has_topic=True)
    batches = rows(*[f"a value that takes some room {number}" for number in range(100)])
    with pytest.raises(DiskFullError):
        stage(disk, options(data), columns, writer._staging, [str(data)], "0-0", batches)
    assert [path.name for path in Path(writer._staging.path).iterdir()] == ["owner.json"]
    writer.abort([])


@pytest.mark.parametrize("number", [1, 2])
def test_a_disk_that_fails_behind_a_task_fails_the_task_and_leaves_no_file(data: Path, number: int) -> None:
    """It is told to whoever asks first, and that is not the commit: a task that says it has written would be believed."""
    writer = sent(TidelogWriter(options(data), SCHEMA))
    disk = FaultyDisk()
    disk.fail(number, kind="sync", on=STAGED_SUFFIX)
    columns = find_columns(SCHEMA, has_topic=True)
    with pytest.raises(StorageError, match="syncing a staged file failed"):
        stage(disk, options(data), columns, writer._staging, [str(data)], "0-0", many_rows())
    assert [path.name for path in Path(writer._staging.path).iterdir()] == ["owner.json"]
    writer.abort([])


def test_a_commit_that_meets_an_owner_changes_nothing(data: Path) -> None:
    """Who has taken the store behind the back of the job is named, and nothing is to be seen. Then the job can be run again."""
    writer = sent(TidelogWriter(options(data), SCHEMA))
    message = writer.write(rows("a"))
    process = subprocess.Popen([sys.executable, "-c", OWNER, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    with pytest.raises(LockedError, match=f"locked by process {process.pid}"):
        writer.commit([message])
    with pytest.raises(LockedError, match=f"locked by process {process.pid}"):
        TidelogWriter(options(data), SCHEMA)
    process.communicate()
    writer.abort([message])
    assert values_of(data) == []
    assert_nothing_staged(data)


def test_memory_is_bounded_by_the_chunk_and_blocks_by_it_too(data: Path) -> None:
    writer = sent(TidelogWriter(options(data), SCHEMA))
    value = b"v" * 1000
    batches = (pa.record_batch({"key": [str(number)] * 1000, "value": pa.array([value] * 1000, pa.binary())}) for number in range(40))
    message = writer.write(batches)
    sizes = [size_bytes for file in message.files for _, _, size_bytes, _ in file.positions()]
    assert sum(sizes) > 40_000_000
    assert max(sizes) < 6_000_000
    writer.commit([message])
    assert len(values_of(data)) == 40_000


def many_rows() -> Iterator[pa.RecordBatch]:
    """Twelve mebibytes and more, which is more than a chunk."""
    for number in range(12):
        yield pa.record_batch({"key": [str(number)] * 1000, "value": pa.array([b"%d" % number + b"v" * 1000] * 1000, pa.binary())})


def test_many_rows_get_a_file_for_each_partition_and_few_rows_share_one(data: Path) -> None:
    few = sent(TidelogWriter(options(data), SCHEMA)).write(iter([next(many_rows())]))
    writer = sent(TidelogWriter(options(data), SCHEMA))
    many = writer.write(many_rows())
    assert len(few.files) == 1
    assert len(many.files) == 2
    assert [file.is_of_one_partition for file in many.files] == [True, True]
    assert set.union(*(file.partitions() for file in many.files)) == {TopicPartition("t", 0), TopicPartition("t", 1)}
    assert sum(file.count for file in many.files) == 12_000
    writer.commit([many])
    assert len(values_of(data)) == 12_000


def test_partitions_beyond_so_many_share_a_file(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_tasks, "MAX_OWN_FILES", 1)
    writer = sent(TidelogWriter(options(data), SCHEMA))
    batches = list(many_rows())
    message = writer.write(iter(batches))
    assert len(message.files) == 2
    writer.commit([message])
    in_order = [value for batch in batches for value in batch.column("value").to_pylist()]
    found = [record.value or b"" for record in records_of(data)]
    assert sorted(found) == sorted(in_order)
    for number in (0, 1):
        own = [int(record.key or b"") for record in records_of(data) if record.partition == number]
        assert own == sorted(own)


def test_no_file_is_larger_than_a_segment(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_tasks, "LEAST_SEGMENT_BYTES", 1 << 20)
    with tidelog.open(data) as store:
        store.topic("t").alter({"segment.bytes": 4 << 20})
    writer = sent(TidelogWriter(options(data), SCHEMA))
    message = writer.write(many_rows())
    assert len(message.files) >= 4
    assert all(file.size_bytes <= 4 << 20 for file in message.files)
    writer.commit([message])
    assert len(values_of(data)) == 12_000


def test_the_planning_process_stays_light() -> None:
    program = (
        "import sys, tidelog.spark.sink_writers, tidelog.spark.write_options; print([n for n in ('numpy', 'pyarrow') if n in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    import_free = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            "import sys, pyspark.sql.datasource; print([n for n in ('numpy', 'pyarrow') if n in sys.modules])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == import_free.stdout

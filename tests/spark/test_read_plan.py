"""Planning a read: no data is read for it, cuts fall between batches, small work is packed together, and a plan is small."""

import pickle
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pyspark.sql.datasource import InputPartition

import tidelog
from tests.support.spark_reads import engine_rows, in_ms, plan_read, ranges_of, read_rows, rows_of, sizes_of
from tests.support.topics import open_store
from tidelog.disk.disk import Disk
from tidelog.errors import InvalidConfigError
from tidelog.log.read_only import open_read_only
from tidelog.record import BatchSettings, NewBatch
from tidelog.spark.batch_reader import task_bytes
from tidelog.spark.split_reading import read_splits
from tidelog.spark.splits import Split, SplitPartition, pack

TIME = 1_700_000_000_000


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions of some mebibytes in several segments, and four that are small."""
    path = tmp_path_factory.mktemp("filled") / "store"
    random = Random(5)
    with open_store(path) as store:
        store.create_topic("large", 2, {"internal.segment.bytes": 1 << 20})
        store.create_topic("small", 4)
        for number in range(400):
            rows = [(b"k%d" % row, random.randbytes(100), (), TIME + number) for row in range(100)]
            store.log("large", number % 2).append(NewBatch(rows).encode())
        for number in range(4):
            store.log("small", number).append(NewBatch([(b"k", b"v", (), TIME)] * 5).encode())
    return path


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many bytes were read of files, by the end of their names."""
    counted: Counter[str] = Counter()
    read = Disk.read

    def counting(disk: Disk, fd: int, size: int, position: int) -> bytes:
        data = read(disk, fd, size, position)
        counted[Path(f"/proc/self/fd/{fd}").readlink().suffix] += len(data)
        return data

    monkeypatch.setattr(Disk, "read", counting)
    return counted


def test_no_data_is_read_for_a_plan(filled: Path, read_bytes: Counter[str]) -> None:
    data = sum(path.stat().st_size for path in filled.glob("large-*/*.log"))
    assert data > 4 << 20
    tasks = plan_read(filled, {"subscribe": "large", "bytesPerPartition": "200k"})
    assert len(tasks) > 20
    # The end of a log is looked at from its last index entry on, and an entry's batch by its header.
    assert 0 < read_bytes[".log"] < data / 20
    read_bytes.clear()
    rows_of(tasks)
    assert read_bytes[".log"] >= data


def test_times_are_looked_up_without_reading_the_data(filled: Path, read_bytes: Counter[str]) -> None:
    plan_read(filled, {"subscribe": "large", "startingTimestamp": TIME + 200, "endingTimestamp": TIME + 202})
    assert read_bytes[".log"] < sum(path.stat().st_size for path in filled.glob("large-*/*.log")) / 8


def test_cuts_fall_between_batches_and_leave_nothing_out(filled: Path) -> None:
    tasks = plan_read(filled, {"subscribe": "large", "bytesPerPartition": "200k"})
    ends: dict[str, int] = {}
    for name, start, end in (split for splits in ranges_of(tasks) for split in splits):
        assert start == ends.get(name, 0)
        ends[name] = end
    for name, end in ends.items():
        with open_read_only(filled / name) as log:
            assert end == log.log_end_offset
            bases = {batch.base_offset for batch in log.batches()}
        assert {start for splits in ranges_of(tasks) for found, start, _ in splits if found == name} <= bases
    assert max(sizes_of(tasks)) < 300 << 10
    assert min(sizes_of(tasks)) > 100 << 10
    assert in_ms(read_rows(filled, {"bytesPerPartition": "200k"})) == engine_rows(
        filled, "large-0", "large-1", "small-0", "small-1", "small-2", "small-3"
    )


def test_small_partitions_share_a_task(filled: Path) -> None:
    assert ranges_of(plan_read(filled, {"subscribe": "small"})) == [[(f"small-{number}", 0, 5) for number in range(4)]]


def test_a_partition_is_one_task_if_that_is_asked_for(filled: Path) -> None:
    tasks = plan_read(filled, {"splitPartitions": "false", "bytesPerPartition": 1})
    assert [len(splits) for splits in ranges_of(tasks)] == [1] * 6


def test_at_least_so_many_tasks(filled: Path) -> None:
    for least in (1, 3, 7, 20):
        tasks = plan_read(filled, {"subscribe": "small", "minPartitions": least})
        assert least <= len(tasks) <= least + 1
        assert sum(end - start for splits in ranges_of(tasks) for _, start, end in splits) == 20
    assert len(plan_read(filled, {"subscribe": "small", "minPartitions": 100})) == 20  # one offset each
    assert len(plan_read(filled, {"subscribe": "large", "minPartitions": 50})) >= 50
    assert len(rows_of(plan_read(filled, {"subscribe": "small", "minPartitions": 7}))) == 20


def test_at_most_so_many_records_a_task(filled: Path) -> None:
    tasks = plan_read(filled, {"subscribe": "large", "maxRecordsPerPartition": 700})
    assert max(sum(end - start for _, start, end in splits) for splits in ranges_of(tasks)) <= 700
    assert len(rows_of(tasks)) == 40_000
    with pytest.raises(InvalidConfigError, match="maxRecordsPerPartition: expected so many that there are at most 100000 tasks"):
        pack([Split("a", 0, "d", 0, 1 << 40)], target_bytes=None, max_records=10)


def test_a_plan_is_small(filled: Path) -> None:
    for task in plan_read(filled, {"bytesPerPartition": "100k"}):
        again = pickle.loads(pickle.dumps(task))
        assert isinstance(again, SplitPartition)
        assert (again.splits, again.columns, again.keys) == (task.splits, task.columns, task.keys)
        assert len(pickle.dumps(task)) < 1500


def test_nothing_to_read(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "store") as store:
        store.create_topic("empty", partitions=3)
    assert plan_read(tmp_path / "store", {"subscribe": "empty"}) == []
    assert list(read_splits(InputPartition(None))) == []


def test_batches_are_of_a_size_that_travels_well(filled: Path) -> None:
    batches = [batch for task in plan_read(filled, {"subscribe": "large"}) for batch in read_splits(task)]
    assert max(batch.num_rows for batch in batches) <= 64 << 10
    assert min(batch.num_rows for batch in batches[:-1]) >= 8 << 10
    assert max(batch.nbytes for batch in batches) <= 8 << 20


def test_a_large_compressed_batch_comes_in_parts(tmp_path: Path) -> None:
    value = b"x" * 1000
    with open_store(tmp_path / "store") as store:
        store.create_topic("dense")
        rows = [(None, value, (), TIME)] * 30_000
        store.log("dense", 0).append(NewBatch(rows, settings=BatchSettings(compression="zstd")).encode())
    batches = [batch for task in plan_read(tmp_path / "store") for batch in read_splits(task)]
    assert sum(batch.num_rows for batch in batches) == 30_000
    assert max(batch.nbytes for batch in batches) <= 9 << 20
    assert len(batches) >= 4


def test_packing_keeps_the_order_of_a_partition() -> None:
    splits = [Split("a", 0, "d", first, first + 10, size_bytes=40) for first in (20, 0, 10)]
    splits += [Split("b", number, "d", 0, 10, size_bytes=30) for number in range(3)]
    packed = pack(splits, target_bytes=100)
    assert [[(split.topic, split.partition, split.start_offset) for split in task] for task in packed] == [
        [("a", 0, 0), ("a", 0, 10)],
        [("a", 0, 20), ("b", 0, 0), ("b", 1, 0)],
        [("b", 2, 0)],
    ]
    assert [len(task) for task in pack(splits, target_bytes=None)] == [3, 1, 1, 1]
    assert [len(task) for task in pack(splits, target_bytes=100, max_records=10)] == [1] * 6
    assert pack([], target_bytes=100, min_partitions=4) == []


def test_how_much_a_task_should_have() -> None:
    mib = 1 << 20
    assert task_bytes(485 * mib, most=128 * mib, cores=2) == -(-485 * mib // 4)
    assert task_bytes(485 * mib, most=128 * mib, cores=64) == 16 * mib
    assert task_bytes(10_000 * mib, most=128 * mib, cores=4) == 128 * mib
    assert task_bytes(100, most=128 * mib, cores=4) == 16 * mib
    assert task_bytes(485 * mib, most=3 * mib, is_given=True, cores=2) == 3 * mib
    assert task_bytes(100 * mib, most=128 * mib, at_least=50, cores=1) == 2 * mib
    assert task_bytes(0, most=128 * mib, at_least=50, cores=1) == 1


def test_a_task_knows_what_it_needs() -> None:
    task = SplitPartition((Split("a", 0, "d", 0, 1),), ("offset",))
    assert (task.isolation, task.keys, task.oldest_ms, task.fail_on_data_loss) == ("committed", None, None, True)

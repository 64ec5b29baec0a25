"""Records, columns and tables of a topic, read by its owner and by a reader beside it, against a plain model."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import TIME
from tests.support.readers import ReadOnlyDisk
from tests.support.topics import SMALL, Stored, TopicModel, open_store, plain, plain_rows
from tidelog.disk.file_pool import FilePool
from tidelog.log.positions import Time
from tidelog.store.merging import merge_by_time
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.topic_reading import TopicReading

PARTITIONS = 3
partitions = st.integers(0, PARTITIONS - 1)
producers = st.integers(1, 2)
keys = st.sampled_from([None, b"", b"a", b"b", b"c"])
values = st.one_of(st.none(), st.binary(max_size=30))
times = st.integers(TIME - 5, TIME + 5)
rows = st.lists(st.tuples(keys, values, times), min_size=1, max_size=5)
appends = st.tuples(st.just("append"), partitions, rows, st.sampled_from(["none", "lz4", "zstd"]), st.one_of(st.none(), producers))
ends = st.tuples(st.just("end"), partitions, producers, st.sampled_from(["commit", "abort"]))
steps = st.lists(st.one_of(appends, appends, ends), max_size=25)
offsets = st.integers(0, 40)


@given(
    steps, st.lists(offsets, min_size=PARTITIONS, max_size=PARTITIONS), st.lists(offsets, min_size=PARTITIONS, max_size=PARTITIONS), times
)
def test_reading_a_topic(script: list[tuple[Any, ...]], firsts: list[int], spans: list[int], as_of_ms: int) -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "store") as store:
        model = TopicModel(store.create_topic("tide", PARTITIONS, SMALL))
        for name, *arguments in script:
            getattr(model, name)(*arguments)
        starts = {partition: min(first, model.topic.log(partition).log_end_offset) for partition, first in enumerate(firsts)}
        stops = {partition: start + span for (partition, start), span in zip(starts.items(), spans, strict=True)}
        check(model.topic, model, starts, stops, as_of_ms)
        with ReadOnlyStore.open(Path(folder) / "store", pool=FilePool(ReadOnlyDisk())) as reader:
            check(reader.topic("tide"), model, starts, stops, as_of_ms)


def check(topic: TopicReading, model: TopicModel, starts: dict[int, int], stops: dict[int, int], as_of_ms: int) -> None:
    everything = sorted(record for partition in range(PARTITIONS) for record in model.committed(partition))
    assert sorted(plain(topic.read())) == everything
    assert sorted(plain_rows(topic.arrow())) == everything
    some = {partition: model.committed(partition, starts[partition], stops[partition]) for partition in range(PARTITIONS)}
    for partition, expected in some.items():
        assert plain(topic.read(starts[partition], stops[partition], partition=partition)) == expected
        assert plain_rows(topic.arrow(starts[partition], stops[partition], partition=partition)) == expected
    for merge in (None, "time"):
        found = plain(topic.read(starts, stops, merge=merge))
        for partition, expected in some.items():
            assert [record for record in found if record.partition == partition] == expected
        if merge == "time":
            check_merged(found, some)
    assert topic.table() == model.table()
    assert topic.table(as_of=stops) == model.table(until=stops)
    assert topic.table(as_of=Time(as_of_ms)) == model.table(until_ms=as_of_ms)


@given(st.lists(st.lists(st.integers(0, 6), max_size=8), max_size=6))
def test_merging(times: list[list[int]]) -> None:
    parts: dict[int, list[Any]] = {
        partition: [Stored(partition, offset, timestamp_ms, None, None) for offset, timestamp_ms in enumerate(part)]
        for partition, part in enumerate(times)
    }
    found = list(merge_by_time([iter(part) for part in parts.values()]))
    assert len(found) == sum(map(len, times))
    check_merged(found, parts)


def check_merged(found: list[Any], parts: dict[int, list[Any]]) -> None:
    """Whatever comes is the earliest of what is next in each partition, of equal ones that of the smallest partition."""
    left = {partition: list(records) for partition, records in parts.items()}
    for record in found:
        following = [(records[0].timestamp_ms, partition) for partition, records in left.items() if records]
        assert (record.timestamp_ms, record.partition) == min(following)
        left[record.partition].pop(0)

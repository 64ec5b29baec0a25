"""Positions of groups against a plain model: commits, transactions that interleave, tombstones, compaction, opening again."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.groups import end, offsets_log, write
from tests.support.small_stores import open_store
from tidelog.disk.names import TopicPartition
from tidelog.record import NewBatch
from tidelog.store.groups.commit_batch import commit_batch
from tidelog.store.groups.position import Position
from tidelog.store.groups.positions import Positions
from tidelog.store.groups.source import OwnedSource

PARTITIONS = [TopicPartition(topic, number) for topic in ("a", "b") for number in (0, 1)]
GROUPS = ["g", "h"]
groups, partitions = st.sampled_from(GROUPS), st.sampled_from(PARTITIONS)
positions = st.dictionaries(partitions, st.integers(0, 1 << 62), min_size=1, max_size=3)
producers = st.sampled_from([5, 6])
steps = st.one_of(
    st.tuples(st.just("commit"), groups, positions),
    st.tuples(st.just("begin"), groups, producers, positions),
    st.tuples(st.just("end"), producers, st.sampled_from(["commit", "abort"])),
    st.tuples(st.just("delete"), groups, partitions),
    st.tuples(st.just("compact")),
    st.tuples(st.just("look"), groups),
    st.tuples(st.just("open")),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=25))
def test_positions_are_those_of_a_plain_model(story: list[tuple]) -> None:  # type: ignore[type-arg]
    # One partition, so that all groups are in one log: place, offset of the record, and what it says.
    config = {"offsets.topic.num.partitions": 1}
    model: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
    pending: dict[int, dict[tuple[str, TopicPartition], tuple[int, int]]] = {5: {}, 6: {}}
    sequences = {5: 0, 6: 0}
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "store"
        store = open_store(path, config=config)
        try:
            for step in story:
                log = offsets_log(store, "g")
                place = log.log_end_offset
                match step:
                    case ("commit", group, found):
                        committed = {partition: Position(offset) for partition, offset in found.items()}
                        Positions(OwnedSource(store._state)).commit(group, committed)
                        for shift, (partition, offset) in enumerate(found.items()):
                            model[group, partition] = place + shift, offset
                    case ("begin", group, producer, found):
                        write(log, group, found, producer=producer, sequence=sequences[producer])
                        sequences[producer] += len(found)
                        for shift, (partition, offset) in enumerate(found.items()):
                            pending[producer][group, partition] = place + shift, offset
                    case ("end", producer, kind):
                        if pending[producer] or sequences[producer]:
                            end(log, producer, kind)
                        if kind == "commit":
                            for key, (at, offset) in pending[producer].items():
                                if key not in model or model[key][0] < at:
                                    model[key] = at, offset
                        pending[producer] = {}
                    case ("delete", group, partition):
                        write(log, group, {partition: None})
                        model.pop((group, partition), None)
                        for written in pending.values():
                            written.pop((group, partition), None)
                    case ("compact",):
                        store.compact("__consumer_offsets", roll=True)
                    case ("look", group):
                        store.group(group).positions()
                    case ("open",):
                        store.close()
                        store = open_store(path, config=config)
            for group in GROUPS:
                expected = {partition: offset for (name, partition), (_, offset) in model.items() if name == group}
                assert {partition: found.offset for partition, found in store.group(group).positions().items()} == expected
            assert {group.name for group in store.groups()} == {name for name, _ in model}
        finally:
            store.close()


texts = st.binary(max_size=200) | st.binary(min_size=8000, max_size=9000)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(texts, st.none() | texts), min_size=1, max_size=80), st.integers(0, 1 << 50))
def test_the_batch_of_a_commit_is_that_of_the_encoder(rows: list[tuple[bytes, bytes | None]], timestamp_ms: int) -> None:
    assert commit_batch(rows, timestamp_ms) == NewBatch(rows, timestamp_ms=timestamp_ms).encode()

"""The four guarantees of log compaction, each held against a plain list of everything that was ever appended."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.compacted import (
    DELETE_RETENTION_MS,
    TINY_MAP,
    Told,
    appends,
    compacted_topic,
    do,
    memories,
    passes,
    pauses,
    rows,
    table_of,
    told,
    transactions,
    values,
)

Step = tuple[Any, ...]
reads = st.sampled_from([0, 0, 0, 0, 0, 0, 1, 2])
LAG_MS = 1000

PASSES = ("roll_and_compact", "compact", "clean_once")
TWO_PASSES: list[Step] = [("append", [(b"other", b"1")]), ("roll_and_compact",)] * 2
few = st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.one_of(st.none(), values)), min_size=1, max_size=2)
plain = st.one_of(st.tuples(st.just("append"), few), st.tuples(st.just("append"), few), pauses, passes)
script = st.lists(st.one_of(appends, appends, transactions, pauses, passes), max_size=40)


# 1. A reader that stays caught up sees every record.


@given(st.lists(st.one_of(plain, plain, plain, st.just(("look",))), max_size=40), memories)
def test_who_stays_caught_up_sees_every_record(steps: list[Step], memory: int) -> None:
    """`min.compaction.lag.ms` says how far behind one may be: who looks at least that often misses nothing, whatever is compacted."""
    with compacted_topic(memory=memory, min_compaction_lag_ms=LAG_MS) as topic:
        seen: list[Told] = []
        looked_ms = topic.clock()

        def look() -> None:
            nonlocal looked_ms
            seen.extend(topic.read(seen[-1].offset + 1 if seen else 0))
            looked_ms = topic.clock()

        for step in steps:
            if step[0] == "look":
                look()
                continue
            if step[0] == "advance" and topic.clock() + step[1] - looked_ms >= LAG_MS:
                look()
            do(topic, step)
        look()
        assert seen == topic.told


@given(st.lists(plain, max_size=40), memories)
def test_who_reads_before_each_pass_sees_every_record(steps: list[Step], memory: int) -> None:
    with compacted_topic(memory=memory) as topic:
        seen: list[Told] = []
        for step in [*steps, ("compact",)]:
            if step[0] in PASSES:
                seen.extend(topic.read(seen[-1].offset + 1 if seen else 0))
            do(topic, step)
        assert seen == topic.told


# 2. Order never changes: something may be missing, nothing is moved.


@given(script, memories)
def test_order_never_changes(steps: list[Step], memory: int) -> None:
    with compacted_topic(memory=memory) as topic:
        for step in steps:
            do(topic, step)
        topic.end_all()
        topic.compact(roll=True)
        left = iter(topic.read())
        survivor = next(left, None)
        for one in topic.told:  # each that is left comes by, in the order in which it was appended
            if survivor is not None and one == survivor:
                survivor = next(left, None)
        assert survivor is None


# 3. An offset never changes: it is the place of one record for ever, and a place in the log when that is gone.


@given(script, memories)
def test_offsets_never_change(steps: list[Step], memory: int) -> None:
    with compacted_topic(memory=memory) as topic:
        for step in steps:
            do(topic, step)
            if step[0] in PASSES:
                end_offset = topic.log.log_end_offset
                assert end_offset >= max((one.offset + 1 for one in topic.told), default=0)
        topic.end_all()
        end_offset = topic.log.log_end_offset
        topic.compact(roll=True)
        log, left = topic.log, topic.read()
        assert log.log_end_offset == end_offset
        assert {one.offset: one for one in left}.items() <= {one.offset: one for one in topic.told}.items()
        for offset in range(end_offset):
            # Reading where a record is gone gives the next one that exists, whoever reads.
            expected = next((one for one in left if one.offset >= offset), None)
            assert next(iter(topic.read(offset)), None) == expected
            found = next(log.read(offset, isolation="committed"), None)
            assert (None if found is None else told(found)) == expected
            assert log.fetch(offset, 1, isolation="committed").next_offset > offset  # and who follows comes on
        assert topic.read(end_offset) == []
        batches = [row for batch in topic.topic.arrow() for row in batch.to_pylist()]
        assert [(row["offset"], row["key"], row["value"]) for row in batches] == [one[:3] for one in left]


# 4. A reader from the start sees at least the final state, and every delete marker if it is done within delete.retention.ms.


@given(script, memories)
def test_a_reader_from_the_start_sees_the_final_state(steps: list[Step], memory: int) -> None:
    with compacted_topic(memory=memory) as topic:
        for step in [*steps, ("end_all",), ("compact",)]:
            do(topic, step)
            if step[0] in (*PASSES, "end_all"):
                # Of each key the last record is there, unless it is a tombstone whose time is over.
                left = topic.read()
                there = {one.offset for one in left}
                visible = [one for one in topic.told if one.offset < topic.log.last_stable_offset]
                latest = {one.key: one for one in visible}
                assert all(one.offset in there for one in latest.values() if one.value is not None)
                assert table_of(left) == table_of(visible)
        assert topic.read() == topic.read(isolation="committed")
        assert topic.topic.table() == topic.table()


@given(st.lists(st.one_of(plain, plain, plain, transactions), min_size=10, max_size=40), st.data())
def test_a_reader_in_time_sees_every_delete_marker(steps: list[Step], data: st.DataObject) -> None:
    """It reads a record now and then while all goes on. Nothing that was deleted is there for it at the end.

    The memory holds all keys. Where it does not, a pass may end between a record and the tombstone that comes after it, and stamp the
    tombstone while it leaves the record: Kafka's rule, which counts the time from there.
    """
    with compacted_topic() as topic:
        topic.append([(b"first", b"1")])
        begins = data.draw(st.integers(0, min(5, len(steps))), label="begins")
        for step in steps[:begins]:
            do(topic, step)
        began_ms = topic.clock()
        known: list[Told] = []
        last = [("append", [(key, None) for key in data.draw(st.sets(st.sampled_from([b"a", b"b", b"c"]), min_size=1), label="deleted")])]
        for step in [*steps[begins:], ("end_all",), *last, *TWO_PASSES]:
            if step[0] == "advance" and topic.clock() + step[1] - began_ms >= DELETE_RETENTION_MS:
                continue
            do(topic, step)
            known.extend(topic.read(known[-1].offset + 1 if known else 0)[: data.draw(reads, label="reads")])
        topic.end_all()
        known.extend(topic.read(known[-1].offset + 1 if known else 0))
        assert table_of(known) == topic.table()


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.sampled_from([b"1", None])), min_size=1, max_size=8), rows)
def test_a_tombstone_goes_in_the_end_and_not_before_its_time(first: list[tuple[bytes, bytes | None]], more: Any) -> None:
    with compacted_topic() as topic:
        topic.append([(b"other", b"0")])
        topic.append(first)
        topic.append([(b"other", b"0")])  # the batches at both ends of a pass are cases of their own
        topic.compact(roll=True)
        last = [one for one in topic.latest().values() if one.value is None]
        topic.advance(DELETE_RETENTION_MS - 1)
        topic.append([(b"other", b"1")])
        topic.compact(roll=True)
        assert {one.offset for one in last} <= {one.offset for one in topic.read()}
        topic.advance(1)
        topic.append([(b"other", b"2")])
        topic.compact(roll=True)
        assert not {one.offset for one in last} & {one.offset for one in topic.read()}
        assert topic.topic.table() == topic.table()
        topic.append(more)
        topic.compact(roll=True)
        assert topic.topic.table() == topic.table()


def test_what_a_memory_that_is_too_small_costs() -> None:
    """Kafka's rule to the letter: a pass that ends for want of memory stamps tombstones behind its end, though it leaves what they delete.

    If the next pass comes after their time, both go at once, and who has read the record in between is not told. `compact` goes on with
    passes until all is clean, so it is only the cleaner's turns, one pass each, that can be so far apart.
    """
    rows: list[tuple[bytes, bytes | None]] = [(b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"d", b"1"), (b"a", None), (b"e", b"1")]
    for turn, is_told in (("clean_once", False), ("compact", True)):
        with compacted_topic(memory=TINY_MAP) as topic:
            for row in rows:
                topic.append([row])
            topic.roll()
            do(topic, (turn,))
            topic.advance(DELETE_RETENTION_MS)
            known = topic.read()[:1]
            assert (known[0].key == b"a") is not is_told  # with all passes at once it is gone, and nobody can be misled
            do(topic, (turn,))
            known += topic.read(known[-1].offset + 1)
            assert (table_of(known) == topic.table()) is is_told

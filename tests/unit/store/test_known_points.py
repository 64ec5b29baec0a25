"""Which points of the past can be told: the rule, and what a store says that was compacted, trimmed, or has lost its checkpoint."""

from pathlib import Path

import pytest

from tests.support.keyed_topics import SETTINGS, alive, make_keyed, state
from tests.support.logs import TIME
from tidelog import Time
from tidelog.disk.names import CLEANER_CHECKPOINT, TopicPartition
from tidelog.errors import UnknownPastError
from tidelog.log.read_only import open_read_only
from tidelog.store.known_points import KnownFrom, PastFacts, check_history, check_state, compacted_to, gap_end, known_from
from tidelog.store.log_past import look_at_past
from tidelog.store.store import Store

GOLDEN = Path(__file__).parents[2] / "golden"
TIDE = TopicPartition("tide", 0)
LATER = TIME + 1_000_000


def facts(start: int = 0, cleaned_to: int | None = None, gap: int | None = None) -> PastFacts:
    return PastFacts(TIDE, "/tide-0", start, 100, 80, cleaned_to, gap, 7)


def test_the_rule() -> None:
    assert known_from(facts(), -1) == KnownFrom(TIDE, "/tide-0", -1, -1, None)
    assert known_from(facts(), -1).tells_offset(-9)
    assert known_from(facts(), -1).tells_time(-900)  # before 1970
    cleaned = known_from(facts(cleaned_to=50), 900)
    assert (cleaned.first_offset, cleaned.first_timestamp_ms) == (49, 900)
    assert [cleaned.tells_offset(offset) for offset in (48, 49, 99)] == [False, True, True]
    assert [cleaned.tells_time(timestamp_ms) for timestamp_ms in (899, 900)] == [False, True]
    trimmed = known_from(facts(start=60, cleaned_to=50), 900)
    assert (trimmed.first_offset, trimmed.first_timestamp_ms) == (60, 7)
    assert not trimmed.tells_all
    assert compacted_to(facts(gap=30)) == 80  # how far a cleaner came that wrote nothing down nobody knows
    assert compacted_to(facts(gap=95)) == 95
    assert compacted_to(facts(cleaned_to=1000)) == 100
    assert "may have been compacted" in str(known_from(facts(gap=30), 1).why)


def test_gaps() -> None:
    assert gap_end([(0, 4, 5), (5, 9, 5)], 0) is None
    assert gap_end([(0, 4, 4), (5, 9, 5)], 0) == 5
    assert gap_end([(0, 4, 5), (7, 9, 3)], 0) == 7
    assert gap_end([(2, 4, 3)], 0) == 2
    assert gap_end([(0, 4, 3), (9, 9, 1), (10, 20, 11)], 0) == 9
    assert gap_end([], 5) is None
    assert gap_end([(-1, 4, 5), (-1, 9, 5)], 0) is None
    assert gap_end([(-1, 4, 5), (-1, 9, 4)], 0) == 10


def test_what_is_raised_names_the_first_point() -> None:
    known = [known_from(facts(cleaned_to=50), 900)]
    with pytest.raises(UnknownPastError, match="tide-0 was compacted up to offset 49") as raised:
        check_state(known, offsets={TIDE: 10}, timestamp_ms=None)
    assert (raised.value.first_offset, raised.value.first_timestamp_ms) == (49, 900)
    with pytest.raises(UnknownPastError, match="as of 5 ms"):
        check_state(known, offsets=None, timestamp_ms=5)
    with pytest.raises(UnknownPastError, match="the history from its beginning"):
        check_history(known)
    check_state(known, offsets={TIDE: 49}, timestamp_ms=900)
    check_history([known_from(facts(), -1)])


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_the_table_of_a_compacted_topic(tmp_path: Path, has_checkpoint: bool) -> None:
    versions = make_keyed(tmp_path, partitions=1)
    with Store.open(tmp_path, background=False, clock=lambda: LATER) as store:
        topic = store.topic("tide")
        for offset in (0, 17, versions[-1].offset):
            assert topic.table(as_of=offset) == {key: one.value for key, one in alive(state(versions, offsets={0: offset})).items()}
        assert look_at_past(store.log("tide", 0)).tells_all
        store.compact("tide")
    if not has_checkpoint:
        (tmp_path / CLEANER_CHECKPOINT).unlink()
    with Store.open(tmp_path, background=False, clock=lambda: LATER, config={"log.cleaner.enable": False}) as store:
        topic, log = store.topic("tide"), store.log("tide", 0)
        known = look_at_past(log)
        assert 20 < known.first_offset < log.log_end_offset
        assert known.first_offset == log.segments[-1].base_offset - 1
        for point in (0, known.first_offset - 1, Time(known.first_timestamp_ms - 1)):
            with pytest.raises(UnknownPastError) as raised:
                topic.table(as_of=point)
            assert raised.value.first_offset == known.first_offset
        assert len(topic.table(as_of=5, allow_incomplete=True)) < len(alive(state(versions, offsets={0: 5})))
        for offset in (known.first_offset, known.first_offset + 3):
            assert topic.table(as_of=offset) == {key: one.value for key, one in alive(state(versions, offsets={0: offset})).items()}
        for until_ms in (known.first_timestamp_ms, known.first_timestamp_ms + 500):
            expected = {key: one.value for key, one in alive(state(versions, until_ms=until_ms)).items()}
            assert topic.table(as_of=Time(until_ms)) == expected
        assert topic.table() == {key: one.value for key, one in alive(state(versions)).items()}


@pytest.mark.parametrize("name", ["superseded/clean-1", "codecs/clean-0", "formats-of-old/clean-1", "transactions/clean-2"])
def test_what_kafkas_own_cleaner_has_left(name: str) -> None:
    """These have no checkpoint: their gaps tell."""
    with open_read_only(GOLDEN / "compaction" / name) as log:
        known = look_at_past(log)
    assert "has gaps" in str(known.why)
    assert known.first_offset == log.log_end_offset - 1


@pytest.mark.parametrize("name", ["emails-0", "emails-1", "plain-0", "again-0", "__cluster_metadata-0"])
def test_what_a_broker_has_not_cleaned(name: str) -> None:
    with open_read_only(GOLDEN / "broker" / "data" / name) as log:
        assert look_at_past(log).tells_all


def test_a_log_that_was_trimmed(tmp_path: Path) -> None:
    with Store.open(tmp_path, background=False, clock=lambda: TIME) as store:
        topic = store.create_topic("tide", 1, SETTINGS | {"cleanup.policy": "delete", "internal.segment.bytes": 200})
        for number in range(30):
            topic.append(b"%d" % number, key=b"k%d" % (number % 4), timestamp_ms=TIME + number)
        store.log("tide", 0).delete_records_before(10)
        with pytest.raises(UnknownPastError, match="starts at offset 10") as raised:
            topic.table(as_of=9)
        assert raised.value.first_offset == 10
        assert topic.table(as_of=10) == {b"k2": b"10"}
        with pytest.raises(UnknownPastError):
            topic.table(as_of=Time(TIME + 9))
        assert topic.table(as_of=Time(TIME + 11)) == {b"k2": b"10", b"k3": b"11"}

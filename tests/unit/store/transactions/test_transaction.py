"""A transaction from its beginning to its end: all of it is seen, or nothing."""

import shutil
import threading
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.support.groups import offsets
from tests.support.logs import TIME
from tests.support.small_stores import open_store, tree_of
from tests.support.transactions import committed, fill, state_in, write_out
from tidelog.disk.names import TopicPartition
from tidelog.errors import (
    InvalidConfigError,
    InvalidRecordTypeError,
    InvalidTimestampError,
    LogClosedError,
    MessageTooLargeError,
    ReadOnlyStoreError,
    RefusedBatchError,
    TidelogError,
    TransactionError,
    UnknownTopicError,
)
from tidelog.record.kernel.hashing import partition_for_key
from tidelog.record.record_metadata import RecordMetadata
from tidelog.schema.transaction_state import TransactionStatus
from tidelog.store.internal_logs import internal_log
from tidelog.store.internal_topics import OFFSETS, TRANSACTIONS, partition_of_id
from tidelog.store.store import Store
from tidelog.store.topic_changes import with_topic

FOUR = [("a", 0), ("a", 1), ("a", 2), ("b", 0)]


def a_store(path: Path, **options: Any) -> Store:
    store = open_store(path / "data", **options)
    store.create_topic("a", 3, exist_ok=True)
    store.create_topic("b", 1, exist_ok=True)
    return store


def fail_inside(store: Store, *, is_written: bool) -> None:
    """A block that ends with an exception."""
    with store.transaction("id") as tx:
        fill(tx, FOUR, b"one")
        if is_written:
            write_out(tx)
        raise ZeroDivisionError


def test_a_commit_is_seen_everywhere_at_once(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        with store.transaction("id") as tx:
            fill(tx, FOUR, b"one")
            write_out(tx)
            fill(tx, FOUR, b"two")
            assert committed(store, "a") == committed(store, "b") == []
        assert committed(store, "a") == [b"one", b"two"] * 3
        assert committed(store, "b") == [b"one", b"two"]
        with tidelog.open(tmp_path / "data", "r") as other:
            assert committed(other, "b") == [b"one", b"two"]
        assert state_in(store, "id").status is TransactionStatus.COMPLETE_COMMIT
    with a_store(tmp_path) as store:
        assert committed(store, "b") == [b"one", b"two"]


def test_an_exception_aborts_and_goes_on(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        with pytest.raises(ZeroDivisionError):
            fail_inside(store, is_written=True)
        assert committed(store, "a") == committed(store, "b") == []
        assert store.log("b", 0).last_stable_offset == store.log("b", 0).high_watermark == 2
        assert state_in(store, "id").status is TransactionStatus.COMPLETE_ABORT


def test_by_hand(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        tx = store.transaction("id")
        fill(tx, FOUR, b"one")
        tx.commit()
        assert committed(store, "b") == [b"one"]
        with store.transaction("id") as second:
            fill(second, FOUR, b"two")
            second.abort()  # leaving the block is fine then
        assert committed(store, "b") == [b"one"]


def test_after_the_end_everything_raises(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        for end in ("commit", "abort"):
            tx = store.transaction("id")
            tx.append("b", b"one")
            getattr(tx, end)()
            for use in (tx.commit, tx.abort, partial(tx.append, "b", b"two"), partial(tx.append, "a", b"two")):
                with pytest.raises(TransactionError):
                    use()
            assert not tx.is_open


def test_without_a_record_nothing_is_written(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        before = tree_of(tmp_path)
        with store.transaction("id"):
            pass
        with pytest.raises(ZeroDivisionError):
            fail_inside(store, is_written=False)
        assert tree_of(tmp_path) == before
        assert store.transactions() == []


def test_handles_tell_where_a_record_went_once_it_is_committed(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        store.topic("b").append(b"before")
        with store.transaction("id") as tx:
            first = tx.append("b", b"one")
            write_out(tx)
            second = tx.append("b", b"two", timestamp_ms=tx._open.clock() - 5)
            assert not first.done()
            with pytest.raises(TransactionError, match="once the transaction is committed"):
                first.result()
            with pytest.raises(TimeoutError):
                first.result(timeout=0.01)
            waiting: list[RecordMetadata] = []
            thread = threading.Thread(target=lambda: waiting.append(first.result()))
            thread.start()
        thread.join()
        assert waiting == [RecordMetadata(0, 1, tx._open.clock())]
        assert second.result() == RecordMetadata(0, 2, tx._open.clock() - 5)


def test_handles_of_an_aborted_one_raise(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        tx = store.transaction("id")
        written = tx.append("b", b"one")
        write_out(tx)
        gathered = tx.append("b", b"two")
        tx.abort()
        for handle in (written, gathered):
            with pytest.raises(TransactionError, match="aborted"):
                handle.result()


def test_more_than_fits_in_memory_is_written_on_the_way(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        with store.transaction("id") as tx:
            for number in range(40):
                tx.append("b", b"%02d" % number + bytes(100_000), key=b"key")
                tx.append("a", b"%02d" % number + bytes(100_000), key=b"key")
            gathered = sum(batch.room_bytes < 0 for gatherer in tx._open.topics.values() for batch in gatherer.buffer.open.values())
            assert not gathered
            assert store.log("b", 0).log_end_offset >= 30
        assert [value[:2] for value in committed(store, "b") if value is not None] == [b"%02d" % number for number in range(40)]


def test_many_transactions_of_an_id_raise_the_epoch(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        seen = []
        for number in range(5):
            with store.transaction("id") as tx:
                tx.append("b", b"%d" % number)
                write_out(tx)
                seen.append((tx.producer_id, tx.producer_epoch))
        assert seen == [(seen[0][0], epoch) for epoch in range(5)]
        assert seen[0][0] >= 1 << 52


def test_several_ids_on_the_same_partition(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        one, two = store.transaction("one"), store.transaction("two")
        for number in range(3):
            one.append("b", b"one %d" % number)
            write_out(one)
            two.append("b", b"two %d" % number)
            write_out(two)
        two.commit()
        assert committed(store, "b") == []  # the first is open still, and lies before it
        one.abort()
        assert committed(store, "b") == [b"two 0", b"two 1", b"two 2"]


def test_topics_that_do_not_wait_for_the_disk_are_durable_before_the_decision(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        store.create_topic("lazy", 1, {"flush.messages": str(2**63 - 1)})
        with store.transaction("id") as tx:
            tx.append("lazy", b"one")
        assert store.log("lazy", 0).flushed_end == 2
        assert committed(store, "lazy") == [b"one"]


def test_what_the_log_would_refuse_is_refused_when_it_is_appended(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        store.create_topic("compacted", 1, {"cleanup.policy": "compact", "max.message.bytes": 1000})
        with store.transaction("id") as tx:
            with pytest.raises(RefusedBatchError, match="key"):
                tx.append("compacted", b"value")
            with pytest.raises(MessageTooLargeError):
                tx.append("compacted", bytes(2000), key=b"key")
            with pytest.raises(InvalidTimestampError):
                tx.append("b", b"value", timestamp_ms=2**62)
            with pytest.raises(InvalidRecordTypeError):
                tx.append("b", "text")  # type: ignore[arg-type]
            with pytest.raises(InvalidRecordTypeError):
                tx.append(7, b"value")  # type: ignore[arg-type]
            with pytest.raises(UnknownTopicError, match="did you mean"):
                tx.append("compact", b"value")
            with pytest.raises(UnknownTopicError):
                tx.append("b", b"value", partition=1)
            for internal in ("__consumer_offsets", "__transaction_state"):
                with pytest.raises(RefusedBatchError):
                    tx.append(internal, b"value", key=b"key")
            tx.append(store.topic("b"), b"it goes on", headers=[("name", b"x")])
        assert committed(store, "b") == [b"it goes on"]


def test_a_topic_of_another_store_is_not_taken_for_ours(tmp_path: Path) -> None:
    """Both may have one of the name: the record would be in a store where nobody looks for it."""
    with a_store(tmp_path) as store, open_store(tmp_path / "theirs") as theirs:
        wrong = theirs.create_topic("b")
        with store.transaction("id") as tx:
            for ask in (
                lambda: tx.append(wrong, b"value"),
                lambda: tx.append_batches(wrong, 0, b""),
                lambda: tx.has_room(wrong, 1),
            ):
                with pytest.raises(TransactionError, match="another store"):
                    ask()
            tx.append("b", b"it goes on")
        assert (committed(store, "b"), committed(theirs, "b")) == ([b"it goes on"], [])


@pytest.mark.parametrize("wrong", ["", "x" * 40_000, "\ud800"])
def test_ids_that_cannot_be(tmp_path: Path, wrong: str) -> None:
    with a_store(tmp_path) as store, pytest.raises(InvalidConfigError):
        store.transaction(wrong)


def test_ids_and_timeouts_of_the_wrong_kind(tmp_path: Path) -> None:
    with a_store(tmp_path, config={"transaction.max.timeout.ms": 5000}) as store:
        with pytest.raises(InvalidRecordTypeError):
            store.transaction(b"id")  # type: ignore[arg-type]
        for timeout_ms in (0, 5001, 1.5):
            with pytest.raises(InvalidConfigError, match="timeout"):
                store.transaction("id", timeout_ms=timeout_ms)  # type: ignore[arg-type]
        with store.transaction("id") as tx:
            assert tx._open.timeout_ms == 5000
        store.transaction("id", timeout_ms=4999).abort()


def test_ids_of_any_text_and_their_partition(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        for name in ("zażółć", "🌊", "a\nb"):
            with store.transaction(name) as tx:
                tx.append("b", name.encode())
        assert [found.transactional_id for found in store.transactions()] == sorted(("zażółć", "🌊", "a\nb"))
    with a_store(tmp_path) as store:
        assert len(store.transactions()) == 3


def test_a_store_that_is_only_read(tmp_path: Path) -> None:
    with a_store(tmp_path) as store, store.transaction("id") as tx:
        tx.append("b", b"one")
    with tidelog.open(tmp_path / "data", "r") as reader:
        (found,) = reader.transactions()
        assert (found.transactional_id, found.status, found.is_ours) == ("id", TransactionStatus.COMPLETE_COMMIT, True)
        assert reader.hanging_transactions() == []
        with pytest.raises(ReadOnlyStoreError):
            reader.transaction("id")


def test_of_a_closed_store(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    tx = store.transaction("id")
    handle = tx.append("b", b"one")
    write_out(tx)
    store.close()
    for use in (lambda: store.transaction("id"), store.transactions, store.hanging_transactions, lambda: tx.append("b", b"two"), tx.commit):
        with pytest.raises(LogClosedError):
            use()
    with pytest.raises(TidelogError):
        handle.result()
    with tidelog.open(tmp_path / "data", "r") as reader:
        assert committed(reader, "b") == []
        assert state_in(reader, "id").status is TransactionStatus.COMPLETE_ABORT


def test_dropped_open_it_warns_and_is_aborted(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        tx = store.transaction("id")
        tx.append("b", b"one")
        write_out(tx)
        with pytest.warns(ResourceWarning, match="dropped open"):
            del tx
        store._state.clock.advance(10_000)  # type: ignore[attr-defined]
        store.scheduler.run_due()
        assert store.log("b", 0).last_stable_offset == 2
        assert committed(store, "b") == []


def test_ended_in_order_it_does_not_warn(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with a_store(tmp_path) as store:
            with store.transaction("id") as tx:
                tx.append("b", b"one")
            del tx


def test_a_topic_that_is_deleted_meanwhile(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        tx = store.transaction("id")
        fill(tx, FOUR, b"one")
        write_out(tx)
        store.delete_topic("b")
        tx.commit()  # the rest of it
        assert committed(store, "a") == [b"one"] * 3
        tx = store.transaction("id")
        fill(tx, FOUR[:3], b"two")
        store.delete_topic("a")
        with pytest.raises(UnknownTopicError):
            tx.commit()  # it never was in the log
        assert not tx.is_open


def test_a_topic_that_is_deleted_and_made_again(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        tx = store.transaction("id")
        fill(tx, FOUR, b"one")
        write_out(tx)
        store.delete_topic("b")
        store.create_topic("b", 1)
        with pytest.raises(TransactionError, match="cut off"):
            tx.commit()
        assert committed(store, "a") == committed(store, "b") == []
        with store.transaction("id") as tx:
            fill(tx, FOUR, b"two")
        assert committed(store, "a") + committed(store, "b") == [b"two"] * 4


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("is_asked_before", [False, True])
def test_what_was_gathered_for_a_topic_is_not_for_another_of_its_name(tmp_path: Path, count: int, *, is_asked_before: bool) -> None:
    with a_store(tmp_path) as store:
        tx = store.transaction("id")
        tx.append("a", b"old", key=b"key")
        tx.append("b", b"with it")
        store.delete_topic("a")
        store.create_topic("a", count)
        tx.append("a", b"by the old count", key=b"key")
        if is_asked_before:
            with pytest.raises(TransactionError, match="'a' was deleted, and made again"):
                write_out(tx)
            with pytest.raises(TransactionError, match=r"can only be aborted: .*made again"):
                tx.append("b", b"more", partition=0)
        with pytest.raises(TransactionError, match="made again"):
            tx.commit()
        assert not tx.is_open
        assert committed(store, "a") == committed(store, "b") == []
        assert [store.log("a", number).log_end_offset for number in range(count)] == [0] * count
        with store.transaction("id") as tx:
            for number in range(9):
                tx.append("a", b"new", key=b"%d" % number)
        for record in store.topic("a").read():
            assert record.partition == partition_for_key(record.key or b"", count)
        assert committed(store, "a") == [b"new"] * 9


@pytest.mark.parametrize("moment", ["gathered", "gathered again", "written", "durable", "left to opening"])
def test_positions_in_a_topic_that_is_deleted_go_with_it(tmp_path: Path, moment: str) -> None:
    """A group that began in a new topic of the name where it was in the old one would never see what lies before that."""
    with a_store(tmp_path) as store:
        store.topic("a").append_many([(None, b"old")] * 5)
        store.topic("b").append(b"other")
        consumer = store.consumer("group", ["a", "b"])
        assert len(consumer.poll()) == 6
        tx = store.transaction("id")
        tx.commit_positions(consumer)
        if not moment.startswith("gathered"):
            tx._open.write(tx._open._take())
        if moment in ("durable", "left to opening"):
            tx._open._make_durable()
        store.delete_topic("a")
        store.create_topic("a", 3)
        store.topic("a").append_many([(None, b"new")] * 8)
        if moment == "gathered again":
            tx.commit_positions(consumer)
        if moment == "left to opening":
            tx._open.write_state(TransactionStatus.PREPARE_COMMIT)
            shutil.copytree(tmp_path / "data", tmp_path / "copy" / "data", ignore=shutil.ignore_patterns(".lock"))
        tx.commit()
        consumer.close()
    with a_store(tmp_path / "copy" if moment == "left to opening" else tmp_path) as store:
        assert offsets(store, "group") == {TopicPartition("b", 0): 1}
        with store.consumer("group", ["a", "b"]) as consumer:
            assert [record.value for record in consumer.poll()] == [b"new"] * 8


@pytest.mark.parametrize("is_gathered_again", [False, True])
def test_positions_of_several_groups_in_a_topic_that_is_deleted_all_go_with_it(tmp_path: Path, is_gathered_again: bool) -> None:
    """They lie in several partitions of `__consumer_offsets`: what is left out of one of them is left out of the next one too."""
    groups = ["one", "two", "three"]
    with a_store(tmp_path) as store:
        assert len({partition_of_id(group, OFFSETS.partitions(store.config)) for group in groups}) == 3
        store.topic("b").append_many([(None, b"old")] * 5)
        tx = store.transaction("id")
        for group in groups:
            with store.consumer(group, "b") as consumer:
                assert len(consumer.poll()) == 5
                tx.commit_positions(consumer)
        store.delete_topic("b")
        store.create_topic("b", 1).append_many([(None, b"new")] * 8)
        if is_gathered_again:
            with store.consumer(groups[0], "b") as consumer:
                assert len(consumer.poll(2)) == 2
                tx.commit_positions(consumer)
        tx.commit()
        found = [offsets(store, group) for group in groups]
        assert found == [{TopicPartition("b", 0): 2} if is_gathered_again else {}, {}, {}]


def test_positions_in_topics_of_another_store_stay(tmp_path: Path) -> None:
    """Such go by the names of topics: nothing here says that one of them is gone."""
    with a_store(tmp_path) as store, open_store(tmp_path / "theirs") as theirs:
        theirs.create_topic("c").append(b"one")
        with theirs.consumer("group", "c", positions=store) as consumer, store.transaction("id") as tx:
            consumer.poll()
            tx.commit_positions(consumer)
        assert offsets(store, "group") == {TopicPartition("c", 0): 1}


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_log_that_is_cut_meanwhile_takes_the_transaction_with_it(tmp_path: Path, goes_on: bool) -> None:
    with a_store(tmp_path) as store:
        tx = store.transaction("id")
        fill(tx, FOUR, b"one")
        write_out(tx)
        store.log("b", 0).truncate_to(0)
        if goes_on:
            store.topic("b").append_many([(b"key", b"other")] * 3)
        with pytest.raises(TidelogError, match="cut off"):
            tx.commit()
        assert committed(store, "a") == []
        assert committed(store, "b") == ([b"other"] * 3 if goes_on else [])


def test_the_directory_of_another_partition_is_made_meanwhile(tmp_path: Path) -> None:
    """The topic of the states is incomplete then, for a moment: a commit was taken for one that nobody had decided."""
    with a_store(tmp_path) as store:
        tx = store.transaction("id")
        fill(tx, FOUR, b"one")
        write_out(tx)
        entry = store._state.file.topics["__transaction_state"]
        store._state.file = with_topic(store._state.file, "__transaction_state", replace(entry, is_incomplete=True))
        tx.commit()
        assert committed(store, "b") == [b"one"]
        assert state_in(store, "id").status is TransactionStatus.COMPLETE_COMMIT
        with store.transaction("id") as tx:  # completes it
            fill(tx, FOUR, b"two")
        assert committed(store, "b") == [b"one", b"two"]


def test_the_topic_of_the_states_is_deleted_meanwhile(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        with store.transaction("id") as tx:
            fill(tx, FOUR, b"one")
        tx = store.transaction("id")
        fill(tx, FOUR, b"two")
        write_out(tx)
        store.delete_topic("__transaction_state")
        with pytest.raises(LogClosedError):
            tx.commit()
        assert committed(store, "b") == [b"one"]
        with store.transaction("id") as tx:
            fill(tx, FOUR, b"three")
        assert committed(store, "b") == [b"one", b"three"]


def test_compaction_and_retention_beside_it(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        store.topic("b").alter({"cleanup.policy": "compact"})
        with store.transaction("id") as tx:
            fill(tx, FOUR, b"one")
        tx = store.transaction("id")
        fill(tx, FOUR, b"two")
        write_out(tx)
        store.compact("b", roll=True)
        store.retain()
        assert committed(store, "b") == [b"one"]
        tx.commit()
        store.compact("b", roll=True)
        assert committed(store, "b") == [b"two"]
        store.compact("__transaction_state", roll=True)
        assert state_in(store, "id").producer_epoch == 1
    with a_store(tmp_path) as store:
        assert state_in(store, "id").producer_epoch == 1
        with store.transaction("id") as tx:
            fill(tx, FOUR, b"three")
        assert state_in(store, "id").producer_epoch == 2


def test_states_are_read_again_from_a_log_that_was_opened_again(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        with store.transaction("id") as tx:
            fill(tx, [("a", 0)], b"one")
        log, table = internal_log(store._state, TRANSACTIONS, "id"), store._transactions.table
        known = table.get("id")
        assert known is not None
        log.append(table.writing.batch("id", replace(known.value, producer_epoch=9), TIME))  # past the table
        assert state_in(store, "id").producer_epoch == 0
        log.close()
        assert state_in(store, "id").producer_epoch == 9

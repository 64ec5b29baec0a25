"""A store in a forked child: it is the parent's. Using it raises, changes nothing, and never hangs; the parent goes on."""

import os
import pickle
import signal
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import tidelog
from tests.support.logs import a_batch
from tests.support.small_stores import open_store, state_of, tree_of
from tidelog.config import LONG_MAX
from tidelog.errors import ForkedError, LockedError
from tidelog.log.multi_fetch import FetchRequest

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_child(work: Callable[[], object]) -> object:
    """What a function gives back in a forked child, which has twenty seconds."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            answer: object = work()
        except BaseException:
            answer = traceback.format_exc()
        os.write(write, pickle.dumps(answer))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, "the child hangs"
    return pickle.loads(content)


def raised_by(*uses: Callable[[], object]) -> list[str]:
    """The names of what the uses raise."""
    names = []
    for use in uses:
        try:
            use()
            names.append("nothing")
        except Exception as error:
            names.append(type(error).__name__)
    return names


def test_every_use_raises_and_nothing_changes(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        topic = store.create_topic("a", 2)
        log = topic.log(0)
        log.append(a_batch())
        before = tree_of(tmp_path)
        uses: list[Callable[[], object]] = [
            store.topics,
            lambda: store.topic("a"),
            lambda: store.create_topic("b"),
            lambda: store.create_topic("a", exist_ok=True),
            lambda: store.delete_topic("a"),
            lambda: store.log("a", 0),
            store.flush,
            lambda: topic.log(0),
            lambda: topic.partitions,
            lambda: topic.topic_id,
            topic.partition_ids,
            topic.describe,
            lambda: topic.alter({"retention.ms": 5}),
            lambda: log.append(a_batch()),
            lambda: log.append_run([a_batch()]),
            log.flush,
            log.roll,
            log.checkpoint,
            lambda: log.truncate_to(0),
            lambda: log.delete_records_before(1),
            lambda: log.reconfigure({}),
            store.compact,
            lambda: store.compact("a", dry_run=True),
            store.clean_once,
            store.retain,
        ]
        assert in_child(lambda: raised_by(*uses)) == ["ForkedError"] * len(uses)
        assert tree_of(tmp_path) == before
        log.append(a_batch())
        topic.alter({"retention.ms": 5})
        store.create_topic("b").log(0).append(a_batch())
    with open_store(tmp_path / "store") as store:
        assert store.log("a", 0).load_report.was_clean
        assert store.log("a", 0).log_end_offset == 2


def test_a_lock_of_the_cleaner_that_nobody_gives_back_holds_up_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        log = store.create_topic("a", config={"cleanup.policy": "compact"}).log(0)
        log.append(a_batch())
        held, give_back = threading.Event(), threading.Event()

        def hold() -> None:
            with store._state.cleanings._changed, store._state.cleaner_offsets._lock:
                held.set()
                give_back.wait(30)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        assert in_child(lambda: raised_by(lambda: log.truncate_to(0), store.compact, store.clean_once)) == ["ForkedError"] * 3
        give_back.set()
        thread.join()
        assert log.truncate_to(0)


def test_reading_an_open_log_raises_too(tmp_path: Path) -> None:
    """Its files may be cut and removed by the parent, whose view of them nobody keeps up to date in the child."""
    with open_store(tmp_path / "store") as store:
        topic = store.create_topic("a", config={"internal.segment.bytes": 300})
        weak = store.create_topic("weak", config={"flush.messages": LONG_MAX}).log(0)
        log = topic.log(0)
        for _ in range(5):
            log.append(a_batch(value=b"x" * 100))
            weak.append(a_batch())
        begun = log.read(follow=True)
        assert next(begun).offset == 0
        uses = [
            lambda: log.fetch(0, 100),
            lambda: log.fetch(0, 100, isolation="committed"),
            lambda: weak.fetch(0, 100, isolation="log_end"),
            lambda: list(log.read()),
            lambda: list(log.batches()),
            lambda: list(begun),
            lambda: log.offset_for_time(0),
            lambda: log.max_timestamp,
            lambda: log.segments,
            lambda: log.log_end_offset,
            lambda: log.size_bytes,
            lambda: weak.high_watermark,
            lambda: list(topic.read()),
            lambda: topic.table(),
        ]
        assert in_child(lambda: raised_by(*uses)) == ["ForkedError"] * len(uses)
        assert "forked" in str(in_child(lambda: str(tidelog.multi_fetch([FetchRequest(log, 0, 100)])[0])))
        assert "forked" in str(in_child(lambda: repr(log)))

        def of_a_grandchild() -> object:
            return in_child(lambda: raised_by(*uses))

        assert in_child(of_a_grandchild) == ["ForkedError"] * len(uses)
        assert [record.offset for record in log.read()] == list(range(5))  # the parent reads on
        assert next(begun).offset == 1


def test_a_log_that_a_child_lets_go_of_is_not_complained_about(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        log = store.create_topic("a").log(0)
        log.append(a_batch())

        def let_go() -> list[str]:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                log.__del__()
            return [str(warning.message) for warning in caught]

        assert in_child(let_go) == []


def test_closing_in_the_child_is_harmless(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "store") as store:
        topic = store.create_topic("a", 2)
        log = topic.log(0)
        log.append(a_batch())
        before = tree_of(tmp_path)

        def close() -> list[str]:
            store.close()
            log.close()
            topic.log  # noqa: B018
            return raised_by(store.topics, lambda: log.append(a_batch()))

        answer = in_child(close)
        assert answer in (["ForkedError", "LogClosedError"], ["ForkedError", "ForkedError"])
        assert tree_of(tmp_path) == before
        assert in_child(lambda: raised_by(lambda: tidelog.open(tmp_path / "store"))) == ["LockedError"]
        log.append(a_batch())
    with tidelog.open(tmp_path / "store") as store:
        assert store.log("a", 0).load_report.was_clean
        assert store.log("a", 0).log_end_offset == 2


def test_leaving_a_with_block_in_the_child(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.create_topic("a").log(0).append(a_batch())

        def leave() -> str:
            with store:
                pass
            return "left"

        assert in_child(leave) == "left"
        store.log("a", 0).append(a_batch())


def test_locks_that_threads_of_the_parent_hold_do_not_matter(tmp_path: Path) -> None:
    """They do not exist in the child, and will never be released."""
    with open_store(tmp_path) as store:
        log = store.create_topic("a").log(0)
        release, held = threading.Event(), threading.Event()

        def hold() -> None:
            with state_of(store).lock, log._state._lock, store.log("a", 0)._state.queue._mutex:
                held.set()
                release.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        try:
            uses = (store.topics, lambda: store.create_topic("b"), lambda: log.append(a_batch()), log.flush, store.close, log.close)
            assert in_child(lambda: raised_by(*uses)) == ["ForkedError"] * 4 + ["nothing"] * 2
        finally:
            release.set()
            thread.join()
        log.append(a_batch())


def test_what_the_background_still_has_to_do_is_not_waited_for_in_the_child(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        log = store.create_topic("a", config={"flush.messages": LONG_MAX, "internal.segment.bytes": 300}).log(0)
        for _ in range(20):
            log.append(a_batch(value=b"x" * 100))
        from concurrent.futures import Future

        never: Future[None] = Future()
        log._state._pending.append(never)
        try:
            assert in_child(lambda: raised_by(log.close)) == ["nothing"]
        finally:
            never.set_result(None)


def test_the_child_can_have_it_when_the_parent_is_done(tmp_path: Path) -> None:
    store = tidelog.open(tmp_path)
    store.create_topic("a").log(0).append(a_batch())

    def use() -> object:
        with pytest.raises(LockedError, match=str(os.getppid())):
            tidelog.open(tmp_path)
        with pytest.raises(ForkedError, match="open it in the child"):
            store.topics()
        return "done"

    assert in_child(use) == "done"
    store.close()

    def open_and_append() -> int:
        with tidelog.open(tmp_path) as mine:
            mine.log("a", 0).append(a_batch())
            return mine.log("a", 0).log_end_offset

    assert in_child(open_and_append) == 2
    with tidelog.open(tmp_path) as again:
        assert again.log("a", 0).log_end_offset == 2

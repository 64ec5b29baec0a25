"""Opening a store: what becomes one, what is refused without a byte changed, one directory or several, and what it leaves behind."""

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest

import tidelog
from tests.support.logs import a_batch
from tests.support.small_stores import failed, file_of, open_store, partitions_in, state_of, tree_of, values_of
from tidelog.disk.names import TopicPartition
from tidelog.errors import DamagedLogError, InvalidConfigError, LogClosedError, LogFailedError, LogNotFoundError, NotAStoreError
from tidelog.log.log import Log
from tidelog.store import loading
from tidelog.store.loading import LoadProgress
from tidelog.store.store_file import STORE_FILE


def test_a_missing_directory_becomes_a_store(tmp_path: Path) -> None:
    home = tmp_path / "store"
    with tidelog.open(home) as store:
        assert store.paths == [str(home)]
        assert store.topics() == []
        topic = store.create_topic("emails", 2)
        topic.log(0).append(a_batch(3))
        assert repr(store) == f"Store({home}; 1 topic)"
    assert {path.name for path in home.iterdir()} == {
        ".kafka_cleanshutdown",
        ".lock",
        "emails-0",
        "emails-1",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        STORE_FILE,
    }
    with tidelog.open(str(home)) as store:
        assert [topic.name for topic in store.topics()] == ["emails"]
        assert store.log("emails", 0).log_end_offset == 3
        assert store.log("emails", 0).load_report.was_clean


def test_the_lock_file_stays_empty(tmp_path: Path) -> None:
    with open_store(tmp_path):
        assert (tmp_path / ".lock").stat().st_size == 0


@pytest.mark.parametrize("names", [[], [".lock"], [".lock", "tidelog.json.tmp"], [".kafka_cleanshutdown"]])
def test_an_empty_directory_becomes_a_store(names: list[str], tmp_path: Path) -> None:
    """So does one in which the first opening was cut off."""
    for name in names:
        (tmp_path / name).write_bytes(b"")
    with open_store(tmp_path) as store:
        store.create_topic("emails")
    assert not file_of(tmp_path).is_adopted


@pytest.mark.parametrize("names", [["notes.txt"], ["emails-0/00000000000000000000.log"], [".hidden"], ["meta.properties"], ["lost+found/"]])
def test_what_tidelog_did_not_make_is_refused_and_not_touched(names: list[str], tmp_path: Path) -> None:
    home, new = tmp_path / "home", tmp_path / "new"
    for name in names:
        path = home / name
        path.mkdir(parents=True) if name.endswith("/") else path.parent.mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_bytes(b"x")
    before = tree_of(tmp_path)
    for paths in ([home], [new, home], [home, new]):
        with pytest.raises(NotAStoreError, match="not made by Tidelog") as raised:
            open_store(*paths)
        assert raised.value.path == str(home)
        assert 'mode="r"' in str(raised.value)
        assert "adopt=True" in str(raised.value)
        assert names[0].split("/")[0] in str(raised.value)
    assert tree_of(tmp_path) == before


def test_a_golden_broker_directory_is_refused_and_not_touched(tmp_path: Path) -> None:
    home = tmp_path / "data"
    shutil.copytree(Path(__file__).parents[2] / "golden/broker/data", home)
    before = tree_of(home)
    with pytest.raises(NotAStoreError):
        tidelog.open(home)
    assert tree_of(home) == before


def test_a_missing_parent(tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError, match="no such directory") as raised:
        tidelog.open(tmp_path / "a" / "b")
    assert raised.value.path == str(tmp_path / "a")
    assert isinstance(raised.value, FileNotFoundError)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(NotAStoreError, match="not a directory"):
            tidelog.open(path)


@pytest.mark.parametrize("paths", [[], "", ["", "x"]])
def test_no_directory_at_all(paths: object) -> None:
    with pytest.raises(ValueError, match="at least one directory"):
        tidelog.open(paths)  # type: ignore[call-overload]


def test_the_same_directory_twice_and_one_inside_another(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "a").mkdir()
    for paths in ([tmp_path / "a", tmp_path / "a"], [tmp_path / "a", tmp_path / "link"]):
        with pytest.raises(ValueError, match="the same directory twice"):
            open_store(*paths)
    with pytest.raises(ValueError, match="inside another"):
        open_store(tmp_path / "a", tmp_path / "a" / "b")
    assert list((tmp_path / "a").iterdir()) == []


def test_an_opening_that_changes_nothing_writes_no_file(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.create_topic("emails")
    before, status = file_of(tmp_path), (tmp_path / STORE_FILE).stat()
    for _ in range(2):
        open_store(tmp_path).close()
    after = (tmp_path / STORE_FILE).stat()
    assert file_of(tmp_path) == before
    assert (after.st_ino, after.st_mtime_ns) == (status.st_ino, status.st_mtime_ns)


def test_closing_twice_and_using_it_afterwards(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    topic = store.create_topic("emails")
    log = topic.log(0)
    assert not store.is_closed
    store.close()
    store.close()
    assert store.is_closed
    assert log.is_closed
    uses = [
        store.topics,
        lambda: store.topic("emails"),
        lambda: store.create_topic("other"),
        lambda: store.delete_topic("emails"),
        lambda: store.log("emails", 0),
        lambda: topic.log(0),
        lambda: topic.partitions,
        topic.describe,
        lambda: topic.alter({"flush.messages": 1}),
        store.flush,
        lambda: log.append(a_batch()),
    ]
    for use in uses:
        with pytest.raises(tidelog.TidelogError, match="closed"):
            use()
    assert repr(topic) == "Topic('emails', 1 partition)"


def test_dropped_open_it_says_so(tmp_path: Path) -> None:
    stores = [open_store(tmp_path)]
    state = state_of(stores[0])
    with pytest.warns(ResourceWarning, match=r"Store\(.*dropped without being closed"):
        stores.clear()
    state.directories[0].let_go()


def test_a_log_that_was_closed_by_hand_is_opened_again(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        topic = store.create_topic("emails")
        with topic.log(0) as log:
            log.append(a_batch())
        assert topic.log(0) is not log
        topic.log(0).append(a_batch())
        assert topic.log(0) is topic.log(0)
        assert values_of(topic.log(0)) == [b"value"] * 2


class Interrupted(ThreadPoolExecutor):
    """Ctrl-C comes while it starts its first thread: that one does its work all the same, and nobody waits for it."""

    left: ClassVar[list[threading.Thread]] = []

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Any:
        self.left.append(threading.Thread(target=function, args=arguments, kwargs=options))
        raise KeyboardInterrupt


@pytest.fixture
def left() -> list[threading.Thread]:
    Interrupted.left.clear()
    return Interrupted.left


def test_an_interrupt_while_a_thread_is_started_to_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: list[threading.Thread]
) -> None:
    with open_store(tmp_path) as store:
        store.create_topic("emails", 3)
    monkeypatch.setattr(loading, "ThreadPoolExecutor", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_store(tmp_path)
    monkeypatch.undo()
    for thread in left:
        thread.start()
        thread.join()
    with open_store(tmp_path) as store:
        assert store.failures == {}


def test_an_interrupt_while_a_thread_is_started_to_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: list[threading.Thread]
) -> None:
    store = open_store(tmp_path)
    topic = store.create_topic("emails", 3)
    monkeypatch.setattr(loading, "ThreadPoolExecutor", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.close()
    monkeypatch.undo()
    for thread in left:
        thread.start()
        thread.join()
    assert store.is_closed
    with pytest.raises(LogClosedError):
        topic.append(b"late")
    with open_store(tmp_path) as store:
        assert store.topic("emails").log(2).load_report.was_clean


def test_an_interrupt_before_the_thread_of_the_tasks_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if thread.name == "tidelog-scheduler":
            raise KeyboardInterrupt
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tidelog.open(tmp_path / "store")
    monkeypatch.undo()
    tidelog.open(tmp_path / "store").close()


def test_an_interrupt_right_behind_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for what in ("_read_file", "StoreState"):
        monkeypatch.setattr(loading, what, interrupted)
        with pytest.raises(KeyboardInterrupt):
            open_store(tmp_path)
        monkeypatch.undo()
        open_store(tmp_path).close()


@pytest.mark.parametrize("now_ms", [1_700_000_000_000.5, None, "0"])
@pytest.mark.parametrize("mode", ["a", "r"])
def test_a_clock_gives_whole_milliseconds(tmp_path: Path, mode: Any, now_ms: Any) -> None:
    open_store(tmp_path).close()
    before = tree_of(tmp_path)
    with pytest.raises(InvalidConfigError, match=r"a clock that does not give whole milliseconds: expected an int, found .*time\.time"):
        tidelog.open(tmp_path, mode, clock=lambda: now_ms)
    assert tree_of(tmp_path) == before


def test_flushing_goes_over_all_logs_whatever_is_wrong_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path) as store:
        logs = [store.create_topic(name, config={"flush.messages": 100}).log(0) for name in "abc"]
        for log in logs:
            log.append(a_batch())
        logs[0].close()  # by hand, which flushes it
        flush = Log.flush

        def failing(log: Log) -> None:
            if log is logs[1]:
                raise LogFailedError("it was this one")
            flush(log)

        monkeypatch.setattr(Log, "flush", failing)
        with pytest.raises(LogFailedError, match="it was this one"):
            store.flush()
        assert logs[2].recovery_point == 1
        monkeypatch.undo()
        store.flush()
        assert logs[1].recovery_point == 1


class TestSeveralDirectories:
    def test_partitions_go_where_there_are_fewest(self, tmp_path: Path) -> None:
        one, two = tmp_path / "one", tmp_path / "two"
        with open_store(one, two) as store:
            store.create_topic("a", 3)
            store.create_topic("b", 2)
            assert partitions_in(one) == {"a-0", "a-2", "b-1"}
            assert partitions_in(two) == {"a-1", "b-0"}
            store.delete_topic("a")
            store.create_topic("c", 3)
            assert partitions_in(one) == {"b-1", "c-0", "c-2"}
            assert partitions_in(two) == {"b-0", "c-1"}
            store.log("c", 1).append(a_batch())
        assert (one / STORE_FILE).read_bytes() == (two / STORE_FILE).read_bytes()
        assert file_of(one).directories == 2
        with open_store(two, one) as store:
            assert store.log("c", 1).log_end_offset == 1
            assert failed(store) == set()

    def test_all_of_them_are_needed(self, tmp_path: Path) -> None:
        one, two, three = (tmp_path / name for name in ("one", "two", "three"))
        open_store(one, two).close()
        before = tree_of(tmp_path)
        for paths in ([one], [two], [one, two, three]):
            with pytest.raises(NotAStoreError, match="expected 2 directories") as raised:
                open_store(*paths)
            assert raised.value.found == len(paths)
        assert tree_of(tmp_path) == before

    def test_directories_of_two_stores(self, tmp_path: Path) -> None:
        open_store(tmp_path / "a1", tmp_path / "a2").close()
        open_store(tmp_path / "b1", tmp_path / "b2").close()
        before = tree_of(tmp_path)
        with pytest.raises(NotAStoreError, match="different stores"):
            open_store(tmp_path / "a1", tmp_path / "b2")
        assert tree_of(tmp_path) == before

    @pytest.mark.parametrize("is_there", [True, False], ids=["empty", "missing"])
    def test_a_disk_that_is_not_mounted(self, is_there: bool, tmp_path: Path) -> None:
        """An empty directory where there was one of the store's is not taken for a new one."""
        one, two, mounted = tmp_path / "one", tmp_path / "two", tmp_path / "mounted"
        with open_store(one, two) as store:
            store.create_topic("a", 2).log(1).append(a_batch())
        two.rename(mounted)
        if is_there:
            two.mkdir()
        before = tree_of(tmp_path)
        with pytest.raises((NotAStoreError, LogNotFoundError), match="mount"):
            open_store(one, two)
        assert tree_of(tmp_path) == before
        if is_there:
            two.rmdir()
        mounted.rename(two)
        with open_store(one, two) as store:
            assert store.log("a", 1).log_end_offset == 1

    def test_a_crash_between_the_first_copies(self, tmp_path: Path) -> None:
        one, two = tmp_path / "one", tmp_path / "two"
        open_store(one, two).close()
        assert file_of(one).revision == 1
        for path in two.iterdir():
            path.unlink()
        open_store(one, two).close()
        assert file_of(one) == file_of(two)
        assert file_of(one).revision == 1

    @pytest.mark.parametrize("newer", [0, 1])
    def test_the_highest_revision_counts(self, newer: int, tmp_path: Path) -> None:
        homes = [tmp_path / "one", tmp_path / "two"]
        with open_store(*homes) as store:
            store.create_topic("a", 2)
        old = (homes[0] / STORE_FILE).read_bytes()
        with open_store(*homes) as store:
            store.topic("a").alter({"retention.bytes": 5})
        new = (homes[0] / STORE_FILE).read_bytes()
        (homes[1 - newer] / STORE_FILE).write_bytes(old)
        with open_store(*homes) as store:
            assert store.topic("a").log(0).config.retention_bytes == 5
            assert (homes[0] / STORE_FILE).read_bytes() == (homes[1] / STORE_FILE).read_bytes() == new

    @pytest.mark.leaves
    def test_a_partition_in_both(self, tmp_path: Path) -> None:
        """As when a directory was copied by hand. Neither is appended to; the others go on."""
        one, two = tmp_path / "one", tmp_path / "two"
        with open_store(one, two) as store:
            store.create_topic("a", 2).log(0).append(a_batch())
        shutil.copytree(one / "a-0", two / "a-0")
        with open_store(one, two) as store:
            with pytest.raises(DamagedLogError, match="two log directories"):
                store.log("a", 0)
            assert list(store.failures) == [TopicPartition("a", 0)]
            store.log("a", 1).append(a_batch())
            store.delete_topic("a")
            assert failed(store) == set()
            assert partitions_in(one) == partitions_in(two) == set()

    def test_checkpoints_are_in_the_directory_of_the_partition(self, tmp_path: Path) -> None:
        one, two = tmp_path / "one", tmp_path / "two"
        with open_store(one, two) as store:
            for number in range(2):
                store.create_topic("a", 2, exist_ok=True).log(number).append(a_batch(5))
        for home, line in ((one, "a 0 5"), (two, "a 1 5")):
            assert (home / "recovery-point-offset-checkpoint").read_text().splitlines()[2:] == [line]


class TestLoading:
    def test_progress_and_several_at_a_time(self, tmp_path: Path) -> None:
        with open_store(tmp_path) as store:
            store.create_topic("a", 5)
        seen: list[LoadProgress] = []
        with open_store(tmp_path, config={"num.recovery.threads.per.data.dir": 3}, progress=seen.append):
            assert {progress.partition for progress in seen} == {TopicPartition("a", number) for number in range(5)}
            assert [(progress.logs_done, progress.logs) for progress in seen] == [(number, 5) for number in range(1, 6)]

    def test_an_interrupt_gives_everything_back(self, tmp_path: Path) -> None:
        with open_store(tmp_path) as store:
            store.create_topic("a", 3)

        def interrupt(progress: LoadProgress) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            open_store(tmp_path, progress=interrupt)
        with open_store(tmp_path) as store:
            assert failed(store) == set()

    def test_after_a_crash_logs_are_recovered(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        store = open_store(home)
        store.create_topic("a", 2).log(1).append(a_batch(4))
        shutil.copytree(home, tmp_path / "crashed")
        store.close()
        with open_store(tmp_path / "crashed") as store:
            assert not store.log("a", 1).load_report.was_clean
            assert store.log("a", 1).log_end_offset == 4

    @pytest.mark.leaves
    def test_one_damaged_partition(self, tmp_path: Path) -> None:
        """The others go on, and the topic can be deleted."""
        home = tmp_path / "home"
        config = {"internal.segment.bytes": 200}
        store = open_store(home)
        for number in range(2):
            for _ in range(4):
                store.create_topic("a", 2, config, exist_ok=True).log(number).append(a_batch(value=b"v" * 100))
        shutil.copytree(home, tmp_path / "crashed")
        store.close()
        (tmp_path / "crashed" / "recovery-point-offset-checkpoint").unlink()
        damaged = tmp_path / "crashed" / "a-0" / "00000000000000000000.log"
        content = bytearray(damaged.read_bytes())
        content[80] ^= 1
        damaged.write_bytes(content)
        with open_store(tmp_path / "crashed") as store:
            assert failed(store) == {"a-0"}
            for _ in range(2):
                with pytest.raises(DamagedLogError) as raised:
                    store.log("a", 0)
                assert str(damaged.parent) in str(raised.value)
            assert damaged.read_bytes() == content
            store.log("a", 1).append(a_batch())
            store.topic("a").alter({"retention.bytes": 7})
            assert store.log("a", 1).config.retention_bytes == 7
            store.delete_topic("a")
            assert failed(store) == set()
            assert store.create_topic("a").log(0).log_end_offset == 0

    def test_a_partition_directory_that_is_missing(self, tmp_path: Path) -> None:
        with open_store(tmp_path) as store:
            store.create_topic("a", 3)
        shutil.rmtree(tmp_path / "a-1")
        with open_store(tmp_path) as store:
            assert failed(store) == {"a-1"}
            with pytest.raises(LogNotFoundError, match="the directory of a partition is missing") as raised:
                store.log("a", 1)
            assert raised.value.path == str(tmp_path / "a-1")
            assert not (tmp_path / "a-1").exists()
            assert store.log("a", 2).log_end_offset == 0
            store.delete_topic("a")
            assert partitions_in(tmp_path) == set()

    def test_a_link_in_place_of_a_partition(self, tmp_path: Path) -> None:
        home, other = tmp_path / "home", tmp_path / "other"
        with open_store(home) as store:
            store.create_topic("a", 2)
        other.mkdir()
        (home / "a-1").rename(other / "a-1")
        (home / "a-1").symlink_to(other / "a-1")
        with open_store(home) as store:
            assert failed(store) == {"a-1"}
            with pytest.raises(LogNotFoundError, match="a link"):
                store.log("a", 1)
        assert os.listdir(other) == ["a-1"]  # noqa: PTH208

    def test_directories_that_nobody_has_written_down_are_left_alone(self, tmp_path: Path) -> None:
        with open_store(tmp_path) as store:
            store.create_topic("a")
        shutil.copytree(tmp_path / "a-0", tmp_path / "b-0")
        (tmp_path / "a-00").mkdir()
        (tmp_path / "photos-2024").mkdir()
        before = {name: content for name, content in tree_of(tmp_path).items() if not name.startswith(("a-0/", "."))}
        with open_store(tmp_path) as store:
            assert [topic.name for topic in store.topics()] == ["a"]
            with pytest.raises(tidelog.TidelogError, match="has the name of the topic's"):
                store.create_topic("b")
            assert [topic.name for topic in store.topics()] == ["a"]
        after = {name: content for name, content in tree_of(tmp_path).items() if not name.startswith(("a-0/", "."))}
        assert {name: after[name] for name in before} == before

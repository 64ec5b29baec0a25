import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.disk.failing_disk import REPLACE, FailingDisk
from tidelog.disk import log_directory
from tidelog.disk.checkpoints import format_offsets
from tidelog.disk.disk import OS, Disk
from tidelog.disk.log_directory import LogDirectory, make_durable_directory
from tidelog.disk.names import TopicPartition
from tidelog.errors import LockedError, UnsupportedError

A, B, C = TopicPartition("a", 0), TopicPartition("b-x", 1), TopicPartition("c", 2)
FRESH = b'{"version":0,"brokerEpoch":-1}'
FOUND = b'{"version":0,"brokerEpoch":41}'
UNOPENED, CLEAN, UNCLEAN, ABANDONED = "unopened", "clean", "unclean", "abandoned"
SET_ASIDE = f"a-3.{'0123456789abcdef' * 2}"


@pytest.fixture(autouse=True)
def _nothing_left_open() -> Iterator[None]:
    others, log_directory._registry = log_directory._registry, {}  # of stores that another test has dropped open on purpose
    yield
    left, log_directory._registry = log_directory._registry, others
    assert not left


def marker(path: Path) -> bytes | None:
    file = path / ".kafka_cleanshutdown"
    return file.read_bytes() if file.exists() else None


def finish(directory: LogDirectory, partition: TopicPartition, outcome: str) -> None:
    if outcome == ABANDONED:
        directory.abandon(partition)
    else:
        directory.release(partition, clean=outcome == CLEAN)


def is_lockable(path: Path) -> bool:
    """Whether another process gets the lock that a broker would take."""
    script = """if True:
        import fcntl, sys
        with open(sys.argv[1] + "/.lock", "a+") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                sys.exit(3)
    """
    code = subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode
    assert code in (0, 3)
    return code == 0


# Lock


def test_another_process_is_kept_out_until_the_last_log_is_closed(tmp_path: Path) -> None:
    directory = LogDirectory.claim(str(tmp_path), A)
    assert LogDirectory.claim(str(tmp_path), B) is directory
    assert not is_lockable(tmp_path)
    directory.release(A, clean=True)
    assert not is_lockable(tmp_path)
    directory.release(B, clean=True)
    assert is_lockable(tmp_path)
    assert (tmp_path / ".lock").read_bytes() == b""


CLAIM = """if True:
    import sys
    from tidelog.disk.log_directory import LogDirectory
    from tidelog.disk.names import TopicPartition
    p = TopicPartition("other", 0)
    directory = LogDirectory.claim(sys.argv[1], p)
    print("claimed", flush=True)
    sys.stdin.read()
    directory.release(p, clean=True)
"""


def test_what_another_process_holds_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CLAIM, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "claimed\n"
        (tmp_path / ".kafka_cleanshutdown").write_bytes(FOUND)
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(LockedError) as caught:
            LogDirectory.claim(str(tmp_path), A)
        assert caught.value.path == str(tmp_path / ".lock")
        if sys.platform == "linux":
            assert f"locked by process {other.pid}" in str(caught.value)
        assert sorted(path.name for path in tmp_path.iterdir()) == before
        assert marker(tmp_path) == FOUND
        other.communicate("")
    LogDirectory.claim(str(tmp_path), A).abandon(A)


def test_a_partition_is_open_once_in_a_process(tmp_path: Path) -> None:
    directory = LogDirectory.claim(str(tmp_path / "logs"), A)
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    for path in ("logs", "link", "logs/../logs/"):
        with pytest.raises(LockedError, match="already open in this process") as caught:
            LogDirectory.claim(str(tmp_path / path), A)
        assert caught.value.path == str(tmp_path / "logs" / "a-0")
    assert not is_lockable(tmp_path / "logs")
    directory.release(A, clean=True)
    LogDirectory.claim(str(tmp_path / "link"), A).release(A, clean=True)


def test_a_lock_file_that_a_broker_deletes_as_it_stops_is_not_relied_on(tmp_path: Path) -> None:
    class Racing(Disk):
        deletions = 2

        def lock(self, path: str) -> int:
            fd = super().lock(path)
            if self.deletions:
                self.deletions -= 1
                os.unlink(path)  # noqa: PTH108
            return fd

    directory = LogDirectory.claim(str(tmp_path), A, disk=Racing())
    assert not is_lockable(tmp_path)
    directory.release(A, clean=True)


FORK = """if True:
    import os, sys
    from tidelog.disk.log_directory import LogDirectory
    from tidelog.disk.names import TopicPartition
    from tidelog.errors import LockedError

    a, b = TopicPartition("a", 0), TopicPartition("b", 0)
    path = sys.argv[1]

    def refused(call):
        try:
            call()
        except LockedError:
            return "refused"
        return "done"

    directory = LogDirectory.claim(path, a)
    directory.checkpoint(a, recovery_point=1, log_start_offset=None, high_watermark=1)
    if os.fork() == 0:
        print(refused(lambda: LogDirectory.claim(path, a)))
        print(refused(lambda: LogDirectory.claim(path, b)))
        print(refused(lambda: directory.checkpoint(a, recovery_point=2, log_start_offset=None, high_watermark=2)))
        print(refused(lambda: directory.partition_removed(a)))
        directory.release(a, clean=True)
        print(os.path.exists(path + "/.kafka_cleanshutdown"), flush=True)
        os._exit(0)
    os.wait()
    if os.fork() == 0:
        print(refused(lambda: LogDirectory.claim(path, a)), flush=True)  # the parent's lock is still there
        os._exit(0)
    os.wait()
    print(open(path + "/recovery-point-offset-checkpoint").read().split()[-1])
    directory.release(a, clean=True)
    print(os.path.exists(path + "/.kafka_cleanshutdown"), flush=True)
    if os.fork() == 0:
        LogDirectory.claim(path, a).release(a, clean=True)
        print("free", flush=True)
        os._exit(0)
    os.wait()
"""


def test_a_forked_child_owns_nothing(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FORK, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["refused"] * 4 + ["False", "refused", "1", "True", "free"]


def test_a_name_that_no_checkpoint_can_hold_claims_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError):
        LogDirectory.claim(str(tmp_path), TopicPartition("a b", 0))
    assert list(tmp_path.iterdir()) == []


# Marker


@pytest.mark.parametrize("found", [None, FOUND, b""])
@pytest.mark.parametrize("was_there", [False, True])
@pytest.mark.parametrize(
    "neighbour", [None, "b-x-1", "__cluster_metadata-0", f"{SET_ASIDE}-delete", f"{SET_ASIDE}-future", f"{SET_ASIDE}-stray"]
)
@pytest.mark.parametrize("outcome", [CLEAN, UNCLEAN, ABANDONED])
def test_marker_after_one_log(tmp_path: Path, found: bytes | None, was_there: bool, neighbour: str | None, outcome: str) -> None:
    if found is not None:
        (tmp_path / ".kafka_cleanshutdown").write_bytes(found)
    if was_there:
        (tmp_path / "a-0").mkdir()
    if neighbour is not None:
        (tmp_path / neighbour).mkdir()
    directory = LogDirectory.claim(str(tmp_path), A)
    (tmp_path / "a-0").mkdir(exist_ok=True)
    vouches_for_neighbour = neighbour in (None, "__cluster_metadata-0", f"{SET_ASIDE}-delete")
    assert directory.was_clean(A) == (found is not None or (not was_there and vouches_for_neighbour))
    assert marker(tmp_path) is None
    finish(directory, A, outcome)
    if outcome == ABANDONED:
        assert marker(tmp_path) == found
    elif outcome == CLEAN and (found is not None or vouches_for_neighbour):
        assert marker(tmp_path) == FRESH
    else:
        assert marker(tmp_path) is None


@pytest.mark.parametrize("found", [None, FOUND])
@pytest.mark.parametrize("first", [CLEAN, UNCLEAN, ABANDONED])
@pytest.mark.parametrize("second", [UNOPENED, CLEAN, UNCLEAN, ABANDONED])
@pytest.mark.parametrize("in_turn", [False, True])
def test_marker_after_two_logs(tmp_path: Path, found: bytes | None, first: str, second: str, in_turn: bool) -> None:
    (tmp_path / "a-0").mkdir()
    (tmp_path / "b-x-1").mkdir()
    if found is not None:
        (tmp_path / ".kafka_cleanshutdown").write_bytes(found)
    directory = LogDirectory.claim(str(tmp_path), C)  # holds the directory meanwhile
    LogDirectory.claim(str(tmp_path), A)
    if in_turn:
        finish(directory, A, first)
    if second != UNOPENED:
        LogDirectory.claim(str(tmp_path), B)
        finish(directory, B, second)
    if not in_turn:
        finish(directory, A, first)
    assert marker(tmp_path) is None
    directory.abandon(C)
    outcomes = {first, second} - {UNOPENED}
    if UNCLEAN in outcomes:
        expected = None
    elif outcomes == {ABANDONED}:
        expected = found
    elif found is not None or (first, second) == (CLEAN, CLEAN):
        expected = FRESH
    else:
        expected = None
    assert marker(tmp_path) == expected


def test_how_a_log_was_closed_here_counts_more_than_the_marker(tmp_path: Path) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(FOUND)
    directory = LogDirectory.claim(str(tmp_path), C)
    for outcome in (UNCLEAN, ABANDONED, UNCLEAN, CLEAN, ABANDONED):
        expected = {UNCLEAN: False, CLEAN: True}.get(outcome, directory.was_clean(A))
        LogDirectory.claim(str(tmp_path), A)
        finish(directory, A, outcome)
        assert directory.was_clean(A) == expected
    assert directory.was_clean(B)
    directory.release(C, clean=True)
    assert marker(tmp_path) == FRESH


def test_a_log_closed_in_order_in_a_directory_that_was_not(tmp_path: Path) -> None:
    (tmp_path / "a-0").mkdir()
    directory = LogDirectory.claim(str(tmp_path), C)
    assert not directory.was_clean(A)
    LogDirectory.claim(str(tmp_path), A).release(A, clean=True)
    assert directory.was_clean(A)
    assert not directory.was_clean(B)
    directory.abandon(C)


def test_a_removed_partition_does_not_stand_in_the_way(tmp_path: Path) -> None:
    directory = LogDirectory.claim(str(tmp_path), C)
    LogDirectory.claim(str(tmp_path), A).release(A, clean=False)
    directory.partition_removed(A)
    directory.release(C, clean=True)
    assert marker(tmp_path) == FRESH


@pytest.mark.parametrize("fail_at", range(5))
def test_a_failed_claim_leaves_the_marker_and_no_lock(tmp_path: Path, fail_at: int) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(FOUND)
    disk = FailingDisk()
    LogDirectory.claim(str(tmp_path), A, disk=disk).abandon(A)
    start = ["lock", *["read_file"] * 4, "remove", "sync_directory"]
    assert disk.calls == start + REPLACE
    disk = FailingDisk([0, 1, 4, 5, 6][fail_at])
    with pytest.raises(OSError, match="no "):
        LogDirectory.claim(str(tmp_path), A, disk=disk)
    assert marker(tmp_path) == FOUND
    assert is_lockable(tmp_path)
    assert not list(tmp_path.glob("*.tmp"))


def test_the_first_error_is_told_where_the_marker_cannot_be_put_back(tmp_path: Path) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(FOUND)
    with pytest.raises(OSError, match="no sync_directory"):
        LogDirectory.claim(str(tmp_path), A, disk=FailingDisk(6, goes_on=True))
    assert is_lockable(tmp_path)


def test_a_marker_that_cannot_be_written_keeps_no_lock(tmp_path: Path) -> None:
    disk = FailingDisk()
    directory = LogDirectory.claim(str(tmp_path), A, disk=disk)
    disk.fail_at = len(disk.calls)
    with pytest.raises(OSError, match="no create"):
        directory.release(A, clean=True)
    assert marker(tmp_path) is None
    assert is_lockable(tmp_path)


# Checkpoints


def read(path: Path) -> dict[str, bytes]:
    return {file.name.split("-offset")[0]: file.read_bytes() for file in path.glob("*-offset-checkpoint")}


def test_checkpoints(tmp_path: Path) -> None:
    disk = FailingDisk()
    directory = LogDirectory.claim(str(tmp_path), A, disk=disk)
    assert directory.recovery_point(A) is directory.log_start_offset(A) is directory.high_watermark(A) is None

    def checkpoint(recovery_point: int, log_start_offset: int | None, high_watermark: int) -> int:
        disk.calls.clear()
        directory.checkpoint(A, recovery_point=recovery_point, log_start_offset=log_start_offset, high_watermark=high_watermark)
        assert directory.recovery_point(A) == recovery_point
        assert directory.log_start_offset(A) == log_start_offset
        assert directory.high_watermark(A) == high_watermark
        assert disk.calls == REPLACE * disk.calls.count("rename")
        return disk.calls.count("rename")

    assert checkpoint(0, None, 5) == 2
    assert read(tmp_path) == {"recovery-point": b"0\n1\na 0 0\n", "replication": b"0\n1\na 0 5\n"}
    assert checkpoint(0, None, 5) == 0
    assert checkpoint(7, 3, 6) == 3
    assert read(tmp_path) == {"recovery-point": b"0\n1\na 0 7\n", "log-start": b"0\n1\na 0 3\n", "replication": b"0\n1\na 0 6\n"}
    assert checkpoint(7, 3, 7) == 1
    assert checkpoint(7, None, 7) == 1
    assert read(tmp_path)["log-start"] == b"0\n0\n"
    assert checkpoint(2, None, 7) == 1
    directory.release(A, clean=True)


def test_entries_of_other_partitions_are_kept(tmp_path: Path) -> None:
    others = {TopicPartition("my-topic", 12): 900, B: 0}
    for kind in ("recovery-point", "log-start", "replication"):
        (tmp_path / f"{kind}-offset-checkpoint").write_bytes(format_offsets({**others, A: 4}))
    directory = LogDirectory.claim(str(tmp_path), A)
    assert (directory.recovery_point(A), directory.log_start_offset(A), directory.high_watermark(A)) == (4, 4, 4)
    assert directory.recovery_point(B) == 0
    directory.checkpoint(A, recovery_point=5, log_start_offset=None, high_watermark=6)
    assert read(tmp_path) == {
        "recovery-point": format_offsets({**others, A: 5}),
        "log-start": format_offsets(others),
        "replication": format_offsets({**others, A: 6}),
    }
    directory.partition_removed(A)
    assert read(tmp_path) == dict.fromkeys(("recovery-point", "log-start", "replication"), format_offsets(others))
    directory.release(A, clean=True)


@pytest.mark.parametrize("kind", ["recovery-point", "log-start", "replication"])
def test_a_checkpoint_that_does_not_parse_is_a_warning(tmp_path: Path, kind: str) -> None:
    for each in ("recovery-point", "log-start", "replication"):
        (tmp_path / f"{each}-offset-checkpoint").write_bytes(b"garbage" if each == kind else b"0\n1\na 0 4\n")
    directory = LogDirectory.claim(str(tmp_path), A)
    (warning,) = directory.warnings
    assert f"{tmp_path}/{kind}-offset-checkpoint: line 1" in warning
    found = {
        "recovery-point": directory.recovery_point(A),
        "log-start": directory.log_start_offset(A),
        "replication": directory.high_watermark(A),
    }
    assert found == {each: None if each == kind else 4 for each in found}
    directory.checkpoint(A, recovery_point=5, log_start_offset=5, high_watermark=5)
    directory.release(A, clean=True)
    assert read(tmp_path)[kind] == b"0\n1\na 0 5\n"


@pytest.mark.parametrize("fail_at", range(3 * len(REPLACE)))
def test_a_checkpoint_that_cannot_be_written_is_written_by_the_next_call(tmp_path: Path, fail_at: int) -> None:
    disk = FailingDisk()
    directory = LogDirectory.claim(str(tmp_path), A, disk=disk)
    directory.checkpoint(A, recovery_point=1, log_start_offset=1, high_watermark=1)
    before = read(tmp_path)
    disk.fail_at = len(disk.calls) + fail_at
    with pytest.raises(OSError, match=f"no {REPLACE[fail_at % 5]}"):
        directory.checkpoint(A, recovery_point=2, log_start_offset=2, high_watermark=2)
    assert set(read(tmp_path).values()) <= {b"0\n1\na 0 1\n", b"0\n1\na 0 2\n"}
    directory.checkpoint(A, recovery_point=1, log_start_offset=1, high_watermark=1)
    assert read(tmp_path) == before
    directory.release(A, clean=False)


def test_threads_share_a_directory(tmp_path: Path) -> None:
    partitions = [TopicPartition("t", number) for number in range(8)]
    errors: list[BaseException] = []
    start = threading.Barrier(len(partitions))

    def work(partition: TopicPartition) -> None:
        try:
            start.wait()
            for offset in range(5):
                directory = LogDirectory.claim(str(tmp_path), partition)
                directory.checkpoint(partition, recovery_point=offset, log_start_offset=None, high_watermark=offset)
                directory.release(partition, clean=True)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(partition,)) for partition in partitions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert read(tmp_path) == dict.fromkeys(("recovery-point", "replication"), format_offsets(dict.fromkeys(partitions, 4)))
    assert marker(tmp_path) == FRESH
    assert is_lockable(tmp_path)


# Making the directory


def test_a_missing_directory_is_made_durably(tmp_path: Path) -> None:
    synced: list[str] = []

    class Recording(FailingDisk):
        def sync_directory(self, path: str) -> None:
            synced.append(path)

    disk = Recording()
    make_durable_directory(disk, str(tmp_path / "x" / "y" / "z"))
    assert synced == [str(tmp_path / "x" / "y"), str(tmp_path / "x"), str(tmp_path)]
    assert disk.calls == ["make_directory"]
    make_durable_directory(disk, str(tmp_path / "x"))
    assert len(synced) == 3
    assert disk.calls == ["make_directory"]


def test_a_claim_makes_the_directory(tmp_path: Path) -> None:
    directory = LogDirectory.claim(str(tmp_path / "x" / "y"), A)
    assert directory.path == str(tmp_path / "x" / "y")
    assert directory.disk is OS
    assert directory.was_clean(A)
    directory.release(A, clean=True)

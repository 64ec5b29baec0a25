"""What opening does after an unclean stop: torn tails, rot, leftovers in old and new spelling, several segments at a time."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.faulty_disk import Call, FaultyDisk
from tests.support.logs import copy_home, follower_batches, number_of, numbered, open_log, state_of
from tidelog.disk.disk import Buffer, Disk
from tidelog.errors import DamagedLogError
from tidelog.log import Progress

CONFIG = {"internal.segment.bytes": 250, "index.interval.bytes": 0, "segment.index.bytes": 96}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A log of twelve records in four segments, as a killed process leaves it."""
    with open_log(tmp_path / "written", CONFIG) as log:
        for number in range(12):
            log.append(numbered(number))
        assert len(log.segments) == 4
        shutil.copytree(tmp_path / "written" / "tide-0", tmp_path / "killed" / "tide-0")
    return tmp_path / "killed"


def content(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (home / "tide-0").iterdir()}


def test_several_segments_at_a_time(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "tide-0", tmp_path / "again" / "tide-0")
    seen: list[Progress] = []
    with open_log(home, CONFIG, last_shutdown_clean=False, workers=3, progress=seen.append) as log:
        assert log.load_report.recovered_segments == [segment.base_offset for segment in log.segments]
        assert [number_of(record) for record in log.read()] == list(range(12))
        total = log.size_bytes
    assert [(step.segments_done, step.segments_total) for step in seen] == [(done, 4) for done in (1, 2, 3, 4)]
    assert seen[-1].bytes_done == seen[-1].bytes_total == total
    with open_log(tmp_path / "again", CONFIG, last_shutdown_clean=False):
        pass
    assert content(home) == content(tmp_path / "again")


def test_a_torn_tail_is_cut_off_and_kept(home: Path) -> None:
    last = sorted((home / "tide-0").glob("*.log"))[-1]
    whole = last.read_bytes()
    last.write_bytes(whole[:-5])
    with open_log(home, CONFIG, last_shutdown_clean=False) as log:
        assert [number_of(record) for record in log.read()] == list(range(11))
        (cut,) = log.load_report.cuts
        assert cut.reason == "the last batch is cut off"
        assert cut.kept_in is not None
        assert (home / "tide-0" / cut.kept_in).read_bytes() == whole[cut.position : -5]


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_rot_is_not_touched(home: Path, damaged: int) -> None:
    path = sorted((home / "tide-0").glob("*.log"))[damaged]
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    logs_before = {name: data for name, data in content(home).items() if name.endswith(".log")}
    with pytest.raises(DamagedLogError, match=r'"repair" and "salvage".*recovery="kafka"') as raised:
        open_log(home, CONFIG, last_shutdown_clean=False)
    assert raised.value.position is not None
    assert raised.value.findings
    assert {name: data for name, data in content(home).items() if name.endswith(".log")} == logs_before
    # A broker drops everything from there on; here it is kept aside.
    with open_log(home, CONFIG, last_shutdown_clean=False, recovery="kafka") as log:
        assert len(log.segments) == damaged + 1
        kept = b"".join((home / "tide-0" / cut.kept_in).read_bytes() for cut in log.load_report.cuts if cut.kept_in)
        left = sum(segment.size_bytes for segment in log.segments)
    assert left + len(kept) == sum(map(len, logs_before.values()))


@pytest.mark.parametrize(("cleaned", "deleted"), [(".cleaned", ".deleted"), (".clean", ".delete")])
def test_leftovers_in_today_s_and_in_older_spelling(home: Path, cleaned: str, deleted: str) -> None:
    folder = home / "tide-0"
    before = {name: data for name, data in content(home).items() if name.endswith(".log")}
    for kind in (".log", ".index", ".timeindex"):
        shutil.copy(folder / f"{0:020d}{kind}", folder / f"{0:020d}{kind}{cleaned}")
        shutil.copy(folder / f"{0:020d}{kind}", folder / f"{99:020d}{kind}{deleted}")
    with open_log(home, CONFIG, last_shutdown_clean=False) as log:
        assert [number_of(record) for record in log.read()] == list(range(12))
        assert len(log.load_report.actions) == 6
    assert {name: data for name, data in content(home).items() if ".log" in name} == before


def test_a_recovery_point_above_the_end_is_taken_back(tmp_path: Path) -> None:
    """A crash in a truncation leaves one. What is appended afterwards must not count as flushed at the next crash."""
    config = {"internal.segment.bytes": 250, "flush.messages": 2**63 - 1}
    with open_log(tmp_path, config) as log:
        for number in range(10):
            log.append(numbered(number))
        bases = [segment.base_offset for segment in log.segments]
    for path in (tmp_path / "tide-0").glob(f"*{bases[-1]}.*"):
        path.unlink()
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    assert checkpoint.read_text().split()[-1] == "10"
    with open_log(tmp_path, config, last_shutdown_clean=False) as log:
        assert log.log_end_offset == bases[-1]
        assert checkpoint.read_text().split()[-1] == str(bases[-1])


def test_a_truncation_takes_the_recovery_point_back_first(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_log(tmp_path, {"internal.segment.bytes": 250}, disk=disk) as log:
        for number in range(10):
            log.append(numbered(number))
        log.checkpoint()
        mark = len(disk.calls)
        log.truncate_to(4)
        renamed = [call.path for call in disk.calls[mark:] if call.kind == "rename"]
        assert "recovery-point" in renamed[0]
        assert any("tide-0" in path for path in renamed)


def test_a_start_that_moves_up_is_written_before_the_recovery_point(tmp_path: Path) -> None:
    """A crash in between must not leave batches that count, lie below the recovery point, and were never flushed."""
    disk = FaultyDisk()
    with open_log(tmp_path, {"internal.segment.bytes": 250, "flush.messages": 2**63 - 1}, disk=disk) as log:
        for number in range(10):
            log.append(numbered(number))
        for task in state_of(log)._pending:
            task.result(10)  # the flush in the background writes the recovery point too
        mark = len(disk.calls)
        log.delete_segments(2, "a test")
        renamed = [call.path for call in disk.calls[mark:] if call.kind == "rename"]
        assert "log-start-offset" in renamed[0]


def test_a_roll_does_not_pass_indexes_that_recovery_built(home: Path) -> None:
    """They are written in place and not synced: a recovery point behind them says that they are."""
    disk = FaultyDisk()
    for path in (home / "tide-0").glob("*index"):
        path.write_bytes(b"")
    with open_log(home, CONFIG, disk=disk, last_shutdown_clean=False) as log:
        bases = [segment.base_offset for segment in log.segments]
        log.roll()
        for task in state_of(log)._pending:
            task.exception()
        assert log.recovery_point == 12
        for base_offset in bases:
            assert disk.count("sync", f"{base_offset:020}.index"), base_offset
            assert disk.count("sync", f"{base_offset:020}.timeindex"), base_offset
        moved = disk.calls.index(Call("rename", str(home / "recovery-point-offset-checkpoint")))
        assert all(disk.calls.index(Call("sync", f"{log.directory}/{base_offset:020}.index")) < moved for base_offset in bases)


@pytest.mark.parametrize("flush_messages", [1, 1000])
def test_names_are_durable_before_anything_is_acknowledged(flush_messages: int, home: Path) -> None:
    """A process that was killed in a roll: nobody has synced the directory since the last segment was made."""
    disk = FaultyDisk()
    with open_log(home, {**CONFIG, "flush.messages": flush_messages}, disk=disk, last_shutdown_clean=False) as log:
        assert ("sync_directory", log.directory) in disk.calls
    disk = FaultyDisk()
    with open_log(home, CONFIG, disk=disk) as log:
        assert ("sync_directory", log.directory) not in disk.calls


@pytest.mark.leaves
@pytest.mark.parametrize("epochs", [(3, -1), (3, 2), (5, -1, 6)])
def test_epochs_that_fall_are_no_news(epochs: tuple[int, ...], tmp_path: Path) -> None:
    """As in Kafka, which takes only those above the newest; a batch without one, of an old format, has -1."""
    with open_log(tmp_path) as log:
        pass
    path = Path(log.directory) / f"{0:020}.log"
    path.write_bytes(b"".join(follower_batches((offset, 1), epoch=epoch) for offset, epoch in enumerate(epochs)))
    with open_log(tmp_path, last_shutdown_clean=False) as log:
        assert log.log_end_offset == len(epochs)
        assert log.leader_epochs == tuple((epoch, offset) for offset, epoch in enumerate(epochs) if epoch >= max(epochs[: offset + 1]))


def test_what_was_preallocated_is_not_copied_aside(home: Path) -> None:
    """A gibibyte of zeros behind a torn batch was written to a file that nobody removes."""
    zeros = 5 << 20
    last = sorted((home / "tide-0").glob("*.log"))[-1]
    whole = last.read_bytes()
    torn = b"torn" * 100 + bytes(3 << 20) + b"behind a hole"
    last.write_bytes(whole + torn + bytes(zeros))
    disk = WrittenBytes()
    with open_log(home, CONFIG, last_shutdown_clean=False, disk=disk) as log:
        (cut,) = log.load_report.cuts
        assert cut.kept_in is not None
        assert (home / "tide-0" / cut.kept_in).read_bytes() == torn + bytes(zeros)
        assert disk.written <= 3 << 20


class WrittenBytes(Disk):
    """Counts what is written."""

    written = 0

    def write_some(self, fd: int, parts: Sequence[Buffer], position: int) -> int:
        done = super().write_some(fd, parts, position)
        self.written += done
        return done


@pytest.mark.parametrize("given", [None, 0])
def test_a_start_that_was_checkpointed_for_what_is_gone(given: int | None, tmp_path: Path) -> None:
    """A directory that was removed by hand and made anew began where the old log did. A crash must not bring that back either."""
    with open_log(tmp_path) as log:
        log.append(numbered(0, 10))
        log.delete_records_before(5)
    if given is None:
        shutil.rmtree(tmp_path / "tide-0")
    with open_log(tmp_path, log_start_offset=given) as log:
        assert log.log_start_offset == 0
        assert log.append(numbered(10)).first_offset == (0 if given is None else 10)
        killed = copy_home(log, tmp_path / "killed")
    with open_log(killed, last_shutdown_clean=False) as log:
        assert (log.log_start_offset, log.load_report.cuts) == (0, [])
        assert [number_of(record) for record in log.read()] == ([10] if given is None else [*range(11)])

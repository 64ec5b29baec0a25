"""Files of deleted segments that the system does not remove: what was being done goes on, and they are tried again."""

from pathlib import Path

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import check_log, cleaned_copy, number_of, numbered, open_log, state_of
from tidelog.errors import StorageError
from tidelog.log.log import Log

CONFIG = {"internal.segment.bytes": 250, "file.delete.delay.ms": 0}


def ten_records(home: Path, disk: FaultyDisk, config: dict[str, object] | None = None) -> Log:
    log = open_log(home, {**CONFIG, **(config or {})}, disk=disk)
    for number in range(10):
        log.append(numbered(number))
    return log


def deleted_files(log: Log) -> list[str]:
    return sorted(path.name for path in Path(log.directory).glob("*.deleted"))


def test_a_swap_is_finished(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with ten_records(tmp_path, disk) as log:
        old = log.segments[0]
        disk.fail(1, kind="remove", on=".log.deleted", until_healed=True)
        log.replace_segments([cleaned_copy(log, old)], [old])
        assert not list(Path(log.directory).glob("*.swap"))
        assert state_of(log).failure is None
        log.append(numbered(10))
        assert [number_of(record) for record in log.read()] == list(range(11))
        check_log(log)
        assert {name[:20] for name in deleted_files(log)} == {f"{0:020}"}
        disk.heal()
        log.checkpoint()
        assert deleted_files(log) == []


@pytest.mark.parametrize("anew", [False, True])
def test_a_truncation_is_finished(anew: bool, tmp_path: Path) -> None:
    disk = FaultyDisk()
    with ten_records(tmp_path, disk) as log:
        disk.fail(1, kind="remove", on=".log.deleted", until_healed=True)
        if anew:
            log.truncate_fully_and_start_at(4)
        else:
            log.truncate_to(4)
        log.append(numbered(4))
        assert log.log_end_offset == 5
        check_log(log)
        assert deleted_files(log)
        disk.heal()


def test_the_others_go_and_the_rest_is_not_forgotten(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with ten_records(tmp_path, disk, {"file.delete.delay.ms": 1000}) as log:
        log.delete_segments(2, "a test")
        stuck = log.segments[0]
        assert len(deleted_files(log)) > 6
        disk.fail(1, kind="remove", on=f"{0:020}.log.deleted", until_healed=True)
        for _ in range(2):
            with pytest.raises(StorageError, match="removing deleted segments failed"):
                state_of(log).remove_deleted(at_once=True)
            assert {name[:20] for name in deleted_files(log)} == {f"{0:020}"}
            assert [segment.base_offset for _, segment in state_of(log).to_remove] == [0]
        Path(log.directory, f"{0:020}.log.deleted").unlink()  # by somebody else: that is as good
        disk.heal()
        assert state_of(log).remove_deleted(at_once=True) == 1
        assert state_of(log).to_remove == []
        assert stuck in log.segments

"""A directory that a crash left half-way through something: a reader sees what loading would leave, and leaves everything as it is."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.golden import GOLDEN
from tests.support.golden_partitions import golden_cases, load_case
from tests.support.logs import QuietDisk
from tests.support.readers import checkpoint_watermark, open_reader, state_of_files
from tidelog.disk.disk import Seen
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import parse_segment_file
from tidelog.errors import CorruptError, DamagedLogError, TidelogError
from tidelog.log.leftovers import Files, resolve
from tidelog.log.log import Log
from tidelog.log.log_reading import LogReading


class Findings(NamedTuple):
    """What a log has to say."""

    log_start_offset: int
    log_end_offset: int
    bases: list[int]
    sizes: list[int]
    records: list[tuple[int, bytes | None, bytes | None]]
    last_stable_offset: int
    committed: list[int]


def everything(log: LogReading) -> Findings:
    return Findings(
        log.log_start_offset,
        log.log_end_offset,
        [segment.base_offset for segment in log.segments],
        [segment.size_bytes for segment in log.segments],
        [(record.offset, record.key, record.value) for record in log.read(isolation="log_end")],
        log.last_stable_offset,
        [record.offset for record in log.read(isolation="committed")],
    )


def open_owner(directory: Path, case: dict[str, Any]) -> Log:
    return Log.open(
        directory,
        config=case["config"],
        clock=lambda: case["now_ms"],
        last_shutdown_clean=case["last_shutdown_clean"],
        recovery_point=case["recovery_point"],
        log_start_offset=case["log_start_offset"],
        pool=FilePool(QuietDisk()),
    )


@contextmanager
def prepared(folder: Path, work: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """The files of a case, with what the directory above says about them; that nothing changed is checked."""
    case = load_case(folder)
    directory = work / "reader" / "tide-0"
    shutil.copytree(folder / "before", directory)
    (directory.parent / "log-start-offset-checkpoint").write_text(f"0\n1\ntide 0 {case['log_start_offset']}\n")
    checkpoint_watermark(directory, 1 << 40)
    before = state_of_files(work / "reader")
    yield case, directory
    assert state_of_files(work / "reader") == before


ROT = {
    "below-base",
    "below-base-clean",
    "crc-first-batch",
    "crc-first-batch-of-all",
    "crc-last-clean",
    "crc-middle-batch",
    "crc-middle-segment",
    "crc-middle-segment-emptied",
    "crc-middle-segment-flushed",
    "empty-last-segment-torn",
    "index-missing-torn-first-clean",
    "legacy-rotten",
    "log-start-9-torn",
    "magic-0",
    "magic-1",
    "magic-9",
    "offsets-fall",
    "size-0",
    "size-13",
    "size-48",
    "size-63",
    "size-65",
    "size-huge",
    "size-negative",
    "torn-middle-segment",
    "txn-rotten-marker",
}
"""Bad bytes with others behind them. A reader reads up to them and says so, or does not take what was never flushed for a part of it."""
SPLIT = {"overflow", "overflow-clean", "overflow-no-index-clean", "overflow-often"}
"""Loading splits a segment; a reader reads it as it is."""
REFUSED_BY_ITS_OWNER = {
    "epochs-garbage",
    "epochs-line-too-many",
    "epochs-other-version",
    "garbage-tail-clean",
    "zeros-18-clean",
    "zeros-30-clean",
    "zeros-4096-clean",
}
"""What is wrong there does not concern a reader."""
REFUSED = {"foreign-log-name", "short-log-name"}
CASES = golden_cases("recovery")


@pytest.mark.leaves
@pytest.mark.parametrize(
    "folder", [folder for folder in CASES if folder.name not in ROT | REFUSED_BY_ITS_OWNER | REFUSED], ids=lambda folder: folder.name
)
def test_sees_what_loading_would_leave(folder: Path, tmp_path: Path) -> None:
    with prepared(folder, tmp_path) as (case, directory):
        owned = tmp_path / "owner" / "tide-0"
        shutil.copytree(folder / "before", owned)
        with open_owner(owned, case) as log:
            expected = everything(log)
        with open_reader(directory) as reader:
            found = everything(reader)
        if folder.name == "snapshots-missing-clean":
            # Kafka takes this for the log of an old release, and forgets what is open. A reader does not, and shows less.
            assert (expected.last_stable_offset, found.last_stable_offset) == (23, 19)
            expected = expected._replace(last_stable_offset=19, committed=found.committed)
        if folder.name in SPLIT:
            expected = expected._replace(bases=found.bases, sizes=found.sizes)
        assert found == expected


@pytest.mark.parametrize("name", sorted(ROT))
def test_rot_is_said_or_left_out(name: str, tmp_path: Path) -> None:
    """Every record that is read is one that Kafka wrote there, none is passed over, and what ends it early has a name."""
    written = {record.offset: (record.key, record.value) for record in _undamaged(name, tmp_path)}
    with prepared(GOLDEN / "recovery" / name, tmp_path) as (case, directory):
        records = []
        is_said = False
        try:
            with open_reader(directory) as reader:
                start = reader.log_start_offset
                for record in reader.read(isolation="log_end"):
                    records.append(record)
                is_said = reader.log_end_offset < len(written)  # not there: as far as a reader knows, not yet
        except (CorruptError, TidelogError):
            is_said = True
        offsets = [record.offset for record in records]
        if name != "txn-rotten-marker":  # where markers have offsets too
            assert offsets == list(range(start, start + len(offsets)))
        if name not in ("legacy-rotten", "txn-rotten-marker", "offsets-fall", "log-start-9-torn"):
            assert all(written[record.offset] == (record.key, record.value) for record in records)
        assert is_said or offsets[-1:] == [max(written)] or name in ("log-start-9-torn", "txn-rotten-marker", "legacy-rotten"), offsets
        assert case["name"] == name


def _undamaged(name: str, tmp_path: Path) -> list[Any]:
    source = "crashed-0" if "segment" in name or name.startswith(("crc-first", "crc-middle", "log-start")) else "stopped-clean"
    with prepared(GOLDEN / "recovery" / source, tmp_path / "undamaged") as (_, directory), open_reader(directory) as reader:
        return list(reader.read(isolation="log_end"))


@pytest.mark.parametrize("name", sorted(REFUSED_BY_ITS_OWNER))
def test_what_does_not_concern_a_reader(name: str, tmp_path: Path) -> None:
    with prepared(GOLDEN / "recovery" / name, tmp_path) as (case, directory):
        owned = tmp_path / "owner" / "tide-0"
        shutil.copytree(GOLDEN / "recovery" / name / "before", owned)
        with pytest.raises(TidelogError):
            open_owner(owned, case)
        with open_reader(directory) as reader:
            assert [record.offset for record in reader.read()] == list(range(reader.log_end_offset))
            assert reader.log_end_offset >= 8


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_name_that_lies(name: str, tmp_path: Path) -> None:
    with prepared(GOLDEN / "recovery" / name, tmp_path) as (_, directory), pytest.raises(DamagedLogError, match="named like a segment's"):
        open_reader(directory)


# The rules by themselves


def files(*names: str) -> list[Any]:
    found = []
    for name in names:
        parsed = parse_segment_file(name)
        assert parsed is not None
        found.append((parsed, Seen(name, "file", 100)))
    return found


def resolved(*names: str, ends: dict[int, int] | None = None) -> list[str]:
    def next_offset_of(base_offset: int, files: Files) -> int:
        assert ".log" in files
        return (ends or {})[base_offset]

    full = [f"{name.partition('.')[0]:0>20}.{name.partition('.')[2]}" for name in names]
    answer = resolve(files(*full), next_offset_of)
    return sorted(
        f"{base_offset}{kind}" + (" from swap" if entry.name.endswith(".swap") else "")
        for base_offset, kinds in answer.items()
        for kind, entry in kinds.items()
    )


@pytest.mark.parametrize(
    ("names", "ends", "expected"),
    [
        (["0.log", "0.index", "5.log.deleted"], {}, ["0.index", "0.log"]),
        (["0.log", "0.log.cleaned"], {}, ["0.log"]),
        (["0.log", "0.log.swap", "0.index.cleaned"], {}, ["0.log"]),
        (["0.log", "0.index", "0.log.swap", "0.index.swap"], {0: 5}, ["0.index from swap", "0.log from swap"]),
        (["0.log", "3.log", "3.snapshot", "5.log", "0.log.swap"], {0: 5}, ["0.log from swap", "5.log"]),
        (["0.log", "3.log", "0.log.swap", "3.log.deleted"], {0: 5}, ["0.log from swap"]),
        (["0.log", "0.index.swap"], {}, ["0.index from swap", "0.log"]),
        (["0.log", "5.log.swap", "3.log.cleaned"], {}, ["0.log"]),
        (["0.log", "1.log.swap", "5.log", "5.log.cleaned"], {1: 3}, ["0.log", "1.log from swap", "5.log"]),
        (["0.log", "4.log", "0.log.swap", "4.log.swap"], {0: 2, 4: 6}, ["0.log from swap", "4.log from swap"]),
    ],
)
def test_which_files_count(names: list[str], ends: dict[int, int], expected: list[str]) -> None:
    assert resolved(*names, ends=ends) == expected

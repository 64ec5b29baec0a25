"""A directory that a real Kafka loaded after a crash, or after damage, is loaded alike here in the mode "kafka"."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import GOLDEN
from tests.support.golden_partitions import file_differences, golden_cases, load_case
from tidelog.errors import DamagedLogError, TidelogError
from tidelog.log.log import Log


def recover(folder: Path, work: Path) -> list[str]:
    """How our recovery of `before/` differs from Kafka's."""
    case = load_case(folder)
    directory = work / "tide-0"
    shutil.copytree(folder / "before", directory)
    try:
        log = Log.open(
            directory,
            config=case["config"],
            clock=lambda: case["now_ms"],
            recovery="kafka",
            last_shutdown_clean=case["last_shutdown_clean"],
            recovery_point=case["recovery_point"],
            log_start_offset=case["log_start_offset"],
        )
    except TidelogError as error:
        return [] if "error" in case else [f"Kafka loads it, we raise {type(error).__name__}: {error}"]
    with log:
        if "error" in case:
            return [f"Kafka refuses with {case['error']}, we load {log!r}"]
        found: dict[str, Any] = {
            "log_end_offset": log.log_end_offset,
            "log_start_offset_after": log.log_start_offset,
            "recovery_point_after": log.recovery_point,
            "segment_bases": [segment.base_offset for segment in log.segments],
            "sizes": [segment.size_bytes for segment in log.segments],
            "leader_epochs": [list(entry) for entry in log.leader_epochs],
        }
        differences = [f"{name}: {case[name]} in Kafka, {value} here" for name, value in found.items() if case[name] != value]
        differences += [f"loaded: {line}" for line in file_differences(folder / "loaded", directory, used_prefix=True)]
    return differences + [f"closed: {line}" for line in file_differences(folder / "closed", directory)]


CLEAN_BUT_DAMAGED: dict[str, int | type[DamagedLogError]] = {
    "garbage-tail-clean": DamagedLogError,
    "index-garbage-clean": 8,
    "torn-5-clean": 7,
    "torn-75-clean": 7,
    "torn-75-clean-entry-before": 7,
    "torn-whole-batch-clean": 7,
    "zeros-17-clean": 8,
}
"""Damage that the marker of a clean stop hides from Kafka, which then loses offsets or appends behind garbage.

We look at the end of the log all the same: this is where the log ends then, or what is raised."""

OTHERWISE = {
    "short-log-name": "8.log is refused, not taken for the segment at offset 8",
    "swap-no-index": "indexes are rebuilt, not left full of zeros",
}


@pytest.mark.leaves
@pytest.mark.parametrize("folder", golden_cases("recovery"), ids=lambda folder: folder.name)
def test_same_outcome_as_kafka(folder: Path, tmp_path: Path) -> None:
    differences = recover(folder, tmp_path)
    if folder.name in CLEAN_BUT_DAMAGED or folder.name in OTHERWISE:
        assert differences != []
    else:
        assert differences == []


@pytest.mark.parametrize("name", sorted(CLEAN_BUT_DAMAGED))
def test_damage_is_noticed_after_a_clean_stop(name: str, tmp_path: Path) -> None:
    expected = CLEAN_BUT_DAMAGED[name]
    directory = tmp_path / "tide-0"
    shutil.copytree(GOLDEN / "recovery" / name / "before", directory)
    if not isinstance(expected, int):
        with pytest.raises(expected):
            Log.open(directory, last_shutdown_clean=True)
        return
    before = (directory / "00000000000000000004.log").read_bytes()
    with Log.open(directory, last_shutdown_clean=True) as log:
        assert log.log_end_offset == expected
        assert [record.offset for record in log.read()] == list(range(expected))
        for cut in log.load_report.cuts:
            kept = b"" if cut.kept_in is None else (directory / cut.kept_in).read_bytes()
            assert before[cut.position :] == (kept or bytes(cut.size_bytes))

"""Rounds that a real Cleaner did are done alike here: the same choice, the same counts, the same bytes after every round."""

from pathlib import Path

import pytest

from tests.support.cleaning_replay import CleaningReplay, meaning_differences
from tests.support.golden_partitions import file_differences, golden_cases

LEAVES = {"overdue": "timestamp-1970"}
"""What is not in order in what Kafka leaves: a record of no time at all."""


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(path, id=path.name, marks=[pytest.mark.leaves(LEAVES[path.name])] if path.name in LEAVES else [])
        for path in golden_cases("compaction")
    ],
)
@pytest.mark.parametrize("buffer_bytes", [None, 150], ids=["", "tiny-buffers"])
def test_same_rounds_as_kafkas_cleaner(folder: Path, buffer_bytes: int | None, tmp_path: Path) -> None:
    replay = CleaningReplay(folder, tmp_path, buffer_bytes=buffer_bytes)
    try:
        found = replay.run()
    finally:
        replay.log.close()
    closed = file_differences if replay.compare_bytes else meaning_differences
    assert [*found, *closed(folder / "closed", replay.directory)] == []
    assert replay.rounds == len(list(folder.glob("clean-*"))) > 0


def test_a_round_that_keeps_too_much_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cleaner that keeps tombstones forever differs in the round that drops them."""
    monkeypatch.setattr("tidelog.compaction.rewriting.keeps_tombstones", lambda *_, **__: True)
    monkeypatch.setattr("tidelog.compaction.rules.keeps_tombstones", lambda *_, **__: True)
    (folder,) = (path for path in golden_cases("compaction") if path.name == "codecs")
    replay = CleaningReplay(folder, tmp_path)
    try:
        assert any("round 1" in difference for difference in replay.run())
    finally:
        replay.log.close()

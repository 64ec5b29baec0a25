"""What filled the map and does not survive is not read a second time; the outcome does not change by that."""

from pathlib import Path

import pytest

from tests.support.cleaning import LeftBatch, clean, fill, keyed, left, left_batches, open_compacted
from tests.support.logs import check_log
from tests.support.producers import sent
from tidelog.compaction.cleaning import Hooks
from tidelog.compaction.segment_chunks import ChunkReader
from tidelog.log.log import Log

CHUNK_BYTES = 400


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChunkReader.__init__, "__defaults__", (CHUNK_BYTES,))


def bytes_moved(log: Log, checkpoint: int | None = None) -> tuple[int, int]:
    """Bytes read or written by a pass, and how many it would be if everything was read twice."""
    moved: list[int] = []
    stats = clean(log, checkpoint, hooks=Hooks(throttle=moved.append)).stats
    assert stats.messages_read == log.log_end_offset
    return sum(moved), stats.map_bytes_read + stats.bytes_read + stats.bytes_written


def test_dead_batches_are_read_once(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        for number in range(60):
            fill(log, f"a={number} b={number}")
        log.roll()
        size = log.size_bytes
        moved, all_twice = bytes_moved(log)
        assert left(log) == ["118:a=59", "119:b=59"]
        assert all_twice - moved >= size - 2 * CHUNK_BYTES
        check_log(log)


def test_a_survivor_has_its_chunk_read_again(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        for number in range(60):
            fill(log, f"once{number}=x b={number}" if number % 20 == 7 else f"a={number} b={number}")
        log.roll()
        bytes_moved(log)
        assert left(log) == ["14:once7=x", "54:once27=x", "94:once47=x", "118:a=59", "119:b=59"]
        check_log(log)


def test_a_header_that_must_stay_has_its_chunk_read_again(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        for number in range(60):
            log.append(sent(7, 0, 2) if number == 30 else keyed(f"k={number}", "k=x"))
        log.roll()
        bytes_moved(log)
        assert left_batches(log) == [LeftBatch(60, 61, 0, None, False), LeftBatch(118, 119, 1, None, False)]


def test_what_was_cleaned_before_is_read(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        for number in range(30):
            fill(log, f"old{number}=x")
        log.roll()
        for number in range(30):
            fill(log, f"old{number}=y")
        log.roll()
        moved, all_twice = bytes_moved(log, 30)
        assert moved == all_twice
        assert left(log) == [f"{30 + number}:old{number}=y" for number in range(30)]

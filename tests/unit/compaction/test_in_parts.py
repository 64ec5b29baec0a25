"""Compaction in parts, by workers that know nothing of each other, does what the cleaner does, byte by byte."""

import filecmp
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cleaning import bases, clean, fill, keyed, left, open_compacted, plan
from tests.support.cleaning_replay import meaning_differences
from tests.support.compacted import appends, compacted_topic, do, passes, pauses, transactions
from tests.support.golden_partitions import file_differences, golden_cases
from tests.support.in_parts import SECRET, PartedReplay, TasksHere, clean_parted
from tests.support.producers import end_of_txn
from tidelog.compaction.cleaning import CleanedLog
from tidelog.compaction.parts_cleaning import clean_in_parts
from tidelog.compaction.parts_outcome import NotInParts
from tidelog.compaction.plan import plan_cleaning
from tidelog.disk.disk import Disk
from tidelog.errors import CorruptBatchError, NullKeysError
from tidelog.log.log import Log
from tidelog.log.segment_piece import pack

LEAVES = {"overdue": "timestamp-1970"}


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(path, id=path.name, marks=[pytest.mark.leaves(LEAVES[path.name])] if path.name in LEAVES else [])
        for path in golden_cases("compaction")
        if path.name != "full-map"
    ],
)
@pytest.mark.parametrize("sizes", [(1, 1), (400, 1), (400, 900), (1 << 20, 1 << 20)], ids=["batches", "pieces", "some", "whole"])
def test_same_rounds_as_kafkas_cleaner(folder: Path, sizes: tuple[int, int], tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    replay = PartedReplay(folder, tmp_path / "log", piece_bytes=sizes[0], task_bytes=sizes[1])
    try:
        found = replay.run()
    finally:
        replay.log.close()
    closed = file_differences if replay.compare_bytes else meaning_differences
    assert [*found, *closed(folder / "closed", replay.directory)] == []
    assert replay.rounds > 0


def two_of_a_kind(tmp_path: Path, *batches: Any, **settings: Any) -> tuple[Log, Log]:
    """The same log twice, written once and copied."""
    with open_compacted(tmp_path / "one", **settings) as log:
        fill(log, *batches)
    shutil.copytree(tmp_path / "one", tmp_path / "other", ignore=shutil.ignore_patterns(".lock"))
    return open_compacted(tmp_path / "one", **settings), open_compacted(tmp_path / "other", **settings)


def same_files(one: Log, other: Log) -> list[str]:
    """Names of the files that differ."""
    names = sorted({path.name for log in (one, other) for path in Path(log.directory).iterdir()} - {"partition.metadata"})
    _, mismatch, errors = filecmp.cmpfiles(one.directory, other.directory, names, shallow=False)
    return mismatch + errors


def test_a_segment_that_is_a_link_is_compacted(tmp_path: Path) -> None:
    """As where somebody has put old segments on another disk. To write down what was to be committed once ended in a `KeyError`."""
    local, parted = two_of_a_kind(tmp_path, "a=1 b=1", "|", "a=3 c", "|", "c=4", "|", "z=1")
    first = Path(parted.segments[0].path_of(".log"))
    (tmp_path / "cold").write_bytes(first.read_bytes())
    first.unlink()
    first.symlink_to(tmp_path / "cold")
    with local, parted:
        clean(local)
        staging = tmp_path / "staging"
        staging.mkdir()
        options = {"secret": SECRET, "piece_bytes": 1, "task_bytes": 1, "staging": str(staging)}
        (outcome,) = clean_in_parts([(parted, plan(parted))], TasksHere(staging), **options)  # type: ignore[arg-type]
        assert isinstance(outcome, CleanedLog)
        assert left(parted) == left(local)
        assert not first.is_symlink()


def test_files_are_those_of_the_cleaner(tmp_path: Path) -> None:
    batches = ["a=1 b=1 c=1", "b=2 d", "|", "a=3 c", "e=1", "|", "c=4", "f=1 a=5", "|", "z=1"]
    local, parted = two_of_a_kind(tmp_path, *batches)
    with local, parted:
        clean(local)
        clean_parted(parted, plan(parted), tmp_path / "staging", piece_bytes=1, task_bytes=1)
        assert left(parted) == left(local)
        assert same_files(local, parted) == []


def test_an_own_clean_part_is_superseded_by_later_keys(tmp_path: Path) -> None:
    local, parted = two_of_a_kind(tmp_path, "a=1 b=1", "|", "b=2 c=1", "|", "z=1")
    with local, parted:
        dirty = 0
        for round_ in range(3):
            cleaned = clean(local, dirty)
            parted_too = clean_parted(parted, plan(parted, dirty), tmp_path / f"staging-{round_}", piece_bytes=1)
            assert (cleaned.next_dirty_offset, parted_too.next_dirty_offset) == (bases(local)[-1],) * 2
            assert cleaned.stats.messages_written == parted_too.stats.messages_written
            assert same_files(local, parted) == []
            dirty = cleaned.next_dirty_offset
            for log in (local, parted):
                fill(log, "a=9 c=9", "|", f"d={round_}")


def test_a_secret_does_not_matter(tmp_path: Path) -> None:
    one, other = two_of_a_kind(tmp_path, "a=1 b=1", "a=2", "|", "c=1")
    with one, other:
        for log, secret in ((one, SECRET), (other, bytes(16))):
            folder = tmp_path / log.directory.replace("/", "_")
            folder.mkdir()
            clean_in_parts([(log, plan(log))], TasksHere(folder), secret=secret, piece_bytes=1, task_bytes=1)
        assert same_files(one, other) == []


def test_records_without_a_key_stop_it_before_anything_is_changed(tmp_path: Path) -> None:
    with open_compacted(tmp_path, {"cleanup.policy": "delete"}) as log:
        fill(log, "a=1", "=2", "|", "a=3", "|", "b=1")
        log.reconfigure(log.config.with_changes({"cleanup.policy": "compact"}))
        before = bases(log)
        with pytest.raises(NullKeysError, match="1 record without key, at offset 1"):
            clean_parted(log, plan(log), tmp_path / "staging")
        assert bases(log) == before
        clean_parted(log, plan(log), tmp_path / "again", drop_null_keys=True)
        assert left(log) == ["2:a=3", "3:b=1"]


def test_damage_is_told_and_nothing_is_changed(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "a=1", "b=2", "|", "a=3", "|", "b=1")
        path = Path(log.segments[0].path_of(".log"))
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        with pytest.raises(CorruptBatchError) as raised:
            clean_parted(log, plan(log), tmp_path / "staging")
        assert raised.value.path == str(path)
        assert left_names(log) == []
        path.write_bytes(bytes(data[:-1]) + bytes([data[-1] ^ 1]))


def left_names(log: Log) -> list[str]:
    return [path.name for path in Path(log.directory).iterdir() if path.suffix in (".cleaned", ".swap", ".deleted")]


def test_an_index_that_leads_astray_is_not_followed(tmp_path: Path) -> None:
    """An entry that points at what looks like its batch, inside of another: the pieces do not fit, and the log is cleaned in one go."""
    with open_compacted(tmp_path, {"index.interval.bytes": 1}) as log:
        fill(log, "a=1", "b=2")
        inner = keyed("x=1", base_offset=1)
        log.append(keyed((b"c", b"-" + inner)))
        fill(log, "d=4", "|", "a=3", "|", "b=1")
        segment = log.segments[0]
        data, index = Path(segment.path_of(".log")).read_bytes(), Path(segment.path_of(".index"))
        position = data.rindex(inner)
        index.write_bytes((1).to_bytes(4, "big") + position.to_bytes(4, "big"))
        segment.reindexed(8, segment.time_index.size_bytes)
        folder = tmp_path / "staging"
        folder.mkdir()
        (outcome,) = clean_in_parts([(log, plan(log))], TasksHere(folder), secret=SECRET, piece_bytes=1, task_bytes=1)
        assert isinstance(outcome, NotInParts)
        assert [record.offset for record in log.read()] == list(range(6))
        clean_parted(log, plan(log), tmp_path / "whole", piece_bytes=1)
        assert [record.offset for record in log.read()] == [1, 2, 3, 4, 5]


def test_records_without_a_key_of_an_aborted_transaction_do_not_count(tmp_path: Path) -> None:
    with open_compacted(tmp_path, {"cleanup.policy": "delete"}) as log:
        log.append(keyed("a=1", "=2", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True))
        log.append(end_of_txn(7, "abort"), origin="coordinator")
        fill(log, "a=3", "|", "b=1")
        log.reconfigure(log.config.with_changes({"cleanup.policy": "compact"}))
        clean_parted(log, plan(log), tmp_path / "staging", piece_bytes=1, task_bytes=1)
        assert left(log) == ["3:a=3", "4:b=1"]


@given(st.lists(st.one_of(appends, appends, transactions, pauses, st.just(("roll",)), passes), max_size=40), st.integers(1, 2000))
def test_random_topics_end_as_those_of_the_cleaner(steps: list[Any], piece_bytes: int) -> None:
    """Two topics go the same way; where one is cleaned, the other is cleaned in parts."""
    with compacted_topic() as local, compacted_topic() as parted, tempfile.TemporaryDirectory() as folder:
        rounds = 0
        for step in [*steps, ("roll_and_compact",)]:
            if step[0] not in ("compact", "roll_and_compact", "clean_once"):
                do(local, step)
                do(parted, step)
                continue
            for topic in (local, parted):
                if step[0] == "roll_and_compact" and topic.log.segments[-1].size_bytes:
                    topic.roll()
            log, state = parted.log, parted.store._state
            made = plan_cleaning(log, log.config, state.cleaner_offset(log.partition), parted.clock())
            result = local.store.compact(local.topic.name)
            assert result.failures == ()
            if not made.is_empty:
                rounds += 1
                done = clean_parted(log, made, Path(folder) / str(rounds), piece_bytes=piece_bytes, task_bytes=2 * piece_bytes)
                state.checkpoint_cleaner(log.partition, done.next_dirty_offset)
                assert done.stats.messages_written == sum(each.stats[0].messages_written for each in result.compacted)
                assert done.stats.map_entries == sum(each.stats[0].map_entries for each in result.compacted)
            assert same_files(local.log, parted.log) == []


def test_pieces_are_shared_out(tmp_path: Path) -> None:
    assert pack([1, 2, 3, 4], [10, 10, 10, 10], 10, 1) == [[1], [2], [3], [4]]
    assert pack([1, 2, 3, 4], [10, 10, 10, 10], 20, 1) == [[1, 2], [3, 4]]
    assert pack([1, 2, 3, 4], [10, 10, 10, 10], 1000, 2) == [[1, 2], [3, 4]]
    assert pack(list(range(10_000)), [1] * 10_000, 5000, 2) == [list(range(5000)), list(range(5000, 10_000))]
    with open_compacted(tmp_path) as log:
        fill(log, *(f"k{number}=1" for number in range(50)), "|", "z=1")
        folder = tmp_path / "staging"
        folder.mkdir()
        tasks = TasksHere(folder)
        clean_in_parts([(log, plan(log))], tasks, secret=SECRET, piece_bytes=400, task_bytes=400)
        assert dict(tasks.stages)["hash keys"] >= 5
        assert dict(tasks.stages)["rewrite segments"] >= 5


def test_small_segments_that_one_task_has_share_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file for each of ten thousand segments took longer than all else that was done with them."""
    made: list[str] = []
    create = Disk.create

    def noted(self: Disk, path: str, **more: Any) -> int:
        made.append(path)
        return create(self, path, **more)

    monkeypatch.setattr(Disk, "create", noted)
    segments = [item for number in range(40) for item in (f"k{number % 7}={number}", "|")]
    local, parted = two_of_a_kind(tmp_path, *segments, "z=1")
    with local, parted:
        clean(local)
        folder = tmp_path / "staging"
        folder.mkdir()
        tasks = TasksHere(folder, workers=2)
        made.clear()
        options: Any = {"secret": SECRET, "piece_bytes": 400, "task_bytes": 1200, "unit_bytes": 1}
        (outcome,) = clean_in_parts([(parted, plan(parted))], tasks, **options)
        assert isinstance(outcome, CleanedLog)
        assert same_files(local, parted) == []
        for kind, stage in (("-keys-", "hash keys"), ("-unit-", "rewrite segments")):
            assert len([path for path in made if kind in path]) == 2 * dict(tasks.stages)[stage]  # every task is done twice
        assert dict(tasks.stages)["hash keys"] < 10

"""A compaction in parts that was cut off in its commit is finished by the next owner of the store, or left alone where it does not hold."""

import errno
import json
import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

import tidelog
from tests.support.crash_parts import GONE, PARTITIONS, compact, compacted, files_of, make_store, opened
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import QuietDisk
from tests.support.small_stores import QUIET, state_of
from tidelog.compaction import parts_commit
from tidelog.disk.disk import OS, Disk
from tidelog.disk.names import TopicPartition
from tidelog.disk.process_identity import ProcessIdentity
from tidelog.record.kernel.clock import wall_clock
from tidelog.store.finishing import finish_commits
from tidelog.store.staging import ABANDONED_MS, GIVEN_UP, Staging, find_staging, sweep_staging
from tidelog.store.store import Store

T0, T1 = PARTITIONS
OTHER = replace(GONE, host="elsewhere")
LIVING = ProcessIdentity.of(os.getpid())


class CutOffError(Exception):
    """The commit ends here."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    make_store(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def expected(data: Path, tmp_path: Path) -> dict[str, bytes]:
    make_store(tmp_path / "expected")
    compacted(tmp_path / "expected", QUIET)
    return files_of(tmp_path / "expected", T0)


def cut_off(
    data: Path, monkeypatch: pytest.MonkeyPatch, *, after: int = 1, owner: ProcessIdentity = GONE, within: Path | None = None
) -> Path:
    """A compaction whose commit swaps in some groups of the first log, and no more: its staging directory."""
    real = parts_commit._replace_group
    done: list[object] = []

    def replace_group(*arguments: object, **options: bool) -> None:
        if len(done) == after:
            raise CutOffError
        done.append(arguments)
        real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(parts_commit, "_replace_group", replace_group)
    with opened(data, QUIET) as store:
        staging = Staging.make(QUIET, str(data), owner, within=None if within is None else str(within))
        with pytest.raises(CutOffError):
            compact(store, staging)
    monkeypatch.undo()
    return Path(staging.path)


def reopened(data: Path) -> dict[str, bytes]:
    with opened(data, QUIET) as store:
        assert store.failures == {}
    return files_of(data, T0)


@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("owner", [GONE, OTHER])
def test_it_is_finished(
    data: Path,
    expected: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    after: int,
    owner: ProcessIdentity,
) -> None:
    """Where nobody can tell whether the job lives too: it has the store no more, and that is told by its lock."""
    caplog.set_level(logging.INFO, "tidelog")
    staging = cut_off(data, monkeypatch, after=after, owner=owner)
    assert files_of(data, T0) != expected
    assert reopened(data) == expected
    assert not staging.exists()
    assert [record.message for record in caplog.records if "cut off" in record.message and "finished" in record.message] != []
    with opened(data, QUIET) as store:
        assert state_of(store).cleaner_offset(T0) == store.log(*T0).segments[-1].base_offset


def test_a_living_job_is_left_alone(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = cut_off(data, monkeypatch, owner=LIVING)
    before = files_of(data, T0)
    assert reopened(data) == before
    assert (staging / "commit-0.json").exists()


def test_a_job_that_was_given_up_is_not_finished(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = cut_off(data, monkeypatch)
    staging.rename(str(staging) + GIVEN_UP)
    before = files_of(data, T0)
    assert reopened(data) == before
    assert find_staging(QUIET, str(data)) == []


def change_a_segment(data: Path) -> None:
    path = sorted((data / str(T0)).glob("*.log"))[-3]
    os.utime(path, ns=(1, 1))


def not_compacted(data: Path) -> None:
    path = data / "tidelog.json"
    text = path.read_text()
    assert '"compact"' in text
    path.write_text(text.replace('"compact"', '"delete"'))


def damage_it(data: Path) -> None:
    next(data.parent.glob(".data.tidelog-staging-*/commit-0.json")).write_text("{")


def of_another_topic(data: Path) -> None:
    path = next(data.parent.glob(".data.tidelog-staging-*/commit-0.json"))
    decision = json.loads(path.read_text())
    decision["topic_id"] = "00000000-0000-0000-0000-000000000011"
    path.write_text(json.dumps(decision))


@pytest.mark.parametrize("change", [change_a_segment, not_compacted, damage_it, of_another_topic])
@pytest.mark.parametrize("owner", [GONE, OTHER])
def test_what_does_not_hold_changes_nothing(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, change: object, owner: ProcessIdentity
) -> None:
    """Of another machine's job it stays: it may be of a store that is called the same."""
    staging = cut_off(data, monkeypatch, owner=owner)
    change(data)  # type: ignore[operator]
    before = files_of(data, T0)
    assert reopened(data) == before
    assert (staging / "commit-0.json").exists() == staging.exists() == (owner is OTHER)
    (line,) = [record.message for record in caplog.records if "cut off" in record.message]
    assert "is not finished" in line
    assert line.count("\n") == 0


def test_who_may_not_change_the_store_decides_nothing(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In a place that many share anybody may make a directory that is called like that of a job."""
    cut_off(data, monkeypatch)
    before = files_of(data, T0)
    with monkeypatch.context() as patch:
        patch.setattr(Disk, "is_trusted", lambda disk, path, like: False)
        assert reopened(data) == before
    assert "who may not change the store" in caplog.text
    assert reopened(data) != before


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can give a directory to somebody else")
def test_who_is_trusted(tmp_path: Path) -> None:
    for name in ("data", "staging"):
        (tmp_path / name).mkdir()
    like = [str(tmp_path / "data")]
    assert OS.is_trusted(str(tmp_path / "staging"), like)
    os.chown(tmp_path / "staging", 12345, 12345)
    assert not OS.is_trusted(str(tmp_path / "staging"), like)
    os.chown(tmp_path / "data", 12345, 12345)
    assert OS.is_trusted(str(tmp_path / "staging"), like)


def test_a_topic_that_is_gone(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = cut_off(data, monkeypatch, owner=OTHER)
    with opened(data, QUIET, only=[]) as store:
        store.delete_topic("tide")
    owner = json.loads((staging / "owner.json").read_text())
    (staging / "owner.json").write_text(json.dumps({**owner, "owner": GONE.as_dict()}))
    with opened(data, QUIET) as store:
        assert store.topics() == []
    assert not staging.exists()


def test_a_store_of_the_same_name_elsewhere_is_none_of_it(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shared").mkdir()
    staging = cut_off(data, monkeypatch, within=tmp_path / "shared")
    (tmp_path / "other").mkdir()
    make_store(tmp_path / "other" / "data")
    with opened(tmp_path / "other" / "data", QUIET) as store:
        finish_commits(state_of(store), within=str(tmp_path / "shared"))
    assert (staging / "commit-0.json").exists()


def test_elsewhere_it_waits_for_who_knows_the_place(
    data: Path, expected: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep there leaves it, for a week."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    staging = cut_off(data, monkeypatch, within=place)
    before = files_of(data, T0)
    assert reopened(data) == before
    assert sweep_staging(QUIET, [str(data)], wall_clock(), within=str(place)) == []
    with opened(data, QUIET) as store:
        finish_commits(state_of(store), within=str(place))
    assert files_of(data, T0) == expected
    assert not staging.exists()


def test_after_a_week_nobody_comes_any_more(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "elsewhere"
    place.mkdir()
    staging = cut_off(data, monkeypatch, within=place)
    assert sweep_staging(QUIET, [str(data)], wall_clock() + ABANDONED_MS + 60_000, within=str(place)) == [str(staging)]


def test_a_log_that_is_not_open_is_left_for_who_opens_it(data: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    staging = cut_off(data, monkeypatch)
    before = files_of(data, T0)
    with opened(data, QUIET, only=[T1]) as store:
        assert set(state_of(store).logs) == {T1}
    assert files_of(data, T0) == before
    assert (staging / "commit-0.json").exists()
    with opened(data, QUIET, only=[TopicPartition("tide", 0)]) as store:
        assert set(state_of(store).logs) == {T0}
    assert files_of(data, T0) == expected
    assert not staging.exists()


def test_who_only_reads_changes_nothing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = cut_off(data, monkeypatch)
    before = files_of(data, T0)
    with tidelog.open(data, mode="r") as store:
        assert store.topics()
    assert files_of(data, T0) == before
    assert (staging / "commit-0.json").exists()


@pytest.mark.parametrize(("kind", "on"), [("sync_directory", "tide-0"), ("rename", ".log.swap"), ("list", "tide-0")])
def test_a_refusal_does_not_keep_the_store_closed(
    data: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str, on: str
) -> None:
    staging = cut_off(data, monkeypatch)
    disk = FaultyDisk(QuietDisk())
    real = parts_commit.file_facts

    def facts(*arguments: object) -> object:  # not before: a load lists and syncs too
        disk.fail(1, kind=kind, on=on, error=errno.ENOSPC, until_healed=True)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("tidelog.store.finishing.file_facts", facts)
    with opened(data, disk):
        disk.heal()
    assert disk.fired
    assert [record.message for record in caplog.records if "could not be finished yet" in record.message] != []
    assert (staging / "commit-0.json").exists()
    monkeypatch.undo()
    assert reopened(data) == expected
    assert not staging.exists()


@pytest.mark.parametrize("error", [errno.EPERM, errno.EXDEV, errno.EOPNOTSUPP, errno.EMLINK])
def test_without_second_names_it_is_renamed(data: Path, expected: dict[str, bytes], tmp_path: Path, error: int) -> None:
    disk = FaultyDisk(QuietDisk())
    disk.fail(1, kind="link", error=error, until_healed=True)
    compacted(data, disk)
    assert disk.fired
    assert files_of(data, T0) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "expected"]


def test_a_decision_that_cannot_be_written_stops_the_commit(data: Path) -> None:
    before = files_of(data, T0)
    disk = FaultyDisk(QuietDisk())
    with opened(data, disk) as store:
        staging = Staging.make(QUIET, str(data), LIVING)
        disk.fail(1, kind="sync", on="commit-0.json.tmp", error=errno.ENOSPC)
        (failure,) = compact(store, staging).failures
        assert "writing down what is to be committed failed; nothing was changed" in str(failure.error)
        assert failure.partition == T0
    assert files_of(data, T0) == before
    staging.discard(QUIET)


def test_a_group_without_a_batch_is_made_again(data: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    staging = cut_off(data, monkeypatch)
    path = staging / "commit-0.json"
    decision = json.loads(path.read_text())
    decision["groups"][1] |= {"staged": None, "sizes": [0, 0, 0, None]}
    path.write_text(json.dumps(decision))
    found = reopened(data)
    empty = f"{decision['groups'][1]['members'][0][0]:020d}"
    assert {name: content for name, content in found.items() if name.startswith(empty)} == {
        f"{empty}{kind}": b"" for kind in (".log", ".index", ".timeindex")
    }
    assert {name: content for name, content in found.items() if not name.startswith(empty)} == {
        name: content for name, content in expected.items() if not name.startswith(empty)
    }


def test_a_job_that_is_done_leaves_no_decision(data: Path) -> None:
    with Store.open(data, background=False) as store:
        staging = Staging.make(QUIET, str(data), LIVING)
        compact(store, staging)
        assert list(Path(staging.path).glob("commit-*")) == []
        staging.discard(QUIET)

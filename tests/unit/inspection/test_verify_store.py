"""verify and `tidelog.json`: what a store says that there is, held against its log directories."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.golden import GOLDEN
from tests.support.small_stores import open_store
from tidelog.disk.disk import Disk, Entry
from tidelog.inspection import Finding, verify_log_directory
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.store import Store

CODES = ("partition-missing", "partition-elsewhere", "store-file")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with open_store(tmp_path / "s") as made:
        made.create_topic("t", 3).append(b"x", partition=1)
        made.create_topic("u", 1)
    return tmp_path / "s"


def about_store(*paths: Path, disk: Disk | None = None) -> list[Finding]:
    """Of the first directory, with the others beside it."""
    found = verify_log_directory(paths[0], beside=paths[1:], **({} if disk is None else {"disk": disk}))  # type: ignore[arg-type]
    return [finding for finding in found if finding.code in CODES]


def names(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(finding.severity, finding.code, Path(finding.path).name) for finding in findings]


def test_a_store_that_is_whole(store: Path) -> None:
    assert list(verify_log_directory(store)) == []


def test_partitions_that_are_missing(store: Path) -> None:
    """As many as `ls` and `explain` say."""
    shutil.rmtree(store / "t-1")
    (found,) = about_store(store)
    assert (found.severity, found.code, found.path) == ("error", "partition-missing", str(store / "t-1"))
    assert "topic t" in found.what
    assert "backup" in found.mend
    shutil.rmtree(store / "t-0")
    shutil.rmtree(store / "t-2")
    shutil.rmtree(store / "u-0")
    (store / "u-0").write_bytes(b"")  # no directory
    assert names(about_store(store)) == [("error", "partition-missing", name) for name in ("t-0", "t-1", "t-2", "u-0")]
    with ReadOnlyStore.open(store) as seen:
        assert seen.topic("t").partition_ids() == [0, 1, 2]


def test_of_many_only_some_are_told(store: Path) -> None:
    content = json.loads((store / "tidelog.json").read_bytes())
    content["topics"]["t"]["partitions"] = 1_000_000
    (store / "tidelog.json").write_text(json.dumps(content))
    *first, last = about_store(store)
    assert [Path(found.path).name for found in first] == [f"t-{number}" for number in range(3, 23)]
    assert "999977 more" in last.what


@pytest.mark.parametrize("change", [{"is_incomplete": True}, {"absent": [1]}, {"absent": [0, 1], "is_lazy": True}])
def test_partitions_that_need_not_be_there(change: dict[str, object], store: Path) -> None:
    shutil.rmtree(store / "t-1")
    content = json.loads((store / "tidelog.json").read_bytes())
    content["topics"]["t"] |= change
    (store / "tidelog.json").write_text(json.dumps(content))
    assert about_store(store) == []


def test_internal_topics_are_made_when_they_are_used(tmp_path: Path) -> None:
    with open_store(tmp_path) as made:
        topic = made.create_topic("t", 1)
        topic.append(b"x")
        with made.consumer("g", "t") as consumer:
            for _ in consumer.poll():
                pass
            consumer.commit()
    assert any(path.name.startswith("__consumer_offsets-") for path in tmp_path.iterdir())
    assert about_store(tmp_path) == []


def test_a_brokers_directory_says_nothing(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "broker" / "data", tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "emails-1")
    assert about_store(tmp_path / "data") == []


@pytest.mark.parametrize("content", [b"", b"{", b'{"version": 1}', b'{"version": 99}'])
def test_a_file_that_is_none(content: bytes, store: Path) -> None:
    (store / "tidelog.json").write_bytes(content)
    (found,) = about_store(store)
    assert (found.severity, found.code) == ("error", "store-file")
    assert found.path == str(store / "tidelog.json")


# Several directories


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    with open_store(tmp_path / "a", tmp_path / "b") as made:
        made.create_topic("t", 4)
    return tmp_path / "a", tmp_path / "b"


def test_both_directories(two: tuple[Path, Path]) -> None:
    first, second = two
    assert about_store(first, second) == about_store(second, first) == []
    shutil.rmtree(next(second.glob("t-*")))
    (found,) = about_store(first, second)
    assert (found.severity, found.code) == ("error", "partition-missing")
    assert about_store(second, first) == [found]  # whoever asks both tells it once
    assert about_store(first, second, second / "..", first) == [found]


def test_one_of_two_directories(two: tuple[Path, Path]) -> None:
    """It has less than the store, and that is as it should be: nobody can tell more from here."""
    for path in two:
        (found,) = about_store(path)
        assert (found.severity, found.code, found.path) == ("note", "partition-elsewhere", str(path / "tidelog.json"))
        assert (found.expected, found.found) == (2, 1)
        assert [one.severity for one in verify_log_directory(path)] == ["note"]


def test_another_store_does_not_help(store: Path, tmp_path: Path) -> None:
    with open_store(tmp_path / "other") as made:
        made.create_topic("t", 3)
    shutil.rmtree(store / "t-1")
    assert names(about_store(store, tmp_path / "other")) == [("error", "partition-missing", "t-1")]


def test_a_directory_that_has_lost_its_file_counts(two: tuple[Path, Path]) -> None:
    first, second = two
    (second / "tidelog.json").unlink()
    assert about_store(first, second) == []


def test_the_newest_file_counts(two: tuple[Path, Path]) -> None:
    first, second = two
    old = (first / "tidelog.json").read_bytes()
    with open_store(first, second) as made:
        made.delete_topic("t")
    (first / "tidelog.json").write_bytes(old)  # the crash came between the two
    assert about_store(first, second) == about_store(second, first) == []


# An owner that goes on meanwhile


class BusyDisk(Disk):
    """Something happens when a directory is listed: before it, or right behind it."""

    def __init__(self, path: Path, *, before: Callable[[], object] = lambda: None, after: Callable[[], object] = lambda: None) -> None:
        self.path = str(path)
        self.before = before
        self.after = after

    def entries(self, path: str) -> Iterator[Entry]:
        if path != self.path:
            return super().entries(path)
        before, self.before = self.before, lambda: None
        after, self.after = self.after, lambda: None
        before()
        found = list(super().entries(path))
        after()
        return iter(found)


def test_a_topic_that_is_deleted_meanwhile(store: Path) -> None:
    with open_store(store) as made:
        assert about_store(store, disk=BusyDisk(store, before=lambda: made.delete_topic("t"))) == []
        assert [topic.name for topic in made.topics()] == ["u"]


def test_a_topic_that_is_made_meanwhile(store: Path) -> None:
    def again(made: Store) -> None:
        made.delete_topic("t")
        made.create_topic("t", 3)

    with open_store(store) as made:
        assert about_store(store, disk=BusyDisk(store, after=lambda: made.create_topic("v", 9))) == []
        # Deleted before the look and there again behind it: it was never missing.
        assert (
            about_store(store, disk=BusyDisk(store, before=lambda: made.delete_topic("t"), after=lambda: made.create_topic("t", 3))) == []
        )
        assert about_store(store, disk=BusyDisk(store, before=lambda: again(made))) == []

"""The test disks themselves, on small sequences whose answers are written down by hand."""

import errno
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.crash_images import Bounds, Image, crash_images, killed_image, materialise, scratch_directory
from tests.support.faulty_disk import BLOCK_BYTES, ERRORS, KINDS, Call, FaultyDisk
from tests.support.recording_disk import (
    Create,
    Link,
    MakeDirectory,
    Note,
    Recording,
    RecordingDisk,
    Remove,
    RemoveDirectory,
    Rename,
    SetMtime,
    Sync,
    SyncDirectory,
    Truncate,
    Write,
    describe,
)
from tidelog.disk.disk import Disk

COMPOSED = {"write", "read_file", "replace_file", "remove_tree"}
"""What `Disk` builds from its other calls."""
UNCHANGING = {
    "read",
    "find_lock",
    "read_into",
    "size",
    "entries",
    "exists",
    "is_link",
    "has_rights_of",
    "is_trusted",
    "mtime_ns",
    "map",
    "is_named",
    "hold",
    "is_held",
    "free_bytes",
    "inode",
    "names",
    "look",
    "open_plain",
    "file_system",
    "can_rename_into",
    "count_of_names",
}


@pytest.fixture
def root() -> Iterator[str]:
    with scratch_directory() as directory:
        (directory / "root").mkdir()
        yield f"{directory}/root"


def contents(recording: Recording, cut: int | None = None, *, bounds: Bounds | None = None) -> set[tuple[tuple[str, bytes], ...]]:
    """The files of all images of one cut point, the last unless told."""
    cut = len(recording.events) if cut is None else cut
    images = list(crash_images(recording, cuts={cut}, bounds=bounds or Bounds()))
    found = [(image.directories, tuple(image.files.items()), tuple(image.mtimes_ns.items())) for image in images]
    assert len(found) == len(set(found)), "the same image twice"
    assert len({image.digest for image in images}) == len(images)
    assert {image.cut for image in images} == {cut}
    return {tuple(image.files.items()) for image in images}


def of_file(recording: Recording, path: str = "a") -> set[bytes]:
    """What a file can be at the end."""
    return {content for files in contents(recording) for name, content in files if name == path}


def whole_file(disk: Disk, path: str, content: bytes) -> int:
    """Create, write and sync a file, and the names beside it."""
    fd = disk.create(path)
    disk.write(fd, [content], 0)
    disk.sync(fd)
    disk.sync_directory(str(Path(path).parent))
    return fd


def test_the_test_disks_know_every_call_of_a_disk() -> None:
    calls = {name for name in vars(Disk) if not name.startswith("_")}
    assert calls - COMPOSED == {name for name in vars(FaultyDisk) if name in calls}
    assert calls - COMPOSED - UNCHANGING == {name for name in vars(RecordingDisk) if name in calls}


class TestRecording:
    def test_every_change_is_an_event(self, root: str) -> None:
        disk = RecordingDisk(root)
        disk.make_directory(f"{root}/p/q")
        fd = disk.create(f"{root}/p/a")
        disk.write(fd, [b"ab", bytearray(b"cd"), memoryview(b"ef")], 3)
        disk.truncate(fd, 5)
        disk.sync(fd)
        disk.note("acknowledged", 17)
        disk.rename(f"{root}/p/a", f"{root}/p/b")
        disk.write(fd, [b"x"], 0)
        disk.close(fd)
        disk.set_mtime_ns(f"{root}/p/b", 1_000)
        disk.sync_directory(f"{root}/p")
        fd = disk.create(f"{root}/p/b", exclusive=False)
        disk.close(fd)
        disk.close(disk.lock(f"{root}/.lock"))
        disk.close(disk.lock(f"{root}/.lock"))
        disk.remove(f"{root}/p/b")
        disk.close(disk.create(f"{root}/p/b"))
        disk.make_directory(f"{root}/p/q")
        assert disk.recording() == Recording(
            (),
            (
                MakeDirectory(1, "p"),
                MakeDirectory(2, "p/q"),
                Create(3, "p/a"),
                Write(3, "p/a", 3, b"abcdef"),
                Truncate(3, "p/a", 5),
                Sync(3, "p/a", 5),
                Note("acknowledged", 17),
                Rename(3, "p/a", "p/b"),
                Write(3, "p/b", 0, b"x"),
                SetMtime(3, "p/b", 1_000),
                SyncDirectory(1, "p", 10),
                Truncate(3, "p/b", 0),
                Create(4, ".lock"),
                Remove(3, "p/b"),
                Create(5, "p/b"),
            ),
        )

    def test_a_second_name_is_one_of_the_same_file(self, root: str) -> None:
        """Durable with its own directory; what is written by one is read by the other, and one may go."""
        disk = RecordingDisk(root)
        disk.make_directory(f"{root}/p")
        disk.sync_directory(root)
        fd = disk.create(f"{root}/a")
        disk.write(fd, [b"content"], 0)
        disk.sync(fd)
        disk.sync_directory(root)
        disk.link(f"{root}/a", f"{root}/p/b")
        linked = len(disk.recording().events)
        disk.write(fd, [b"more"], 7)
        disk.close(fd)
        disk.remove(f"{root}/a")
        disk.sync_directory(root)
        disk.sync_directory(f"{root}/p")
        recording = disk.recording()
        assert Link(2, "a", "p/b") in recording.events
        assert {tuple(sorted(image.files)) for image in crash_images(recording, cuts=(linked,))} == {("a",), ("a", "p/b")}
        assert {frozenset(image.files) for image in crash_images(recording, cuts=(len(recording.events),))} == {frozenset({"p/b"})}
        assert (Path(root) / "p" / "b").read_bytes() == b"contentmore"

    def test_the_real_files_follow(self, root: str) -> None:
        disk = RecordingDisk(root)
        disk.replace_file(root, "a", b"content")
        assert disk.read_file(f"{root}/a") == b"content"
        assert [describe(event) for event in disk.recording().events] == [
            "Create a.tmp",
            "Write a.tmp at 0, 7 bytes",
            "Sync a.tmp",
            "Rename a.tmp to a",
            "SyncDirectory ",
        ]

    def test_what_was_there_is_the_start(self, root: str) -> None:
        (Path(root) / "p").mkdir()
        (Path(root) / "p" / "a").write_bytes(b"old")
        os.utime(f"{root}/p/a", ns=(5, 5))
        disk = RecordingDisk(root)
        fd = disk.open(f"{root}/p/a", write=True)
        disk.write(fd, [b"O"], 0)
        disk.close(fd)
        recording = disk.recording()
        assert [(found.path, found.content) for found in recording.start] == [("p", None), ("p/a", b"old")]
        assert recording.start[1].mtime_ns == 5
        assert contents(recording, 0) == {(("p/a", b"old"),)}
        assert contents(recording) == {(("p/a", b"old"),), (("p/a", b"Old"),)}

    def test_a_renamed_directory_keeps_its_files(self, root: str) -> None:
        disk = RecordingDisk(root)
        disk.make_directory(f"{root}/p")
        fd = whole_file(disk, f"{root}/p/a", b"a")
        disk.sync_directory(root)
        disk.rename(f"{root}/p", f"{root}/q")
        disk.close(disk.open(f"{root}/q/a"))
        disk.truncate(fd, 0)
        disk.close(fd)
        recording = disk.recording()
        assert recording.events[-1] == Truncate(2, "q/a", 0)
        assert contents(recording) == {(("p/a", b"a"),), (("q/a", b"a"),), (("p/a", b""),), (("q/a", b""),)}

    def test_a_removed_directory_takes_its_files_along(self, root: str) -> None:
        disk = RecordingDisk(root)
        disk.make_directory(f"{root}/p")
        disk.close(whole_file(disk, f"{root}/p/a", b"a"))
        disk.sync_directory(root)
        disk.remove_tree(f"{root}/p")
        disk.remove_tree(f"{root}/p")
        recording = disk.recording()
        assert recording.events[-3:] == (Remove(2, "p/a"), RemoveDirectory(1, "p"), SyncDirectory(0, "", 8))
        assert contents(recording) == {()}
        images = list(crash_images(recording, cuts={len(recording.events) - 1}))
        assert {(image.directories, tuple(image.files)) for image in images} == {((), ()), (("p",), ()), (("p",), ("p/a",))}
        disk.make_directory(f"{root}/p")
        assert disk.recording().events[-1] == MakeDirectory(3, "p")

    def test_what_it_cannot_know_raises(self, root: str) -> None:
        disk = RecordingDisk(root)
        outside = Path(root).parent / "outside"
        outside.write_bytes(b"read me")
        assert disk.read_file(str(outside)) == b"read me"
        for change in (
            lambda: disk.open(str(outside), write=True),
            lambda: disk.create(f"{outside}-2"),
            lambda: disk.rename(str(outside), f"{root}/a"),
            lambda: disk.remove(str(outside)),
            lambda: disk.sync_directory(str(outside.parent)),
        ):
            with pytest.raises(ValueError, match="outside of what is recorded"):
                change()
        assert outside.read_bytes() == b"read me"
        (Path(root) / "secret").touch()
        with pytest.raises(ValueError, match="behind the back"):
            disk.open(f"{root}/secret")
        assert disk.recording().events == ()

    def test_what_the_system_refuses_is_not_recorded(self, root: str) -> None:
        disk = RecordingDisk(root)
        fd = disk.create(f"{root}/a")
        disk.close(fd)
        for refused in (
            lambda: disk.create(f"{root}/a"),
            lambda: disk.remove(f"{root}/b"),
            lambda: disk.rename(f"{root}/b", f"{root}/c"),
            lambda: disk.write(fd, [b"x"], 0),
            lambda: disk.sync(fd),
            lambda: disk.sync_directory(f"{root}/b"),
            lambda: disk.set_mtime_ns(f"{root}/b", 1),
        ):
            with pytest.raises(OSError, match=r"\[Errno"):
                refused()
        assert disk.recording().events == (Create(1, "a"),)

    def test_threads(self, root: str) -> None:
        disk = RecordingDisk(root, sync_s=0.001)

        def work(number: int) -> None:
            fd = disk.create(f"{root}/{number}")
            for position in range(20):
                disk.write(fd, [bytes([number])], position)
            disk.sync(fd)
            disk.close(fd)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(disk.recording().events) == 8 * 22
        assert killed_image(disk.recording()).files == {str(number): bytes([number]) * 20 for number in range(8)}

    def test_payloads_of_notes(self, root: str) -> None:
        disk = RecordingDisk(root)
        disk.note("attempted", 1)
        disk.note("acknowledged", 1)
        disk.note("attempted", 2)
        assert disk.recording().payloads("attempted") == [1, 2]
        assert disk.recording().payloads("attempted", 2) == [1]
        assert disk.recording().payloads("acknowledged", 1) == []


class TestBytesAfterACut:
    def test_what_is_synced_stays(self, root: str) -> None:
        disk = RecordingDisk(root)
        disk.close(whole_file(disk, f"{root}/a", b"synced"))
        assert contents(disk.recording()) == {(("a", b"synced"),)}

    def test_an_append_is_lost_kept_torn_or_zeroed(self, root: str) -> None:
        disk = RecordingDisk(root)
        fd = whole_file(disk, f"{root}/a", b"old-")
        disk.write(fd, [b"abcdef"], 4)
        disk.close(fd)
        assert of_file(disk.recording()) == {
            b"old-",
            b"old-abcdef",
            b"old-abc",
            b"old-abc\0\0\0",
            b"old-a",
            b"old-a\0\0\0\0\0",
            b"old-abcde",
            b"old-abcde\0",
            b"old-\0\0\0\0\0\0",
        }

    def test_tears_are_at_sectors_and_in_the_middle(self, root: str) -> None:
        disk = RecordingDisk(root)
        data = bytes(range(1, 251)) * 8
        fd = whole_file(disk, f"{root}/a", b"-" * 100)
        disk.write(fd, [data], 100)
        disk.close(fd)
        sizes = {len(files[0][1]) for files in contents(disk.recording(), bounds=Bounds(tears=100))}
        assert sizes == {100, 101, 512, 1024, 1100, 1536, 2048, 2099, 2100}
        assert all((b"-" * 100 + data).startswith(content.rstrip(b"\0")) for content in of_file(disk.recording()))

    def test_an_overwrite_is_old_or_new_never_zeros(self, root: str) -> None:
        disk = RecordingDisk(root)
        fd = whole_file(disk, f"{root}/a", b"old")
        disk.write(fd, [b"NEW"], 0)
        disk.close(fd)
        assert of_file(disk.recording()) == {b"old", b"NEW", b"Nld", b"NEd"}

    def test_several_writes(self, root: str) -> None:
        disk = RecordingDisk(root)
        fd = whole_file(disk, f"{root}/a", b"")
        for position, data in enumerate((b"1", b"2", b"3")):
            disk.write(fd, [data], position)
        disk.close(fd)
        assert of_file(disk.recording()) == {b"", b"1", b"12", b"123", b"\0\0\0", b"\x0023", b"1\x003", b"12\0"}

    def test_a_sync_covers_what_came_before_it(self, root: str) -> None:
        disk = RecordingDisk(root)
        fd = whole_file(disk, f"{root}/a", b"")
        disk.write(fd, [b"ab"], 0)
        disk.sync(fd)
        disk.write(fd, [b"c"], 2)
        disk.close(fd)
        assert of_file(disk.recording()) == {b"ab", b"abc", b"ab\0"}

    def test_a_write_during_a_sync_is_not_covered(self, root: str) -> None:
        disk = RecordingDisk(root, sync_s=0.2)
        fd = whole_file(disk, f"{root}/a", b"a")
        thread = threading.Thread(target=disk.sync, args=(fd,))
        thread.start()
        while thread.is_alive() and len(disk.recording().events) == 4:
            disk.write(fd, [b"b"], 1)
        thread.join()
        disk.close(fd)
        assert [type(event) for event in disk.recording().events[-2:]] == [Write, Sync]
        assert b"a" in of_file(disk.recording())

    def test_a_name_made_during_a_sync_is_not_covered(self, root: str) -> None:
        disk = RecordingDisk(root, sync_s=0.2)
        thread = threading.Thread(target=disk.sync_directory, args=(root,))
        thread.start()
        number = 0
        while thread.is_alive() and not any(isinstance(event, SyncDirectory) for event in disk.recording().events):
            disk.close(disk.create(f"{root}/{number}"))
            number += 1
        thread.join()
        last = max(number for number, event in enumerate(disk.recording().events) if isinstance(event, SyncDirectory))
        assert last > 1
        assert () in contents(disk.recording(), last + 1)

    def test_holes_are_zeros(self, root: str) -> None:
        disk = RecordingDisk(root)
        fd = whole_file(disk, f"{root}/a", b"1")
        disk.truncate(fd, 4)
        disk.write(fd, [b"2"], 5)
        disk.close(fd)
        assert killed_image(disk.recording()).files["a"] == Path(f"{root}/a").read_bytes() == b"1\0\0\0\x002"
        assert of_file(disk.recording()) == {b"1", b"1\0\0\0", b"1\0\0\0\x002", b"1\0\0\0\0\0"}

    def test_a_cut_may_be_lost_while_bytes_written_behind_it_are_there(self, root: str) -> None:
        disk = RecordingDisk(root)
        fd = whole_file(disk, f"{root}/a", b"0123456789")
        disk.truncate(fd, 4)
        disk.write(fd, [b"N"], 4)
        disk.close(fd)
        assert of_file(disk.recording()) == {
            b"0123456789",
            b"0123",
            b"0123N",
            b"0123\0",
            b"0123N56789",
            b"0123N\0\0\0\0\0",
        }

    def test_a_lost_size_ends_the_file(self, root: str) -> None:
        disk = RecordingDisk(root)
        fd = whole_file(disk, f"{root}/a", b"0123456789")
        disk.truncate(fd, 8)
        disk.write(fd, [b"MNOPQRST"], 8)
        disk.close(fd)
        found = {content for content in of_file(disk.recording()) if len(content) == 10 and content.startswith(b"01234567")}
        assert found == {b"0123456789", b"01234567MN"}

    def test_a_set_time_goes_with_the_bytes(self, root: str) -> None:
        disk = RecordingDisk(root)
        fd = whole_file(disk, f"{root}/a", b"a")
        disk.set_mtime_ns(f"{root}/a", 7)
        assert [dict(image.mtimes_ns) for image in crash_images(disk.recording(), cuts={5})] == [{"a": 7}, {}]
        disk.sync(fd)
        assert [dict(image.mtimes_ns) for image in crash_images(disk.recording(), cuts={6})] == [{"a": 7}]
        disk.write(fd, [b"b"], 0)
        disk.close(fd)
        found = [(image.files["a"], dict(image.mtimes_ns)) for image in crash_images(disk.recording(), cuts={7})]
        assert found == [(b"b", {}), (b"a", {"a": 7}), (b"a", {})]


class TestNamesAfterACut:
    def test_a_synced_file_without_a_synced_name_is_gone(self, root: str) -> None:
        disk = RecordingDisk(root)
        fd = disk.create(f"{root}/a")
        disk.write(fd, [b"x"], 0)
        disk.sync(fd)
        disk.close(fd)
        assert contents(disk.recording()) == {(), (("a", b"x"),)}
        disk.sync_directory(root)
        assert contents(disk.recording()) == {(("a", b"x"),)}

    def test_a_synced_name_without_synced_bytes_is_an_empty_file(self, root: str) -> None:
        disk = RecordingDisk(root)
        fd = disk.create(f"{root}/a")
        disk.sync_directory(root)
        disk.write(fd, [b"x"], 0)
        disk.close(fd)
        assert contents(disk.recording()) == {(("a", b""),), (("a", b"x"),), (("a", b"\0"),)}

    def test_a_file_is_replaced_whole(self, root: str) -> None:
        disk = RecordingDisk(root)
        disk.replace_file(root, "a", b"old")
        before = len(disk.recording().events)
        disk.replace_file(root, "a", b"NEW")
        recording = disk.recording()
        found = [image.files.get("a") for image in crash_images(recording, cuts=range(before, len(recording.events) + 1))]
        assert set(found) == {b"old", b"NEW"}
        assert contents(recording) == {(("a", b"NEW"),)}

    def test_a_file_replaced_without_its_sync_can_be_empty(self, root: str) -> None:
        disk = RecordingDisk(root)
        disk.replace_file(root, "a", b"old")
        fd = disk.create(f"{root}/a.tmp")
        disk.write(fd, [b"NEW"], 0)
        disk.close(fd)
        disk.rename(f"{root}/a.tmp", f"{root}/a")
        assert {b"", b"old", b"NEW"} <= of_file(disk.recording())

    def test_a_removed_file_can_come_back(self, root: str) -> None:
        disk = RecordingDisk(root)
        disk.close(whole_file(disk, f"{root}/a", b"x"))
        disk.remove(f"{root}/a")
        assert contents(disk.recording()) == {(), (("a", b"x"),)}
        disk.sync_directory(root)
        assert contents(disk.recording()) == {()}

    def test_the_first_few_changes_of_names(self, root: str) -> None:
        disk = RecordingDisk(root)
        for name in "abc":
            disk.close(disk.create(f"{root}/{name}"))
        disk.rename(f"{root}/a", f"{root}/d")
        disk.remove(f"{root}/b")
        found = {"".join(name for name, _ in files) for files in contents(disk.recording())}
        assert found == {"", "a", "ab", "abc", "bcd", "cd"}

    def test_directories(self, root: str) -> None:
        """A directory whose own name is not synced is gone with all that was synced in it."""
        disk = RecordingDisk(root)
        disk.make_directory(f"{root}/p")
        disk.close(whole_file(disk, f"{root}/p/a", b"x"))
        images = list(crash_images(disk.recording(), cuts={5}))
        assert [(image.directories, dict(image.files)) for image in images] == [(("p",), {"p/a": b"x"}), ((), {})]
        disk.sync_directory(root)
        assert contents(disk.recording()) == {(("p/a", b"x"),)}

    def test_each_directory_is_synced_by_itself(self, root: str) -> None:
        disk = RecordingDisk(root)
        disk.make_directory(f"{root}/p")
        disk.make_directory(f"{root}/q")
        disk.sync_directory(root)
        for name in ("p/1", "q/1", "p/2"):
            disk.close(disk.create(f"{root}/{name}"))
        disk.sync_directory(f"{root}/p")
        found = {"".join(f" {name}" for name, _ in files) for files in contents(disk.recording())}
        assert found == {" p/1 p/2", " p/1 p/2 q/1"}
        disk.close(disk.create(f"{root}/p/3"))
        found = {"".join(f" {name}" for name, _ in files) for files in contents(disk.recording())}
        assert found == {" p/1 p/2", " p/1 p/2 p/3", " p/1 p/2 q/1", " p/1 p/2 p/3 q/1"}

    def test_a_rename_between_directories(self, root: str) -> None:
        """It is durable with the target's names, and then the source's name is gone, even if its create was never synced."""
        disk = RecordingDisk(root)
        disk.make_directory(f"{root}/p")
        disk.make_directory(f"{root}/q")
        disk.sync_directory(root)
        disk.close(disk.create(f"{root}/p/a"))
        disk.rename(f"{root}/p/a", f"{root}/q/a")
        assert contents(disk.recording()) == {(), (("p/a", b""),), (("q/a", b""),)}
        disk.sync_directory(f"{root}/q")
        assert contents(disk.recording()) == {(("q/a", b""),)}


class TestImages:
    @staticmethod
    def busy(root: str) -> Recording:
        """Three files with unsynced bytes, two of them with unsynced names."""
        disk = RecordingDisk(root)
        disk.make_directory(f"{root}/p")
        fds = [disk.create(f"{root}/p/{name}") for name in "ab"]
        disk.sync_directory(root)
        disk.sync_directory(f"{root}/p")
        fds.append(disk.create(f"{root}/p/c"))
        for fd in fds:
            disk.write(fd, [b"12"], 0)
            disk.truncate(fd, 4)
            disk.note("acknowledged", fd)
        for fd in fds:
            disk.close(fd)
        return disk.recording()

    def test_mixed_choices(self, root: str) -> None:
        found = {
            "".join("-" if not content else "+" for _, content in files) for files in contents(self.busy(root), bounds=Bounds(samples=0))
        }
        assert found == {"---", "+--", "-+-", "--+", "++-", "+-+", "-++", "+++", "--", "-+", "+-", "++"}

    def test_one_file_differs_with_and_without_names(self, root: str) -> None:
        disk = RecordingDisk(root)
        fds = [whole_file(disk, f"{root}/{name}", b"") for name in "abc"]
        for fd in fds:
            disk.write(fd, [b"1"], 0)
            disk.close(fd)
        disk.close(disk.create(f"{root}/d"))
        found = {"".join("+" if content else "-" for _, content in files) for files in contents(disk.recording(), bounds=Bounds(samples=0))}
        fates = {"---", "--+", "-+-", "+--", "++-", "+-+", "-++", "+++"}
        assert found == fates | {f"{fate}-" for fate in fates}

    def test_each_fate_of_names_with_each_fate_of_bytes(self, root: str) -> None:
        disk = RecordingDisk(root)
        fd = whole_file(disk, f"{root}/a", b"")
        disk.write(fd, [b"12"], 0)
        disk.close(fd)
        for name in "bc":
            disk.close(disk.create(f"{root}/{name}"))
        found = contents(disk.recording(), bounds=Bounds(samples=0))
        names = [(), (("b", b""),), (("b", b""), ("c", b""))]
        assert found == {(("a", content), *rest) for content in (b"", b"1", b"1\0", b"12", b"\0\0") for rest in names}

    def test_small_products_are_whole(self, root: str) -> None:
        recording = self.busy(root)
        everything = contents(recording, 10, bounds=Bounds(samples=6 * 5 * 2))
        # a: lost, torn, torn with zeros, written, cut; the same of b; c: no name, or empty.
        of_a = {dict(files)["p/a"] for files in everything}
        assert of_a == {b"", b"1", b"1\0", b"12", b"12\0\0", b"\0\0\0\0"}
        of_b = {dict(files)["p/b"] for files in everything}
        assert of_b == {b"", b"1", b"1\0", b"12", b"\0\0"}
        assert len(everything) == len(of_a) * len(of_b) * 2

    def test_the_same_again(self, root: str) -> None:
        recording = self.busy(root)
        assert list(crash_images(recording)) == list(crash_images(recording))
        other = list(crash_images(recording, bounds=Bounds(seed=1)))
        assert {image.digest for image in other} != {image.digest for image in crash_images(recording)}

    def test_all_cuts_are_visited_in_order(self, root: str) -> None:
        recording = self.busy(root)
        cuts = [image.cut for image in crash_images(recording)]
        assert cuts == sorted(cuts)
        assert set(cuts) == set(range(len(recording.events) + 1))
        first = {image.cut: image for image in reversed(list(crash_images(recording)))}
        assert all(killed_image(recording, cut).files == image.files for cut, image in first.items())

    def test_a_note_changes_no_image(self, root: str) -> None:
        recording = self.busy(root)
        note = next(number for number, event in enumerate(recording.events) if isinstance(event, Note))
        assert contents(recording, note) == contents(recording, note + 1)

    def test_a_digest_is_of_the_content_alone(self, root: str) -> None:
        by_digest: dict[str, tuple[object, ...]] = {}
        for image in crash_images(self.busy(root)):
            content = (image.directories, image.files, image.mtimes_ns)
            assert by_digest.setdefault(image.digest, content) == content
        assert len(by_digest) > 50

    def test_materialised(self, root: str) -> None:
        disk = RecordingDisk(root)
        disk.make_directory(f"{root}/p/q")
        for name in ("a", "p/b", "p/q/c"):
            fd = disk.create(f"{root}/{name}")
            disk.write(fd, [name.encode(), b"\0\0"], 1)
            disk.truncate(fd, 100_000)
            disk.close(fd)
        disk.set_mtime_ns(f"{root}/a", 1_000_000_007)
        for number, image in enumerate(crash_images(disk.recording())):
            target = Path(f"{root}-images") / str(number)
            materialise(image, target)
            assert {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_dir()} == set(image.directories)
            assert read_tree(target) == image.files
            assert [(target / path).stat().st_mtime_ns for path in image.mtimes_ns] == list(image.mtimes_ns.values())
        assert read_tree(Path(root)) == killed_image(disk.recording()).files

    def test_speed(self, root: str) -> None:
        """Thousands of images a minute need a few of them a millisecond; the clock of a busy machine is not asked, the number is."""
        disk = RecordingDisk(root)
        fds = [whole_file(disk, f"{root}/{number}", b"") for number in range(6)]
        for position in range(40):
            for fd in fds:
                disk.write(fd, [b"01234567"], position * 8)
            disk.sync(fds[0])
        for fd in fds:
            disk.close(fd)
        images = list(crash_images(disk.recording(), cuts=range(200, 304)))
        assert 2_000 < len(images) < 20_000
        contents = {id(content) for image in images for content in image.files.values()}
        assert len(contents) < len(images), "the bytes of a file are shared between images"


def read_tree(directory: Path) -> dict[str, bytes]:
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def one_of_each(disk: Disk, root: str) -> None:
    """A sequence with each kind of call in it."""
    disk.make_directory(f"{root}/p")
    disk.close(disk.lock(f"{root}/.lock"))
    disk.replace_file(f"{root}/p", "a", b"content")
    fd = disk.open(f"{root}/p/a", write=True)
    try:
        disk.write(fd, [b"more"], 7)
        disk.truncate(fd, disk.size(fd) - 1)
        disk.map(fd, 10).close()
        disk.read_into(fd, memoryview(bytearray(4)), 0)
    finally:
        disk.close(fd)
    disk.set_mtime_ns(f"{root}/p/a", disk.mtime_ns(f"{root}/p/a"))
    disk.entries(f"{root}/p")
    disk.link(f"{root}/p/a", f"{root}/p/b")
    disk.remove(f"{root}/p/a")
    disk.remove(f"{root}/p/b")
    disk.remove_directory(f"{root}/p")


class TestFaults:
    def test_calls_are_counted(self, root: str) -> None:
        disk = FaultyDisk()
        one_of_each(disk, root)
        assert {call.kind for call in disk.calls} == {*KINDS, "close"}
        assert disk.count() == len(disk.calls) - disk.count("close") == 20
        assert disk.count("write") == 2
        assert disk.count("write", on=".tmp") == 1
        assert Call("rename", f"{root}/p/a") in disk.calls
        assert disk.fired == []

    @pytest.mark.parametrize("error", ERRORS)
    @pytest.mark.parametrize("nth", range(1, 21))
    def test_each_call_can_fail(self, root: str, nth: int, error: int) -> None:
        disk = FaultyDisk()
        disk.fail(nth, error=error)
        with pytest.raises(OSError, match="ordered by a test") as caught:
            one_of_each(disk, root)
        assert caught.value.errno == error
        assert len(disk.fired) == 1
        assert disk.count() == nth

    @pytest.mark.parametrize("kind", KINDS)
    def test_each_kind_can_fail(self, root: str, kind: str) -> None:
        disk = FaultyDisk()
        disk.fail(1, kind=kind)
        with pytest.raises(OSError, match="ordered by a test"):
            one_of_each(disk, root)
        assert [call.kind for call in disk.fired] == [kind]

    def test_only_the_nth_call_from_now_on_fails(self, root: str) -> None:
        disk = FaultyDisk()
        fd = disk.create(f"{root}/a.log")
        other = disk.create(f"{root}/a.index")
        disk.sync(fd)
        disk.fail(2, kind="sync", on=".log")
        disk.sync(other)
        disk.sync(fd)
        disk.sync(other)
        with pytest.raises(OSError, match="ordered"):
            disk.sync(fd)
        disk.sync(fd)
        disk.close(fd)
        disk.close(other)

    def test_before_and_after(self, root: str) -> None:
        disk = FaultyDisk()
        disk.close(disk.create(f"{root}/a"))
        disk.fail(1, kind="rename")
        with pytest.raises(OSError, match="ordered"):
            disk.rename(f"{root}/a", f"{root}/b")
        assert disk.exists(f"{root}/a")
        disk.fail(1, kind="rename", moment="after")
        with pytest.raises(OSError, match="ordered"):
            disk.rename(f"{root}/a", f"{root}/b")
        assert disk.exists(f"{root}/b")

    def test_until_healed(self, root: str) -> None:
        disk = FaultyDisk()
        fd = disk.create(f"{root}/a")
        disk.fail(2, error=errno.EDQUOT, kind="write", until_healed=True)
        disk.write(fd, [b"1"], 0)
        for _ in range(3):
            with pytest.raises(OSError, match="ordered") as caught:
                disk.write(fd, [b"2"], 1)
            assert caught.value.errno == errno.EDQUOT
        disk.heal()
        disk.write(fd, [b"3"], 1)
        disk.close(fd)
        assert disk.read_file(f"{root}/a") == b"13"

    def test_a_short_write_that_goes_on(self, root: str) -> None:
        disk = FaultyDisk()
        fd = disk.create(f"{root}/a")
        disk.shorten(2, size=3)
        disk.write(fd, [b"-"], 0)
        disk.write(fd, [b"abc", b"def"], 1)
        disk.close(fd)
        assert disk.read_file(f"{root}/a") == b"-abcdef"
        assert disk.count("write") == 3

    def test_a_short_write_that_fails(self, root: str) -> None:
        disk = FaultyDisk()
        fd = disk.create(f"{root}/a")
        disk.shorten(1, size=4, then=errno.ENOSPC)
        with pytest.raises(OSError, match="ordered") as caught:
            disk.write(fd, [b"abc", b"def"], 0)
        assert caught.value.errno == errno.ENOSPC
        disk.close(fd)
        assert disk.read_file(f"{root}/a") == b"abcd"

    def test_a_write_that_takes_nothing(self, root: str) -> None:
        disk = FaultyDisk()
        fd = disk.create(f"{root}/a")
        disk.shorten(1, size=0)
        assert disk.write_some(fd, [b"a"], 0) == 0
        disk.close(fd)

    @pytest.mark.parametrize("nth", range(1, 21))
    def test_interrupts(self, root: str, nth: int) -> None:
        gc.collect()  # what an earlier test has dropped is closed now, and not in between
        opened = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        reference = FaultyDisk()
        one_of_each(reference, root)
        for moment, calls in (("before", nth - 1), ("after", nth)):
            inner = FaultyDisk()
            disk = FaultyDisk(inner)
            (Path(root) / "p" / "b").unlink(missing_ok=True)  # a second name replaces nothing
            disk.interrupt(nth, moment="before" if moment == "before" else "after")
            with pytest.raises(KeyboardInterrupt):
                one_of_each(disk, root)
            assert [call for call in inner.calls if call.kind != "close"] == [call for call in reference.calls if call.kind != "close"][
                :calls
            ]
        assert len(os.listdir("/proc/self/fd")) == opened  # noqa: PTH208

    def test_a_failed_close_closes(self, root: str) -> None:
        disk = FaultyDisk()
        fd = disk.create(f"{root}/a")
        disk.fail(1, kind="close")
        with pytest.raises(OSError, match="ordered"):
            disk.close(fd)
        with pytest.raises(OSError, match="Bad file descriptor"):
            disk.close(fd)

    def test_an_action_of_the_test(self, root: str) -> None:
        disk = FaultyDisk()
        disk.close(disk.create(f"{root}/a"))
        seen = []
        disk.run(1, lambda: seen.append(disk.exists(f"{root}/a")), kind="remove")
        disk.run(1, lambda: seen.append(disk.exists(f"{root}/a")), kind="remove", moment="after")
        disk.remove(f"{root}/a")
        assert seen == [True, False]

    def test_a_full_disk(self, root: str) -> None:
        disk = FaultyDisk()
        fd = disk.create(f"{root}/a")
        disk.write(fd, [b"1" * 100], 0)
        disk.limit(2 * BLOCK_BYTES + 100)
        assert disk.free_bytes(root) == 2 * BLOCK_BYTES
        disk.write(fd, [b"2" * 412], 100)
        assert disk.free_bytes(root) == 2 * BLOCK_BYTES, "the rest of a block is there already"
        disk.truncate(fd, 1_000_000)
        assert disk.free_bytes(root) == 2 * BLOCK_BYTES, "a hole takes no room"
        with pytest.raises(OSError, match="No space") as caught:
            disk.write(fd, [b"3" * 5000], 1000)
        assert caught.value.errno == errno.ENOSPC
        content = disk.read_file(f"{root}/a")
        assert content[512:].strip(b"\0") == b"3" * (3 * BLOCK_BYTES - 1000), "what fits was written"
        disk.truncate(fd, 2 * BLOCK_BYTES)
        assert disk.free_bytes(root) == BLOCK_BYTES
        disk.write(fd, [b"4" * 100], 0)
        disk.write(fd, [b"5" * BLOCK_BYTES], 2 * BLOCK_BYTES)
        with pytest.raises(OSError, match="No space"):
            disk.write(fd, [b"6"], 3 * BLOCK_BYTES)
        disk.heal()
        disk.write(fd, [b"6"], 3 * BLOCK_BYTES)
        disk.close(fd)

    def test_room_comes_back_when_files_go(self, root: str) -> None:
        for name in ("old", "older"):
            (Path(root) / name).write_bytes(b"x" * 1000)
        disk = FaultyDisk()
        disk.limit(0)
        fd = disk.create(f"{root}/a")
        with pytest.raises(OSError, match="No space"):
            disk.write(fd, [b"1"], 0)
        disk.remove(f"{root}/old")
        assert disk.free_bytes(root) == 2 * BLOCK_BYTES
        disk.write(fd, [b"1"], 0)
        disk.remove(f"{root}/a")
        assert disk.free_bytes(root) == BLOCK_BYTES, "an open file keeps its room"
        disk.close(fd)
        assert disk.free_bytes(root) == 2 * BLOCK_BYTES
        disk.replace_file(root, "b", b"1")
        disk.replace_file(root, "b", b"2")
        assert disk.free_bytes(root) == BLOCK_BYTES
        disk.close(disk.create(f"{root}/b", exclusive=False))
        assert disk.free_bytes(root) == 2 * BLOCK_BYTES
        disk.close(disk.create(f"{root}/older", exclusive=False))
        assert disk.free_bytes(root) == 4 * BLOCK_BYTES

    def test_over_a_recording(self, root: str) -> None:
        """A sync that fails makes nothing durable."""
        inner = RecordingDisk(root)
        disk = FaultyDisk(inner)
        fd = whole_file(disk, f"{root}/a", b"a")
        disk.write(fd, [b"b"], 1)
        disk.fail(1, kind="sync")
        with pytest.raises(OSError, match="ordered"):
            disk.sync(fd)
        disk.close(fd)
        assert of_file(inner.recording()) == {b"a", b"ab", b"a\0"}


def test_a_label_says_what_happened(root: str) -> None:
    disk = RecordingDisk(root)
    fd = disk.create(f"{root}/a")
    disk.write(fd, [b"x"], 0)
    disk.close(fd)
    images: list[Image] = list(crash_images(disk.recording(), cuts={2}))
    assert [image.label for image in images] == ["all names", "all names; a lost", "all names; a zeroed", "names lost"]

"""A disk that works on a real directory and writes down, in one list, everything that changes it.

Bytes belong to a file, names to a directory: a file is known by its number (node) through renames, and after its name is gone. A sync is
recorded when it is done, together with the moment it began: what another thread wrote in between is not covered by it.

Syncs are only recorded, never done: the power cut is simulated by `crash_images`.
"""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.disk.disk import Buffer, Disk


@dataclass(frozen=True, slots=True)
class Create:
    """A new, empty file has a name."""

    node: int
    path: str


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes at a position of a file. `path` is its name at that time; the node says which file it is."""

    node: int
    path: str
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file has a new size."""

    node: int
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class SetMtime:
    """A file has a time of its last change that somebody chose."""

    node: int
    path: str
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Rename:
    """A file or directory has another name; a file that had it has lost it."""

    node: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Link:
    """A file has one more name."""

    node: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Remove:
    """A file has lost its name."""

    node: int
    path: str


@dataclass(frozen=True, slots=True)
class RemoveDirectory:
    """A directory, an empty one, has lost its name."""

    node: int
    path: str


@dataclass(frozen=True, slots=True)
class MakeDirectory:
    """A new directory has a name."""

    node: int
    path: str


@dataclass(frozen=True, slots=True)
class Sync:
    """The bytes and the size that a file had when `began` events had happened are durable."""

    node: int
    path: str
    began: int


@dataclass(frozen=True, slots=True)
class SyncDirectory:
    """The names that a directory had when `began` events had happened are durable."""

    node: int
    path: str
    began: int


@dataclass(frozen=True, slots=True)
class Note:
    """What a test wants to know about a moment, as "acknowledged", 17."""

    label: str
    payload: object


Event = Create | Write | Truncate | SetMtime | Rename | Link | Remove | RemoveDirectory | MakeDirectory | Sync | SyncDirectory | Note


@dataclass(frozen=True, slots=True)
class Found:
    """A file, or a directory (without content), that was there before the first event. It counts as durable."""

    node: int
    path: str
    content: bytes | None
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Recording:
    """What was there, and what happened then. Paths are relative to the directory that was recorded, which is node 0 and named ""."""

    start: tuple[Found, ...]
    events: tuple[Event, ...]

    def payloads(self, label: str, cut: int | None = None) -> list[object]:
        """What the notes of a label say, of the first `cut` events."""
        return [event.payload for event in self.events[:cut] if isinstance(event, Note) and event.label == label]


class RecordingDisk(Disk):
    """Records what happens below `root`; reading elsewhere is let through, changing anything elsewhere raises. Any thread may call it.

    A sync takes `sync_s` seconds, so that other threads can write meanwhile.
    """

    def __init__(self, root: str | Path, *, sync_s: float = 0.0) -> None:
        self._root = Path(root).absolute()
        self._sync_s = sync_s
        self._lock = threading.RLock()
        self._events: list[Event] = []
        self._nodes: dict[str, int] = {"": 0}
        self._paths: dict[int, str] = {0: ""}
        self._opened: dict[int, int] = {}
        self._next_node = 1
        self._start = tuple(self._found())

    def recording(self) -> Recording:
        """Everything until now."""
        with self._lock:
            return Recording(self._start, tuple(self._events))

    def note(self, label: str, payload: object = None) -> None:
        """Add something that the test did or saw to the list."""
        with self._lock:
            self._events.append(Note(label, payload))

    def open(self, path: str, *, write: bool = False) -> int:
        with self._lock:
            fd = super().open(path, write=write)
            relative = self._relative(path)
            if relative is None and not write:
                return fd
            try:
                self._opened[fd] = self._node(path)
            except BaseException:
                super().close(fd)
                raise
            return fd

    def create(self, path: str, *, exclusive: bool = True) -> int:
        with self._lock:
            relative = self._inside(path)
            fd = super().create(path, exclusive=exclusive)
            if relative in self._nodes:
                node = self._nodes[relative]
                self._events.append(Truncate(node, relative, 0))
            else:
                node = self._add(relative)
                self._events.append(Create(node, relative))
            self._opened[fd] = node
            return fd

    def close(self, fd: int) -> None:
        with self._lock:
            self._opened.pop(fd, None)
            super().close(fd)

    def write_some(self, fd: int, parts: Sequence[Buffer], position: int) -> int:
        with self._lock:
            written = super().write_some(fd, parts, position)
            if written:
                node = self._opened[fd]
                self._events.append(Write(node, self._paths[node], position, b"".join(parts)[:written]))
            return written

    def truncate(self, fd: int, size: int) -> None:
        with self._lock:
            super().truncate(fd, size)
            node = self._opened[fd]
            self._events.append(Truncate(node, self._paths[node], size))

    def sync(self, fd: int) -> None:
        with self._lock:
            self.size(fd)  # a descriptor that is closed raises here, as it would there
            node = self._opened[fd]
            began = len(self._events)
        if self._sync_s:
            time.sleep(self._sync_s)
        with self._lock:
            self._events.append(Sync(node, self._paths[node], began))

    def sync_directory(self, path: str) -> None:
        with self._lock:
            os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            relative = self._inside(path)
            node = self._nodes[relative]
            began = len(self._events)
        if self._sync_s:
            time.sleep(self._sync_s)
        with self._lock:
            self._events.append(SyncDirectory(node, relative, began))

    def rename(self, source: str, target: str) -> None:
        with self._lock:
            old, new = self._inside(source), self._inside(target)
            super().rename(source, target)
            if old == new:
                return
            for path in [path for path in self._nodes if path == old or path.startswith(f"{old}/")]:
                node = self._nodes.pop(path)
                self._nodes[new + path[len(old) :]] = node
                self._paths[node] = new + path[len(old) :]
            self._events.append(Rename(self._nodes[new], old, new))

    def link(self, path: str, name: str) -> None:
        with self._lock:
            old, new = self._inside(path), self._inside(name)
            super().link(path, name)
            self._nodes[new] = self._nodes[old]
            self._events.append(Link(self._nodes[new], old, new))

    def remove(self, path: str) -> None:
        with self._lock:
            relative = self._inside(path)
            super().remove(path)
            self._events.append(Remove(self._nodes.pop(relative), relative))

    def remove_directory(self, path: str) -> None:
        with self._lock:
            relative = self._inside(path)
            super().remove_directory(path)
            self._events.append(RemoveDirectory(self._nodes.pop(relative), relative))

    def make_directory(self, path: str) -> None:
        with self._lock:
            relative = self._inside(path)
            super().make_directory(path)
            steps = relative.split("/") if relative else []
            for count in range(1, len(steps) + 1):
                step = "/".join(steps[:count])
                if step not in self._nodes:
                    self._events.append(MakeDirectory(self._add(step), step))

    def set_mtime_ns(self, path: str, mtime_ns: int) -> None:
        with self._lock:
            super().set_mtime_ns(path, mtime_ns)
            self._events.append(SetMtime(self._node(path), self._inside(path), mtime_ns))

    def keep_rights(self, path: str, like: str) -> None:
        """Owner and mode are no part of what a crash leaves, so that it is no event; but nothing elsewhere is touched."""
        self._inside(path)
        super().keep_rights(path, like)

    def lock(self, path: str) -> int:
        with self._lock:
            relative = self._inside(path)
            fd = super().lock(path)
            if relative not in self._nodes:
                self._events.append(Create(self._add(relative), relative))
            self._opened[fd] = self._nodes[relative]
            return fd

    def _found(self) -> Iterator[Found]:
        for path in sorted(self._root.rglob("*")):
            relative = path.relative_to(self._root).as_posix()
            content = None if path.is_dir() else path.read_bytes()
            yield Found(self._add(relative), relative, content, path.stat().st_mtime_ns)

    def _add(self, relative: str) -> int:
        node = self._next_node
        self._next_node += 1
        self._nodes[relative] = node
        self._paths[node] = relative
        return node

    def _relative(self, path: str) -> str | None:
        whole = Path(path).absolute()
        if not whole.is_relative_to(self._root):
            return None
        relative = whole.relative_to(self._root).as_posix()
        return "" if relative == "." else relative

    def _inside(self, path: str) -> str:
        relative = self._relative(path)
        if relative is None:
            raise ValueError(f"{path} is outside of what is recorded, {self._root}")
        return relative

    def _node(self, path: str) -> int:
        node = self._nodes.get(self._inside(path))
        if node is None:
            raise ValueError(f"{path} was made behind the back of the recording")
        return node


def describe(event: Event) -> str:
    """An event in words, as "Write 0.log at 61, 72 bytes"."""
    match event:
        case Note(label, payload):
            return f"Note {label} {payload}"
        case Rename(_, source, target):
            return f"Rename {source} to {target}"
        case Link(_, source, target):
            return f"Link {source} as {target}"
        case Write(_, path, position, data):
            return f"Write {path} at {position}, {len(data)} bytes"
        case Truncate(_, path, size):
            return f"Truncate {path} to {size}"
        case _:
            return f"{type(event).__name__} {event.path}"

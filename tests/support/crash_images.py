"""What a disk can show after the power is cut at any moment of a recording.

What is promised is only what was synced. Of the rest:

    bytes of a file    lost      as at its last sync, its size too
                       kept      all there
                       torn      of the last write only a first part
                       zeroed    the size is there, of a write that extended the file the bytes are not
                       prefix    the first few writes are there, the others not
                       uncut     the size is that of the last sync, cuts are lost, but bytes written since are in it
    names              lost      as at the last sync of their directory
                       kept      all there
                       prefix    the first few creates, renames and removes of each directory are there, the others not

A synced file whose name was not synced is gone; a name without synced bytes is an empty file. A rename is atomic; between two directories
it becomes durable with the target's. Bytes that were written over older ones are the new or the old ones, never zeros. A time that was
set on a file shares the fate of its bytes.

Each cut point gets the same choice for all files crossed with each choice for names, then mixed choices: one file differs from all
others, and a sample drawn with a fixed seed. The first image of a cut is what a killed process leaves: everything is there.
"""

import hashlib
import itertools
import math
import os
import random
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.support.recording_disk import (
    Create,
    Event,
    Link,
    MakeDirectory,
    Note,
    Recording,
    Remove,
    RemoveDirectory,
    Rename,
    SetMtime,
    Sync,
    SyncDirectory,
    Truncate,
    Write,
)

SECTOR_BYTES = 512
PAGE_BYTES = 4096

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many of the many possible images are made: of each kind of damage to a file, of prefixes of names, and of mixed choices."""

    tears: int = 4
    zeroed: int = 3
    data_prefixes: int = 2
    name_prefixes: int = 6
    samples: int = 12
    seed: int = 0
    read_every: int = 3
    """One of so many images is also looked at by those who own nothing: a reader, verify."""
    salvage_every: int = 24
    """One of so many is also salvaged."""


FEWEST = Bounds(tears=1, zeroed=1, data_prefixes=0, name_prefixes=1, samples=1, read_every=6, salvage_every=24)
FEWER = Bounds(tears=1, zeroed=1, data_prefixes=1, name_prefixes=2, samples=2, read_every=6, salvage_every=36)
FEW = Bounds(tears=2, zeroed=2, data_prefixes=1, name_prefixes=3, samples=4, read_every=6, salvage_every=36)
DEFAULT = Bounds()
MANY = Bounds(tears=12, zeroed=8, data_prefixes=8, name_prefixes=16, samples=200)


@dataclass(frozen=True, slots=True)
class Image:
    """What is on the disk when the power is back, if it was cut after the first `cut` events. Paths are relative."""

    cut: int
    label: str
    """Which choices led here, for the message of a failing test."""
    directories: tuple[str, ...]
    """Parents first."""
    files: Mapping[str, bytes]
    mtimes_ns: Mapping[str, int]
    """Of files whose time was set and not changed by a write since."""
    digest: str
    """Of everything but `cut` and `label`: two images with the same digest need to be opened only once."""

    def is_sampled(self, every: int) -> bool:
        """Whether it is one of every so many: the same ones in every run."""
        return int(self.digest[:8] or "0", 16) % every == 0


def crash_images(recording: Recording, *, cuts: Collection[int] | None = None, bounds: Bounds = DEFAULT) -> Iterator[Image]:
    """All images of the cut points (every one unless told), in their order, each different from the others of its cut point.

    Images of different cut points may be the same; what must be in them is not, as more is acknowledged in between.
    """
    disk = _Replay(recording)
    images: list[Image] = []
    for cut in range(len(recording.events) + 1):
        if cut > 0:
            event = recording.events[cut - 1]
            if not isinstance(event, Note):
                disk.apply(cut - 1, event)
                images = []
        if cuts is None or cut in cuts:
            images = images or list(disk.images(bounds))
            yield from (replace(image, cut=cut) for image in images)


def killed_image(recording: Recording, cut: int | None = None) -> Image:
    """What kill -9 leaves after the first `cut` events, or after all."""
    cut = len(recording.events) if cut is None else cut
    return next(crash_images(recording, cuts=(cut,), bounds=Bounds(0, 0, 0, 0, 0)))


def materialise(image: Image, target: str | Path) -> None:
    """Write an image into a directory, which is made, or empty."""
    root = str(target)
    os.makedirs(root, exist_ok=True)  # noqa: PTH103 - thousands of images a minute
    for directory in image.directories:
        os.mkdir(f"{root}/{directory}")  # noqa: PTH102
    for path, content in image.files.items():
        fd = os.open(f"{root}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            body = content.rstrip(b"\0")  # indexes are mostly room for more
            written = os.write(fd, body)
            assert written == len(body), "no room for an image"
            if len(content) > len(body):
                os.ftruncate(fd, len(content))
        finally:
            os.close(fd)
        if path in image.mtimes_ns:
            os.utime(f"{root}/{path}", ns=(image.mtimes_ns[path], image.mtimes_ns[path]))


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """A temporary directory, in memory where there is one."""
    memory = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(prefix="tidelog-crash-", dir=memory if os.access(memory, os.W_OK) else None) as path:
        yield Path(path)


class _Variant(NamedTuple):
    """A state that a file can be found in."""

    kind: str
    label: str
    content: bytes
    mtime_ns: int | None
    digest: bytes


class _File:
    """A file: its durable bytes, and what was done since."""

    def __init__(self, content: bytes, mtime_ns: int | None) -> None:
        self.durable = content
        self.durable_mtime_ns = mtime_ns
        self.pending: list[tuple[int, Write | Truncate | SetMtime]] = []
        self._variants: list[_Variant] = []

    def change(self, index: int, event: Write | Truncate | SetMtime) -> None:
        self.pending.append((index, event))
        self._variants = []

    def sync(self, began: int) -> None:
        done = [event for index, event in self.pending if index < began]
        self.durable = self._content(done)
        self.durable_mtime_ns = self._mtime_ns(done)
        self.pending = self.pending[len(done) :]
        self._variants = []

    def variants(self, bounds: Bounds) -> list[_Variant]:
        """Each different one once, first the kept one."""
        if not self._variants:
            seen = set()
            for variant in self._all_variants(bounds):
                if (variant.digest, variant.mtime_ns) not in seen:
                    seen.add((variant.digest, variant.mtime_ns))
                    self._variants.append(variant)
        return self._variants

    def _all_variants(self, bounds: Bounds) -> Iterator[_Variant]:
        events = [event for _, event in self.pending]
        mtime_ns = self._mtime_ns(events)
        yield _variant("kept", "kept", self._content(events), mtime_ns)
        if not events:
            return
        yield _variant("lost", "lost", self.durable, self.durable_mtime_ns)
        writes = [number for number, event in enumerate(events) if isinstance(event, Write)]
        if writes and bounds.tears:
            last = writes[-1]
            for position in _tears(events[last], bounds.tears):
                yield _variant("torn", f"torn at {position}", self._content(events[: last + 1], tear=position), None)
                yield _variant(
                    "torn",
                    f"torn at {position}, then zeros",
                    self._content(events[: last + 1], tear=position, zeroed=frozenset({last})),
                    None,
                )
        if writes and bounds.zeroed:
            yield _variant("zeroed", "zeroed", self._content(events, zeroed=frozenset(writes)), mtime_ns)
            for number in _evenly(writes, bounds.zeroed):
                yield _variant("zeroed", f"change {number} zeroed", self._content(events, zeroed=frozenset({number})), mtime_ns)
        if any(isinstance(event, Truncate) for event in events):
            # A page can reach the disk before the journal does that holds the size.
            yield _variant("uncut", "uncut", self._uncut(events, clears=False), None)
            yield _variant("uncut", "uncut, cleared", self._uncut(events, clears=True), None)
        for count in _evenly(range(1, len(events)), bounds.data_prefixes):
            yield _variant("prefix", f"first {count} changes", self._content(events[:count]), self._mtime_ns(events[:count]))

    def _content(
        self, events: Sequence[Write | Truncate | SetMtime], *, zeroed: frozenset[int] = frozenset(), tear: int | None = None
    ) -> bytes:
        """The durable bytes after some changes. A tear is of the last one: a position up to which its bytes have arrived."""
        if not events:
            return self.durable
        content = bytearray(self.durable)
        for number, event in enumerate(events):
            if isinstance(event, Truncate):
                del content[event.size :]
                content.extend(bytes(event.size - len(content)))
            elif isinstance(event, Write):
                data = event.data
                torn = tear is not None and number == len(events) - 1
                if torn and tear is not None:
                    data = data[: tear - event.position]
                if torn or number not in zeroed:
                    content.extend(bytes(max(event.position - len(content), 0)))
                    content[event.position : event.position + len(data)] = data
                if number in zeroed:
                    content.extend(bytes(max(event.position + len(event.data) - len(content), 0)))
        return bytes(content)

    def _uncut(self, events: Sequence[Write | Truncate | SetMtime], *, clears: bool) -> bytes:
        """The durable bytes with what was written over them. A cut either left its bytes there, or filled its page with zeros."""
        content = bytearray(self.durable)
        size = len(content)
        for event in events:
            if isinstance(event, Truncate) and clears and event.size < size:
                end = min(-(-event.size // PAGE_BYTES) * PAGE_BYTES, size)
                content[event.size : end] = bytes(end - event.size)
            elif isinstance(event, Write) and event.position < size:
                content[event.position : event.position + len(event.data)] = event.data
                del content[size:]
        return bytes(content)

    def _mtime_ns(self, events: Sequence[Write | Truncate | SetMtime]) -> int | None:
        if not events:
            return self.durable_mtime_ns
        last = events[-1]
        return last.mtime_ns if isinstance(last, SetMtime) else None


class _NameChange:
    """A change of names: in which directory, which name stands for what now, or for nothing."""

    def __init__(self, index: int, owner: int, names: tuple[tuple[int, str, int | None], ...]) -> None:
        self.index = index
        self.owner = owner
        """The directory whose sync makes it durable."""
        self.names = names
        self.is_durable = False


class _Tree(NamedTuple):
    """The names that one choice leaves."""

    label: str
    directories: tuple[str, ...]
    files: tuple[tuple[str, int], ...]


class _Replay:
    """The disk at one moment of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._files: dict[int, _File] = {}
        self._directories = {0}
        self._base: dict[int, dict[str, int]] = {0: {}}
        """Directory to name to node, durable; the changes come on top of it in their order."""
        self._changes: list[_NameChange] = []
        self._nodes = {"": 0}
        """Every path that a process sees now."""
        for found in recording.start:
            parent, name = self._place(found.path)
            self._base[parent][name] = found.node
            self._nodes[found.path] = found.node
            if found.content is None:
                self._directories.add(found.node)
                self._base[found.node] = {}
            else:
                self._files[found.node] = _File(found.content, found.mtime_ns)
        self._moment = 0

    def apply(self, index: int, event: Event) -> None:
        self._moment = index + 1
        match event:
            case Create(node, path):
                self._files[node] = _File(b"", None)
                self._name(index, path, node)
            case Link(node, _, target):
                self._name(index, target, node)
            case MakeDirectory(node, path):
                self._directories.add(node)
                self._base[node] = {}
                self._name(index, path, node)
            case Write() | Truncate() | SetMtime():
                if event.node in self._files:  # nobody asks for the time of a directory
                    self._files[event.node].change(index, event)
            case Sync(node, _, began):
                self._files[node].sync(began)
            case SyncDirectory(node, _, began):
                for change in self._changes:
                    if change.owner == node and change.index < began:
                        change.is_durable = True
                while self._changes and self._changes[0].is_durable:
                    _put(self._base, self._changes.pop(0))
            case Remove(_, path) | RemoveDirectory(_, path):
                parent, name = self._place(path)
                del self._nodes[path]
                self._changes.append(_NameChange(index, parent, ((parent, name, None),)))
            case Rename(node, source, target):
                from_parent, from_name = self._place(source)
                parent, name = self._place(target)
                for path in [path for path in self._nodes if path == source or path.startswith(f"{source}/")]:
                    self._nodes[target + path[len(source) :]] = self._nodes.pop(path)
                self._changes.append(_NameChange(index, parent, ((from_parent, from_name, None), (parent, name, node))))
            case _:
                raise AssertionError(event)

    def images(self, bounds: Bounds) -> Iterator[Image]:
        """Each different one once."""
        seen = set()
        for tree, data in self._choices(bounds):
            image = self._image(tree, data, bounds)
            if image.digest not in seen:
                seen.add(image.digest)
                yield image

    def _choices(self, bounds: Bounds) -> Iterator[tuple[_Tree, dict[int, _Variant]]]:
        """Names, and the state of each file that is not just as it was left."""
        trees = self._trees(bounds)
        nodes = {node for tree in trees for _, node in tree.files}
        unsynced = {node: self._files[node].variants(bounds) for node in sorted(nodes) if len(self._files[node].variants(bounds)) > 1}

        def every(kind: str, number: int = 0) -> dict[int, _Variant]:
            chosen = {node: [variant for variant in variants if variant.kind == kind] for node, variants in unsynced.items()}
            return {node: variants[number % len(variants)] for node, variants in chosen.items() if variants}

        uniform: list[dict[int, _Variant]] = [{}, every("lost")]
        for kind in ("torn", "zeroed", "uncut", "prefix"):
            most = max((sum(variant.kind == kind for variant in variants) for variants in unsynced.values()), default=0)
            uniform += [every(kind, number) for number in range(most)]
        yield from itertools.product(trees, uniform)

        if len(unsynced) > 1:
            lost = every("lost")
            for node, variants in unsynced.items():
                for tree in trees[:2]:
                    yield tree, {other: variant for other, variant in lost.items() if other != node}
                    yield tree, {node: lost[node]} if node in lost else {}
                for kind in ("torn", "zeroed", "uncut"):
                    of_kind = [variant for variant in variants if variant.kind == kind]
                    if of_kind:
                        yield trees[0], {node: of_kind[0]}
                        yield trees[0], lost | {node: of_kind[-1]}

        possible = len(trees) * math.prod(len(variants) for variants in unsynced.values())
        if possible <= bounds.samples:
            for tree in trees:
                for chosen in itertools.product(*unsynced.values()):
                    yield tree, dict(zip(unsynced, chosen, strict=True))
        else:
            draw = random.Random(f"{bounds.seed} {self._moment}")
            for _ in range(bounds.samples):
                yield draw.choice(trees), {node: draw.choice(variants) for node, variants in unsynced.items()}

    def _trees(self, bounds: Bounds) -> list[_Tree]:
        """First the one with all names, then, if any can be lost, the one with none of those."""
        pending = [change for change in self._changes if not change.is_durable]
        trees = [self._tree("all names", pending)]
        if pending:
            trees.append(self._tree("names lost", []))
        for count in _evenly(range(1, len(pending)), bounds.name_prefixes):
            trees.append(self._tree(f"first {count} changes of names", pending[:count]))
        owners = sorted({change.owner for change in pending})
        for owner in owners if len(owners) > 1 and bounds.name_prefixes else []:
            trees.append(self._tree(f"names of directory {owner} only", [change for change in pending if change.owner == owner]))
        return trees

    def _tree(self, label: str, kept: Collection[_NameChange]) -> _Tree:
        chosen = {change.index for change in kept}
        names = {directory: dict(entries) for directory, entries in self._base.items()}
        for change in self._changes:
            if change.is_durable or change.index in chosen:
                _put(names, change)
        directories, files = [], []
        left = [("", 0)]
        while left:
            prefix, directory = left.pop()
            for name, node in sorted(names[directory].items()):
                if node in self._directories:
                    directories.append(prefix + name)
                    left.append((f"{prefix}{name}/", node))
                else:
                    files.append((prefix + name, node))
        return _Tree(label, tuple(directories), tuple(files))

    def _image(self, tree: _Tree, data: Mapping[int, _Variant], bounds: Bounds) -> Image:
        digest = hashlib.blake2b("\0".join(sorted(tree.directories)).encode(), digest_size=16)
        files, mtimes_ns, labels = {}, {}, [tree.label]
        for path, node in sorted(tree.files):
            variant = data.get(node) or self._files[node].variants(bounds)[0]
            files[path] = variant.content
            digest.update(b"\0\0%b\0%d\0%b" % (path.encode(), -1 if variant.mtime_ns is None else variant.mtime_ns, variant.digest))
            if variant.mtime_ns is not None:
                mtimes_ns[path] = variant.mtime_ns
            if variant.kind != "kept":
                labels.append(f"{path} {variant.label}")
        return Image(self._moment, "; ".join(labels), tree.directories, files, mtimes_ns, digest.hexdigest())

    def _name(self, index: int, path: str, node: int) -> None:
        parent, name = self._place(path)
        self._nodes[path] = node
        self._changes.append(_NameChange(index, parent, ((parent, name, node),)))

    def _place(self, path: str) -> tuple[int, str]:
        directory, _, name = path.rpartition("/")
        return self._nodes[directory], name


def _put(names: dict[int, dict[str, int]], change: _NameChange) -> None:
    for directory, name, node in change.names:
        if node is None:
            names[directory].pop(name, None)
        else:
            names[directory][name] = node


def _variant(kind: str, label: str, content: bytes, mtime_ns: int | None) -> _Variant:
    return _Variant(kind, label, content, mtime_ns, hashlib.blake2b(content, digest_size=16).digest())


def _tears(event: Event, count: int) -> list[int]:
    """Positions inside a write: its middle, sector boundaries, behind its first byte and before its last."""
    assert isinstance(event, Write)
    first, end = event.position, event.position + len(event.data)
    sectors = range((first // SECTOR_BYTES + 1) * SECTOR_BYTES, end, SECTOR_BYTES)
    wanted = [(first + end) // 2, *_evenly(sectors, max(count - 1, 1)), end - 1, first + 1]
    return list(dict.fromkeys(position for position in wanted if first < position < end))[:count]


def _evenly(values: Sequence[T], count: int) -> list[T]:
    """Up to `count` of them, the last and, if more than one is wanted, the first among them."""
    if count <= 0 or not values:
        return []
    if count >= len(values):
        return list(values)
    if count == 1:
        return [values[-1]]
    return [values[number * (len(values) - 1) // (count - 1)] for number in range(count)]

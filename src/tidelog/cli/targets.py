"""What a command looks after: a data directory, or one partition of it, which is named by its directory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidelog.cli.output import progress
from tidelog.cli.sources import partition_at
from tidelog.errors import NO_DIRECTORY, InvalidConfigError, LogNotFoundError, NotAStoreError, TidelogError, UnknownTopicError

if TYPE_CHECKING:
    from tidelog.store.store import Store

STORE_FILE = "tidelog.json"
CLUSTER_METADATA = "__cluster_metadata"


class Target(NamedTuple):
    """A data directory, and what in it is asked about."""

    root: Path
    """As it was typed, but for a partition's: then the directory above it."""
    topic: str | None
    partition: int | None

    @property
    def is_store(self) -> bool:
        """Whether Tidelog keeps it; otherwise a broker does, or nobody."""
        return (self.root / STORE_FILE).exists()

    @property
    def path(self) -> str:
        """Without links."""
        return str(self.root.resolve())

    def has(self, partition: int) -> bool:
        """Whether a partition of the topic is meant."""
        return self.partition in (None, partition)


def target_of(directory: Path, topic: str | None, partition: int | None = None) -> Target:
    """What is meant by a directory and a topic. The directory of a partition says which topic it is."""
    itself = partition_at(directory)
    if itself is None:
        refuse_no_directory(directory)
        return Target(directory, topic, partition)
    if topic not in (None, itself.topic) or partition not in (None, itself.partition):
        asked = f"{topic or itself.topic}-{itself.partition if partition is None else partition}"
        hint = f"leave topic and partition out, or give the directory that it lies in: {directory.resolve().parent}"
        raise UnknownTopicError("the directory of one partition", path=str(directory), expected=str(itself), found=asked, hint=hint)
    return Target(directory.resolve().parent, itself.topic, itself.partition)


def partition_directories(target: Target) -> list[str]:
    """The directories of the partitions that are meant, by topic and number; a topic that is not there raises.

    A broker's own log of metadata is no topic: it is meant by who names it. What cannot be entered is left out; `tell_what_is_odd` says so.
    """
    from tidelog.disk.names import parse_partition
    from tidelog.inspection.partition_segments import partitions_in

    root = target.path
    found = [(name, parse_partition(name)) for name in partitions_in(root, None if target.topic is None else [target.topic])]
    meant = [
        f"{root}/{name}"
        for name, parsed in found
        if parsed is not None and target.has(parsed.partition) and (parsed.topic != CLUSTER_METADATA or target.topic == CLUSTER_METADATA)
    ]
    return [path for path in meant if os.access(path, os.R_OK | os.X_OK)]


def bytes_of(target: Target) -> int | None:
    """How much lies in the logs that are meant, for who says how far it is; None if that cannot be said: what is wrong will be told."""
    try:
        return sum(file.stat().st_size for path in partition_directories(target) for file in Path(path).glob("*.log"))
    except (TidelogError, OSError):
        return None


def refuse_partition(target: Target, command: str) -> None:
    """Raise if one partition is meant, of a command that is about topics."""
    if target.partition is not None:
        hint = f"tidelog {command} {target.root} {target.topic}"
        raise InvalidConfigError(f"{command} is about whole topics, not the directory of one partition", hint=hint)


def refuse_inside(target: Target, output: Path) -> None:
    """Raise if what is new would lie in the directory itself: a broker does not start on a folder that it does not know."""
    if output.resolve().is_relative_to(target.path):
        raise InvalidConfigError(f"{output} lies in the directory that is read", hint="name a place outside of it")


def own_directories(target: Target) -> list[str]:
    """The same, but for links: below a directory nothing is changed through one. It is told where it leads."""
    found = partition_directories(target)
    for path in found:
        if Path(path).is_symlink():
            progress(f"{path}: a link to {Path(path).readlink()}; passed over: name the directory that it leads to")
    return [path for path in found if not Path(path).is_symlink()]


@contextmanager
def changing_store(directory: Path, config: dict[str, str] | None = None, *, create: bool = False) -> "Iterator[Store]":
    """A store that is changed, and looked after by nobody meanwhile; with `create` it is made if nothing is there."""
    from tidelog.cli.provenance import broker_settings
    from tidelog.store.store import Store

    if not create:
        refuse_others(directory)
    with Store.open(directory, config=broker_settings(config or {}), background=False) as store:
        yield store


def refuse_no_directory(directory: Path, hint: str | None = None) -> None:
    """Raise unless it is a directory, or a link to one."""
    if directory.is_dir():
        return
    if os.path.lexists(directory):
        raise LogNotFoundError("not a directory", path=str(directory), hint="give the directory that holds the partitions' directories")
    raise LogNotFoundError("no such directory", path=str(directory), hint=hint or NO_DIRECTORY)


def refuse_others(directory: Path) -> None:
    """Raise unless the directory is a store: topics, settings and positions of a broker are the broker's to change."""
    refuse_no_directory(directory)
    itself = partition_at(directory)
    if itself is not None:
        raise InvalidConfigError(
            f"{directory} is the directory of one partition, not a store",
            hint=f"give the directory that it lies in: {directory.resolve().parent}",
        )
    if not (directory / STORE_FILE).exists():
        raise NotAStoreError(
            "not a store of Tidelog",
            path=str(directory),
            expected=STORE_FILE,
            found="none",
            hint="a broker's topics, settings and groups are changed with Kafka's tools; tidelog.open(…, adopt=True) makes it a store",
        )

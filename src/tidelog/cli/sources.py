"""What a command is pointed at: a directory with topics, or that of one partition. Opened to be read: no lock, nothing written.

The directory itself may be a link. What lies in it and is no partition, or cannot be entered, is told on stderr and passed over; of a
partition that is a link it is told where it leads.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli.amounts import parse_rate
from tidelog.cli.output import progress
from tidelog.cli.progress import Progress
from tidelog.cli.provenance import broker_settings
from tidelog.disk.disk import Disk
from tidelog.disk.gentle import GentleDisk
from tidelog.disk.names import TopicPartition, parse_partition
from tidelog.errors import InvalidConfigError, UnknownTopicError

if TYPE_CHECKING:
    from tidelog.log.log_reading import Isolation
    from tidelog.log.read_only import ReadOnlyLog
    from tidelog.store.read_only_store import ReadOnlyStore
    from tidelog.store.topic_reading import TopicReading

_CLUSTER_METADATA = "__cluster_metadata"
_LOST_AND_FOUND = "lost+found"


@contextmanager
def reading_disk(
    what: str, io_limit: str | None, *, total_bytes: int | None = None, beside_results: bool = False, is_silent: bool = False
) -> Iterator[Disk]:
    """A disk that shows progress, unless it is to be silent, and keeps to `--io-limit`."""
    rate = None if io_limit is None else parse_rate(io_limit)
    with Progress(what, total_bytes, beside_results=beside_results, is_silent=is_silent) as shown:
        yield GentleDisk(rate, shown.add)


def partition_at(directory: Path) -> TopicPartition | None:
    """The partition whose directory this is, by its name and by having segments; None if it holds directories of topics."""
    home = directory.resolve()
    return parse_partition(home.name) if any(home.glob("*.log")) else None


@contextmanager
def open_store(directory: Path, disk: Disk, config: dict[str, str] | None = None, *, tells: bool = True) -> Iterator["ReadOnlyStore"]:
    """All topics of a directory. Settings in `config` count over what is written down there. Unless it `tells`, nothing odd is told."""
    from tidelog.disk.file_pool import FilePool
    from tidelog.store.read_only_store import ReadOnlyStore

    itself = partition_at(directory)
    if itself is not None:
        home = directory.resolve().parent
        raise UnknownTopicError(
            "the directory of one partition, not of topics", path=str(directory), hint=f"topic {itself.topic} is in {home}"
        )
    with ReadOnlyStore.open(directory, config=broker_settings(config or {}), pool=FilePool(disk), given_wins=True) as store:
        if tells:
            tell_what_is_odd(directory, disk)
        yield store


@contextmanager
def open_topic(directory: Path, topic: str | None, partition: int | None, disk: Disk, command: str) -> Iterator["TopicReading"]:
    """A topic to read; of the directory of one partition, or where one was chosen, that partition alone."""
    from tidelog.disk.file_pool import FilePool
    from tidelog.log.read_only import open_read_only

    home, itself = directory.resolve(), partition_at(directory)
    if itself is None and topic == _CLUSTER_METADATA:  # a broker's own: no topic to others
        itself, home = TopicPartition(topic, 0), home / f"{topic}-0"
    if itself is None:
        if topic is None:
            raise UnknownTopicError("which topic?", path=str(directory), hint=f"tidelog {command} DIRECTORY TOPIC")
        with open_store(directory, disk) as store:
            found = store.topic(topic)
            if partition is None:
                yield found
            else:
                yield _one_log(store.log(topic, partition))
        return
    if topic not in (None, itself.topic) or partition not in (None, itself.partition):
        asked = f"{topic or itself.topic}-{itself.partition if partition is None else partition}"
        hint = f"leave topic and partition out, or give the directory that it lies in: {home.parent}"
        raise UnknownTopicError("the directory of one partition", path=str(directory), expected=str(itself), found=asked, hint=hint)
    with ExitStack() as stack:
        yield _one_log(stack.enter_context(open_read_only(str(home), pool=FilePool(disk))))


def _one_log(opened: "ReadOnlyLog") -> "TopicReading":
    from tidelog.store.topic_reading import TopicReading

    class OneLog(TopicReading):
        """A partition that is read as if it were all of its topic."""

        name = opened.partition.topic

        def partition_ids(self) -> list[int]:
            return [opened.partition.partition]

        def log(self, partition: int) -> "ReadOnlyLog":
            return opened

    return OneLog()


def the_partition(topic: "TopicReading", partition: int | None, what: str) -> int:
    """The partition that an offset is about."""
    if partition is not None:
        return partition
    there = topic.partition_ids()
    if len(there) != 1:
        raise InvalidConfigError(f"{what} means something in one partition only", hint="--partition N says in which")
    return there[0]


def readable_isolation(topic: "TopicReading", isolation: "Isolation") -> "Isolation":
    """The same, but for a quorum's log: its high watermark is in memory only. What is left out of the others is told on stderr.

    A copy of a directory may lack the checkpoint that says what is committed: a reader would see nothing, and wonder.
    """
    if topic.name == _CLUSTER_METADATA:
        return "log_end"
    for log in map(topic.log, topic.partition_ids()) if isolation != "log_end" else ():
        end, seen = log.log_end_offset, log.high_watermark if isolation == "high_watermark" else log.last_stable_offset
        if seen < end:
            name = Path(log.directory).name
            progress(f"{name}: offsets {seen} to {end - 1} are not known to be committed; --isolation log_end shows them")
    return isolation


def tell_what_is_odd(directory: Path, disk: Disk) -> None:
    """Say what is passed over in a directory of topics, and what leads elsewhere."""
    home = directory.resolve()
    for seen in sorted(disk.look(str(home))):
        path = home / seen.name
        if seen.name == _LOST_AND_FOUND:
            progress(f"{path}: of the file system; passed over")
        elif seen.kind == "link":
            progress(f"{path}: a link to {path.readlink()}; it is read, and nothing is ever deleted through it")
        elif seen.kind == "directory" and not os.access(path, os.R_OK | os.X_OK):
            progress(f"{path}: cannot be read by this user; passed over")

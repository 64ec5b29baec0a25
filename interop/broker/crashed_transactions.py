"""What crashes leave of our transactions, opened by a store, and then read by a consumer of Kafka.

Each crash is a topic of one broker: its partitions get the files that the store has left. Two kinds of crashes:

    recorded    a session whose process is killed at a moment of it, or the power is cut
    killed      processes that were ended by SIGKILL while they did transactions
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from interop.broker.broker import Broker
from interop.broker.clients import Clients
from tests.crash.transactor import OUTPUT, PARTITIONS
from tests.crash.transactor import open_store as open_transactors_store
from tests.support.crash_images import Bounds, Image, crash_images, materialise
from tests.support.crash_transaction_check import found_in
from tests.support.crash_transactions import OUTPUTS, STORIES, Expected, Found, open_for
from tests.support.logs import FakeClock, QuietDisk
from tests.support.recording_disk import Note
from tests.support.transaction_kill import Killed, Transactors, kill_some
from tidelog.disk.names import (
    CLEAN_SHUTDOWN,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    TopicPartition,
)

TOLD = ("abort what is written", "positions", "interleaved", "again")
"""Stories that have every kind of end, and records in the log before it."""
MOMENTS = 12
"""Of each story."""
BOUNDS = Bounds(tears=1, zeroed=0, data_prefixes=0, name_prefixes=0, samples=1)
KILLS = 6
SEED = 7
Values = dict[TopicPartition, list[bytes]]


@dataclass
class RecordedCrash:
    """A crash of a session, and what may be read after it."""

    topic: str
    label: str
    expected: Expected
    ours: Found
    """What our own reader has found."""
    kafkas: dict[str, Values] = field(default_factory=dict)
    """By isolation."""

    def faults(self, isolation: str = "read_committed") -> list[str]:
        """What is wrong with what Kafka's consumer got; positions are ours."""
        return self.expected.faults_of(Found(self.kafkas[isolation], self.ours.positions))


@dataclass
class KilledProcesses:
    """Processes that were killed, and where the store stands behind them."""

    topic: str
    killed: Killed
    data: Path
    ours: dict[int, list[bytes]]
    kafkas: dict[int, list[bytes]] = field(default_factory=dict)

    def faults(self) -> list[str]:
        """What is wrong with what Kafka's consumer got."""
        with open_transactors_store(str(self.data)) as store:
            return self.killed.faults_of(self.kafkas, store)


@dataclass
class Crashes:
    """All of them, as a broker has shown them."""

    recorded: list[RecordedCrash]
    killed: list[KilledProcesses]


def let_kafka_read_crashes(home: Path, version: str) -> Crashes:
    """Two starts of a broker: to make the topics, and to read them. It is not running afterwards."""
    crashes = Crashes(list(record_crashes(home)), list(kill_processes(home)))
    with Broker(home / "broker", version=version) as broker:
        broker.start()
        broker.clients.create_topics({crash.topic: {} for crash in crashes.recorded}, partitions=len(OUTPUTS))
        broker.clients.create_topics({crash.topic: {} for crash in crashes.killed}, partitions=PARTITIONS)
        broker.stop()
        for crash in crashes.recorded:
            for number, place in enumerate(OUTPUTS):
                give(home / crash.topic / str(place), broker.partition(crash.topic, number))
        for processes in crashes.killed:
            for number in range(PARTITIONS):
                give(processes.data / f"{OUTPUT}-{number}", broker.partition(processes.topic, number))
        # Of the files that were there before: the broker is to look at these as if it had been killed itself.
        for name in (CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, REPLICATION_CHECKPOINT):
            (broker.data / name).unlink(missing_ok=True)
        broker.start()
        read_all(broker.clients, crashes)
        broker.stop()
    return crashes


def read_all(clients: Clients, crashes: Crashes) -> None:
    """Every partition of every topic."""
    for isolation in ("read_committed", "read_uncommitted"):
        for number, place in enumerate(OUTPUTS):
            found = clients.consume([crash.topic for crash in crashes.recorded], isolation, partition=number)
            for crash in crashes.recorded:
                values = [record.value or b"" for record in found[crash.topic].records]
                crash.kafkas.setdefault(isolation, {})[place] = values
    for number in range(PARTITIONS):
        found = clients.consume([processes.topic for processes in crashes.killed], "read_committed", partition=number)
        for processes in crashes.killed:
            processes.kafkas[number] = [record.value or b"" for record in found[processes.topic].records]


def give(source: Path, partition: Path) -> None:
    """Put the files of a partition in the place of a broker's, which keeps the id by which it knows the topic."""
    for path in partition.iterdir():
        if path.name != PARTITION_METADATA:
            path.unlink()
    for path in source.iterdir():
        if path.name != PARTITION_METADATA:
            shutil.copy2(path, partition)


def record_crashes(home: Path) -> Iterator[RecordedCrash]:
    """Some moments of some stories, each opened by a store and closed."""
    stories = {story.name: story for story in STORIES}
    for turn, name in enumerate(TOLD):
        root = home / f"session-{turn}"
        root.mkdir(parents=True)
        session, moments = stories[name].play(root)
        recording = session.disk.recording()
        shutil.rmtree(root)
        expected, followed = Expected(), 0
        for cut in moments[:: -(-len(moments) // MOMENTS)]:
            for event in recording.events[followed:cut]:
                if isinstance(event, Note):
                    expected.follow(event.label, event.payload)
            followed = cut
            images = list(crash_images(recording, cuts=(cut,), bounds=BOUNDS))
            for place in sorted({0, len(images) - 1}):  # what a killed process leaves, and what a power cut leaves
                topic = f"story-{turn}-at-{cut}-{place}"
                found = _opened(images[place], home / topic, session.owners)
                label = f"{name}, cut at {cut}, {images[place].label}"
                yield RecordedCrash(topic, label, _copy_of(expected), found)


def _opened(image: Image, directory: Path, owners: tuple[str, ...]) -> Found:
    """The outputs lie in `directory` then, as a store has left them that was opened and closed."""
    unpacked = directory.with_suffix(".image")
    materialise(image, unpacked)
    with open_for(unpacked / "data", QuietDisk(), FakeClock()) as store:
        found = found_in(store, owners)
    directory.mkdir()
    for place in OUTPUTS:
        (unpacked / "data" / str(place)).rename(directory / str(place))
    shutil.rmtree(unpacked)
    return found


def _copy_of(expected: Expected) -> Expected:
    return Expected(dict(expected.ending), set(expected.ended), expected.expires)


def kill_processes(home: Path) -> Iterator[KilledProcesses]:
    """Some rounds of `tests.support.transaction_kill`, each opened by a store and closed."""
    draw = Random(SEED)
    with Transactors() as transactors:
        for number in range(KILLS):
            data = home / f"killed-{number}" / "data"
            data.parent.mkdir(parents=True)
            killed = kill_some(transactors, data, draw)
            with open_transactors_store(str(data)) as store:
                ours = {place: [record.value or b"" for record in store.topic(OUTPUT).read(partition=place)] for place in range(PARTITIONS)}
            yield KilledProcesses(f"killed-{number}", killed, data, ours)

"""We write: every case through our own log, into the directory of a broker that is stopped; then a broker goes on with it.

    home/closed/data      the logs were closed in order, and the clean-shutdown marker is there
    home/crashed/data     a copy from before they were closed: no marker, and the files that we keep while a log is open

What Kafka's cleaner made cannot be written in steps. We take it as a follower would, batch by batch from Kafka's own files.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from interop.broker.broker import INDEX_BYTES, Broker
from interop.broker.cases import CASES, TIME, Case, DeleteBefore, Send
from interop.broker.clients import Consumed, Row
from interop.broker.judging import POOL
from interop.broker.kafka_writes import KafkaWrote, consume, copy_data, wait_for_cleaner
from tidelog.disk.names import CLEAN_SHUTDOWN, OWN_SUFFIX
from tidelog.disk.partition_metadata import parse_topic_id
from tidelog.log.log import Log
from tidelog.log.log_reading import Isolation
from tidelog.record import BatchSettings, Compression, ControlType, NewBatch, transaction_marker
from tidelog.store.store_file import STORE_FILE

FIRST_PRODUCER_ID = 5_000_000
"""Far from those that a broker gives."""

KAFKAS_ROW = Row(b"kafka", b"was here", (), None)
OWN_FILES = (
    "cut-00000000000000000000-at-813.log.tidelog",
    "bad-00000000000000000000-at-813.log.tidelog",
    "index-00000000000000000000.tidelog",
    "timeindex-00000000000000000000.tidelog",
    "txnindex-00000000000000000000.tidelog",
    "snapshot-00000000000000000000.tidelog",
    "epochs-0.tidelog",
    "leftover-00000000000000000000.log.swap.tidelog",
    "rebuilt-00000000000000000000.index.tidelog",
)
"""A name of every kind that we add to a partition (docs/on-disk.md); `flushed-end.tidelog` is there by itself."""


@dataclass
class BrokerWentOn:
    """A directory of ours after a broker had it."""

    data: Path
    seen: Path
    """A copy of the directory, from when the consumer had read it."""
    consumed: dict[Isolation, dict[str, Consumed]]
    """By our isolation, then by topic: before the broker appended."""
    appended: dict[str, int]
    """The offset of the record that it appended to each topic."""
    had_marker: bool
    """Whether it found the logs closed in order."""
    own_files: dict[Path, bytes]
    """Our files when it started, by their paths in the directory."""


@dataclass
class WeWrote:
    """Both states, and where the logs stood when we left them."""

    version: str
    configs: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    topic_ids: dict[str, str] = field(default_factory=dict, repr=False)
    went_on: dict[str, BrokerWentOn] = field(default_factory=dict, repr=False)
    """By state: "closed" or "crashed"."""


def let_us_write(home: Path, kafka: KafkaWrote) -> WeWrote:
    """Three starts of a broker. None is running afterwards."""
    version = kafka.version
    wrote = WeWrote(version, {name: case.config | {"segment.index.bytes": str(INDEX_BYTES)} for name, case in CASES.items()})
    closed, crashed = home / "closed", home / "crashed"
    # Only one of them has a cleaner: what is read from the other is exactly what we wrote.
    with Broker(closed, version=version, settings={"log.cleaner.enable": "false"}) as broker:
        broker.start()
        ids = wrote.topic_ids = broker.clients.create_topics({name: case.settings(version) for name, case in CASES.items()})
        broker.stop()
        with ExitStack() as open_logs:
            for number, case in enumerate(CASES.values()):
                directory = broker.partition(case.name)
                shutil.rmtree(directory)
                log = Log.open(directory, config=wrote.configs[case.name], topic_id=parse_topic_id(ids[case.name]), pool=POOL)
                open_logs.enter_context(log)
                if case.is_compacted:
                    copy_as_follower(log, kafka.partition("clean", case.name))
                else:
                    write(log, case, FIRST_PRODUCER_ID + 10 * number)
            shutil.copytree(broker.data, crashed / "data", ignore=shutil.ignore_patterns(".lock"))
        wrote.went_on["closed"] = go_on(broker, has_cleaner=False)
    with Broker(crashed, version=version) as broker:
        wrote.went_on["crashed"] = go_on(broker, has_cleaner=True)
    return wrote


def write(log: Log, case: Case, first_producer_id: int) -> None:
    """The steps of a case, by ourselves."""
    producers: dict[str, OurProducer] = {}
    for step in case.steps:
        match step:
            case Send():
                if step.producer not in producers:
                    producers[step.producer] = OurProducer(log, first_producer_id + len(producers), _is_transactional(case, step.producer))
                producers[step.producer].send(step)
            case DeleteBefore():
                log.delete_records_before(step.offset)


@dataclass
class OurProducer:
    """Gives batches what a producer gives them, and its transactions what their coordinator does."""

    log: Log
    producer_id: int
    is_transactional: bool
    sequence: int = 0

    def send(self, step: Send) -> None:
        for rows in step.batches:
            settings = BatchSettings(compression=Compression[step.compression.upper()], is_transactional=self.is_transactional)
            if step.is_idempotent:
                settings = replace(settings, producer_id=self.producer_id, producer_epoch=0, base_sequence=self.sequence)
                self.sequence += len(rows)
            self.log.append(NewBatch(rows, settings=settings).encode())
        kind = step.transaction.removeprefix("begin").removeprefix("-")
        if kind:
            ends = ControlType[kind.upper()]
            marker = transaction_marker(ends, producer_id=self.producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=TIME)
            self.log.append(marker, origin="coordinator")


def _is_transactional(case: Case, producer: str) -> bool:
    return any(isinstance(step, Send) and step.producer == producer and step.transaction != "" for step in case.steps)


def copy_as_follower(log: Log, directory: Path) -> None:
    """All batches of a log that Kafka wrote, with their offsets."""
    with Log.open(directory, mode="r") as source:
        offset = source.log_start_offset
        while data := bytes((fetched := source.fetch(offset, 1 << 20, isolation="log_end")).data):
            log.append_as_follower(data)
            offset = fetched.next_offset
        log.high_watermark = log.log_end_offset


def go_on(broker: Broker, *, has_cleaner: bool) -> BrokerWentOn:
    """Start a broker, read everything, append something, stop it."""
    (broker.data / STORE_FILE).write_text("{}\n")
    for name in OWN_FILES:
        (broker.partition("defaults") / name).write_bytes(b"ours: " + name.encode())
    own_files = dict(files_of_ours(broker.data))
    had_marker = (broker.data / CLEAN_SHUTDOWN).exists()
    broker.start()
    for case in CASES.values():
        if case.is_compacted and has_cleaner:
            wait_for_cleaner(broker, case.name)
    consumed = consume(broker.clients, list(CASES))
    seen = broker.home / "seen"
    copy_data(broker.data, seen)
    appended = {}
    for name in CASES:
        config = {"enable.idempotence": "true"}
        (appended[name],) = broker.clients.produce(name, [[KAFKAS_ROW]], producer=f"{name}-kafka", config=config)
    broker.stop()
    return BrokerWentOn(broker.data, seen, consumed, appended, had_marker, own_files)


def files_of_ours(data: Path) -> Iterator[tuple[Path, bytes]]:
    """The files in a log directory that are no broker's, but for what a broker has too."""
    for path in sorted([data / STORE_FILE, *data.glob(f"*/*{OWN_SUFFIX}")]):
        yield path.relative_to(data), path.read_bytes()

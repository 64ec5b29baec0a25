"""A store moves under a broker and back.

A broker makes topics and is stopped. A store in a directory of its own has the same topics, with the ids that the broker gave them, and
some that the broker does not know. Then the store's directory becomes the broker's, by the few files that tell a broker who it is.

    home/closed/data      the store was closed in order
    home/crashed/data     a copy from before it was: no marker, and the files that tell readers how far a log is flushed

The store has been through something: a log with a torn tail, which it has cut and kept, a spoilt index that was repaired, and topics that
were deleted. When the broker has read all of it, appended and stopped, the store is opened again, appends too, and is closed; then a
broker has it once more.
"""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import tidelog
from interop.broker.broker import INDEX_BYTES, Broker
from interop.broker.cases import CASES, TIME, Case, Send, numbers
from interop.broker.clients import Consumed, Read, Row
from interop.broker.judging import ISOLATIONS, read_all
from interop.broker.kafka_writes import consume, copy_data
from interop.broker.we_write import FIRST_PRODUCER_ID, KAFKAS_ROW, files_of_ours, write
from tidelog.disk.names import TopicPartition
from tidelog.disk.partition_metadata import parse_topic_id
from tidelog.errors import TidelogError
from tidelog.inspection.repair import apply_repair, plan_repair
from tidelog.log.load_report import LoadReport
from tidelog.log.log_reading import Isolation
from tidelog.record import NewBatch

CUT, REPAIRED, SPREAD, STRANGER = "cut", "codec-zstd", "spread", "stranger"
"""Topics: one whose tail was torn, one with a spoilt index, one of several partitions, and one of which the broker has never heard."""
GONE = ("gone", "gone" + 245 * "g")
"""Deleted topics; the name of one is so long that it is cut."""
SPREAD_PARTITIONS = 3

_CASES = ("codec-zstd", "append-time", "idempotent", "transactions-small", "transaction-open", "records-deleted")
MOVED = {name: CASES[name] for name in _CASES}
MOVED |= {CUT: Case(CUT, {}, (Send(numbers(0, 20, batch=2)),)), SPREAD: Case(SPREAD, {}, (Send(numbers(0, 9, keys=3)),))}

OUR_ROW = Row(b"store", b"was here", (), TIME)
OUR_BATCH = NewBatch([OUR_ROW]).encode()
STORE_CONFIG: dict[str, object] = {"log.index.size.max.bytes": INDEX_BYTES, "log.cleaner.enable": False}
"""What the store finds is compared with what the broker has: nothing is cleaned in between."""
BROKERS_OWN = ("meta.properties", "bootstrap.checkpoint", "__cluster_metadata-0")
"""What makes a directory a broker's."""

ByPartition = dict[TopicPartition, Consumed]


@dataclass
class StoreBack:
    """What a store found when it was opened behind a broker, and what it did."""

    reports: dict[TopicPartition, LoadReport] = field(default_factory=dict)
    records: dict[TopicPartition, list[Read]] = field(default_factory=dict)
    """All, up to the end of the log."""
    topic_ids: dict[str, UUID | None] = field(default_factory=dict)
    failures: dict[TopicPartition, TidelogError] = field(default_factory=dict)
    appended: dict[TopicPartition, int] = field(default_factory=dict)
    """The offset of the record that it appended to each partition."""


@dataclass
class StateMoved:
    """A store's directory with a broker, back, and with a broker again."""

    data: Path
    names: set[str]
    """What was there when the broker started."""
    own_files: dict[Path, bytes]
    """Our files, as they were then."""
    consumed: dict[Isolation, ByPartition]
    """Before the broker appended."""
    seen: Path
    """A copy from when the consumer had read it: a broker removes segments below the start when it starts."""
    appended: dict[TopicPartition, int]
    """The offset of the record that the broker appended to each partition."""
    after: Path
    """A copy from when the broker had stopped."""
    back: StoreBack
    consumed_again: dict[Isolation, ByPartition]
    """By the second broker, behind what the store appended."""


@dataclass
class StoreMoved:
    """What the store had, and what became of it."""

    topic_ids: dict[str, UUID]
    before: Path
    """The store's directory before any broker came, closed."""
    states: dict[str, StateMoved] = field(default_factory=dict, repr=False)
    """By how the store was left: "closed" or "crashed"."""


def partitions() -> Iterator[TopicPartition]:
    """Of all topics that store and broker both know."""
    for name in MOVED:
        yield from (TopicPartition(name, number) for number in range(SPREAD_PARTITIONS if name == SPREAD else 1))


def let_a_store_move(home: Path, version: str) -> StoreMoved:
    """Five starts of a broker. None is running afterwards."""
    closed, crashed, stores = home / "closed", home / "crashed", home / "store"
    with Broker(closed, version=version) as broker:
        broker.start()
        ids = broker.clients.create_topics({name: case.settings(version) for name, case in MOVED.items() if name != SPREAD})
        ids |= broker.clients.create_topics({SPREAD: {}}, partitions=SPREAD_PARTITIONS)
        broker.stop()
        moved = StoreMoved({name: parse_topic_id(text) for name, text in ids.items()}, stores)
        bare = home / "bare"
        broker.data.rename(bare)
        make_store(stores, moved.topic_ids, before_closing=crashed / "data", scratch=home / "torn")
        copy_data(stores, closed / "data")
        for data in (closed / "data", crashed / "data"):
            make_a_brokers(data, bare)
        moved.states["closed"] = go_on(broker)
    with Broker(crashed, version=version) as broker:
        moved.states["crashed"] = go_on(broker)
    return moved


def make_store(directory: Path, ids: dict[str, UUID], *, before_closing: Path, scratch: Path) -> None:
    """A store that has lived: it is opened twice, the second time after a crash that tore the end of a log."""
    with tidelog.open(scratch, config=STORE_CONFIG) as store:
        for case in (*MOVED.values(), *map(Case, GONE), Case(STRANGER)):
            count = SPREAD_PARTITIONS if case.name == SPREAD else 1
            store.create_topic(case.name, count, config=case.config, topic_id=ids.get(case.name))
        for number, partition in enumerate(partitions()):
            if partition.topic != CUT:
                write(store.log(*partition), MOVED[partition.topic], FIRST_PRODUCER_ID + 10 * number)
        for name in (CUT, *GONE, STRANGER):
            write(store.log(name, 0), MOVED[CUT], FIRST_PRODUCER_ID)
        copy_data(scratch, directory)
    log = directory / f"{CUT}-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:-7])
    repaired = directory / f"{REPAIRED}-0"
    (repaired / "00000000000000000000.index").write_bytes(bytes.fromhex("00000005000003e8"))
    apply_repair(plan_repair(repaired, config=dict(MOVED[REPAIRED].config)))
    with tidelog.open(directory, config=STORE_CONFIG) as store:
        for name in GONE:
            store.delete_topic(name)
        copy_data(directory, before_closing)


def make_a_brokers(data: Path, bare: Path) -> None:
    """Give a store's directory what a broker knows itself and its topics by."""
    for name in BROKERS_OWN:
        source = bare / name
        if source.is_dir():
            shutil.copytree(source, data / name)
        elif source.exists():
            shutil.copy(source, data)


def go_on(broker: Broker) -> StateMoved:
    """Start a broker, read everything, append something, stop it; open the store, append, close it; start a broker and read again."""
    names, own_files = {path.name for path in broker.data.iterdir()}, dict(files_of_ours(broker.data))
    broker.start()
    consumed, appended = consume_all(broker), {}
    seen = broker.home / "seen"
    copy_data(broker.data, seen)
    for topic, number in partitions():
        config = {"enable.idempotence": "true"}
        (offset,) = broker.clients.produce(topic, [[KAFKAS_ROW]], producer="kafka", config=config, partition=number)
        appended[TopicPartition(topic, number)] = offset
    broker.stop()
    after = broker.home / "after"
    copy_data(broker.data, after)
    back = open_behind_broker(broker.data, partitions())
    broker.start()
    consumed_again = consume_all(broker)
    broker.stop()
    return StateMoved(broker.data, names, own_files, consumed, seen, appended, after, back, consumed_again)


def open_behind_broker(data: Path, wanted: Iterable[TopicPartition]) -> StoreBack:
    """Open the store, look at everything, append a record to each partition, close it."""
    back = StoreBack()
    with tidelog.open(data, config=STORE_CONFIG) as store:
        back.failures = store.failures
        back.topic_ids = {topic.name: topic.topic_id for topic in store.topics()}
        for partition in wanted:
            log = store.log(*partition)
            back.reports[partition] = log.load_report
            back.records[partition] = read_all(log, "log_end")
            back.appended[partition] = log.append(OUR_BATCH).first_offset
    return back


def consume_all(broker: Broker) -> dict[Isolation, ByPartition]:
    """Every partition of every topic."""
    first = consume(broker.clients, MOVED)
    others = {number: consume(broker.clients, [SPREAD], partition=number) for number in range(1, SPREAD_PARTITIONS)}
    return {
        isolation: {TopicPartition(topic, number): others.get(number, first)[isolation][topic] for topic, number in partitions()}
        for isolation in ISOLATIONS
    }

"""Groups and transactions of a live broker, read by us; then ours, read by a broker.

home/live         a broker with groups and transactions of every kind. We read its directory while it runs; it is stopped
home/recorded     a copy, adopted by a store: positions are committed, transactions committed and aborted, one is left open. What it
                  does is recorded, so that it can be cut off
home/settled      what is left if the store is killed while it writes the markers of a transaction, and is opened again and closed.
                  Then a broker has it, and the store once more
home/unsettled    what is left if it is killed when a transaction is decided and no marker is written, and another one is undecided.
                  A broker has it as it is, and then the store
"""

from dataclasses import dataclass, field
from pathlib import Path

import tidelog
from interop.broker.broker import Broker
from interop.broker.clients import Clients, Consumed, GroupRow, KnownTransaction
from interop.broker.kafka_writes import copy_data
from interop.broker.live_groups import COPIES, ORDERS, PARTITIONS, Live, Positions, look_beside, make_groups, produce, states_of, wait_for
from interop.broker.our_groups import Ours, committed_in, cuts_of, epochs_of, let_store_work
from interop.broker.store_moves import STORE_CONFIG
from interop.java_program import JavaError
from tests.support.crash_images import killed_image, materialise
from tidelog.disk.names import TopicPartition
from tidelog.store.store import Store


@dataclass
class Settled:
    """A broker on what our store has settled, and the store again."""

    tool: dict[str, list[GroupRow]] = field(default_factory=dict)
    kafkas: dict[str, dict[tuple[str, int], tuple[int, int | None, str]]] = field(default_factory=dict)
    consumed: dict[TopicPartition, Consumed] = field(default_factory=dict)
    transactions: dict[str, KnownTransaction] = field(default_factory=dict)
    read_on: list[tuple[str, int, int, bytes]] = field(default_factory=list)
    """By a consumer of Kafka with the group of ours."""
    went_on: dict[str, KnownTransaction] = field(default_factory=dict)
    """After a producer of Kafka has used our id."""
    refused: str = ""
    """What the former producer was told when another one had its id."""
    back: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    """Read by the store behind the broker."""
    back_positions: dict[str, Positions] = field(default_factory=dict)
    back_epochs: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Unsettled:
    """A broker on what a killed store has left, and then the store."""

    consumed: dict[TopicPartition, Consumed] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """For those who read what is not committed."""
    transactions: dict[str, KnownTransaction] = field(default_factory=dict)
    kafkas: dict[str, dict[tuple[str, int], tuple[int, int | None, str]]] = field(default_factory=dict)
    back: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    back_open: list[str] = field(default_factory=list)
    back_states: dict[str, KnownTransaction] = field(default_factory=dict)


@dataclass
class GroupsMet:
    """All of it."""

    live: Live
    ours: Ours
    settled: Settled
    unsettled: Unsettled


def let_groups_meet(home: Path, version: str) -> GroupsMet:
    """Three starts of a broker. None is running afterwards."""
    has_new_protocol = not version.startswith("3.")
    with Broker(home / "live", version=version) as broker:
        broker.start()
        make_groups(broker.clients, has_new_protocol=has_new_protocol)
        live = look_beside(broker, has_new_protocol=has_new_protocol)
        broker.stop()
        copy_data(broker.data, home / "recorded")
    ours, recording = let_store_work(home / "recorded")
    decision, first_marker = cuts_of(recording)
    for state, cut in (("settled", first_marker), ("unsettled", decision)):
        materialise(killed_image(recording, cut), home / state / "data")
    settled = meet_settled(home / "settled", version)
    unsettled = meet_unsettled(home / "unsettled", version)
    return GroupsMet(live, ours, settled, unsettled)


def consumed_from(clients: Clients, isolation: str) -> dict[TopicPartition, Consumed]:
    """What a consumer of Kafka gets."""
    found = {}
    for number in range(max(PARTITIONS.values())):
        topics = [name for name, count in PARTITIONS.items() if number < count]
        for topic, consumed in clients.consume(topics, isolation, partition=number).items():
            found[TopicPartition(topic, number)] = consumed
    return found


def meet_settled(home: Path, version: str) -> Settled:
    """The store settles what it left; the broker reads it and goes on; the store goes on behind it."""
    settled = Settled()
    with tidelog.open(home / "data", config=STORE_CONFIG):
        pass
    with Broker(home, version=version) as broker:
        broker.start()
        clients = broker.clients
        groups = ("ours", "classic-left", "our-tx-group", "decided-group")
        settled.tool = {group: clients.describe_group(group) for group in groups}
        settled.kafkas = clients.group_offsets(*groups)
        settled.consumed = consumed_from(clients, "read_committed")
        settled.transactions, _ = clients.transactions()
        settled.read_on = clients.member("ours", ORDERS)
        produce(clients, COPIES, "our-tx", "begin-commit", producer="first")
        produce(clients, COPIES, "our-tx", "begin", producer="second")
        try:
            produce(clients, COPIES, "our-tx", "begin-commit", producer="first")
        except JavaError as error:
            settled.refused = str(error)
        produce(clients, COPIES, "our-tx", "commit", producer="second")
        settled.went_on, _ = clients.transactions()
        broker.stop()
    with tidelog.open(home / "data", config=STORE_CONFIG) as store:
        with store.transaction("our-tx") as transaction:
            transaction.append(COPIES, b"behind the broker", partition=0)
        settled.back = committed_in(store)
        settled.back_positions = {
            group: {place: position.offset for place, position in store.group(group).positions().items()} for group in groups
        }
        settled.back_epochs = epochs_of(store)
    return settled


def meet_unsettled(home: Path, version: str) -> Unsettled:
    """The broker finishes what is decided, and leaves open what is not; the store ends it."""
    unsettled = Unsettled()
    with Broker(home, version=version) as broker:
        broker.start()
        clients = broker.clients
        wait_for(lambda: clients.transactions()[0]["decided"].state == "CompleteCommit", 30)
        unsettled.transactions, _ = clients.transactions()
        unsettled.consumed = consumed_from(clients, "read_committed")
        unsettled.ends = {place: found.end for place, found in consumed_from(clients, "read_uncommitted").items()}
        unsettled.kafkas = clients.group_offsets("decided-group", "our-tx-group")
        broker.stop()
    with tidelog.open(home / "data", config=STORE_CONFIG) as store:
        unsettled.back = committed_in(store)
        unsettled.back_open = [str(place) for place in unsettled.back if _is_open(store, place)]
        unsettled.back_states = states_of(store)
    return unsettled


def _is_open(store: Store, place: TopicPartition) -> bool:
    return bool(store.log(*place).open_transactions)

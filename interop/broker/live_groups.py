"""Groups and transactions of every kind in a live broker, and what we read in its directory meanwhile."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import tidelog
from interop.broker.broker import Broker
from interop.broker.clients import Clients, GroupRow, KnownTransaction, Row
from tidelog.disk.names import TopicPartition

ORDERS, COPIES, OPEN, SHARED, UNDECIDED, DECIDED = "orders", "copies", "open", "shared", "undecided", "decided"
PARTITIONS = {ORDERS: 3, COPIES: 2, OPEN: 1, SHARED: 1, UNDECIDED: 1, DECIDED: 1}
"""In `OPEN` are the broker's own transactions that nobody ends, in `SHARED` one of ours, with others before and behind it."""
PER_PARTITION = 10

Positions = dict[tuple[str, int], int]


@dataclass
class Live:
    """What a broker told its clients, and what we read beside it."""

    kafkas: dict[str, dict[tuple[str, int], tuple[int, int | None, str]]] = field(default_factory=dict)
    tool: dict[str, list[GroupRow]] = field(default_factory=dict)
    transactions: dict[str, KnownTransaction] = field(default_factory=dict)
    open: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    ours: dict[str, dict[tuple[str, int], tuple[int, int, str]]] = field(default_factory=dict)
    our_lag: dict[str, dict[tuple[str, int], tuple[int | None, int | None]]] = field(default_factory=dict)
    our_transactions: dict[str, KnownTransaction] = field(default_factory=dict)
    is_ours: set[str] = field(default_factory=set)
    hanging: list[tuple[str, int, int, int]] = field(default_factory=list)
    """Partition, producer id, epoch, first offset."""
    new_names: set[str] = field(default_factory=set)
    """What is in the directory and was not before we looked."""


def make_groups(clients: Clients, *, has_new_protocol: bool) -> None:
    """Through Kafka's own clients."""
    for name, count in PARTITIONS.items():
        clients.create_topics({name: {}}, partitions=count)
    for number in range(PARTITIONS[ORDERS]):
        clients.produce(
            ORDERS, [[Row(None, b"order %d" % place)] for place in range(PER_PARTITION)], producer="p", config={}, partition=number
        )
    clients.member("classic-left", ORDERS)
    clients.member("classic-stays", ORDERS, stays=True)
    if has_new_protocol:
        clients.member("consumer-left", ORDERS, config={"group.protocol": "consumer"})
        clients.member("consumer-stays", ORDERS, config={"group.protocol": "consumer"}, stays=True)
    clients.ask("group", topic=ORDERS, group="with-a-note", offset=4, metadata="a note")
    for name, transaction in (("tx-committed", "begin-commit"), ("tx-aborted", "begin-abort"), ("tx-open", "begin")):
        produce(clients, OPEN if name == "tx-open" else COPIES, name, transaction)
    for name, transaction, offset in (("tx-with", "begin-commit", 3), ("tx-without", "begin-abort", 7)):
        produce(clients, COPIES, name, transaction, ("tx-group", [(ORDERS, 0, offset, name), (ORDERS, 2, offset, "")]))
    produce(clients, OPEN, "tx-pending", "begin", ("tx-group", [(ORDERS, 0, 9, "never")]))


def produce(
    clients: Clients,
    topic: str,
    transactional_id: str,
    transaction: str,
    positions: tuple[str, list[tuple[str, int, int, str]]] | None = None,
    producer: str = "",
) -> None:
    """One record in a transaction."""
    config = {"transactional.id": transactional_id, "enable.idempotence": "true", "transaction.timeout.ms": "900000"}
    rows = [[Row(None, b"kafka's " + transactional_id.encode())]]
    clients.produce(topic, rows, producer=producer or transactional_id, config=config, transaction=transaction, positions=positions)


def groups_of(*, has_new_protocol: bool) -> list[str]:
    """Those that the broker has."""
    new = ["consumer-left", "consumer-stays"] if has_new_protocol else []
    return ["classic-left", "classic-stays", *new, "tx-group", "with-a-note"]


def look_beside(broker: Broker, *, has_new_protocol: bool) -> Live:
    """What clients are told, and what we find in the directory meanwhile."""
    live = Live()
    names = set(_names(broker.data))
    groups = groups_of(has_new_protocol=has_new_protocol)
    live.kafkas = broker.clients.group_offsets(*groups)
    live.tool = {group: broker.clients.describe_group(group) for group in groups}
    live.transactions, live.open = broker.clients.transactions((COPIES, 0), (COPIES, 1), (OPEN, 0))
    with tidelog.open(broker.data, mode="r") as store:
        wait_for(lambda: {group.name for group in store.groups()} >= set(groups) and len(store.transactions()) == len(live.transactions))
        for group in store.groups():
            live.ours[group.name] = {
                partition: (position.offset, position.leader_epoch, position.metadata) for partition, position in group.positions().items()
            }
            live.our_lag[group.name] = {partition: (lag.log_end_offset, lag.lag) for partition, lag in group.lag().items()}
        live.our_transactions, live.is_ours = states_of(store), {one.transactional_id for one in store.transactions() if one.is_ours}
        live.hanging = [
            (str(TopicPartition(one.topic, one.partition)), one.producer_id, one.producer_epoch, one.first_offset)
            for one in store.hanging_transactions()
        ]
    live.new_names = set(_names(broker.data)) - names
    return live


def _names(data: Path) -> Iterator[str]:
    """But for those of files that a broker makes whenever it likes."""
    for path in data.rglob("*"):
        if path.parent.name != "__cluster_metadata-0" and path.suffix not in (".tmp", ".snapshot"):
            yield str(path.relative_to(data))


def wait_for(is_there: Callable[[], bool], timeout_s: float = 10) -> None:
    """A broker writes down how far its logs are to be read every now and then."""
    deadline = time.monotonic() + timeout_s
    while not is_there():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def states_of(store: tidelog.Store | tidelog.ReadOnlyStore) -> dict[str, KnownTransaction]:
    """Transactional ids as our store knows them."""
    return {
        one.transactional_id: KnownTransaction(
            "".join(word.capitalize() for word in one.status.name.split("_")),
            one.producer_id,
            one.producer_epoch,
            sorted(str(TopicPartition(*partition)) for partition in one.partitions),
        )
        for one in store.transactions()
    }

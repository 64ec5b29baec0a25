"""Groups and transactions: a live broker's are read by us, ours by a broker, and each goes on behind the other."""

import pytest

from interop.broker.clients import KnownTransaction
from interop.broker.groups import GroupsMet
from interop.broker.live_groups import COPIES, DECIDED, OPEN, ORDERS, PARTITIONS, PER_PARTITION, SHARED, UNDECIDED, groups_of
from interop.broker.scenarios import VERSIONS, Scenarios
from tidelog.disk.names import TopicPartition

COPIES_0 = TopicPartition(COPIES, 0)
KAFKAS = b"kafka's our-tx"


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def met(version: str, scenarios: Scenarios) -> GroupsMet:
    return scenarios.groups(version)


# A live broker


def test_positions_of_a_live_broker_are_those_that_its_admin_client_is_told(met: GroupsMet, version: str) -> None:
    """Of classic groups and of those with the new protocol, with members and without, by transactions too."""
    groups = groups_of(has_new_protocol=not version.startswith("3."))
    assert set(met.live.ours) == set(groups)
    for group in groups:
        found = {place: (offset, None if epoch < 0 else epoch, note) for place, (offset, epoch, note) in met.live.ours[group].items()}
        assert found == met.live.kafkas[group], group
    assert met.live.ours["with-a-note"][ORDERS, 0] == (4, -1, "a note")
    assert {offset for offset, _, _ in met.live.ours["tx-group"].values()} == {3}


def test_the_lag_is_that_of_kafkas_group_tool(met: GroupsMet) -> None:
    for group, rows in met.live.tool.items():
        assert met.live.our_lag[group] == {(row.topic, row.partition): (row.end, row.lag) for row in rows}, group
    assert {row.lag for row in met.live.tool["tx-group"]} == {PER_PARTITION - 3}


def test_transactions_of_a_live_broker_are_those_that_its_admin_client_is_told(met: GroupsMet) -> None:
    assert met.live.our_transactions == met.live.transactions
    assert {known.state for known in met.live.transactions.values()} == {"CompleteCommit", "CompleteAbort", "Ongoing"}
    assert met.live.is_ours == set()


def test_what_is_open_in_the_logs_of_a_live_broker_is_named(met: GroupsMet) -> None:
    in_open = [tuple(found[1:]) for found in met.live.hanging if found[0] == f"{OPEN}-0"]
    assert sorted(in_open) == sorted(met.live.open[f"{OPEN}-0"])
    assert len(in_open) == 2
    pending = met.live.transactions["tx-pending"]
    assert [found[1] for found in met.live.hanging if found[0] == "__consumer_offsets-0"] == [pending.producer_id]
    assert met.live.open[f"{COPIES}-0"] == met.live.open[f"{COPIES}-1"] == []
    assert not [found for found in met.live.hanging if found[0].startswith(COPIES)]


def test_looking_leaves_nothing_behind(met: GroupsMet) -> None:
    assert met.live.new_names == set()


# Ours, settled by us, and then with a broker


def test_kafkas_group_tool_shows_our_positions(met: GroupsMet) -> None:
    for group, positions in met.ours.positions.items():
        rows = met.settled.tool[group]
        assert {(row.topic, row.partition): row.position for row in rows} == positions, group
        assert all(row.lag == PER_PARTITION - (row.position or 0) for row in rows), group
        assert {place: offset for place, (offset, _, _) in met.settled.kafkas[group].items()} == positions, group
    assert set(met.ours.positions["classic-left"].values()) == {PER_PARTITION}
    assert sum(met.ours.positions["ours"].values()) == 7
    assert sum(met.ours.positions["our-tx-group"].values()) == 11


def test_a_consumer_of_kafka_goes_on_where_ours_stopped(met: GroupsMet) -> None:
    wanted = [
        (ORDERS, number, offset, b"order %d" % offset)
        for number in range(PARTITIONS[ORDERS])
        for offset in range(met.ours.positions["ours"][ORDERS, number], PER_PARTITION)
    ]
    assert sorted(met.settled.read_on) == wanted
    assert set(met.settled.back_positions["ours"].values()) == {PER_PARTITION}


def test_a_consumer_of_kafka_reads_exactly_what_we_committed(met: GroupsMet) -> None:
    for place, values in met.ours.committed.items():
        assert [record.value for record in met.settled.consumed[place].records] == values, place
    assert met.ours.committed[TopicPartition(UNDECIDED, 0)] == []
    assert met.ours.committed[TopicPartition(SHARED, 0)] == [b"before", b"decided 0", b"decided 1", b"decided 2"]
    assert b"aborted" not in met.ours.committed[COPIES_0]


def test_a_broker_knows_how_our_transactions_ended(met: GroupsMet) -> None:
    states = {name: met.settled.transactions[name].state for name in ("our-tx", "tx-committed", "decided", "undecided")}
    assert states == {
        "our-tx": "CompleteCommit",
        "tx-committed": "CompleteCommit",
        "decided": "CompleteCommit",
        "undecided": "CompleteAbort",
    }
    for name in ("our-tx", "tx-committed", "decided"):
        known = met.settled.transactions[name]
        assert (known.producer_id, known.producer_epoch) == met.ours.epochs[name]
    theirs = met.live.transactions["tx-committed"]  # an id of the broker, which we have used too
    assert met.ours.epochs["tx-committed"] == (theirs.producer_id, theirs.producer_epoch + 1)


def test_a_producer_of_kafka_goes_on_with_our_id_and_fences(met: GroupsMet) -> None:
    producer_id, epoch = met.ours.epochs["our-tx"]
    known = met.settled.went_on["our-tx"]
    assert (known.state, known.producer_id) == ("CompleteCommit", producer_id)
    assert known.producer_epoch > epoch + 1  # raised by two producers
    assert "ProducerFencedException" in met.settled.refused or "InvalidProducerEpochException" in met.settled.refused


def test_the_store_goes_on_behind_the_broker(met: GroupsMet) -> None:
    assert met.settled.back[COPIES_0] == [*met.ours.committed[COPIES_0], *[KAFKAS] * 3, b"behind the broker"]
    for place, values in met.ours.committed.items():
        assert place == COPIES_0 or met.settled.back[place] == values, place
    known: KnownTransaction = met.settled.went_on["our-tx"]
    assert met.settled.back_epochs["our-tx"] == (known.producer_id, known.producer_epoch + 1)


# Ours, as a crash leaves it, with a broker


def test_a_broker_finishes_what_is_decided(met: GroupsMet) -> None:
    assert met.unsettled.transactions["decided"].state == "CompleteCommit"
    decided = [b"decided %d" % number for number in range(3)]
    consumed = met.unsettled.consumed
    assert [record.value for record in consumed[TopicPartition(DECIDED, 0)].records] == decided
    assert [record.value for record in consumed[TopicPartition(COPIES, 1)].records][-3:] == decided
    positions = {place: offset for place, (offset, _, _) in met.unsettled.kafkas["decided-group"].items()}
    assert positions == met.ours.positions["decided-group"]


def test_what_is_undecided_holds_readers_back_and_nothing_of_it_is_seen(met: GroupsMet) -> None:
    assert met.unsettled.transactions["undecided"].state == "Ongoing"
    shared, undecided = TopicPartition(SHARED, 0), TopicPartition(UNDECIDED, 0)
    assert [record.value for record in met.unsettled.consumed[shared].records] == [b"before"]
    assert met.unsettled.consumed[undecided].records == []
    for place in (shared, undecided):
        assert met.unsettled.consumed[place].end < met.unsettled.ends[place]


def test_the_store_ends_it_behind_the_broker(met: GroupsMet) -> None:
    assert met.unsettled.back == met.ours.committed
    assert met.unsettled.back_open == [f"{OPEN}-0"]  # the broker's own
    assert met.unsettled.back_states["undecided"].state == "CompleteAbort"
    assert met.unsettled.back_states["decided"].state == "CompleteCommit"

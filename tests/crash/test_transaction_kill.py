"""kill -9 of a process that does transactions: each is there whole or not at all, and what is consumed is produced exactly once."""

from pathlib import Path
from random import Random

from tests.crash.transactor import PARTITIONS
from tests.support.transaction_kill import (
    Transactors,
    exactly_once,
    faults_of_output,
    faults_of_transactions,
    transaction_kill_round,
)

ROUNDS = 6
KILLS = 10
"""`make crash` has two hundred of them."""


def test_transactions_are_there_whole_or_not_at_all_after_a_kill(tmp_path: Path) -> None:
    draw = Random(9)
    with Transactors() as transactors:
        for number in range(ROUNDS):
            assert transaction_kill_round(transactors, tmp_path / str(number), draw) == [], f"round {number}"
        assert transactors.others["aborted"] > 0


def test_what_is_consumed_is_produced_exactly_once_over_kills(tmp_path: Path) -> None:
    with Transactors() as transactors:
        assert exactly_once(transactors, tmp_path / "store", Random(9), kills=KILLS, records=KILLS * 300) == []
        assert transactors.others["consumed"] > 0


def test_half_a_transaction_would_be_found() -> None:
    """The check itself."""
    whole = {number: [b"0", b"1"] for number in range(PARTITIONS)}
    positions = {0: dict.fromkeys(range(PARTITIONS), 1)}
    assert faults_of_transactions(whole, positions, {0, 1}, [0]) == []
    assert faults_of_transactions(whole, positions, {0}, [0]) == []
    assert len(faults_of_transactions(whole, {0: {**positions[0], 3: 0}}, {0, 1}, [0])) == 1
    assert len(faults_of_transactions({**whole, 2: [b"0"]}, positions, {0, 1}, [0])) == 1
    assert len(faults_of_transactions({**whole, 2: [b"0", b"1", b"1"]}, positions, {0, 1}, [0])) == 1
    assert len(faults_of_transactions(whole, positions, {0, 1, 2}, [0])) == 1
    assert len(faults_of_transactions(whole, positions, set(), [0])) == 1
    aborted = {number: [b"5", b"6"] for number in range(PARTITIONS)}
    assert len(faults_of_transactions(aborted, {0: dict.fromkeys(range(PARTITIONS), 6)}, {5}, [0])) == 1


def test_an_output_too_many_or_too_few_would_be_found() -> None:
    """The check itself."""
    inputs = {number: [b"a", b"b", b"c"] for number in range(PARTITIONS)}
    found = {number: [b"of a", b"of b"] for number in range(PARTITIONS)}
    positions = dict.fromkeys(range(PARTITIONS), 2)
    assert faults_of_output(found, positions, inputs, is_done=False) == []
    assert len(faults_of_output(found, positions, inputs, is_done=True)) == PARTITIONS
    assert len(faults_of_output({**found, 1: [b"of a"]}, positions, inputs, is_done=False)) == 1
    assert len(faults_of_output({**found, 1: [b"of a", b"of b", b"of b"]}, positions, inputs, is_done=False)) == 1
    assert len(faults_of_output({**found, 1: [b"of b", b"of a"]}, positions, inputs, is_done=False)) == 1
    assert len(faults_of_output(found, {**positions, 0: 1}, inputs, is_done=False)) == 1

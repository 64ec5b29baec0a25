"""verify and the files beside the segments: transaction indexes, snapshots, leader epochs, the topic's id."""

import shutil
import struct
from pathlib import Path

import pytest

from tests.support.golden import GOLDEN
from tests.support.logs import TIME, a_batch
from tests.support.producers import abort, commit, in_txn, open_small
from tests.support.verified import codes, notes, write_epochs, write_segment
from tidelog.inspection import verify, verify_files
from tidelog.log.producer_snapshot import format_snapshot
from tidelog.log.producers import BatchMetadata, ProducerEntry
from tidelog.log.txn_index import ENTRY as TXN_ENTRY
from tidelog.record import ControlType, transaction_marker


def data(offset: int, producer_id: int, sequence: int) -> bytes:
    return a_batch(
        base_offset=offset,
        partition_leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )


def marker(offset: int, producer_id: int, control_type: ControlType = ControlType.ABORT) -> bytes:
    return transaction_marker(
        control_type, producer_id=producer_id, producer_epoch=0, coordinator_epoch=2, timestamp_ms=TIME, base_offset=offset
    )


def producer(producer_id: int, last_offset: int, sequence: int, *, start: int = -1, epoch: int = 0) -> ProducerEntry:
    return ProducerEntry(producer_id, epoch, 2, TIME, start, (BatchMetadata(sequence, last_offset, 0, TIME),))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Producer 7 aborts offsets 0 and 2 by the marker at 3, producer 8 commits 1 by the marker at 4; 9 has begun at 5 and not ended."""
    write_segment(tmp_path, 0, [data(0, 7, 0), data(1, 8, 0), data(2, 7, 1), marker(3, 7), marker(4, 8, ControlType.COMMIT)])
    write_segment(tmp_path, 5, [data(5, 9, 0)])
    (tmp_path / "00000000000000000000.txnindex").write_bytes(TXN_ENTRY.pack(0, 7, 0, 3, 1))
    (tmp_path / "00000000000000000005.snapshot").write_bytes(format_snapshot([producer(7, 2, 1), producer(8, 1, 0)]))
    (tmp_path / "00000000000000000006.snapshot").write_bytes(
        format_snapshot([producer(7, 2, 1), producer(8, 1, 0), producer(9, 5, 0, start=5)])
    )
    write_epochs(tmp_path, (0, 0))
    (tmp_path / "partition.metadata").write_bytes(b"version: 0\ntopic_id: tKgmCFRkTQ-VVKsXYAaXFA")
    return tmp_path


def test_in_order(directory: Path) -> None:
    assert list(verify(directory)) == []
    assert list(verify(directory, level="headers")) == []
    assert list(verify_files(sorted(directory.iterdir()))) == []


TXN_FAULTS = {
    "no file": (None, {"txn-index-missing"}),
    "empty": (b"", {"txn-index-missing"}),
    "half an entry": (TXN_ENTRY.pack(0, 7, 0, 3, 1)[:20], {"txn-index-missing", "txn-index-size"}),
    "another version": (TXN_ENTRY.pack(1, 7, 0, 3, 1), {"txn-index-version"}),
    "another producer": (TXN_ENTRY.pack(0, 8, 0, 3, 1), {"txn-index-producer"}),
    "another first offset": (TXN_ENTRY.pack(0, 7, 2, 3, 1), {"txn-index-entry"}),
    "another last stable offset": (TXN_ENTRY.pack(0, 7, 0, 3, 4), {"txn-index-entry"}),
    "a last stable offset behind the end": (TXN_ENTRY.pack(0, 7, 0, 3, 9), {"txn-index-entry", "txn-index-stable"}),
    "a commit marker": (TXN_ENTRY.pack(0, 7, 0, 3, 1) + TXN_ENTRY.pack(0, 8, 1, 4, 5), {"txn-index-marker"}),
    "no marker": (TXN_ENTRY.pack(0, 7, 0, 2, 1), {"txn-index-marker", "txn-index-missing"}),
    "twice": (TXN_ENTRY.pack(0, 7, 0, 3, 1) * 2, {"txn-index-order"}),
    "outside of the segment": (TXN_ENTRY.pack(0, 7, 0, 3, 1) + TXN_ENTRY.pack(0, 7, 0, 300, 1), {"txn-index-marker", "txn-index-offset"}),
    "first behind last": (TXN_ENTRY.pack(0, 7, 4, 3, 1), {"txn-index-entry"}),
}


@pytest.mark.parametrize("fault", TXN_FAULTS)
def test_transaction_index(directory: Path, fault: str) -> None:
    content, expected = TXN_FAULTS[fault]
    path = directory / "00000000000000000000.txnindex"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert set(codes(directory)) == expected
    assert set(codes(directory, level="headers")) == expected
    severities = {finding.severity for finding in verify(directory) if finding.code == "txn-index-missing"}
    assert severities <= {"error"}  # aborted records would be read as committed


def test_transactions_of_one_call(tmp_path: Path) -> None:
    # A follower that got all of it at once: when the first was aborted, the second had begun.
    write_segment(tmp_path, 0, [data(0, 7, 0), marker(1, 7), a_batch(base_offset=2, partition_leader_epoch=0), data(3, 8, 0)])
    write_epochs(tmp_path, (0, 0))
    index = tmp_path / "00000000000000000000.txnindex"
    for stable, expected in (
        (2, []),
        (3, []),
        (1, ["txn-index-entry"]),
        (4, ["txn-index-entry"]),
        (5, ["txn-index-entry", "txn-index-stable"]),
    ):
        index.write_bytes(TXN_ENTRY.pack(0, 7, 0, 1, stable))
        assert codes(tmp_path) == expected


def test_a_log_that_starts_behind_the_beginning_of_a_transaction(directory: Path) -> None:
    (directory / "00000000000000000000.txnindex").unlink()
    assert codes(directory) == ["txn-index-missing"]
    write_epochs(directory, (0, 1))
    assert codes(directory) == []
    write_epochs(directory, (0, 0))
    partition = directory / "tide-0"
    partition.mkdir()
    for path in [path for path in directory.iterdir() if path.is_file()]:
        path.rename(partition / path.name)
    assert codes(partition) == ["txn-index-missing"]
    (directory / "log-start-offset-checkpoint").write_bytes(b"0\n1\ntide 0 1\n")
    assert codes(partition) == []


def test_a_transaction_without_data_needs_no_entry(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, [marker(0, 7), marker(1, 7)])
    write_epochs(tmp_path, (0, 0))
    assert list(verify(tmp_path)) == []


def test_a_compacted_transaction_index_may_hold_more(directory: Path) -> None:
    batches = [data(0, 7, 0), data(1, 8, 0), marker(3, 7), marker(4, 8, ControlType.COMMIT)]
    write_segment(directory, 0, batches)
    (directory / "00000000000000000000.txnindex").write_bytes(TXN_ENTRY.pack(0, 5, 0, 2, 1) + TXN_ENTRY.pack(0, 7, 0, 3, 1))
    assert codes(directory) == []


SNAPSHOT_FAULTS = {
    "another epoch": ([producer(7, 2, 1, epoch=3), producer(8, 1, 0)], {"snapshot-producer"}),
    "another sequence": ([producer(7, 2, 9), producer(8, 1, 0)], {"snapshot-producer"}),
    "an older batch": ([producer(7, 0, 0), producer(8, 1, 0)], {"snapshot-producer"}),
    "a producer of no batch": ([producer(7, 2, 1), producer(33, 1, 0)], {"snapshot-producer"}),
    "an open transaction that is over": ([producer(7, 2, 1, start=0), producer(8, 1, 0)], {"snapshot-producer"}),
    "a batch behind it": ([producer(7, 5, 1), producer(8, 1, 0)], {"snapshot-offset"}),
    "a producer twice": ([producer(7, 2, 1), producer(7, 2, 1)], {"snapshot-twice"}),
    "expired producers": ([producer(8, 1, 0)], set()),
}


@pytest.mark.parametrize("fault", SNAPSHOT_FAULTS)
def test_snapshot(directory: Path, fault: str) -> None:
    entries, expected = SNAPSHOT_FAULTS[fault]
    (directory / "00000000000000000005.snapshot").write_bytes(format_snapshot(entries))
    assert set(codes(directory)) == expected


def test_a_snapshot_without_an_open_transaction(directory: Path) -> None:
    (directory / "00000000000000000006.snapshot").write_bytes(format_snapshot([]))
    assert codes(directory) == ["snapshot-transaction"]


@pytest.mark.parametrize("content", [b"", b"\x00\x01", b"\x00\x02" + bytes(8), format_snapshot([producer(7, 2, 1)])[:-1]])
def test_a_snapshot_that_does_not_parse(directory: Path, content: bytes) -> None:
    (directory / "00000000000000000005.snapshot").write_bytes(content)
    (finding,) = verify(directory)
    assert (finding.code, finding.severity, finding.mend) == ("snapshot-unreadable", "warning", "recovery on open")
    (again,) = verify_files([directory / "00000000000000000005.snapshot"])
    assert again == finding


def test_snapshots_where_none_belong(directory: Path) -> None:
    for offset in (2, 99):
        shutil.copy(directory / "00000000000000000006.snapshot", directory / f"{offset:020d}.snapshot")
    found = {finding.path[-25:-9]: finding.code for finding in verify(directory) if "snapshot" in finding.code}
    assert "snapshot-beyond-end" in found.values()
    assert "stray-snapshot" in notes(directory)


EPOCHS = {
    "another version": (b"1\n1\n0 0\n", {"epochs-unreadable"}),
    "not as many": (b"0\n2\n0 0\n", {"epochs-unreadable"}),
    "words": (b"0\n1\nzero 0\n", {"epochs-unreadable"}),
    "not UTF-8": (b"0\n1\n\xff 0\n", {"epochs-unreadable"}),
    "falling": (b"0\n2\n0 4\n1 2\n", {"epoch-order", "epoch-mismatch"}),
    "twice": (b"0\n2\n0 0\n0 3\n", {"epoch-order"}),
    "another epoch": (b"0\n1\n4 0\n", {"epoch-mismatch"}),
    "an epoch too many": (b"0\n2\n0 0\n1 4\n", {"epoch-mismatch"}),
    "behind the end": (b"0\n2\n0 0\n1 7\n", {"epoch-beyond-end"}),
    "at the end": (b"0\n2\n0 0\n1 6\n", set()),
    "empty": (b"", set()),
}


@pytest.mark.parametrize("case", EPOCHS)
def test_leader_epochs(directory: Path, case: str) -> None:
    content, expected = EPOCHS[case]
    (directory / "leader-epoch-checkpoint").write_bytes(content)
    assert set(codes(directory)) == expected


def test_no_leader_epochs(directory: Path) -> None:
    (directory / "leader-epoch-checkpoint").unlink()
    assert codes(directory) == ["epochs-missing"]
    write_epochs(directory, (0, 3))
    assert notes(directory) == ["epoch-start"]


@pytest.mark.parametrize("content", [b"", b"version: 0\n", b"version: 0\ntopic_id: short", b"version: 0\ntopic_id: " + b"A" * 22, b"\xff"])
def test_topic_id(directory: Path, content: bytes) -> None:
    (directory / "partition.metadata").write_bytes(content)
    assert codes(directory) == ["metadata-unreadable"]
    assert [finding.code for finding in verify_files([directory / "partition.metadata"])] == ["metadata-unreadable"]


def test_damaged_by_hand_and_left_so_by_kafka() -> None:
    expected = {
        "txnindex-missing-clean": "txn-index-missing",
        "txnindex-torn-clean": "txn-index-size",
        "txnindex-newer-clean": "txn-index-version",
        "snapshot-corrupt-clean": "snapshot-unreadable",
        "snapshot-beyond-end-clean": "snapshot-beyond-end",
        "epochs-beyond-end": "epoch-beyond-end",
        "epochs-garbage": "epochs-unreadable",
        "orphans": "orphan-index",
        "offsets-fall": "offsets-fall",
        "overflow": "offset-overflow",
        "below-base": "offset-below-base",
        "magic-9": "batch-magic",
        "size-huge": "framing-lost",
        "size-0": "framing-lost",
        "crc-middle-segment": "batch-crc",
        "zeros-4096": "zero-tail",
        "torn-75": "torn-tail",
        "index-garbage-clean": "index-position",
        "timeindex-short-clean": "time-index-short",
        "indexes-zero-extended-first-clean": "index-not-trimmed",
        "foreign-log-name": "segment-name",
    }
    missed = {case: code for case, code in expected.items() if code not in codes(GOLDEN / "recovery" / case / "before")}
    assert missed == {}


def test_single_files(directory: Path, tmp_path: Path) -> None:
    index = directory / "00000000000000000000.index"
    index.write_bytes(struct.pack(">ii", 1, 5))
    log = directory / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    assert {finding.code for finding in verify_files([index])} == {"index-position"}
    assert {finding.code for finding in verify_files([log])} == {"batch-crc"}
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    checkpoint.write_bytes(b"0\n1\nemails 0 5\n")
    assert list(verify_files([str(checkpoint)])) == []
    checkpoint.write_bytes(b"0\n1\nemails 0 five\n")
    assert [finding.code for finding in verify_files([str(checkpoint)])] == ["checkpoint-unreadable"]
    (tmp_path / "notes.txt").write_bytes(b"")
    assert [finding.severity for finding in verify_files([tmp_path / "notes.txt"])] == ["note"]
    (tmp_path / "5.log").write_bytes(b"")
    assert [finding.code for finding in verify_files([tmp_path / "5.log"])] == ["segment-name"]


def test_transactions_that_began_in_deleted_segments(tmp_path: Path) -> None:
    """Two are open while their first segments are deleted; snapshot and transaction index still know where they began."""
    with open_small(tmp_path, {"internal.segment.bytes": 250, "index.interval.bytes": 0}) as log:
        for sequence in range(4):
            log.append(in_txn(1, sequence))
            log.append(in_txn(2, sequence))
        assert log.delete_segments(2, "a test") == 2
        start = log.log_start_offset
        log.append(in_txn(3, 0))
        abort(log, 3)
        log.roll()
        abort(log, 2)
        commit(log, 1)
        assert 0 < start < log.segments[-1].base_offset
        assert [finding for finding in verify(log.directory) if finding.severity != "note"] == []
    assert [finding for finding in verify(log.directory) if finding.severity != "note"] == []

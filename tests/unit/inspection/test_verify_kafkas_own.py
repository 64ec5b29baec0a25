"""What a broker writes that looks odd at first, found by `make interop`: verify has nothing to say about it."""

import struct
from pathlib import Path

from crc32c import crc32c

from tests.support.logs import TIME, a_batch
from tests.support.producers import end_of_txn, placed
from tests.support.verified import codes, write_epochs, write_segment
from tidelog.log.producer_snapshot import format_snapshot
from tidelog.log.producers import BatchMetadata, ProducerEntry


def with_sequence(batch: bytes, sequence: int) -> bytes:
    """The batch with another base sequence."""
    changed = bytearray(batch)
    struct.pack_into(">i", changed, 53, sequence)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def test_the_group_coordinator_writes_sequence_0_without_a_producer(tmp_path: Path) -> None:
    for name, sequence, expected in (("offsets-0", 0, []), ("offsets-1", 3, ["producer-fields"])):
        write_segment(tmp_path / name, 0, [with_sequence(a_batch(partition_leader_epoch=0), sequence)])
        write_epochs(tmp_path / name, (0, 0))
        assert codes(tmp_path / name) == expected


def test_compaction_may_leave_nothing_in_front_of_a_snapshot(tmp_path: Path) -> None:
    """The first segment is empty, the second begins with the marker of its transaction; between them lies a snapshot that knows more."""
    directory = tmp_path / "compacted-0"
    write_segment(directory, 0, [])
    write_segment(directory, 8, [placed(8, end_of_txn(13, "commit", epoch=1))])
    write_epochs(directory, (0, 0))
    batch = BatchMetadata(last_sequence=7, last_offset=7, offset_delta=3, timestamp_ms=TIME)
    producer = ProducerEntry(13, epoch=0, last_timestamp_ms=TIME, transaction_start=0, batches=(batch,))
    (directory / f"{8:020}.snapshot").write_bytes(format_snapshot([producer]))
    assert codes(directory) == []

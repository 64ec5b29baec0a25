"""Batches of producers with ids, and the markers that end their transactions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, QuietDisk, numbered, open_log, state_of
from tidelog.log.log import Log
from tidelog.log.producer_snapshot import parse_snapshot
from tidelog.log.producers import ProducerEntry
from tidelog.log.txn_index import AbortedTxn, parse_entries
from tidelog.record import ControlType, transaction_marker


def open_small(home: Path, config: dict[str, Any] | None = None, **options: Any) -> Log:
    """A log with small indexes, which are copied fast, on a disk that nobody waits for."""
    options.setdefault("disk", FaultyDisk(QuietDisk()))
    return open_log(home, {"segment.index.bytes": 1200, **(config or {})}, **options)


def sent(
    producer_id: int,
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    is_transactional: bool = False,
    number: int | None = None,
    **settings: Any,
) -> bytes:
    """A batch as a producer sends it; its values are `number` and on, or its sequence numbers."""
    return numbered(
        sequence if number is None else number,
        count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
        **settings,
    )


def in_txn(producer_id: int, sequence: int, count: int = 1, **settings: Any) -> bytes:
    """A batch of a transaction."""
    return sent(producer_id, sequence, count, is_transactional=True, **settings)


def end_of_txn(producer_id: int, kind: str, *, epoch: int = 0, coordinator_epoch: int = 0, timestamp_ms: int = TIME) -> bytes:
    """A marker: `kind` is "commit" or "abort"."""
    return transaction_marker(
        ControlType[kind.upper()],
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=timestamp_ms,
    )


def placed(offset: int, batch: bytes, leader_epoch: int = 0) -> bytes:
    """The batch as it is in a leader's log: offset and leader epoch are not covered by its CRC."""
    return offset.to_bytes(8, "big") + batch[8:12] + leader_epoch.to_bytes(4, "big") + batch[16:]


def commit(log: Log, producer_id: int, **settings: Any) -> int:
    """End a transaction: the offset of the marker."""
    return log.append(end_of_txn(producer_id, "commit", **settings), origin="coordinator").first_offset


def abort(log: Log, producer_id: int, **settings: Any) -> int:
    """End a transaction: the offset of the marker."""
    return log.append(end_of_txn(producer_id, "abort", **settings), origin="coordinator").first_offset


def producers_of(log: Log) -> dict[int, ProducerEntry]:
    """What a log knows of its producers."""
    return dict(state_of(log).producers.entries)


def newest_only(producers: dict[int, ProducerEntry]) -> dict[int, ProducerEntry]:
    """What a snapshot keeps: of all batches the newest, with the producer's last timestamp."""
    return {
        producer_id: entry._replace(batches=tuple(batch._replace(timestamp_ms=entry.last_timestamp_ms) for batch in entry.batches[-1:]))
        for producer_id, entry in producers.items()
    }


def snapshots_in(directory: str | Path) -> list[int]:
    """Offsets of the snapshots that there are."""
    return sorted(int(path.stem) for path in Path(directory).glob("*.snapshot"))


def read_snapshot(directory: str | Path, offset: int) -> dict[int, ProducerEntry]:
    """What a snapshot says."""
    path = Path(directory) / f"{offset:020}.snapshot"
    return {entry.producer_id: entry for entry in parse_snapshot(path.read_bytes(), str(path))}


def aborted_on_disk(log: Log) -> list[AbortedTxn]:
    """All entries of all transaction indexes, read past the engine."""
    files = sorted(Path(log.directory).glob("*.txnindex"))
    return [entry for file in files for entry in parse_entries(file.read_bytes())]


def committed_numbers(log: Log) -> list[int]:
    """The numbers in what readers of committed records see."""
    return numbers(list(log.read(isolation="committed")))


def numbers(records: Sequence[Any]) -> list[int]:
    """The numbers in records of `sent`."""
    return [int(record.value.rstrip(b".")) for record in records]

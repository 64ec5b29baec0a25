"""Transaction indexes and producer snapshots held against what replaying the log gives.

Where compaction has taken batches out, the log no longer tells what these files were made from, and less is asked of them.
"""

from collections.abc import Iterator

from tidelog.inspection.finding import RECOVERY, REPAIR, Finding
from tidelog.inspection.producer_checks import ProducerChecks
from tidelog.log.producers import ProducerEntry
from tidelog.log.txn_index import AbortedTxn


def check_txn_index(
    path: str, content: bytes, entries: list[tuple[int, ...]], entry_size: int, base_offset: int, end: int
) -> Iterator[Finding]:
    """What a transaction index says by itself; entries with their version."""
    if len(content) % entry_size:
        what = "the transaction index ends in the middle of an entry"
        yield Finding("warning", "txn-index-size", path, what, REPAIR, len(content) - len(content) % entry_size, None, None, len(content))
    before = -1
    for row, (version, producer_id, first, last, stable) in enumerate(entries):
        wrong: tuple[str, str | int, str | int] | None = None
        if version != 0:
            wrong = ("version", 0, version)
        elif producer_id < 0 or not 0 <= first <= last:
            wrong = ("entry", "a producer, and its first offset up to its last", f"producer {producer_id}, offsets {first} to {last}")
        elif last < base_offset or last >= end:
            wrong = ("offset", f"an abort marker from offset {base_offset} to {end - 1}", last)
        elif last <= before:
            wrong = ("order", f"above offset {before}", last)
        elif not 0 <= stable <= end:
            wrong = ("stable", f"a last stable offset up to {end}", stable)
        if wrong is not None:
            what = "a transaction index entry that cannot be"
            yield Finding("warning", f"txn-index-{wrong[0]}", path, what, REPAIR, row * entry_size, last, wrong[1], wrong[2])
        before = max(before, last)


def compare_txn_index(
    path: str, found: list[AbortedTxn], checks: ProducerChecks, *, has_gaps: bool, first_base: int, entry_size: int
) -> Iterator[Finding]:
    """A transaction index against the markers of its segment."""
    expected = {txn.last_offset: txn for txn in checks.aborted}
    listed = set()
    for row, txn in enumerate(found):
        position = row * entry_size
        listed.add(txn.last_offset)
        marker = checks.abort_markers.get(txn.last_offset)
        replayed = expected.get(txn.last_offset)
        if marker is None and not has_gaps:
            what = "no abort marker lies where an entry says"
            yield Finding("warning", "txn-index-marker", path, what, REPAIR, position, txn.last_offset)
        elif marker is not None and marker != txn.producer_id:
            what = "an entry is about another producer than the marker"
            yield Finding("warning", "txn-index-producer", path, what, REPAIR, position, txn.last_offset, marker, txn.producer_id)
        elif replayed is not None and not _is_like(txn, replayed, checks, first_base) and not has_gaps and txn.first_offset >= first_base:
            what = "an entry is not what the log says: first offset, last offset, last stable offset"
            wanted = f"{replayed.first_offset}, {replayed.last_offset}, {replayed.last_stable_offset}"
            yield Finding(
                "warning",
                "txn-index-entry",
                path,
                what,
                REPAIR,
                position,
                txn.last_offset,
                wanted,
                f"{txn.first_offset}, {txn.last_offset}, {txn.last_stable_offset}",
            )
        elif replayed is None and marker is not None and not has_gaps and txn.first_offset >= first_base:
            what = "an entry says where an aborted transaction began, but the log has none there"
            yield Finding("warning", "txn-index-first", path, what, REPAIR, position, txn.last_offset, None, txn.first_offset)
    for txn in checks.aborted:
        if txn.last_offset not in listed and txn.first_offset >= first_base:
            what = f"an aborted transaction of producer {txn.producer_id} is missing: its records would be read as committed"
            yield Finding("error", "txn-index-missing", path, what, RECOVERY, None, txn.first_offset)


def _is_like(txn: AbortedTxn, replayed: AbortedTxn, checks: ProducerChecks, first_base: int) -> bool:
    """Whether an entry is what the log says.

    If many batches were appended by one call, as a follower does it, transactions that begin behind the marker were known already. What was
    open then may have begun in a segment that is deleted by now.
    """
    if txn == replayed or (txn[:3] == replayed[:3] and txn.last_stable_offset < first_base):
        return True
    is_later = txn.last_stable_offset > replayed.last_stable_offset == txn.last_offset + 1
    return is_later and txn[:3] == replayed[:3] and txn.last_stable_offset in checks.starts


def compare_snapshot(
    path: str, offset: int, entries: list[ProducerEntry], replayed: dict[int, ProducerEntry], *, has_gaps: bool, first_base: int
) -> Iterator[Finding]:
    """A producer snapshot against the replay up to its offset. Producers that expired are not in it."""
    known = set()
    for entry in entries:
        known.add(entry.producer_id)
        last = entry.batches[-1] if entry.batches else None
        if (last is not None and last.last_offset >= offset) or entry.transaction_start >= offset:
            what = f"producer {entry.producer_id} has batches behind the offset of the snapshot"
            yield Finding(
                "warning", "snapshot-offset", path, what, RECOVERY, None, None if last is None else last.last_offset, f"below {offset}"
            )
            continue
        ours = replayed.get(entry.producer_id)
        if last is None or last.last_offset < first_base or has_gaps:
            continue
        if ours is not None and 0 <= entry.transaction_start < first_base:
            ours = ours._replace(transaction_start=entry.transaction_start)  # it began in a segment that is deleted by now
        if ours is None or not ours.batches or _facts(ours) != _facts(entry):
            what = f"producer {entry.producer_id} is not as the log says: epoch, last sequence, last offset, transaction"
            wanted = "no batch" if ours is None or not ours.batches else str(_facts(ours))
            yield Finding("warning", "snapshot-producer", path, what, RECOVERY, None, last.last_offset, wanted, str(_facts(entry)))
    for producer_id, ours in replayed.items():
        if ours.transaction_start >= first_base and producer_id not in known:
            what = f"the open transaction of producer {producer_id} is missing"
            yield Finding("warning", "snapshot-transaction", path, what, RECOVERY, None, ours.transaction_start)


def _facts(entry: ProducerEntry) -> tuple[int, int, int, int]:
    last = entry.batches[-1]
    return entry.epoch, last.last_sequence, last.last_offset, entry.transaction_start

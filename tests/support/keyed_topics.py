"""Keyed topics with a past: versions, tombstones, timestamps out of order, keys in several partitions; and a plain model of every state."""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support.logs import TIME
from tests.support.producers import end_of_txn
from tidelog.record import BatchSettings, Compression, NewBatch
from tidelog.record.kernel.record import Record
from tidelog.store.store import Store

SETTINGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": 4000,
    "index.interval.bytes": 300,
    "file.delete.delay.ms": 0,
    "delete.retention.ms": 1000,
    "flush.messages": (1 << 63) - 1,
}
STEP_MS = 1000


class Version(NamedTuple):
    """A record as the model has it."""

    key: bytes
    value: bytes | None
    partition: int
    offset: int
    timestamp_ms: int


def make_keyed(
    directory: Path, name: str = "tide", *, partitions: int = 2, batches: int = 60, keys: int = 30, seed: int = 3, policy: str = "compact"
) -> list[Version]:
    """A topic made by chance: its committed records with a key, partition by partition. Some keys are in several partitions.

    One that is not compacted has records without a key, too.
    """
    chance = random.Random(seed)
    with Store.open(directory, background=False, clock=lambda: TIME) as store:
        store.create_topic(name, partitions, SETTINGS | {"cleanup.policy": policy}, exist_ok=True)
        for partition in range(partitions):
            log = store.log(name, partition)
            sequence = 0
            for number in range(batches):
                rows: list[tuple[bytes | None, bytes | None, tuple[()], int]] = []
                for _ in range(chance.randint(1, 6)):
                    key = chance.randrange(keys)
                    if key % partitions != partition and chance.random() < 0.9:
                        key -= key % partitions - partition
                    value = None if chance.random() < 0.15 else b"%d-%d-" % (partition, number) + chance.randbytes(chance.randrange(30))
                    timestamp_ms = TIME + STEP_MS * number + chance.randrange(-4 * STEP_MS, 4 * STEP_MS)
                    is_keyless = policy == "delete" and chance.random() < 0.05
                    rows.append((None if is_keyless else b"key-%d" % key, value, (), timestamp_ms))
                settings: dict[str, object] = {"compression": chance.choice([Compression.NONE, Compression.NONE, Compression.LZ4])}
                in_transaction = chance.random() < 0.2
                if in_transaction:
                    settings |= {"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
                    sequence += len(rows)
                log.append(NewBatch(rows, settings=BatchSettings(**settings)).encode())  # type: ignore[arg-type]
                if in_transaction:
                    log.append(end_of_txn(5, chance.choice(["commit", "abort"]), timestamp_ms=TIME), origin="coordinator")
        return [version(record) for record in store.topic(name).read() if record.key is not None]


def version(record: Record) -> Version:
    """A record of a reader's."""
    assert record.key is not None
    return Version(record.key, record.value, record.partition or 0, record.offset, record.timestamp_ms)


def state(versions: Iterable[Version], *, offsets: Mapping[int, int] | None = None, until_ms: int | None = None) -> dict[bytes, Version]:
    """The latest of each key, tombstones too: by offset in a partition, by timestamp and then offset over several."""
    last: dict[tuple[bytes, int], Version] = {}
    for one in versions:
        if until_ms is not None and one.timestamp_ms > until_ms:
            continue
        if offsets is not None and one.offset > offsets.get(one.partition, 1 << 60):
            continue
        if (one.key, one.partition) not in last or last[one.key, one.partition].offset < one.offset:
            last[one.key, one.partition] = one
    found: dict[bytes, Version] = {}
    for one in last.values():
        known = found.get(one.key)
        if known is None or (known.timestamp_ms, known.offset, known.partition) < (one.timestamp_ms, one.offset, one.partition):
            found[one.key] = one
    return found


def alive(found: Mapping[bytes, Version]) -> dict[bytes, Version]:
    """Without tombstones."""
    return {key: one for key, one in found.items() if one.value is not None}

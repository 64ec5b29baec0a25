"""Topics for tests of the jobs: keyed, with tombstones, transactions and codecs, in segments of a few kilobytes."""

import random
import shutil
from pathlib import Path

from tests.support.logs import TIME
from tests.support.producers import end_of_txn
from tidelog.record import BatchSettings, Compression, NewBatch
from tidelog.store.store import Store

SETTINGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": 20_000,
    "index.interval.bytes": 500,
    "file.delete.delay.ms": 0,
    "delete.retention.ms": 1000,
}


def make_topic(
    directory: Path,
    name: str = "tide",
    *,
    partitions: int = 1,
    batches: int = 200,
    keys: int = 60,
    seed: int = 7,
) -> None:
    """A topic in a store, made by chance: always the same for the same seed."""
    chance = random.Random(seed)
    with Store.open(directory, background=False, clock=lambda: TIME) as store:
        store.create_topic(name, partitions, SETTINGS, exist_ok=True)
        for partition in range(partitions):
            log = store.log(name, partition)
            sequences: dict[int, int] = {}
            for number in range(batches):
                count = chance.randint(1, 8)
                rows = [
                    (
                        b"key-%d" % chance.randrange(keys),
                        None if chance.random() < 0.1 else chance.randbytes(chance.randrange(60)),
                        (),
                        TIME,
                    )
                    for _ in range(count)
                ]
                settings: dict[str, object] = {"compression": chance.choice([Compression.NONE] * 4 + [Compression.LZ4, Compression.ZSTD])}
                producer = chance.choice([None, None, None, 10 * seed + 1, 10 * seed + 2])
                if producer is not None:
                    settings |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequences.get(producer, 0)}
                    settings["is_transactional"] = True
                    sequences[producer] = sequences.get(producer, 0) + count
                log.append(NewBatch(rows, settings=BatchSettings(**settings)).encode())  # type: ignore[arg-type]
                if producer is not None and chance.random() < 0.6:
                    kind = chance.choice(["commit", "commit", "abort"])
                    log.append(end_of_txn(producer, kind, timestamp_ms=TIME + number), origin="coordinator")
            for producer in sequences:
                if any(entry.producer_id == producer for entry in log.open_transactions):
                    log.append(end_of_txn(producer, "commit", timestamp_ms=TIME), origin="coordinator")


def copied(source: Path, target: Path) -> Path:
    """A copy of a store."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".lock"))
    return target


def files_of(directory: Path) -> dict[str, bytes]:
    """All files of a store by their names, but for its lock and what tells about a run."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in (".lock",)
    }

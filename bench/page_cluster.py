"""On paper: what N executors would do with ten terabytes, from rates that were measured on two cores.

Executors share the work evenly, and each stage of a job is bound by whatever is slowest: the cores, the executors' network, over which a
shared directory is read and written, or the storage behind it. The first of these is named. What only the driver does comes on top: it
alone renames and syncs.

Reproduce: `.venv/bin/python -m bench.page`
"""

from dataclasses import dataclass

from tidelog.compaction.offset_map import BYTES_PER_ENTRY
from tidelog.compaction.parts_plan import BUCKET_BYTES, MAX_BUCKETS

TOTAL_BYTES = 10 * 10**12
EXECUTORS = (4, 16, 64)
RECORD_BYTES = 128
"""Of a record of the benchmarks, batches included."""
SURVIVING = 0.5
PARTITIONS = 1000
SEGMENT_BYTES = 1 << 30
PIECE_BYTES = 128 << 20
SYNCS_PER_GROUP = 4
"""Of the directory: files in place as `.cleaned`, as `.swap`, the old ones `.deleted`, the new ones under their names."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is assumed. Bytes are those of a second."""

    cores: int = 8
    network_bytes: float = 1.25e9
    """Of one executor: 10 Gbit/s."""
    storage_bytes: float = 20e9
    """Of the shared file system, for all."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What was measured: bytes a second of one core, and seconds of one sync. Each with where it is from."""

    verify: float
    scan: float
    compact: float
    sync_s: float
    sources: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A job on so many executors."""

    job: str
    executors: int
    core_s: float
    network_s: float
    storage_s: float
    driver_s: float

    @property
    def seconds(self) -> float:
        """Whatever is slowest, and then the driver."""
        return max(self.core_s, self.network_s, self.storage_s) + self.driver_s

    @property
    def bottleneck(self) -> str:
        """What it waits for most."""
        waits = {
            "the cores": self.core_s,
            "the executors' network": self.network_s,
            "the shared storage": self.storage_s,
            "the driver's commit": self.driver_s,
        }
        return max(waits, key=lambda name: waits[name])


def moved_by_compaction() -> dict[str, float]:
    """Bytes that a compaction moves over the network, in the worst case: no key twice in a piece, and every piece has survivors."""
    entries = TOTAL_BYTES / RECORD_BYTES * BYTES_PER_ENTRY
    return {
        "read to hash keys": float(TOTAL_BYTES),
        "entries written": entries,
        "entries read": entries,
        "read to rewrite": float(TOTAL_BYTES),
        "survivors written": TOTAL_BYTES * SURVIVING,
    }


def commit_seconds(rates: Rates) -> float:
    """The driver swaps in group after group, each a segment here."""
    return TOTAL_BYTES / SEGMENT_BYTES * SYNCS_PER_GROUP * rates.sync_s


def estimates(rates: Rates, cluster: Cluster) -> list[Estimate]:
    """All jobs on all sizes of a cluster."""
    moved = sum(moved_by_compaction().values())
    jobs = (
        ("verify", rates.verify, TOTAL_BYTES, 0.0),
        ("scan to Arrow", rates.scan, TOTAL_BYTES, 0.0),
        ("compact", rates.compact, moved, commit_seconds(rates)),
    )
    return [
        Estimate(
            job,
            executors,
            TOTAL_BYTES / (executors * cluster.cores * rate),
            volume / (executors * cluster.network_bytes),
            volume / cluster.storage_bytes,
            driver_s,
        )
        for job, rate, volume, driver_s in jobs
        for executors in EXECUTORS
    ]


def entry_files_opened(partitions: int) -> int:
    """How often a file of entries is opened to look through all buckets: each bucket of a log asks each piece of it."""
    log_bytes = TOTAL_BYTES / partitions
    pieces = -(-log_bytes // PIECE_BYTES)
    buckets = min(MAX_BUCKETS, -(-log_bytes / RECORD_BYTES * BYTES_PER_ENTRY // BUCKET_BYTES))
    return int(partitions * pieces * buckets)

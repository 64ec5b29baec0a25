"""The part of the page about ten terabytes: the rates and where they are from, the estimates, and the arithmetic.

Reproduce: `.venv/bin/python -m bench.page`
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.growth_fit import Growth, size_text
from bench.page_cluster import (
    PARTITIONS,
    RECORD_BYTES,
    SEGMENT_BYTES,
    SURVIVING,
    SYNCS_PER_GROUP,
    TOTAL_BYTES,
    Cluster,
    Rates,
    commit_seconds,
    entry_files_opened,
    estimates,
    moved_by_compaction,
)
from bench.page_text import Column, item, paragraph, rate, span, table

SPARK_CORES = 2
SLOW_SYNC_S = 0.005
_MANY_KEYS, _ONE_SYNC = "9-compact-16m-keys", "2-append-durable-1"
_RATES: tuple[Column, ...] = (("Rate", "words"), ("From", "words"))
_ESTIMATES: tuple[Column, ...] = (
    ("Job", "words"),
    ("Executors", "number"),
    ("Cores", "number"),
    ("Network", "number"),
    ("Storage", "number"),
    ("Driver", "number"),
    ("In all", "number"),
    ("First bottleneck", "words"),
)


def rates_of(grown: Sequence[Growth], latest: Sequence[Mapping[str, Any]]) -> Rates | None:
    """What the kept runs say about one core, at the largest size; None if a job was not measured."""
    last = {growth.job: growth.points[-1] for growth in grown}
    rows = {row["name"]: row for row in latest if row["ratio"] is not None}
    if not {"verify-spark", "scan-arrow", "compact-spark"} <= set(last) or _ONE_SYNC not in rows:
        return None
    verify, scan, compact = (last[job].bytes_per_second for job in ("verify-spark", "scan-arrow", "compact-spark"))
    sync_s = 1 / float(rows[_ONE_SYNC]["ours"])
    where = f"`compact-spark` at {size_text(last['compact-spark'].size_bytes)}, above; its keys are few, so this is the best case"
    if _MANY_KEYS in rows:
        compact, where = float(rows[_MANY_KEYS]["ours"]), f"`{_MANY_KEYS}`: 2 GiB with 16 million keys"
    sources = (
        (f"verify {rate(verify)} on {SPARK_CORES} cores", f"`verify-spark` at {size_text(last['verify-spark'].size_bytes)}, above"),
        (f"scan to Arrow {rate(scan)} on one core", f"`scan-arrow` at {size_text(last['scan-arrow'].size_bytes)}, above"),
        (f"compact {rate(compact)} on {SPARK_CORES} cores", where),
        (f"a sync {sync_s * 1000:.2f} ms", f"`{_ONE_SYNC}`: one batch and its sync"),
    )
    return Rates(verify / SPARK_CORES, scan, compact / SPARK_CORES, sync_s, sources)


def cluster_section(rates: Rates) -> str:
    """Ten terabytes on N executors, with the arithmetic."""
    cluster = Cluster()
    rows = (
        (
            one.job,
            str(one.executors),
            *(span(part) for part in (one.core_s, one.network_s, one.storage_s, one.driver_s)),
            f"**{span(one.seconds)}**",
            one.bottleneck,
        )
        for one in estimates(rates, cluster)
    )
    return "\n\n".join(
        [
            "## 10 TB on N executors",
            paragraph(
                "On paper, not measured. The rates of a core are measured, on two cores; that more cores of one machine scale is "
                "assumed, and so "
                f"is the rest: an executor has {cluster.cores} cores and a network of {rate(cluster.network_bytes)} (10 Gbit/s), the "
                "directory lies on "
                f"a file system that all share and that gives {rate(cluster.storage_bytes)} in all, the 10 TB are {PARTITIONS:,} "
                "partitions with "
                f"segments of a GiB, a record has {RECORD_BYTES} bytes, and {SURVIVING:.0%} of the bytes survive a compaction."
            ),
            table(_RATES, rates.sources),
            table(_ESTIMATES, rows),
            "How it is reckoned, for N executors; the slowest of the first three counts, and the driver's time comes on top:",
            "\n".join(item(text) for text in _arithmetic(rates, cluster)),
            *(paragraph(text) for text in _reading(rates, cluster)),
        ]
    )


def _arithmetic(rates: Rates, cluster: Cluster) -> list[str]:
    moved = moved_by_compaction()
    volume = ", ".join(f"{size / 1e12:.3g} TB {what}" for what, size in moved.items())
    segments = TOTAL_BYTES / SEGMENT_BYTES
    return [
        f"cores: 10 TB / (N · {cluster.cores} · rate of a core); of a core verify has {rate(rates.verify)}, scan {rate(rates.scan)}, "
        "compact "
        f"{rate(rates.compact)}",
        f"network: bytes moved / (N · {rate(cluster.network_bytes)}); storage: bytes moved / {rate(cluster.storage_bytes)}",
        f"verify and scan move the 10 TB once; compaction moves {volume}: {sum(moved.values()) / 1e12:.3g} TB. Entries are hash and "
        "offset, "
        f"24 bytes for each of {TOTAL_BYTES / RECORD_BYTES / 1e9:.0f} thousand million records; where keys come again and again a piece "
        "has one "
        "entry of each, and this part all but goes",
        f"driver: {segments:,.0f} segments · {SYNCS_PER_GROUP} syncs · {rates.sync_s * 1000:.2f} ms = {span(commit_seconds(rates))}; on "
        "a file "
        f"system whose sync takes {SLOW_SYNC_S * 1000:g} ms it is {span(segments * SYNCS_PER_GROUP * SLOW_SYNC_S)}. No executor shortens "
        "it",
    ]


def _reading(rates: Rates, cluster: Cluster) -> list[str]:
    """Where the bottleneck moves, by the same figures."""
    moved = sum(moved_by_compaction().values()) / TOTAL_BYTES
    busy = [
        ("verify", cluster.network_bytes / rates.verify),
        ("scan", cluster.network_bytes / rates.scan),
        ("compact", cluster.network_bytes / (rates.compact * moved)),
    ]
    return [
        "So many cores keep the network of one executor busy: "
        + ", ".join(f"{name} {cores:.1f}" for name, cores in busy)
        + f". If it has more, they wait for bytes; from {cluster.storage_bytes / cluster.network_bytes:.0f} executors on all wait for "
        "the storage, "
        "and more executors change nothing.",
        "One more bound is in the plan itself: each bucket of a log asks each piece of it for its entries. With "
        f"{PARTITIONS:,} partitions that opens {entry_files_opened(PARTITIONS) / 1e6:.1f} million files, shared by all cores; with all "
        "10 TB in one "
        f"partition {entry_files_opened(1) / 1e6:,.0f} million, and that would be the first bottleneck: it grows with the square of a "
        "partition's size.",
    ]

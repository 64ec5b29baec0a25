"""The few figures that the README shows, between two marks that a browser does not show.

A row of the README names the promises whose ratios it tells. One that was not kept in the run is told as well, and said to be so.

Reproduce: `.venv/bin/python -m bench.page`
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.page_text import Column, paragraph, table, times

BEGIN, END = "<!-- figures: made by `python -m bench.page` -->", "<!-- end of figures -->"

_COLUMNS: tuple[Column, ...] = (("What", "words"), ("Against", "words"), ("Times as fast", "number"))
_ROWS = (
    ("one record, on disk when the call returns", "SQLite (WAL, FULL)", "5-append-durable-sqlite"),
    ("the same from 16 threads", "SQLite (WAL, FULL)", "5-append-durable-16-sqlite"),
    ("many records at once from Arrow, durable", "DuckDB", "5-append-many-arrow-duckdb"),
    ("replay as Arrow columns, CRCs checked", "DuckDB; Parquet, each as a table", "5-replay-arrow-duckdb", "5-replay-arrow-parquet"),
    ("ready batches to a partition, in runs", "Kafka's own `UnifiedLog`", "2-append-leader-runs"),
    ("recovery after a crash, indexes there; missing", "Kafka's own", "2-recovery-with-indexes", "2-recovery-without-indexes"),
    ("log compaction, 100 k keys; 4 M", "Kafka's own `Cleaner`", "6-compact-s-100k", "6-compact-s-4m"),
    ("Spark, `count()`; key and value", "Spark's Kafka connector", "8-count-connector", "8-sum-key-value-connector"),
    ("Spark, latest value of each key by `jobs.table`", "Spark's Kafka connector", "9-table-connector"),
    ("Spark, write of 4 M rows, durable", "Spark's Kafka sink", "8-write-connector"),
    ("`tidelog dump` of every record", "`kafka-dump-log`", "10-dump-records-text"),
)


def figures(latest: Sequence[Mapping[str, Any]], machine: Mapping[str, Any]) -> str:
    """The table, and where it comes from."""
    found = {entry["name"]: entry for entry in latest if entry["ratio"] is not None}
    rows = []
    for what, peer, *names in _ROWS:
        if all(name in found for name in names):
            rows.append((what, peer, "; ".join(_cell(found[name]) for name in names)))
    shown = {what for what, *_ in rows}
    later = [f'"{what}"' for what, _, *names in _ROWS if what in shown and not machine.get("measured_anew", {}).keys().isdisjoint(names)]
    when = f"One run of `make bench` on {machine['cores']} cores, {machine['measured_at'][:10]}"
    but_for = f", but for {', '.join(later)}, measured by itself after it" if later else ""
    return f"{table(_COLUMNS, rows)}\n\n{paragraph(f'{when}{but_for}; [docs/performance.md](docs/performance.md) has all of it.')}"


def with_figures(readme: str, made: str) -> str:
    """The README with these figures between its marks."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README has no place for figures: {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def _cell(entry: Mapping[str, Any]) -> str:
    return times(entry["ratio"]) + ("" if entry["kept"] else f" (promised {entry['promise']})")

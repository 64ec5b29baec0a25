"""Jobs on whole topics: plan on the driver, work on executors, one commit on the driver.

    from tidelog.spark import jobs, session

    spark = session()
    print(jobs.compact(spark, "data", ["emails"]))
    jobs.verify(spark, "data").details.show()

Each takes a session, a data directory that all executors share, and topics (all, without). Those that change something take the store's
lock for as long as they run, show what they would do with `dry_run=True`, and leave nothing behind when they fail.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.spark.jobs.compact_job import CompactResult, compact
    from tidelog.spark.jobs.copy_job import CopyResult, copy
    from tidelog.spark.jobs.export_job import ExportResult, export
    from tidelog.spark.jobs.forget_job import ForgetResult, forget
    from tidelog.spark.jobs.history_job import HistoryResult, history
    from tidelog.spark.jobs.ingest_job import IngestResult, ingest
    from tidelog.spark.jobs.reindex_job import ReindexResult, reindex
    from tidelog.spark.jobs.restore_job import RestoreResult, restore
    from tidelog.spark.jobs.stats_job import StatsResult, stats
    from tidelog.spark.jobs.table_job import TableResult, table
    from tidelog.spark.jobs.verify_job import VerifyResult, verify

_MODULES = {
    "compact": "compact",
    "CompactResult": "compact",
    "copy": "copy",
    "CopyResult": "copy",
    "export": "export",
    "ExportResult": "export",
    "forget": "forget",
    "ForgetResult": "forget",
    "history": "history",
    "HistoryResult": "history",
    "ingest": "ingest",
    "IngestResult": "ingest",
    "reindex": "reindex",
    "ReindexResult": "reindex",
    "restore": "restore",
    "RestoreResult": "restore",
    "stats": "stats",
    "StatsResult": "stats",
    "table": "table",
    "TableResult": "table",
    "verify": "verify",
    "VerifyResult": "verify",
}

__all__ = [
    "CompactResult",
    "CopyResult",
    "ExportResult",
    "ForgetResult",
    "HistoryResult",
    "IngestResult",
    "ReindexResult",
    "RestoreResult",
    "StatsResult",
    "TableResult",
    "VerifyResult",
    "compact",
    "copy",
    "export",
    "forget",
    "history",
    "ingest",
    "reindex",
    "restore",
    "stats",
    "table",
    "verify",
]


if not TYPE_CHECKING:  # a type checker that sees it takes every name for one of ours

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            found = getattr(import_module(f"{__name__}.{_MODULES[name]}_job"), name)
            globals()[name] = found
            return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Append many records: check all of them, then write.

Records are taken in chunks of about a mebibyte, each encoded into a run of batches for each partition. To check a record is to encode it,
which costs next to nothing, and to ask the log's own rules about its batch. So a list or a table is encoded twice: once to see that all of
it can be appended, and once more to append it, in memory that is used again and does not grow with the number of records.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from tidelog.errors import RefusedBatchError, TidelogError
from tidelog.record.compression import Compression
from tidelog.store.append_targets import AppendTargets
from tidelog.store.appended import AppendSummary
from tidelog.store.arrow_chunks import ArrowChunks
from tidelog.store.batch_runs import BatchRun, Chunk, RunEncoder
from tidelog.store.row_chunks import RowChunks

DEFAULT_MANY_BATCH_BYTES = 65536


class Chunks(Protocol):
    """Records, some at a time. Each chunk is encoded before the next is asked for: its size tells how many to take."""

    is_whole: bool
    """Whether all records are there already, so that all can be checked before any is written."""

    def __iter__(self) -> Iterator[Chunk]: ...


def append_many(
    targets: AppendTargets,
    records: Any,
    clock: Callable[[], int],
    *,
    compression: Compression | str | None,
    batch_bytes: int,
) -> AppendSummary:
    """See `Topic.append_many`."""
    encoder = RunEncoder(targets, clock(), compression, batch_bytes)
    chunks: Chunks = ArrowChunks(records, encoder) if _is_arrow(records) else RowChunks(records, encoder)
    summary = AppendSummary()
    try:
        if chunks.is_whole:
            checked = [(chunk, encoder.check(chunk)) for chunk in chunks]
            for chunk, run in checked:
                _write(encoder, chunk, run if len(checked) == 1 else None, summary)
        else:
            for chunk in chunks:
                _write(encoder, chunk, encoder.check(chunk), summary)
    except TidelogError as error:
        error.durable = summary  # type: ignore[attr-defined]
        raise
    return summary


def _is_arrow(records: Any) -> bool:
    """Whether it is a table, without importing Arrow for those who have none."""
    return type(records).__module__.partition(".")[0] == "pyarrow"


def _write(encoder: RunEncoder, chunk: Chunk, checked: BatchRun | None, summary: AppendSummary) -> None:
    """Append a chunk, counting what is in the log. If it is one run and still encoded, that is taken."""
    for run in encoder.runs(chunk) if checked is None else [checked]:
        log = encoder.targets.log(run.partition)
        try:
            summary.add(run.partition, log.append_run(run.batches))
        except TidelogError as error:
            appended = getattr(error, "appended", ())
            summary.add(run.partition, appended)
            error.path = error.path or log.directory
            if isinstance(error, RefusedBatchError):
                error.record_errors = run.named(len(appended), error.record_errors)
            raise

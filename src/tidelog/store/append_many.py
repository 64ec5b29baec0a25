"""Append many records: check all of them, then write.

Records are taken in chunks of about a mebibyte, each encoded into a run of batches for each partition. To check a record is to encode it,
which costs next to nothing, and to ask the log's own rules about its batch. So a list or a table is encoded twice: once to see that all of
it can be appended, and once more to append it, in memory that is used again and does not grow with the number of records.

A durable log is not waited for after each chunk, which nobody is told about: the disk gets to work at once, in another thread, and what is
left is waited for at the end.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

from tidelog.errors import RefusedBatchError, TidelogError
from tidelog.log.append_info import AppendInfo
from tidelog.log.log import Log
from tidelog.record.compression import Compression
from tidelog.store.append_targets import AppendTargets
from tidelog.store.appended import AppendSummary
from tidelog.store.arrow_chunks import ArrowChunks
from tidelog.store.batch_runs import BatchRun, Chunk, RunEncoder
from tidelog.store.row_chunks import RowChunks

DEFAULT_MANY_BATCH_BYTES = 65536
_MAX_AHEAD_BYTES = 64 << 20
"""What may be written and not yet waited for: more of it would only fill the page cache."""


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
    written = _Written()
    try:
        if chunks.is_whole:
            checked = [(chunk, encoder.check(chunk)) for chunk in chunks]
            for chunk, run in checked:
                _write(encoder, chunk, run if len(checked) == 1 else None, written)
        else:
            for chunk in chunks:
                _write(encoder, chunk, encoder.check(chunk), written)
        written.acknowledge()
    except Exception as error:  # of ours, or of the iterator that the records come from
        with suppress(TidelogError):  # the first error is the one to tell
            written.acknowledge()
        error.durable = written.summary  # type: ignore[attr-defined]
        raise
    return written.summary


class _Written:
    """What is in the logs: what counts already, and what the disk is still waited for."""

    def __init__(self) -> None:
        self.summary = AppendSummary()
        self._ahead: dict[int, tuple[Log, list[AppendInfo]]] = {}
        self._ahead_bytes = 0

    def add(self, partition: int, log: Log, infos: Sequence[AppendInfo]) -> None:
        """A run was written."""
        if not infos:
            return
        self._ahead.setdefault(partition, (log, []))[1].extend(infos)
        self._ahead_bytes += sum(info.size_bytes for info in infos)
        if self._ahead_bytes > _MAX_AHEAD_BYTES:
            self.acknowledge()
        elif log.config.is_durable:
            log.sync_ahead()

    def acknowledge(self) -> None:
        """Wait for the disk as long as the logs' settings ask for, and count what was waited for.

        The first error is raised when all logs had their turn: what is durable in the others counts.
        """
        first: TidelogError | None = None
        for partition, (log, infos) in list(self._ahead.items()):
            try:
                log.acknowledge(max(info.last_offset for info in infos) + 1)
            except TidelogError as error:
                first = first or error
                continue
            self.summary.add(partition, infos)
            del self._ahead[partition]
        if first is not None:
            raise first
        self._ahead_bytes = 0


def _is_arrow(records: Any) -> bool:
    """Whether it is a table, without importing Arrow for those who have none."""
    return type(records).__module__.partition(".")[0] == "pyarrow"


def _write(encoder: RunEncoder, chunk: Chunk, checked: BatchRun | None, written: _Written) -> None:
    """Append a chunk, counting what is in the log. If it is one run and still encoded, that is taken."""
    for run in encoder.runs(chunk) if checked is None else [checked]:
        log = encoder.targets.log(run.partition)
        try:
            written.add(run.partition, log, log.append_run(run.batches, wait=not log.config.is_durable))
        except TidelogError as error:
            appended = getattr(error, "appended", ())
            written.add(run.partition, log, appended)
            error.path = error.path or log.directory
            if isinstance(error, RefusedBatchError):
                error.record_errors = run.named(len(appended), error.record_errors)
            raise

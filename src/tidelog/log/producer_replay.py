"""Read batches again to learn what their producers did: after a restart, after a cut, while a segment is recovered."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import numpy as np

from tidelog.disk.checkpoints import MAX_INT64
from tidelog.errors import InvalidRecordError, TidelogError
from tidelog.log.producer_state import ProducerState
from tidelog.log.producers import KEPT_BATCHES, Marker, ProducerBatch
from tidelog.log.segment import Segment
from tidelog.log.segment_read import find_offset
from tidelog.log.txn_index import AbortedTxn
from tidelog.record.batch import RecordBatch
from tidelog.record.control import ControlType, parse_control_record
from tidelog.record.headers import BatchHeaders, walk_headers
from tidelog.record.layout import CONTROL_BIT, TRANSACTIONAL_BIT

_READ_BYTES = 1 << 20


def producer_batches(buffer: memoryview, headers: BatchHeaders, *, is_replayed: bool = False) -> Iterator[ProducerBatch | Marker]:
    """What producers did in these batches, in order. A control batch that was emptied by the cleaner says nothing any more.

    `is_replayed`: without those that a replay would forget again.
    """
    producer_ids = headers.producer_id
    rows = np.flatnonzero(producer_ids >= 0)
    if is_replayed and len(rows) > KEPT_BATCHES:
        rows = _last_rows(rows, producer_ids[rows], headers.attributes[rows])
    if len(rows) == 0:
        return
    fields = (
        rows,
        producer_ids[rows],
        headers.producer_epoch[rows],
        headers.base_sequence[rows],
        headers.base_offset[rows],
        headers.last_offset[rows],
        headers.max_timestamp_ms[rows],
        headers.attributes[rows],
    )
    for row, producer_id, epoch, sequence, first, last, timestamp_ms, attributes in zip(*(field.tolist() for field in fields), strict=True):
        if attributes & CONTROL_BIT:
            position, size = int(headers.position[row]), int(headers.size_bytes[row])
            with suppress(InvalidRecordError):  # a marker without a meaning is in the log, and ends nothing
                marker = read_marker(RecordBatch(buffer, position, size))
                if marker is not None:
                    yield marker
        else:
            is_transactional = bool(attributes & TRANSACTIONAL_BIT)
            yield tuple.__new__(ProducerBatch, (producer_id, epoch, sequence, first, last, timestamp_ms, is_transactional))


def _last_rows(rows: np.ndarray, producer_ids: np.ndarray, attributes: np.ndarray) -> np.ndarray:
    """The last five batches of each producer, which is what is kept of it; all of them where there are transactions among them."""
    if (attributes & (CONTROL_BIT | TRANSACTIONAL_BIT)).any():
        return rows
    order = np.argsort(producer_ids, kind="stable")
    by_producer = producer_ids[order]
    is_kept = np.ones(len(rows), np.bool_)
    is_kept[:-KEPT_BATCHES] = by_producer[:-KEPT_BATCHES] != by_producer[KEPT_BATCHES:]
    kept: np.ndarray = rows[np.sort(order[is_kept])]
    return kept


def read_marker(batch: RecordBatch) -> Marker | None:
    """The marker in a control batch; None if it holds no end of a transaction."""
    record = next(iter(batch), None)
    if record is None:
        return None
    control = parse_control_record(record)
    if control.type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    assert control.coordinator_epoch is not None
    return Marker(
        batch.producer_id,
        batch.producer_epoch,
        batch.base_offset,
        record.timestamp_ms,
        control.coordinator_epoch,
        control.type is ControlType.ABORT,
    )


def replay(state: ProducerState, batches: Iterable[ProducerBatch | Marker], *, high_watermark: int = MAX_INT64) -> list[AbortedTxn]:
    """Take in batches one by one: the transactions that they aborted. Those that are over below the high watermark are forgotten."""
    aborted = []
    for batch in batches:
        effects = (state.check(batch, "replay", {}),)
        aborted += state.aborted_by(effects)
        state.apply(effects)
        if isinstance(batch, Marker):
            state.forget_stable(high_watermark)
    return aborted


def rebuild(
    state: ProducerState,
    segments: Sequence[Segment],
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
    *,
    is_clean: bool,
    high_watermark: int = MAX_INT64,
) -> None:
    """Bring the state to `end_offset`: from the newest snapshot, and the batches behind it.

    After a clean stop without any snapshot, Kafka takes the log for one of an old release and reads nothing. Snapshots are left at the
    bases of the last two segments and at the end.
    """
    bases = [segment.base_offset for segment in segments]
    if is_clean and not state.snapshots:
        for offset in (*bases[-2:], end_offset):
            state.map_end_offset = offset
            state.take_snapshot()
        return
    was_empty = not state.entries and state.map_end_offset >= end_offset
    state.truncate_and_reload(log_start_offset, end_offset, now_ms)
    if end_offset > state.map_end_offset and not was_empty:
        for place, segment in enumerate(segments):
            next_base = bases[place + 1] if place + 1 < len(segments) else None
            if next_base is not None and next_base <= state.map_end_offset:
                continue
            if segment.base_offset >= end_offset:
                break
            start = max(segment.base_offset, state.map_end_offset, log_start_offset)
            state.map_end_offset = start
            if segment.base_offset in bases[-2:]:
                state.take_snapshot()
            replay(state, _batches_of(segment, start, end_offset), high_watermark=high_watermark)
    state.map_end_offset = end_offset
    state.take_snapshot()


def _batches_of(segment: Segment, start_offset: int, end_offset: int) -> Iterator[ProducerBatch | Marker]:
    """Of the batches from the one with `start_offset` on, up to the one with `end_offset`."""
    found = find_offset(segment, start_offset, segment.size_bytes)
    if found is None:
        return
    stop = find_offset(segment, end_offset, segment.size_bytes)
    position, end = found.position, segment.size_bytes if stop is None else stop.position
    opened = segment.file.open()
    read = segment.pool.disk.read
    size = _READ_BYTES
    while position < end:
        chunk = memoryview(read(opened.fd, min(size, end - position), position))
        try:
            headers = walk_headers(chunk)
        except TidelogError as error:
            # What lies behind damage is told by `verify`; here it is as if the segment ended.
            headers = walk_headers(chunk[: error.position])
            yield from producer_batches(chunk, headers)
            return
        if len(headers) == 0:
            if size >= end - position:
                return
            size *= 2  # a batch that is larger
            continue
        yield from producer_batches(chunk, headers)
        position += headers.end_position
        size = _READ_BYTES

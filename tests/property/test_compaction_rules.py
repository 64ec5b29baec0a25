"""Passes over random logs, against a plain model of the rules of compaction that knows lists and dicts, and nothing of files.

The model has the log as a list of batches. It is asked for every pass: which records stay, which batches are left empty, which horizons are
set, and up to where the log is clean.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.cleaning import DELETE_RETENTION_MS, a_map, left_batches, open_compacted
from tests.support.logs import TIME, check_log
from tests.support.producers import abort, commit, producers_of
from tidelog.compaction.cleaning import clean_log
from tidelog.compaction.plan import plan_cleaning
from tidelog.log.log import Log
from tidelog.record import BatchSettings, Compression, NewBatch, read_batches

FEW_KEYS = 6
PRODUCERS = (7, 8)


@dataclass(frozen=True)
class Row:
    offset: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True)
class Batch:
    base_offset: int
    last_offset: int
    rows: tuple[Row, ...]
    producer: int = -1
    is_transactional: bool = False
    marker: str = ""
    horizon: int | None = None


@dataclass
class Model:
    """The log, and the transactions that were aborted: (producer, first offset, offset of the marker)."""

    batches: list[Batch] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    open_since: dict[int, int] = field(default_factory=dict)
    last_data: dict[int, int] = field(default_factory=dict)

    def clean(self, first_dirty: int, bound: int, capacity: int, now_ms: int) -> int:
        """One pass: the new first dirty offset."""
        newest, latest = self.latest_of_keys(first_dirty, bound, capacity)
        seen: set[tuple[int, int, int]] = set()
        committed: set[int] = set()
        kept: list[Batch] = []
        for batch in self.batches:
            discardable = self._discardable(batch, seen, committed)
            after = self._rewritten(batch, discardable, newest, latest, bound, now_ms)
            if after is not None:
                kept.append(after)
        markers_kept = {(txn[0], txn[2]) for txn in seen}
        self.aborted = [txn for txn in self.aborted if txn[2] >= latest + 1 or (txn[0], txn[2]) in markers_kept]
        self.batches = kept
        return latest + 1

    def _transaction(self, batch: Batch) -> tuple[int, int, int] | None:
        for txn in self.aborted:
            if txn[0] == batch.producer and txn[1] <= batch.last_offset <= txn[2]:
                return txn
        return None

    def latest_of_keys(self, first_dirty: int, bound: int, capacity: int) -> tuple[dict[bytes, int], int]:
        newest: dict[bytes, int] = {}
        latest = first_dirty - 1
        for batch in self.batches:
            if batch.last_offset < first_dirty or batch.base_offset >= bound:
                continue
            if not batch.marker and not (batch.is_transactional and self._transaction(batch)):
                for row in batch.rows:
                    if row.offset < first_dirty:
                        continue
                    if len(newest) >= capacity:
                        return newest, latest
                    newest[row.key] = latest = row.offset
            latest = batch.last_offset
        return newest, bound - 1

    def _discardable(self, batch: Batch, seen: set[tuple[int, int, int]], committed: set[int]) -> bool:
        if not batch.is_transactional:
            return False
        txn = self._transaction(batch)
        if not batch.marker:
            if txn is not None:
                seen.add(txn)
                return True
            committed.add(batch.producer)
            return False
        if not batch.rows:
            return True
        if batch.marker == "abort":
            return txn is None or txn not in seen
        if batch.producer in committed:
            committed.discard(batch.producer)
            return False
        return True

    def _rewritten(self, batch: Batch, discardable: bool, newest: dict[bytes, int], latest: int, bound: int, now_ms: int) -> Batch | None:
        is_due = batch.horizon is not None and batch.horizon <= now_ms
        drops = discardable and (not batch.marker or is_due)
        keeps_empty = batch.last_offset + 1 == bound
        if batch.producer in self.last_data and batch.last_offset == self.last_data[batch.producer]:
            keeps_empty = True
        rows = batch.rows
        if drops:
            rows = ()
        elif not batch.marker:
            rows = tuple(
                row
                for row in rows
                if row.offset > latest or (newest.get(row.key, -1) <= row.offset and (row.value is not None or not is_due))
            )
        if not rows:
            return replace(batch, rows=(), horizon=None) if keeps_empty else None
        has_tombstone = not batch.marker and any(row.value is None for row in rows)
        horizon = batch.horizon
        if horizon is None and (has_tombstone or (discardable and batch.marker)):
            horizon = now_ms + DELETE_RETENTION_MS
        return replace(batch, rows=rows, horizon=horizon)


def append_data(log: Log, model: Model, rows: list[tuple[int, int | None]], producer: int, is_transactional: bool, codec: int) -> None:
    if producer in model.open_since:
        is_transactional = True
    made = [(b"k%d" % key, None if value is None else b"v%d" % value, (), TIME) for key, value in rows]
    options: dict[str, Any] = {"compression": Compression(codec)}
    if producer >= 0:
        known = producers_of(log).get(producer)
        sequence = known.last_sequence + 1 if known else 0
        options |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": is_transactional}
    first = log.append(NewBatch(made, settings=BatchSettings(**options)).encode()).first_offset
    stored = tuple(Row(first + index, row[0], row[1]) for index, row in enumerate(made))
    is_transactional = is_transactional and producer >= 0
    model.batches.append(Batch(first, first + len(made) - 1, stored, producer, is_transactional))
    if producer >= 0:
        model.last_data[producer] = first + len(made) - 1
        if is_transactional:
            model.open_since.setdefault(producer, first)


def end_transaction(log: Log, model: Model, producer: int, kind: str) -> None:
    if producer not in model.open_since:
        return
    offset = (commit if kind == "commit" else abort)(log, producer)
    model.batches.append(Batch(offset, offset, (Row(offset, b"", b""),), producer, True, kind))
    first = model.open_since.pop(producer)
    if kind == "abort":
        model.aborted.append((producer, first, offset))


def stored(log: Log) -> Iterator[tuple[Any, ...]]:
    """Every batch in the files: its range, horizon, and its records."""
    for segment in log.segments:
        for batch in read_batches(Path(segment.path_of(".log")).read_bytes()[: segment.size_bytes]):
            rows = () if batch.is_control else tuple((record.offset, record.key, record.value) for record in batch)
            yield batch.base_offset, batch.last_offset, batch.count, batch.delete_horizon_ms, rows


def modelled(model: Model) -> Iterator[tuple[Any, ...]]:
    for batch in model.batches:
        rows = () if batch.marker else tuple((row.offset, row.key, row.value) for row in batch.rows)
        yield batch.base_offset, batch.last_offset, len(batch.rows), batch.horizon, rows


VALUES = st.one_of(st.none(), st.integers(0, 9))
DATA = st.tuples(
    st.just("data"),
    st.lists(st.tuples(st.integers(0, FEW_KEYS), VALUES), min_size=1, max_size=6),
    st.sampled_from([-1, -1, *PRODUCERS]),
    st.booleans(),
    st.sampled_from([0, 0, 0, 3]),
)
END = st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.sampled_from(["commit", "abort"]))
ROLL = st.tuples(st.just("roll"))
CLEAN = st.tuples(
    st.just("clean"), st.sampled_from([1, 2, 3, 5, 100, 100]), st.sampled_from([0, 1, DELETE_RETENTION_MS - 1, DELETE_RETENTION_MS])
)
ACTIONS = st.lists(st.one_of(DATA, DATA, DATA, END, ROLL, CLEAN), min_size=3, max_size=40)


@given(ACTIONS, st.sampled_from([250, 600, 100_000]))
def test_passes_do_what_the_rules_say(actions: list[tuple[Any, ...]], segment_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder, open_compacted(Path(folder), {"internal.segment.bytes": segment_bytes}) as log:
        model = Model()
        checkpoint: int | None = None
        now_ms = TIME
        for action in [*actions, ("roll",), ("clean", 100, DELETE_RETENTION_MS)]:
            if action[0] == "data":
                append_data(log, model, *action[1:])
            elif action[0] == "end":
                end_transaction(log, model, *action[1:])
            elif action[0] == "roll":
                log.roll()
            else:
                _, capacity, step = action
                now_ms += step
                planned = plan_cleaning(log, log.config, checkpoint, now_ms)
                cleaned = clean_log(log, planned, a_map(capacity), now_ms)
                if not planned.is_empty:
                    expected = clean_below(model, log, planned.first_dirty_offset, planned.bound, capacity, now_ms)
                    assert cleaned.next_dirty_offset == expected
                    checkpoint = expected
                assert list(stored(log)) == list(modelled(model))
        assert len(left_batches(log)) <= len(model.batches)
        check_log(log)


def clean_below(model: Model, log: Log, first_dirty: int, bound: int, capacity: int, now_ms: int) -> int:
    """The model's pass. Whole segments are rewritten: those that begin below the end of the pass, not those behind it."""
    newest_end = _end_of_pass(model, first_dirty, bound, capacity)
    end = min((segment.base_offset for segment in log.segments if segment.base_offset >= newest_end), default=bound)
    behind = [batch for batch in model.batches if batch.base_offset >= end]
    rewritten = replace(model, batches=[batch for batch in model.batches if batch.base_offset < end], aborted=list(model.aborted))
    checkpoint = rewritten.clean(first_dirty, bound, capacity, now_ms)
    model.batches = rewritten.batches + behind
    model.aborted = rewritten.aborted
    return checkpoint


def _end_of_pass(model: Model, first_dirty: int, bound: int, capacity: int) -> int:
    return model.latest_of_keys(first_dirty, bound, capacity)[1] + 1

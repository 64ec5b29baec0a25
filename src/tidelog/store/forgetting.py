"""Rewrite logs without some keys, by workers, and prove that nothing of them is left. The store is this process's own.

    roll       the active segment ends, so that all records lie in segments that can be replaced
    search     workers look in which segments the keys are
    rewrite    workers copy those without them; larger ones are put together
    commit     segment by segment, by the swap that compaction uses (`tidelog.log.swap`); replaced files are removed at once
    prove      workers look through every file of the partitions

Every log is claimed for the whole time: nobody appends, truncates or cleans meanwhile. A crash leaves a sound log, some of whose segments
have the keys and others not; doing it again does the rest.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from tidelog.compaction.cleaned_segment import CleanedSizes
from tidelog.compaction.cleaning import log_mtime_ns
from tidelog.compaction.parts_cleaning import RunTasks
from tidelog.compaction.parts_commit import swap_in
from tidelog.compaction.piece_rewriting import discard_units
from tidelog.disk.file_pool import SHARED
from tidelog.disk.names import LOG, TopicPartition, deleted_directory, is_set_aside, parse_partition, parse_segment_file
from tidelog.errors import CorruptError, TidelogError
from tidelog.log.log import Log
from tidelog.log.log_reading import LogReading
from tidelog.log.segment import Segment
from tidelog.log.segment_piece import SegmentPiece, cut_segment, pack
from tidelog.log.storage_errors import check_space
from tidelog.store.batch_selection import SelectionRules
from tidelog.store.compacting import begin
from tidelog.store.copied_pieces import copy_pieces, join_pieces
from tidelog.store.copy_values import CopyItem, JoinItem
from tidelog.store.key_match import KeyMatch
from tidelog.store.key_traces import TraceItem, Traces, look_for_keys
from tidelog.store.store import Store

_log = logging.getLogger("tidelog")
_FEW_BYTES = 16 << 20


@dataclass(slots=True)
class LogForgotten:
    """What was done to a log."""

    partition: TopicPartition
    directory: str
    records: int = 0
    """That went, or would go."""
    segments: int = 0
    """That were, or would be, written anew."""
    bytes_before: int = 0
    bytes_after: int = 0
    found: dict[int, Traces] = field(default_factory=dict)
    """What was in each segment before, by base offset."""


@dataclass(frozen=True, slots=True)
class FileTraces:
    """What is in a file now."""

    path: str
    size_bytes: int
    traces: Traces


class Forgetting:
    """One run. `logs` may be somebody else's, as long as they are only searched."""

    def __init__(
        self,
        logs: Sequence[LogReading],
        keys: frozenset[bytes],
        tasks: RunTasks,
        piece_bytes: int,
        staging: str | None = None,
        *,
        roots: Sequence[str],
    ) -> None:
        """`roots` are all directories of the store: a deleted topic may have had its partitions elsewhere, and more of them."""
        self._logs = logs
        self._roots = roots
        self._staging = staging
        self._keys = keys
        self._tasks = tasks
        self._piece_bytes = piece_bytes
        self.outcomes = [LogForgotten(log.partition, log.directory, bytes_before=log.size_bytes) for log in logs]

    def search(self) -> None:
        """Find the segments that have the keys."""
        pieces = [(number, piece) for number, log in enumerate(self._logs) for segment in log.segments for piece in self._cut(segment)]
        for (number, piece), traces in self._traced("look for keys", pieces):
            found = self.outcomes[number].found
            found[piece.base_offset] = found.get(piece.base_offset, Traces()) + traces
        for outcome in self.outcomes:
            outcome.records = sum(traces.record_keys for traces in outcome.found.values())
            outcome.segments = sum(1 for traces in outcome.found.values() if traces.record_keys)
            outcome.bytes_after = outcome.bytes_before

    def rewrite(self) -> None:
        """Write the segments anew that have the keys, and swap them in. All logs are this process's own."""
        made = dict(self._rewritten())
        for number, (log, outcome) in enumerate(zip(self._logs, self.outcomes, strict=True)):
            assert isinstance(log, Log)
            for segment in log.segments:
                if (number, segment.base_offset) in made:
                    swap_in(log, [segment], *made[number, segment.base_offset])
            log.remove_deleted(at_once=True)
            outcome.bytes_after = log.size_bytes
            if outcome.records:
                sizes = (outcome.segments, outcome.bytes_before, outcome.bytes_after)
                _log.info("forgot %s: %d records in %d segments, %d bytes, then %d", log.partition, outcome.records, *sizes)

    def prove(self, what: str = "prove that nothing is left", *, segments: bool = True) -> list[FileTraces]:
        """Look through every file of the partition directories, also of those set aside; without `segments` through all the others."""
        files: dict[str, int] = {}
        pieces: list[tuple[str, SegmentPiece]] = []
        for log in self._logs:
            cut = {segment.base_offset: self._cut(segment) for segment in log.segments}
            for entry in sorted(log.segments[0].pool.disk.entries(log.directory)):
                path = f"{log.directory}/{entry.name}"
                files[path] = entry.size_bytes
                parsed = parse_segment_file(entry.name)
                if parsed is not None and parsed.kind == LOG and not parsed.stage and parsed.base_offset in cut:
                    pieces += [(path, piece) for piece in cut[parsed.base_offset]]
        files |= self._set_aside()
        in_pieces = {path for path, _ in pieces}
        items = [TraceItem(path, piece.size_bytes, piece, self._keys) for path, piece in pieces if segments]
        items += [TraceItem(path, size, None, self._keys) for path, size in files.items() if path not in in_pieces and size]
        found = dict.fromkeys(files, Traces())
        for item, traces in self._ask(what, look_for_keys, items, [item.size_bytes for item in items]):
            found[item.path] += traces
        return [FileTraces(path, size, found[path]) for path, size in files.items() if segments or path not in in_pieces]

    def _set_aside(self) -> dict[str, int]:
        """The files of directories that were partitions of the topics and wait to be removed, or are about to be: of deleted topics too."""
        if not self._logs:
            return {}
        disk, topics = self._logs[0].segments[0].pool.disk, {log.partition.topic for log in self._logs}
        directories = [f"{root}/{name}" for root in self._roots for name in sorted(disk.names(root)) if _was_of(name, topics)]
        found: dict[str, int] = {}
        for directory in directories:
            with suppress(FileNotFoundError):  # its owner has removed it meanwhile
                found |= {f"{directory}/{entry.name}": entry.size_bytes for entry in sorted(disk.entries(directory))}
        return found

    def _rewritten(self) -> Iterator[tuple[tuple[int, int], tuple[str, CleanedSizes]]]:
        rules = SelectionRules(drops=KeyMatch(exact=self._keys))
        items, joins = [], []
        for number, log in enumerate(self._logs):
            assert isinstance(log, Log)
            for segment in log.segments:
                if self.outcomes[number].found.get(segment.base_offset, Traces()).record_keys:
                    mtime_ns, aborted = log_mtime_ns(segment), tuple(segment.txn_index.entries())
                    pieces = self._cut(segment)
                    items += [CopyItem(number, piece, rules, log.config, mtime_ns, aborted=aborted) for piece in pieces]
                    if len(pieces) > 1:
                        joins.append(JoinItem(number, pieces[0], (), log.config, mtime_ns, aborted))
        self._check_space([item.piece for item in items])
        copied: dict[tuple[int, int], list[Any]] = {}
        for item, answer in self._ask("rewrite segments", copy_pieces, items, [item.piece.size_bytes for item in items]):
            if isinstance(answer, TidelogError):
                raise answer
            copied.setdefault((item.log, item.piece.base_offset), []).append(answer)
        joins = [replace(join, copied=tuple(copied.pop((join.log, join.piece.base_offset)))) for join in joins]
        yield from ((place, (only.path, only.sizes)) for place, (only,) in copied.items())
        weights = [sum(piece.sizes.size_bytes for piece in join.copied) for join in joins]
        for join, made in self._ask("put segments together", join_pieces, joins, weights, here=sum(weights) <= _FEW_BYTES):
            yield (join.log, join.piece.base_offset), made
        for join in joins:  # not before: until all have answered, a task may be tried again
            discard_units(join.copied)

    def _check_space(self, pieces: list[SegmentPiece]) -> None:
        """Raise if the new segments do not fit, all of which are staged before the first is swapped in; those in pieces twice."""
        if self._staging is not None and pieces:
            size_bytes = sum(piece.size_bytes * (1 if piece.is_whole else 2) for piece in pieces)
            what = "not enough space for the segments that are written anew"
            check_space(SHARED.disk, self._staging, size_bytes, what, hint="nothing was changed; forget of fewer topics at a time")

    def _traced(self, what: str, pieces: list[tuple[int, SegmentPiece]]) -> Iterator[tuple[tuple[int, SegmentPiece], Traces]]:
        items = [TraceItem("", piece.size_bytes, piece, self._keys) for _, piece in pieces]
        answers = self._ask(what, look_for_keys, items, [item.size_bytes for item in items])
        yield from zip(pieces, (traces for _, traces in answers), strict=True)

    def _cut(self, segment: Segment) -> list[SegmentPiece]:
        """In pieces; as a whole if its index cannot be used."""
        try:
            return cut_segment(segment, self._piece_bytes)
        except CorruptError:
            return [SegmentPiece(segment.directory, segment.base_offset, segment.size_bytes, 0, segment.size_bytes)]

    def _ask(
        self, what: str, function: Callable[[Any, str], Any], items: list[Any], weights: list[int], *, here: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        packs = pack(items, weights, self._piece_bytes, self._tasks.workers)
        for own, answers in zip(packs, self._tasks.run(what, function, packs, here=here) if packs else (), strict=True):
            yield from zip(own, answers, strict=True)


def _was_of(name: str, topics: set[str]) -> bool:
    """Whether a directory was a partition of one of the topics; of a long name it may have only the beginning."""
    before, _, tail = name.rpartition(".")
    partition = parse_partition(before)
    if partition is None or not is_set_aside(name):
        return False
    suffix, _, _ = tail.rpartition("-")
    return partition.topic in topics or any(
        name == deleted_directory(TopicPartition(topic, partition.partition), suffix) for topic in topics
    )


@contextmanager
def claimed(store: Store, topics: Sequence[str]) -> Iterator[list[Log]]:
    """The logs of some topics of a store, for oneself: rolled, and left alone by everybody else."""
    state = store._state
    begun: list[TopicPartition] = []
    logs = []
    try:
        # Each once: who has claimed a log would wait for himself.
        for partition in [TopicPartition(name, number) for name in dict.fromkeys(topics) for number in state.entry(name).partition_ids()]:
            begin(state, partition)
            begun.append(partition)
            log = state.log(partition)
            if log.segments[-1].size_bytes:
                log.roll()
            logs.append(log)
        yield logs
    finally:
        for partition in begun:
            state.cleanings.done(partition)

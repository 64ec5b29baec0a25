"""Runs of batches for a partition, encoded and checked by the log's own rules before anything is written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidelog.config import LogConfig
from tidelog.errors import MessageTooLargeError, RefusedBatchError, TidelogError
from tidelog.log.leader import prepare
from tidelog.record.compression import LEVEL_RANGES, Compression
from tidelog.record.encoding import BatchEncoder, BatchSettings
from tidelog.record.headers import walk_headers
from tidelog.record.survey import Scratch
from tidelog.store.append_targets import AppendTargets
from tidelog.store.record_values import explain

RecordErrors = tuple[tuple[int, str], ...]
Indices = Sequence[int] | NDArray[np.int64]
_BASE_OFFSET = np.arange(8)
CHUNK_BYTES = 1 << 20
"""About what is encoded at a time. More than a mebibyte or two leaves the processor's cache and takes twice as long; less is synced more
often than it need be."""


@dataclass(slots=True)
class Chunk:
    """Some of the records of a call, by partition."""

    records: Any
    """Rows, or a table."""
    first: int
    """The place of the first in what the caller gave."""
    count: int
    groups: Sequence[tuple[int, Indices | None]]
    """Partitions, and which of the records go there, counted in the chunk; None for all of them."""
    is_arrow: bool
    is_surely_fine: bool = False
    """Whether it is known without encoding it that the log takes every record."""
    size_bytes: int = 0
    """Encoded; known once it is."""

    def part(self, chosen: Indices | None) -> Any:
        """Some of the records."""
        if chosen is None:
            return self.records
        if self.is_arrow:
            return self.records.take(chosen)
        records = self.records
        return [records[index] for index in (chosen.tolist() if isinstance(chosen, np.ndarray) else chosen)]


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Batches for one partition, one behind the other, in memory of the encoder: good until it encodes the next."""

    partition: int
    batches: list[memoryview]
    counts: list[int]
    """Records of each batch."""
    first: int
    chosen: Indices | None
    """As in the chunk."""

    def named(self, batch: int, errors: RecordErrors) -> RecordErrors:
        """Errors about records of one of the batches, counted as the caller counts."""
        before = sum(self.counts[:batch])
        if self.chosen is None:
            return tuple((self.first + before + index, message) for index, message in errors)
        return tuple((self.first + int(self.chosen[before + index]), message) for index, message in errors)


def batches_of(encoded: memoryview) -> tuple[list[memoryview], list[int]]:
    """What an encoder gave, batch by batch, as a client sends them: each with offsets from 0 on. And how many records each has."""
    headers = walk_headers(encoded)
    np.frombuffer(encoded, np.uint8)[headers.position[:, None] + _BASE_OFFSET] = 0
    spans = zip(headers.position.tolist(), headers.size_bytes.tolist(), strict=True)
    return [encoded[start : start + size] for start, size in spans], headers.count.tolist()


def codec_for(config: LogConfig, asked: Compression | str | None) -> tuple[Compression, int | None]:
    """What to compress with: the topic's codec if it has one, since the log would do it again otherwise; else what is asked for."""
    if config.compression_type == "producer":
        return (Compression.NONE if asked is None else Compression.of(asked)), None
    codec = Compression.of(config.compression_type)
    return codec, getattr(config, f"compression_{codec}_level") if codec in LEVEL_RANGES else None


class RunEncoder:
    """Encodes chunks into runs, for any partition of a topic. One thread at a time."""

    def __init__(self, targets: AppendTargets, now_ms: int, compression: Compression | str | None, batch_bytes: int) -> None:
        self.targets = targets
        self.now_ms = now_ms
        """The time of all records that bring none."""
        self._compression = compression
        self._batch_bytes = batch_bytes
        partitions = targets.partitioner.here
        is_durable = bool(partitions) and targets.log(partitions[0]).config.is_durable
        self.chunk_bytes = 2 * CHUNK_BYTES if is_durable else CHUNK_BYTES
        self._known: tuple[BatchSettings, BatchEncoder] | None = None
        self._scratch = Scratch()
        BatchSettings(compression=compression or "none", batch_bytes=batch_bytes).check()

    def check(self, chunk: Chunk) -> BatchRun | None:
        """Raise if the log would not take one of the records. If the chunk is one run, it is given back, to be used before the next."""
        run = None
        if chunk.is_surely_fine:
            configs = [self.targets.log(partition).config for partition, _ in chunk.groups]  # raises if one is not here
            if self._compression is None or all(2 * self._batch_bytes <= config.max_message_bytes for config in configs):
                return None  # otherwise a codec might make a full batch too large
        try:
            for run in self.runs(chunk):
                chunk.size_bytes += sum(map(len, run.batches))
                self._check(run)
        except Exception as error:
            explain(error, chunk.records, chunk.first, is_arrow=chunk.is_arrow)
            raise
        return run if len(chunk.groups) == 1 else None

    def runs(self, chunk: Chunk) -> Iterator[BatchRun]:
        """The runs of a chunk, each good until the next is asked for."""
        for partition, chosen in chunk.groups:
            encoder = self._encoder(self.targets.log(partition).config)
            encode = encoder.encode_arrow if chunk.is_arrow else encoder.encode
            encoder.next_offset = 0
            batches, counts = batches_of(encode(chunk.part(chosen), timestamp_ms=self.now_ms))
            yield BatchRun(partition, batches, counts, chunk.first, chosen)

    def _check(self, run: BatchRun) -> None:
        log = self.targets.log(run.partition)
        config = log.config
        for number, batch in enumerate(run.batches):
            try:
                prepare(batch, config, next_offset=0, leader_epoch=0, now_ms=self.now_ms, is_client=True, scratch=self._scratch)
            except TidelogError as error:
                error.path = error.path or log.directory
                if isinstance(error, RefusedBatchError):
                    if isinstance(error, MessageTooLargeError) and run.counts[number] == 1:
                        error.record_errors = ((0, "it is too large by itself"),)
                    error.record_errors = run.named(number, error.record_errors)
                raise

    def _encoder(self, config: LogConfig) -> BatchEncoder:
        """One serves all partitions, unless the topic is altered meanwhile."""
        codec, level = codec_for(config, self._compression)
        settings = BatchSettings(compression=codec, level=level, batch_bytes=min(self._batch_bytes, config.max_message_bytes))
        if self._known is None or self._known[0] != settings:
            self._known = settings, BatchEncoder(settings)
        return self._known[1]


def grouped(partitions: NDArray[np.int32]) -> list[tuple[int, Indices | None]]:
    """The records of each partition, in their order."""
    order = np.argsort(partitions, kind="stable")
    cuts = np.flatnonzero(np.diff(partitions[order])) + 1
    if len(cuts) == 0:
        return [(int(partitions[0]), None)]
    return [(int(partitions[indices[0]]), indices) for indices in np.split(order, cuts)]

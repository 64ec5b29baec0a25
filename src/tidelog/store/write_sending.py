"""Send what a writer has gathered for a partition: encode it, append it, and say what became of each record.

With a producer id, batches are numbered. One whose append fails is appended again as it is: if it was in the log after all, the log knows
its numbers and answers with its offsets, so that nothing is there twice. Once a batch is given up, its numbers must not be used again for
another one, which could be taken for it: the producer goes on with the next epoch, from 0.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.errors import LogFailedError, RefusedBatchError, StorageError, TidelogError
from tidelog.log.append_info import AppendInfo
from tidelog.log.log import Log
from tidelog.record.compression import Compression
from tidelog.record.encoding import BatchEncoder, BatchSettings
from tidelog.record.layout import sequence_after
from tidelog.store.append_targets import AppendTargets
from tidelog.store.batch_runs import batches_of, codec_for
from tidelog.store.write_batch import Outcome, Row, WriteBatch
from tidelog.store.write_buffer import WriteBuffer

MAX_PRODUCER_EPOCH = 0x7FFF
SEND_BYTES = 1 << 20
"""About what is appended at a time: as much as stays in the processor's cache."""


@dataclass(frozen=True, slots=True)
class SendSettings:
    """How to send."""

    batch_bytes: int
    compression: Compression | str | None
    retries: int
    retry_backoff_s: float


class SharedEncoder:
    """The encoder of a writer's thread: its memory serves one partition after the other."""

    def __init__(self) -> None:
        self._settings: BatchSettings | None = None
        self._encoder = BatchEncoder()

    def encode(self, rows: list[Row], settings: BatchSettings, sequence: int) -> memoryview:
        """Batches whose records are numbered from `sequence` on."""
        if settings != self._settings:
            self._encoder, self._settings = BatchEncoder(settings), settings
        self._encoder.next_offset, self._encoder.next_sequence = 0, sequence
        return self._encoder.encode(rows)


class PartitionSender:
    """The sender of one partition. One thread at a time."""

    def __init__(self, log: Log, settings: SendSettings, producer_id: int, encoder: SharedEncoder) -> None:
        self.log = log
        self._settings = settings
        self._encoder = encoder
        self._producer_id = producer_id
        self._epoch = 0 if producer_id >= 0 else -1
        self._sequence = 0 if producer_id >= 0 else -1

    def send(self, batches: Sequence[WriteBatch]) -> BaseException | None:
        """Append the records of these batches, in order, and give each its outcomes: the first error, if there was one."""
        try:
            return self._send(batches)
        except BaseException:  # whatever it is: they may be in the log, and what comes next must not be taken for them
            self._renew()
            raise

    def _send(self, batches: Sequence[WriteBatch]) -> BaseException | None:
        rows: list[Row] = []
        for batch in batches:
            rows += batch.rows
        outcomes: list[Outcome] = []
        done = 0
        while done < len(rows):
            done = self._send_from(rows, done, outcomes)
        first = 0
        for batch in batches:
            end = first + len(batch.rows)
            batch.outcomes = _part(outcomes, first, end)
            first = end
        return next((outcome.error for outcome in outcomes if outcome.error is not None), None)

    def _send_from(self, rows: list[Row], first: int, outcomes: list[Outcome]) -> int:
        """Append the rows from `first` on until one is refused: up to which row it is known what became of it."""
        try:
            encoded, counts = self._encode(rows[first:] if first else rows)
        except (TidelogError, MemoryError) as problem:
            outcomes.append(Outcome(first, -1, -1, problem))
            return len(rows)
        infos, error = self._append(encoded)
        for info, count in zip(infos, counts, strict=False):
            known = outcomes[-1] if outcomes else None
            # Most runs are one outcome: offsets go on from batch to batch, unless some of them were in the log before.
            if known is None or known.error is not None or known[1:3] != (info.first_offset - first + known.first, info.log_append_time_ms):
                outcomes.append(Outcome(first, info.first_offset, info.log_append_time_ms, None))
            first += count
        self._sequence = sequence_after(self._sequence, sum(counts[: len(infos)]))
        if error is None:
            return len(rows)
        outcomes.append(Outcome(first, -1, -1, error))
        if isinstance(error, RefusedBatchError):
            return first + counts[len(infos)]  # only this one; those behind it get its numbers
        self._renew()
        return len(rows)

    def _encode(self, rows: list[Row]) -> tuple[list[memoryview], list[int]]:
        config, settings = self.log.config, self._settings
        codec, level = codec_for(config, settings.compression)
        batch_settings = BatchSettings(
            compression=codec,
            level=level,
            batch_bytes=min(settings.batch_bytes, config.max_message_bytes),
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
        )
        return batches_of(self._encoder.encode(rows, batch_settings, self._sequence))

    def _append(self, batches: list[memoryview]) -> tuple[list[AppendInfo], TidelogError | None]:
        """Append, again if it is worth it: the answers, and what ended it if not all are in the log."""
        infos: list[AppendInfo] = []
        tries = 0
        while True:
            try:
                return infos + self.log.append_run(batches[len(infos) :]), None
            except TidelogError as error:
                infos += getattr(error, "appended", ())
                error.path = error.path or self.log.directory
                tries += 1
                if not isinstance(error, StorageError) or isinstance(error, LogFailedError) or tries > self._settings.retries:
                    return infos, error
            time.sleep(self._settings.retry_backoff_s)

    def _renew(self) -> None:
        """Go on with other numbers than those of batches that were given up."""
        if self._producer_id >= 0:
            if self._epoch < MAX_PRODUCER_EPOCH:
                self._epoch, self._sequence = self._epoch + 1, 0
            else:
                self._producer_id, self._epoch, self._sequence = (self._producer_id + 1) & 0x3FFFFFFFFFFFFFFF, 0, 0


def _part(outcomes: list[Outcome], first: int, end: int) -> list[Outcome]:
    """The outcomes of rows from `first` up to `end`, counted from `first`."""
    part: list[Outcome] = []
    for number, outcome in enumerate(outcomes):
        stop = outcomes[number + 1].first if number + 1 < len(outcomes) else end
        if stop <= first:
            continue
        if outcome.first >= end:
            break
        skipped = max(0, first - outcome.first)
        part.append(Outcome(outcome.first + skipped - first, outcome.base_offset + skipped, outcome.append_time_ms, outcome.error))
    return part


def send_all(buffer: WriteBuffer, targets: AppendTargets, settings: SendSettings, producer_id: int) -> None:
    """What the thread of a writer does: send whatever is ready, until the buffer is closed and empty.

    It knows the buffer, not the writer, so that a writer that was dropped can be told from one in use.
    """
    encoder = SharedEncoder()
    senders: dict[int, PartitionSender] = {}
    while taken := buffer.take(SEND_BYTES):
        groups: dict[int, list[WriteBatch]] = {}
        for batch in taken:
            groups.setdefault(batch.partition, []).append(batch)
        for partition, batches in groups.items():
            try:
                sender = senders.get(partition)
                if sender is None:
                    sender = senders[partition] = PartitionSender(targets.log(partition), settings, producer_id, encoder)
                error = sender.send(batches)
            except BaseException as unexpected:  # whatever it is: who waits must hear of it, and the thread goes on
                error = unexpected
                for batch in batches:
                    batch.outcomes = [Outcome(0, -1, -1, unexpected)]
            buffer.sent(batches, error)

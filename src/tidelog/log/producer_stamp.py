"""Batches that come without a producer, written as those of one: the log puts the producer's fields into the headers it stores.

Somebody has encoded the batches before it was known whose transaction they would be part of. What the log writes is what it would have
written had they come with the fields: ids, epoch, sequence numbers that go on from batch to batch, the transactional bit, and a CRC that
covers them. No record is touched.
"""

from itertools import repeat
from typing import NamedTuple

from tidelog.disk.disk import Buffer
from tidelog.errors import RefusedBatchError
from tidelog.log.leader_run import PreparedRun
from tidelog.log.producer_checks import has_producer_id
from tidelog.log.producer_state import Effect, Entries, ProducerState
from tidelog.log.producers import BatchMetadata, ProducerBatch, appended_behind
from tidelog.record.headers import crc_table
from tidelog.record.kernel.stamping import stamp_headers
from tidelog.record.layout import HEADER_SIZE, MAX_SEQUENCE, sequence_after
from tidelog.record.views import view


class ProducerStamp(NamedTuple):
    """Who is to be the producer of some batches, as part of its transaction."""

    producer_id: int
    epoch: int
    sequence: int
    """Of the first record."""

    def after(self, count: int) -> "ProducerStamp":
        """For what follows so many records."""
        return self._replace(sequence=sequence_after(self.sequence, count))


def check_unstamped(batches: list[Buffer]) -> None:
    """Raise for a batch that has a producer of its own. What is too short for one is refused by others, with better words."""
    for batch in batches:
        if len(batch) >= HEADER_SIZE and has_producer_id(memoryview(batch)):
            raise RefusedBatchError("a batch has a producer already", expected="none: the transaction is to be its producer")


def stamp_run(run: PreparedRun, stamp: ProducerStamp, producers: ProducerState, pending: Entries | None = None) -> None:
    """Put the producer into the headers of a run that is about to be written, and say what that changes. Raises if it must not append.

    `pending` has what runs before this one will change, and gets what this one does.
    """
    pending = {} if pending is None else pending
    producer_id, epoch, sequence = stamp
    headers = run.headers
    first, last, newest_ms = headers.base_offset, headers.last_offset, headers.max_timestamp_ms
    batch = ProducerBatch(producer_id, epoch, sequence, int(first[0]), int(last[0]), int(newest_ms[0]), True)
    effect = producers.check(batch, "client", pending)
    # The others go on where the first one ends, since it is here that they get their numbers.
    counts = last - first + 1
    last_sequences = (sequence + counts.cumsum() - 1) & MAX_SEQUENCE
    rows = zip(last_sequences[1:].tolist(), last[1:].tolist(), (counts[1:] - 1).tolist(), newest_ms[1:].tolist(), strict=True)
    entries = appended_behind(effect.entry, map(tuple.__new__, repeat(BatchMetadata), rows))
    effects = [effect, *map(tuple.__new__, repeat(Effect), zip(entries, repeat(-1), repeat(None), last[1:].tolist()))]
    parts = run.parts
    for place in range(0, len(parts), 2):
        if len(parts[place]) > HEADER_SIZE:  # built anew, in another codec
            whole = memoryview(parts[place])
            parts[place], parts[place + 1] = bytearray(whole[:HEADER_SIZE]), whole[HEADER_SIZE:]
    stamp_headers(parts, view(counts), producer_id, epoch, sequence, view(crc_table()))
    pending[producer_id] = effects[-1].entry
    run.effects = effects

"""Batches that come without a producer, written as those of one: the log puts the producer's fields into the headers it stores.

Somebody has encoded the batches before it was known whose transaction they would be part of. What the log writes is what it would have
written had they come with the fields: ids, epoch, sequence numbers that go on from batch to batch, the transactional bit, and a CRC that
covers them. No record is touched.
"""

import struct
from typing import NamedTuple

from crc32c import crc32c

from tidelog.disk.disk import Buffer
from tidelog.errors import RefusedBatchError
from tidelog.log.leader_run import PreparedRun
from tidelog.log.producer_checks import has_producer_id
from tidelog.log.producer_state import Effect, Entries, ProducerState
from tidelog.log.producers import ProducerBatch
from tidelog.record.layout import ATTRIBUTES_POSITION, CRC_POSITION, HEADER_SIZE, TRANSACTIONAL_BIT, sequence_after

_PRODUCER_POSITION = 43
_PRODUCER = struct.Struct(">qhi")
_CRC = struct.Struct(">I")
_LOW_ATTRIBUTES = ATTRIBUTES_POSITION + 1


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


def stamp_run(run: PreparedRun, stamp: ProducerStamp, producers: ProducerState) -> None:
    """Put the producer into the headers of a run that is about to be written, and say what that changes. Raises if it must not append."""
    parts = run.parts
    effects: list[Effect] = []
    pending: Entries = {}
    producer_id, epoch, sequence = stamp
    headers = run.headers
    rows = zip(headers.base_offset.tolist(), headers.last_offset.tolist(), headers.max_timestamp_ms.tolist(), strict=True)
    for number, (first, last, newest_ms) in enumerate(rows):
        effect = producers.check(ProducerBatch(producer_id, epoch, sequence, first, last, newest_ms, True), "client", pending)
        effects.append(effect)
        pending[producer_id] = effect.entry
        header, payload = parts[2 * number], parts[2 * number + 1]
        if len(header) > HEADER_SIZE:  # built anew, in another codec
            whole = memoryview(header)
            header, payload = bytearray(whole[:HEADER_SIZE]), whole[HEADER_SIZE:]
        assert isinstance(header, bytearray), "a header that a leader assigns is its own"
        header[_LOW_ATTRIBUTES] |= TRANSACTIONAL_BIT
        _PRODUCER.pack_into(header, _PRODUCER_POSITION, producer_id, epoch, sequence)
        _CRC.pack_into(header, CRC_POSITION, crc32c(payload, crc32c(memoryview(header)[ATTRIBUTES_POSITION:])))
        parts[2 * number], parts[2 * number + 1] = header, payload
        sequence = sequence_after(sequence, last - first + 1)
    run.effects = effects

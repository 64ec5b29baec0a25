"""What producers with ids send in random steps: mostly what is due, else what a broker must refuse or recognise."""

from random import Random
from typing import Any

from tests.support.logs import state_of
from tidelog.log.log import Log
from tidelog.log.producers import ProducerEntry
from tidelog.record import ControlType, transaction_marker

PRODUCER_IDS = (7, 8, 9)
LAST_SEQUENCE = 2**31 - 1
REMEMBERED = 8
"""More batches than a log remembers, so that some repeats are no longer recognised."""


class Producers:
    """A few producers. What is due next is asked of the log itself: truncation and expiry move it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.sent: dict[int, list[bytes]] = {producer_id: [] for producer_id in PRODUCER_IDS}

    def repeated(self) -> bytes | None:
        """A batch that was sent before, byte for byte."""
        sent = self.sent[self.random.choice(PRODUCER_IDS)]
        return self.random.choice(sent) if sent and self.random.random() < 0.2 else None

    def remember(self, producer_id: int, batch: bytes) -> None:
        """It was sent."""
        self.sent[producer_id] = [*self.sent[producer_id], batch][-REMEMBERED:]

    def batch_settings(self, log: Log) -> dict[str, Any]:
        """Whose batch it is, which one, and whether it belongs to a transaction."""
        producer_id = self.random.choice(PRODUCER_IDS)
        entry = self._entry(log, producer_id)
        is_transactional = entry.transaction_start >= 0 or self.random.random() < 0.4
        epoch, sequence = max(0, entry.epoch), (entry.last_sequence + 1) & LAST_SEQUENCE
        choice = self.random.random()
        if entry.epoch < 0 and choice < 0.3:
            sequence = LAST_SEQUENCE - self.random.randrange(4)  # somebody new may begin anywhere, and comes past the largest
        elif choice < 0.04:
            sequence = (sequence + self.random.choice((-2, -1, 1, 5))) & LAST_SEQUENCE
        elif choice < 0.08:
            epoch, sequence = epoch + 1, self.random.choice((0, 0, 0, 1))
        elif choice < 0.1:
            epoch = max(0, epoch - 1)
        elif choice < 0.14:
            is_transactional = not is_transactional
        return {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "base_sequence": sequence,
            "is_transactional": is_transactional,
        }

    def epoch(self, log: Log, producer_id: int) -> int:
        """The producer's newest epoch, -1 of somebody new."""
        return self._entry(log, producer_id).epoch

    def marker(self, log: Log, timestamp_ms: int) -> bytes:
        """The end of a transaction, more often of one that is open."""
        opened = [producer_id for producer_id in PRODUCER_IDS if self._entry(log, producer_id).transaction_start >= 0]
        producer_id = self.random.choice(opened if opened and self.random.random() < 0.9 else PRODUCER_IDS)
        entry = self._entry(log, producer_id)
        epoch = max(0, entry.epoch + self.random.choice((0,) * 8 + (1, -1)))
        coordinator_epoch = max(0, entry.coordinator_epoch + self.random.choice((0,) * 8 + (1, -1)))
        return transaction_marker(
            self.random.choice((ControlType.COMMIT, ControlType.ABORT)),
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=timestamp_ms,
        )

    @staticmethod
    def _entry(log: Log, producer_id: int) -> ProducerEntry:
        return state_of(log).producers.entries.get(producer_id) or ProducerEntry(producer_id)

"""Ready batches as part of a transaction: somebody else has encoded them, and they have no producer until they are written here."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from tidelog.disk.disk import Buffer
from tidelog.disk.names import TopicPartition
from tidelog.errors import StagingError, TidelogError
from tidelog.log.log import Log
from tidelog.log.producer_stamp import ProducerStamp
from tidelog.store.transactions.transactional_id import Written
from tidelog.store.transactions.writing import TransactionWriting

AHEAD_BYTES = 16 << 20
"""What is written to a log before its disk is asked to begin."""


@dataclass(frozen=True, slots=True)
class ReadyFile:
    """A file that holds batches of one partition and nothing else: the log may have it as a segment."""

    path: str
    count: int
    """Of records."""
    blocks: Callable[[], Iterable[Buffer]]
    """What is in it, for a log that does not take it."""


Source = Callable[[], Iterable[Buffer | ReadyFile]]


class ReadyBatches(TransactionWriting):
    """The part of an open transaction that takes batches instead of records."""

    def append_batches(self, target: TopicPartition, batches: Buffer) -> int:
        """Append ready batches without a producer, one behind the other, as they are: how many records. `enlist` its partition before."""
        with self.lock:
            self.check_open()
            with self.writing():
                return self._append_batches(target, batches)

    def append_side_by_side(self, sources: Mapping[TopicPartition, Source], workers: int) -> None:
        """Append ready batches to several partitions, each in its order, by several threads. `enlist` the partitions before."""
        with self.lock:
            self.check_open()
            with self.writing(), ThreadPoolExecutor(workers, "tidelog-append") as executor:
                tasks = [executor.submit(self._append_all, target, source) for target, source in sources.items()]
                try:
                    for task in as_completed(tasks):
                        task.result()
                finally:  # after an error the others need not go on; those that have begun are waited for
                    for task in tasks:
                        task.cancel()

    def _append_all(self, target: TopicPartition, source: Source) -> int:
        """Append all that a source has: how many records."""
        count = ahead_bytes = 0
        for batches in source():
            if isinstance(batches, ReadyFile):
                count += self._append_file(target, batches)
                continue
            count += self._append_batches(target, batches)
            ahead_bytes += len(batches)
            if ahead_bytes >= AHEAD_BYTES:
                self.coordinator.state.log(target).sync_ahead()
                ahead_bytes = 0
        return count

    def _append_file(self, target: TopicPartition, file: ReadyFile) -> int:
        """Append a file, as a segment if the log takes it, otherwise batch by batch: how many records."""
        found = self._append_as_segment(target, file)
        count = self._append_all(target, file.blocks) if found is None else found
        if count != file.count:
            raise StagingError(
                "a staged file has other records than its task has written", path=file.path, expected=file.count, found=count
            )
        return count

    def _append_as_segment(self, target: TopicPartition, file: ReadyFile) -> int | None:
        """Append a file by making it a segment: how many records; None if the log does not take it."""
        is_first = target not in self.written
        log, written, stamp = self._next(target)
        try:
            info = log.append_file(file.path, stamp)
        except TidelogError as error:
            error.path = error.path or file.path
            raise
        if info is None:
            if is_first:
                del self.written[target]  # nothing is
            return None
        return _note(log, written, stamp, info.first_offset, info.last_offset)

    def _append_batches(self, target: TopicPartition, batches: Buffer) -> int:
        log, written, stamp = self._next(target)
        try:
            infos = log.append_run(batches, wait=False, stamp=stamp)
        except TidelogError as error:
            error.path = error.path or log.directory
            raise
        if not infos:
            return 0
        return _note(log, written, stamp, infos[0].first_offset, infos[-1].last_offset)

    def _next(self, target: TopicPartition) -> tuple[Log, Written, ProducerStamp]:
        """The log of a partition, what was written there, and the producer of what comes next."""
        assert target in self.partitions, "enlisted before anything is written"
        log, written = self.coordinator.state.log(target), self.written.get(target)
        self.check_producer(log, written)
        if written is None:
            written = self.written[target] = Written(log)
        return log, written, ProducerStamp(self.producer_id, self.epoch, written.next_sequence)


def _note(log: Log, written: Written, stamp: ProducerStamp, first_offset: int, last_offset: int) -> int:
    """How many records were written, and where the next ones go."""
    count = last_offset - first_offset + 1
    written.log, written.end_offset = log, last_offset + 1
    written.next_sequence = stamp.after(count).sequence
    return count

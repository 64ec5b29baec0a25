"""Ready batches as part of a transaction: somebody else has encoded them, and they have no producer until they are written here."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed

from tidelog.disk.disk import Buffer
from tidelog.disk.names import TopicPartition
from tidelog.errors import TidelogError
from tidelog.log.producer_stamp import ProducerStamp
from tidelog.store.transactions.writing import TransactionWriting, Written

AHEAD_BYTES = 16 << 20
"""What is written to a log before its disk is asked to begin."""


class ReadyBatches(TransactionWriting):
    """The part of an open transaction that takes batches instead of records."""

    def append_batches(self, target: TopicPartition, batches: Buffer) -> int:
        """Append ready batches without a producer, one behind the other, as they are: how many records. `enlist` its partition before."""
        with self.lock:
            self.check_open()
            with self.writing():
                return self._append_batches(target, batches)

    def append_side_by_side(self, sources: Mapping[TopicPartition, Callable[[], Iterable[Buffer]]], workers: int) -> None:
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

    def _append_all(self, target: TopicPartition, source: Callable[[], Iterable[Buffer]]) -> None:
        ahead_bytes = 0
        for batches in source():
            self._append_batches(target, batches)
            ahead_bytes += len(batches)
            if ahead_bytes >= AHEAD_BYTES:
                self.coordinator.state.log(target).sync_ahead()
                ahead_bytes = 0

    def _append_batches(self, target: TopicPartition, batches: Buffer) -> int:
        assert target in self.partitions, "enlisted before anything is written"
        log, written = self.coordinator.state.log(target), self.written.get(target)
        self.check_producer(log, written)
        if written is None:
            written = self.written[target] = Written(log)
        stamp = ProducerStamp(self.producer_id, self.epoch, written.next_sequence)
        try:
            infos = log.append_run(batches, wait=False, stamp=stamp)
        except TidelogError as error:
            error.path = error.path or log.directory
            raise
        if not infos:
            return 0
        count = infos[-1].last_offset - infos[0].first_offset + 1
        written.log, written.end_offset = log, infos[-1].last_offset + 1
        written.next_sequence = stamp.after(count).sequence
        return count

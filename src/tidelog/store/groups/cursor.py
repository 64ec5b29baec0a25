"""How far a consumer has come in one partition, and what was read ahead there.

Records are decoded from a fetch a few hundred at a time and handed out from there. The position is behind the last record that was handed
out, whatever was read ahead; markers of transactions and what was aborted are behind it as soon as there is nothing before them.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter

from tidelog.disk.names import TopicPartition
from tidelog.errors import CorruptBatchError, TidelogError
from tidelog.log.aborted import AbortedFilter
from tidelog.log.fetched import Fetched
from tidelog.log.log_reading import Isolation, LogReading
from tidelog.log.reading import cut_off, goes_back, placed
from tidelog.record.batch import RecordBatch
from tidelog.record.kernel.record import Record
from tidelog.record.layout import CONTROL_BIT
from tidelog.record.legacy import LegacyBatch
from tidelog.store.groups.position import NO_EPOCH, Position

_MAX_EPOCHS = 16
_OFFSET = attrgetter("offset")


class PartitionCursor:
    """One partition of a consumer. One thread at a time."""

    def __init__(self, partition: TopicPartition, isolation: Isolation, fetch_bytes: int) -> None:
        self.partition = partition
        self._isolation: Isolation = isolation
        self._fetch_bytes = fetch_bytes
        self._offset: int | None = None
        """The position before the first record of the buffer; None while nobody knows where to begin."""
        self._buffer: list[Record] = []
        self._place = 0
        """How many of the buffer were handed out."""
        self._behind = 0
        """The position when all of it was."""
        self._records: Iterator[Record] | None = None
        """What is left of the last fetch."""
        self._end = 0
        """Behind the last batch of it that was decoded."""
        self._failure: TidelogError | None = None
        """What is wrong with the batch behind the buffer."""
        self._epochs: list[tuple[int, int]] = []
        """From which offset on records have which leader epoch; a few of the last."""

    # Where it is

    @property
    def position(self) -> int | None:
        """The next offset to be handed out; None while nobody knows."""
        if not self._place:
            return self._offset
        return self._behind if self._place == len(self._buffer) else self._buffer[self._place - 1].offset + 1

    @property
    def committable(self) -> Position | None:
        """The position, with the leader epoch of the last record before it."""
        offset = self.position
        if offset is None:
            return None
        known = [epoch for start, epoch in self._epochs if start < offset]
        return Position(offset, known[-1] if known else NO_EPOCH)

    def seek(self, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Go on at an offset; what was read ahead is dropped."""
        self._drop()
        self._offset = offset
        self._epochs = [(-1, leader_epoch)] if leader_epoch >= 0 else []

    def forget(self) -> None:
        """Be nowhere, as in the beginning."""
        self._drop()
        self._offset, self._epochs = None, []

    def put_back(self, position: Position) -> None:
        """Go back to where it was: what was handed out since was not taken."""
        self.seek(position.offset, position.leader_epoch)

    def _drop(self) -> None:
        self._buffer, self._place, self._records, self._failure = [], 0, None, None

    # Reading

    @property
    def has_ahead(self) -> bool:
        """Whether something was read ahead."""
        return self._place < len(self._buffer)

    def has_ahead_below(self, end: int | None) -> bool:
        """Whether some of it lies in front of an end offset; None is no end."""
        return self.has_ahead and (end is None or self._buffer[self._place].offset < end)

    def fill(self, log: LogReading, count: int) -> bool:
        """Read some records ahead; False if there are none. All that was read ahead before has to be handed out."""
        self._offset = self.position
        assert self._offset is not None
        self._buffer, self._place = [], 0
        while True:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if self._records is None:
                fetched = log.fetch(self._offset, self._fetch_bytes, isolation=self._isolation)
                if not fetched.data:
                    return False
                self._end = self._offset
                self._records = self._decode(log, fetched)
            try:
                buffer = list(islice(self._records, count))
            except BaseException:  # an interrupt, or what nobody thinks of: nothing of it was handed out
                self._records = None
                raise
            if len(buffer) == count:
                self._behind = buffer[-1].offset + 1
            else:
                # A batch that is damaged inside has given its first records, though it was not decoded to its end.
                self._behind, self._records = max(self._end, buffer[-1].offset + 1) if buffer else self._end, None
            if buffer:
                self._buffer = buffer
                return True
            self._offset = self._behind

    def take(self, count: int) -> list[Record]:
        """Hand out so many records of what was read ahead, at most."""
        place = self._place
        taken = self._buffer[place : place + count]
        self._place = place + len(taken)
        return taken

    def drain(self, end: int | None = None) -> Iterator[Record]:
        """Hand out what was read ahead, one by one, up to an end offset; it ends early if somebody seeks or takes meanwhile.

        A fetch may reach behind the end: what was appended since.
        """
        buffer = self._buffer
        stop = len(buffer) if end is None else bisect_left(buffer, end, lo=self._place, key=_OFFSET)
        for place in range(self._place, stop):
            if self._buffer is not buffer or self._place != place:
                return
            self._place = place + 1
            yield buffer[place]

    def _decode(self, log: LogReading, fetched: Fetched) -> Iterator[Record]:
        aborted = AbortedFilter(fetched.aborted_transactions)
        first = offset = fetched.offset
        try:
            for batch in fetched.batches:
                base_offset, last_offset, epoch, is_control = _facts(batch)
                if last_offset < offset:
                    raise goes_back(log, fetched, offset, last_offset)
                if last_offset >= fetched.log_end_offset:  # no CRC covers it, and going on behind it would be out of range
                    raise CorruptBatchError(
                        "a batch behind the end of the log", expected=f"offsets below {fetched.log_end_offset}", found=last_offset
                    )
                batch.ensure_valid()
                if not aborted.is_aborted(batch) and not is_control:
                    self._note(base_offset, epoch)
                    records = batch.records(topic=self.partition.topic, partition=self.partition.partition)
                    if base_offset >= first:
                        yield from records
                    else:
                        yield from (record for record in records if record.offset >= first)
                self._end = offset = last_offset + 1
            if offset == first:
                raise cut_off(log, fetched)
        except CorruptBatchError as error:
            # What comes before the damage is handed out. The bytes of a log that somebody else cuts may change while they are read.
            if not log.is_outdated(fetched):
                self._failure = placed(error, log, fetched)

    def _note(self, base_offset: int, epoch: int) -> None:
        epochs = self._epochs
        if not epochs or epochs[-1][1] != epoch:
            epochs.append((base_offset, epoch))
            del epochs[:-_MAX_EPOCHS]


def _facts(batch: RecordBatch | LegacyBatch) -> tuple[int, int, int, bool]:
    """First and last offset, leader epoch, and whether it is a control batch. A header is unpacked once."""
    if isinstance(batch, RecordBatch):
        header = batch.header()
        return header[0], header[0] + header[6], header[2], bool(header[5] & CONTROL_BIT)
    return -1, batch.last_offset, NO_EPOCH, False  # the first offset of a wrapper is only known when it is opened

"""What a fetch brings: bytes of one segment, as they are on disk."""

from collections.abc import Iterator, Sequence

from tidelog.log.aborted import AbortedFilter
from tidelog.log.txn_index import AbortedTxn
from tidelog.record.batch import RecordBatch
from tidelog.record.headers import walk_headers
from tidelog.record.kernel.record import Record
from tidelog.record.legacy import LegacyBatch
from tidelog.record.reading import read_batches


class Fetched:
    """The answer of one fetch.

    `data` begins with the batch that holds the asked offset, so it may begin with records below it, and may end inside a batch; `batches`
    leaves a cut-off one out, and `records` also what lies below the asked offset, control records, and what was aborted, if the fetch was
    asked to know.
    """

    __slots__ = (
        "_next_offset",
        "aborted_transactions",
        "data",
        "high_watermark",
        "is_first_incomplete",
        "log_end_offset",
        "log_start_offset",
        "offset",
        "position",
        "segment_base_offset",
    )

    def __init__(
        self,
        data: bytes,
        offset: int,
        segment_base_offset: int,
        position: int,
        is_first_incomplete: bool,
        log_start_offset: int,
        high_watermark: int,
        log_end_offset: int,
        aborted_transactions: Sequence[AbortedTxn] = (),
    ) -> None:
        self.data = data
        self.offset = offset
        """What was asked for."""
        self.segment_base_offset = segment_base_offset
        self.position = position
        """Where in the segment the bytes begin."""
        self.is_first_incomplete = is_first_incomplete
        """The first batch did not fit the limit, and `min_one` was not asked for."""
        self.log_start_offset = log_start_offset
        self.high_watermark = high_watermark
        self.log_end_offset = log_end_offset
        self.aborted_transactions = aborted_transactions
        """Those that overlap the bytes, for isolation "committed"; there may be some that begin just behind them."""
        self._next_offset = -1

    @property
    def next_offset(self) -> int:
        """Where the next fetch goes on: behind the last whole batch; the asked offset if there is none."""
        if self._next_offset < 0:
            headers = walk_headers(self.data)
            self._next_offset = int(headers.last_offset[-1]) + 1 if len(headers) else self.offset
        return self._next_offset

    @property
    def batches(self) -> Iterator[RecordBatch | LegacyBatch]:
        """The whole batches, as views."""
        return read_batches(self.data)

    def records(self, *, topic: str | None = None, partition: int = -1) -> Iterator[Record]:
        """The data records from the asked offset on, without those that were aborted; every CRC is checked."""
        aborted = AbortedFilter(self.aborted_transactions)
        for batch in self.batches:
            batch.ensure_valid()
            if aborted.is_aborted(batch) or batch.is_control:
                continue
            for record in batch.records(topic=topic, partition=partition):
                if record.offset >= self.offset:
                    yield record

    def without_data(self) -> "Fetched":
        """The same answer, but that nothing was found."""
        bounds = self.log_start_offset, self.high_watermark, self.log_end_offset
        return Fetched(b"", self.offset, self.segment_base_offset, self.position, self.is_first_incomplete, *bounds)

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"Fetched({len(self.data)} bytes from offset {self.offset}, byte {self.position} of segment {self.segment_base_offset})"

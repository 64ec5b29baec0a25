"""A v2 batch that was read: a view over a buffer.

Nothing is copied and nothing is decoded until it is asked for. A batch to be written is another type, `tidelog.record.new_batch.NewBatch`.
"""

from collections.abc import Iterator

from tidelog.errors import ChecksumError, CorruptBatchError, TidelogError
from tidelog.record.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, Compression, codec_of, decompress_into
from tidelog.record.faults import Fault, raise_fault
from tidelog.record.kernel.arena import Arena
from tidelog.record.kernel.objects import RecordIterator
from tidelog.record.kernel.record import Record
from tidelog.record.layout import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    MIN_RECORD_SIZE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    TimestampType,
    sequence_after,
    signed64,
)
from tidelog.record.views import Buffer


class RecordBatch:
    """One v2 batch at `position` of `buffer`. Iterating gives its records.

    The view is only as good as the buffer under it: whoever reuses the buffer ends the life of the batch.
    """

    __slots__ = ("buffer", "position", "size_bytes")

    magic = 2

    def __init__(self, buffer: memoryview, position: int, size_bytes: int) -> None:
        self.buffer = buffer
        self.position = position
        self.size_bytes = size_bytes

    def header(self) -> tuple[int, ...]:
        """All header fields, in the order of `tidelog.record.layout.HEADER`."""
        return HEADER.unpack_from(self.buffer, self.position)

    @property
    def base_offset(self) -> int:
        """Offset of the first record that was ever in the batch."""
        return self.header()[0]

    @property
    def last_offset(self) -> int:
        """Offset of the last record that was ever in the batch; compaction keeps it."""
        header = self.header()
        return signed64(header[0] + header[6])

    @property
    def next_offset(self) -> int:
        """Where a reader goes on after this batch."""
        return signed64(self.last_offset + 1)

    @property
    def partition_leader_epoch(self) -> int:
        """Epoch of the leader that appended the batch, -1 from a producer."""
        return self.header()[2]

    @property
    def crc(self) -> int:
        """The CRC-32C that the header has, unsigned."""
        return self.header()[4]

    @property
    def attributes(self) -> int:
        """All attribute bits."""
        return self.header()[5]

    @property
    def base_timestamp_ms(self) -> int:
        """What timestamp deltas are taken against: the first record's time, or the delete horizon."""
        return self.header()[7]

    @property
    def max_timestamp_ms(self) -> int:
        """Largest timestamp of its records, or the append time."""
        return self.header()[8]

    @property
    def producer_id(self) -> int:
        """-1 without one."""
        return self.header()[9]

    @property
    def producer_epoch(self) -> int:
        """-1 without one."""
        return self.header()[10]

    @property
    def base_sequence(self) -> int:
        """-1 without one."""
        return self.header()[11]

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, wrapped; -1 without one."""
        header = self.header()
        return sequence_after(header[11], header[6])

    @property
    def count(self) -> int:
        """Records in the batch; 0 is legal, compaction leaves such batches."""
        return self.header()[12]

    @property
    def compression(self) -> Compression:
        """Its codec."""
        return codec_of(self.attributes, self.position + ATTRIBUTES_POSITION)

    @property
    def timestamp_type(self) -> TimestampType:
        """Who stamped its records."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Holds a control record (`tidelog.record.control`), not data."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When its tombstones or marker may go, if the cleaner has said so."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None

    def to_bytes(self) -> bytes:
        """A copy of the whole batch."""
        return bytes(self.buffer[self.position : self.position + self.size_bytes])

    @property
    def is_valid(self) -> bool:
        """Whether the CRC matches."""
        return self._checksum() == self.crc

    def ensure_valid(self) -> None:
        """Raise `ChecksumError` if the CRC does not match."""
        checksum = self._checksum()
        if checksum != self.crc:
            raise ChecksumError(
                "the CRC of a batch does not match",
                position=self.position,
                expected=f"{self.crc:#010x} as its header says",
                found=f"{checksum:#010x}",
            )

    def _checksum(self) -> int:
        import crc32c

        return crc32c.crc32c(self.buffer[self.position + ATTRIBUTES_POSITION : self.position + self.size_bytes])

    def payload(self, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> memoryview:
        """The records' bytes, decompressed if need be."""
        raw = self.buffer[self.position + HEADER_SIZE : self.position + self.size_bytes]
        codec = self.compression
        if codec is Compression.NONE:
            return raw
        arena = Arena(max(4096, 4 * len(raw)))
        try:
            decompress_into(arena, codec, raw, max_bytes=max_decompressed_bytes)
        except TidelogError as error:
            error.position = self.position
            raise
        return arena.view()

    def records(
        self,
        *,
        topic: str | None = None,
        partition: int = -1,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    ) -> Iterator[Record]:
        """Decode the records one by one. Bad bytes raise where they are met; `topic` and `partition` go into the records."""
        header = self.header()
        attributes, count = header[5], header[12]
        if attributes & CODEC_MASK:
            payload, start = self.payload(max_decompressed_bytes), 0
            end = len(payload)
        else:
            payload, start = self.buffer, self.position + HEADER_SIZE
            end = self.position + self.size_bytes
            if end > len(payload):  # of a file that was cut since its headers were walked; the iterator believes its caller
                raise CorruptBatchError(
                    "a batch is cut off", position=self.position, expected=f"{self.size_bytes} bytes", found=len(payload) - self.position
                )
        check_count(count, end - start, self.position)
        return RecordIterator(
            payload,
            start,
            end,
            count,
            header[0],
            header[7],
            1 if attributes & TIMESTAMP_TYPE_BIT else 0,
            header[8],
            header[11],
            topic,
            partition,
            # Positions in a decompressed payload mean nothing in the buffer: there the batch is named instead.
            self.position if attributes & CODEC_MASK else -1,
        )

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def __repr__(self) -> str:
        offsets = f"offsets {self.base_offset} to {self.last_offset}"
        return f"RecordBatch({offsets}, {self.count} records, {self.size_bytes} bytes at {self.position})"


def check_count(count: int, payload_bytes: int, position: int) -> None:
    """Refuse a record count that the payload cannot hold, before anything is allocated by it."""
    if count < 0:
        raise_fault(Fault.NEGATIVE_COUNT, position, count, 0)
    if count > payload_bytes // MIN_RECORD_SIZE:
        raise_fault(Fault.RECORD_COUNT, position, count, payload_bytes // MIN_RECORD_SIZE)


def as_batch_view(buffer: Buffer) -> memoryview:
    """A read-only view, so that batches handed out cannot change what is under them."""
    view = memoryview(buffer)
    if view.format != "B" or view.ndim != 1:
        view = view.cast("B")
    return view.toreadonly()

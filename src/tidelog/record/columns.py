"""Decode whole buffers of batches into Arrow columns, only those that are asked for; `column_schema.py` has which there are.

Values that are not asked for are skipped, not copied. The work goes in chunks of about two mebibytes, so that CRC and decoding find the
bytes in the processor's cache. Batches of every format and codec come out of
the same call; control records too, `is_control` tells them apart.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tidelog.errors import TidelogError, UnsupportedCodecError
from tidelog.record.batch import check_count
from tidelog.record.column_buffers import BinaryColumn, fixed_array, header_array, int64_buffer
from tidelog.record.column_schema import RECORD_COLUMNS, arrow_schema, batch_column
from tidelog.record.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, Compression, decompress_into
from tidelog.record.faults import Fault, raise_fault
from tidelog.record.headers import FIELDS, BatchHeaders, Int64Array, first_bad_checksum, walk_block
from tidelog.record.kernel import headers as header_kernel
from tidelog.record.kernel import payloads as payload_kernel
from tidelog.record.kernel import records as kernel
from tidelog.record.kernel.arena import Arena
from tidelog.record.layout import ATTRIBUTES_POSITION, HEADER_SIZE, MIN_RECORD_SIZE
from tidelog.record.legacy import Messages, flatten
from tidelog.record.slots import BATCH_FIELDS, Totals, Want
from tidelog.record.views import Buffer, byte_view, view

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_CHUNK_BYTES = 2 << 20
_CHUNK_BATCHES = 4096  # at most this many batches in a chunk
_MAX_INT32 = 0x7FFFFFFF  # Arrow's binary columns have 32-bit offsets
_MAX_ARENA_BYTES = 2 << 20  # decompressed payloads are decoded as soon as there are this many bytes of them


def iter_arrow(
    buffer: Buffer,
    columns: Sequence[str] = RECORD_COLUMNS,
    *,
    check_crcs: bool = True,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> "Iterator[pa.RecordBatch]":
    """Decode batch after batch into Arrow record batches of about `chunk_bytes` of input each.

    Ends in peace where no whole batch follows. A bad batch raises after those before it were given; a bad record after those before
    its chunk.
    """
    return ColumnDecoder(columns, check_crcs=check_crcs, chunk_bytes=chunk_bytes, max_decompressed_bytes=max_decompressed_bytes).decode(
        buffer
    )


def to_arrow(buffer: Buffer, columns: Sequence[str] = RECORD_COLUMNS, *, check_crcs: bool = True) -> "pa.Table":
    """All records of a buffer as one table."""
    import pyarrow as pa

    decoder = ColumnDecoder(columns, check_crcs=check_crcs)
    return pa.Table.from_batches(decoder.decode(buffer), decoder.schema)


class ColumnDecoder:
    """Decodes buffers into the same columns again and again, keeping its scratch memory. One thread at a time."""

    def __init__(
        self,
        columns: Sequence[str] = RECORD_COLUMNS,
        *,
        check_crcs: bool = True,
        chunk_bytes: int = DEFAULT_CHUNK_BYTES,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    ) -> None:
        if chunk_bytes < 1:
            raise ValueError(f"a chunk has 1 byte or more, not {chunk_bytes}")
        self.schema = arrow_schema(columns)
        self._columns = tuple(columns)
        self._check_crcs = check_crcs
        self._chunk_bytes = chunk_bytes
        self._max_decompressed_bytes = min(max_decompressed_bytes, _MAX_INT32 - _MAX_ARENA_BYTES)
        self.end_position = 0
        """After `decode`: where the first batch starts that is not whole."""
        self._fields = np.empty(len(FIELDS) * _CHUNK_BATCHES, np.int64)
        self._arena = Arena()
        self._key = BinaryColumn(wanted="key" in columns, share=0.25)
        self._value = BinaryColumn(wanted="value" in columns, share=1.0)
        wanted = {"key": Want.KEYS, "value": Want.VALUES, "headers": Want.SLICES}
        self._want = sum(int(bit) for column, bit in wanted.items() if column in columns)

    def decode(self, buffer: Buffer) -> "Iterator[pa.RecordBatch]":
        """The records of `buffer`, a record batch for every chunk of input; `end_position` tells afterwards where it ended."""
        source = byte_view(buffer)
        self.end_position = 0
        while True:
            stop = min(len(source), self.end_position + self._chunk_bytes)
            headers, error = walk_block(source, self.end_position, stop, self._fields)
            decoded = None
            if self._check_crcs:
                decoded = self._decode_unchecked(source, headers)
                good, bad_checksum = first_bad_checksum(source, headers)
                if bad_checksum is not None:
                    headers, error, decoded = headers[:good], bad_checksum, None
            if decoded is not None:
                yield from decoded
            else:
                for run in _runs_of_one_kind(headers):
                    yield from self._decode_legacy(source, run) if int(run.magic[0]) < 2 else self._decode_v2(source, run)
            self.end_position = headers.end_position
            if error is not None:
                raise error
            if len(headers) == 0 or self.end_position == len(source):
                return

    def _decode_unchecked(self, source: memoryview, headers: BatchHeaders) -> "list[pa.RecordBatch] | None":
        """Decode a plain chunk before its CRCs are checked; the caller gives it out only if they match.

        Whoever comes first reads the bytes from memory, the second from the cache. Decoding hardly notices, the CRC takes twice as long.
        A chunk that does not decode is None here, and raises when it is decoded again after its CRCs were looked at.
        """
        if len(headers) == 0 or headers.may_be_legacy or headers.may_be_compressed:
            return None
        try:
            return list(self._decode_v2(source, headers))
        except TidelogError:
            return None

    def _decode_v2(self, source: memoryview, headers: BatchHeaders) -> "Iterator[pa.RecordBatch]":
        start = int(headers.position[0])
        if headers.end_position - start > _MAX_INT32 and len(headers) > 1:
            # Arrow's offsets have 32 bits, and so have the kernel's positions, which is why they start at the chunk.
            for half in (headers[: len(headers) // 2], headers[len(headers) // 2 :]):
                yield from self._decode_v2(source, half)
            return
        batches = np.empty((len(headers), BATCH_FIELDS), np.int64)
        totals = np.zeros(3, np.int64)
        fault = np.zeros(5, np.int64)
        is_good = header_kernel.describe_batches(
            view(headers.flat), headers.capacity, headers.first, len(headers), start, view(batches.reshape(-1)), view(totals), view(fault)
        )
        if not is_good:
            raise_fault(*fault[:4].tolist())
        record_count, payload_bytes, compressed_count = totals.tolist()
        if not compressed_count:
            yield self._decode_payloads(source[start : headers.end_position], batches, headers, record_count, payload_bytes)
            return
        yield from self._decode_compressed(source[start:], batches, headers)

    def _decode_compressed(self, chunk: memoryview, batches: Int64Array, headers: BatchHeaders) -> "Iterator[pa.RecordBatch]":
        """Decompress into the arena, and decode what is there whenever it is well filled."""
        arena = self._arena
        flat, attributes, progress = view(batches.reshape(-1)), view(headers.attributes), np.zeros(1, np.int64)
        first = 0
        while first < len(headers):
            arena.clear()
            try:
                last = payload_kernel.decompress_payloads(
                    chunk, flat, attributes, first, arena, self._max_decompressed_bytes, _MAX_ARENA_BYTES, _decompress_other, view(progress)
                )
            except TidelogError as error:
                is_codec = isinstance(error, UnsupportedCodecError)
                error.position = int(headers.position[progress[0]]) + (ATTRIBUTES_POSITION if is_codec else 0)
                raise
            part, part_headers = batches[first:last], headers[first:last]
            _check_counts(part, part_headers)
            yield self._decode_payloads(arena.view(), part, part_headers, int(part[:, 2].sum()), arena.size)
            first = last

    def _decode_payloads(
        self, payload: memoryview, batches: Int64Array, headers: BatchHeaders, total: int, payload_bytes: int
    ) -> "pa.RecordBatch":
        """Decode payloads that lie in one buffer, the caller's or the arena."""
        offsets, offset_view = int64_buffer(total)
        timestamps, timestamp_view = int64_buffer(total)
        slices = np.empty(6 * total if self._want & Want.SLICES else 1, np.int32)
        totals = np.zeros(len(Totals), np.int64)
        fault = np.zeros(5, np.int64)
        described = view(batches.reshape(-1))
        while True:
            self._key.allocate(total, payload_bytes)
            self._value.allocate(total, payload_bytes)
            ok = kernel.decode_batches(
                payload,
                described,
                self._want,
                offset_view,
                timestamp_view,
                *self._key.views,
                *self._value.views,
                view(slices),
                view(totals),
                view(fault),
            )
            if ok:
                break
            # Whatever ended it, there are marks of nulls by now that the next chunk must not find.
            self._key.start_again()
            self._value.start_again()
            if int(fault[0]) != Fault.COLUMN_FULL:
                _raise_record_fault(fault, batches, headers)
        _, key_bytes, key_nulls, value_bytes, value_nulls = totals.tolist()

        def build(column: str) -> Any:
            if column == "key":
                return self._key.finish(total, key_bytes, key_nulls, payload_bytes)
            if column == "value":
                return self._value.finish(total, value_bytes, value_nulls, payload_bytes)
            if column == "headers":
                return header_array(payload, slices.reshape(6, total)[4], slices.reshape(6, total)[5])
            if column == "offset":
                return fixed_array(offsets, total)
            if column == "timestamp_ms":
                return fixed_array(timestamps, total)
            return batch_column(column, headers, batches[:, 2], np.frombuffer(offset_view, np.int64, total))

        return self._assemble(build)

    def _decode_legacy(self, source: memoryview, headers: BatchHeaders) -> "Iterator[pa.RecordBatch]":
        """Open wrappers until there is enough of them: a few bytes may stand for very many."""
        while len(headers):
            messages = flatten(
                source,
                headers,
                check_crcs=self._check_crcs,
                max_decompressed_bytes=self._max_decompressed_bytes,
                enough_bytes=_MAX_ARENA_BYTES,
            )
            yield self._legacy_columns(messages, headers[: messages.count_of_batches])
            headers = headers[messages.count_of_batches :]

    def _legacy_columns(self, messages: Messages, headers: BatchHeaders) -> "pa.RecordBatch":
        total = len(messages.offsets)

        def build(column: str) -> Any:
            import pyarrow as pa

            if column in ("key", "value"):
                row = 0 if column == "key" else 2
                return BinaryColumn.gather(messages.payload, messages.slices[row], messages.slices[row + 1])
            if column == "headers":
                return header_array(messages.payload, np.zeros(total, np.int32), np.zeros(total, np.int32))
            if column == "offset":
                return pa.array(messages.offsets)
            if column == "timestamp_ms":
                return pa.array(messages.timestamps)
            if column == "timestamp_type":
                return pa.array(messages.timestamp_types.astype(np.int8))
            return batch_column(column, headers, np.bincount(messages.batches, minlength=len(headers)), messages.offsets)

        return self._assemble(build)

    def _assemble(self, build: Any) -> "pa.RecordBatch":
        import pyarrow as pa

        return pa.RecordBatch.from_arrays([build(column) for column in self._columns], schema=self.schema)


def _runs_of_one_kind(headers: BatchHeaders) -> Iterator[BatchHeaders]:
    """Cut where legacy messages and v2 batches meet."""
    if len(headers) == 0:
        return
    if not headers.may_be_legacy:
        yield headers
        return
    is_v2 = headers.magic == 2
    cuts = [0, *(np.flatnonzero(is_v2[1:] != is_v2[:-1]) + 1).tolist(), len(headers)]
    for first, last in pairwise(cuts):
        yield headers[first:last]


def _decompress_other(codec: int, payload: memoryview, arena: Arena, max_bytes: int) -> None:
    decompress_into(arena, Compression.of(codec), payload, max_bytes=max_bytes)


def _check_counts(batches: Int64Array, headers: BatchHeaders) -> None:
    """Refuse a record count that a decompressed payload cannot hold."""
    sizes = batches[:, 1] - batches[:, 0]
    impossible = np.flatnonzero(batches[:, 2] > sizes // MIN_RECORD_SIZE)
    if len(impossible):
        first = int(impossible[0])
        check_count(int(batches[first, 2]), int(sizes[first]), int(headers.position[first]))


def _raise_record_fault(fault: Int64Array, batches: Int64Array, headers: BatchHeaders) -> NoReturn:
    """Say where in the caller's buffer the bad record is, or which batch it is in if that is compressed."""
    kind, position, found, expected, batch = fault.tolist()
    batch_position = int(headers.position[batch])
    position -= int(batches[batch, 0])
    if headers.compression[batch]:
        raise_fault(kind, position, found, expected, batch_position)
    raise_fault(kind, batch_position + HEADER_SIZE + position, found, expected)

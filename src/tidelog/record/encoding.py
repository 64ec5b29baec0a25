"""Encode records into v2 batches: many at once, split by size, in buffers that are used again."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tidelog.errors import InvalidBatchError
from tidelog.record.arrow_input import column_parts
from tidelog.record.compression import Compression, check_level, compress
from tidelog.record.headers import Int64Array, checksums, walk_headers
from tidelog.record.kernel import encode as kernel
from tidelog.record.kernel.arena import Arena
from tidelog.record.kernel.record import Record
from tidelog.record.layout import (
    CONTROL_BIT,
    CRC_POSITION,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAX_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from tidelog.record.slots import Plan
from tidelog.record.views import view

if TYPE_CHECKING:
    import pyarrow as pa

Headers = Iterable[tuple[str, bytes | None]]
Row = (
    Record
    | tuple[bytes | None, bytes | None]
    | tuple[bytes | None, bytes | None, Headers]
    | tuple[bytes | None, bytes | None, Headers, int | None]
)
"""A record to write: a `Record`, or (key, value), (key, value, headers), (key, value, headers, timestamp_ms)."""

DEFAULT_BATCH_BYTES = 16384
MAX_BATCH_BYTES = 0x7FFFFFFF
MAX_OFFSET = 0x7FFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """What batches have in common. `level` None is Kafka's default level; an append time makes batches LogAppendTime."""

    compression: Compression | str = Compression.NONE
    level: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES
    """A batch takes records until the next would make it larger, uncompressed; a record that is larger has one of its own."""
    partition_leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False
    append_time_ms: int | None = None
    delete_horizon_ms: int | None = None

    def check(self) -> Compression:
        """Raise for what no batch can have; give back the codec."""
        codec = Compression.of(self.compression)
        check_level(codec, self.level)
        ranges = (
            ("batch_bytes", self.batch_bytes, 1, MAX_BATCH_BYTES),
            ("partition_leader_epoch", self.partition_leader_epoch, -1, 0x7FFFFFFF),
            ("producer_id", self.producer_id, -1, 0x7FFFFFFFFFFFFFFF),
            ("producer_epoch", self.producer_epoch, -1, 0x7FFF),
            ("base_sequence", self.base_sequence, -1, MAX_SEQUENCE),
            ("append_time_ms", 0 if self.append_time_ms is None else self.append_time_ms, 0, 0x7FFFFFFFFFFFFFFF),
            ("delete_horizon_ms", 0 if self.delete_horizon_ms is None else self.delete_horizon_ms, 0, 0x7FFFFFFFFFFFFFFF),
        )
        for name, number, lowest, highest in ranges:
            if not lowest <= number <= highest:
                raise InvalidBatchError(f"{name} out of range", expected=f"{lowest} to {highest}", found=number)
        if self.is_transactional and self.producer_id < 0:
            raise InvalidBatchError("a transactional batch needs a producer", expected="producer_id 0 or more", found=self.producer_id)
        return codec

    def attributes(self, codec: Compression) -> int:
        """The attribute bits."""
        return (
            int(codec)
            | (0 if self.append_time_ms is None else TIMESTAMP_TYPE_BIT)
            | (TRANSACTIONAL_BIT if self.is_transactional else 0)
            | (CONTROL_BIT if self.is_control else 0)
            | (0 if self.delete_horizon_ms is None else DELETE_HORIZON_BIT)
        )


class BatchEncoder:
    """Encodes records into batches back to back. Offsets and sequences go on from call to call. One thread at a time.

    What a call gives back is a view of the encoder's own memory, good until the next call; `bytes()` keeps it longer.
    """

    def __init__(self, settings: BatchSettings | None = None, *, base_offset: int = 0) -> None:
        self._settings = settings or BatchSettings()
        self._codec = self._settings.check()
        if not 0 <= base_offset <= MAX_OFFSET:
            raise InvalidBatchError("base_offset out of range", expected=f"0 to {MAX_OFFSET}", found=base_offset)
        self.next_offset = base_offset
        """Offset of the next record."""
        self.next_sequence = self._settings.base_sequence
        """Sequence of the next record, -1 without one."""
        self._raw = Arena()
        self._compressed = Arena()

    def encode(self, records: Iterable[Row], *, timestamp_ms: int = -1, keep_offsets: bool = False) -> memoryview:
        """Encode records; tuples that bring no timestamp have `timestamp_ms`. A `Record` keeps its own, also where that is -1.

        With `keep_offsets` they are `Record`s whose own offsets stay, gaps and all, counted from `next_offset`.
        """
        rows = records if isinstance(records, list) else list(records)
        read_once: dict[int, bytes] = {}
        plan = self._plan(len(rows), timestamp_ms, keep_offsets=keep_offsets)

        def step(first: int, output: memoryview) -> int:
            return kernel.encode_rows(rows, first, output, view(plan), read_once)

        return self._run(step, len(rows), plan)

    def encode_arrow(self, records: "pa.Table | pa.RecordBatch", *, timestamp_ms: int = -1) -> memoryview:
        """Encode Arrow columns: `key` and `value` (binary), and if there are any `timestamp_ms` (or `timestamp`) and `headers`."""
        parts = column_parts(records, timestamp_ms)
        plan = self._plan(records.num_rows, timestamp_ms, keep_offsets=False)

        def step(first: int, output: memoryview) -> int:
            return kernel.encode_columns(*parts, first, output, view(plan))

        return self._run(step, records.num_rows, plan)

    def _plan(self, total: int, timestamp_ms: int, *, keep_offsets: bool) -> Int64Array:
        settings = self._settings
        if timestamp_ms < -1:
            raise InvalidBatchError("timestamp_ms out of range", expected="-1 (none) or epoch milliseconds", found=timestamp_ms)
        if self.next_offset > MAX_OFFSET - max(0, total - 1):
            raise InvalidBatchError("offsets run out", expected=f"at most {MAX_OFFSET}", found=self.next_offset + max(0, total - 1))
        plan = np.zeros(len(Plan), np.int64)
        plan[Plan.BATCH_BYTES] = settings.batch_bytes
        plan[Plan.ATTRIBUTES] = settings.attributes(self._codec)
        plan[Plan.LEADER_EPOCH] = settings.partition_leader_epoch
        plan[Plan.PRODUCER_ID] = settings.producer_id
        plan[Plan.PRODUCER_EPOCH] = settings.producer_epoch
        plan[Plan.APPEND_TIME] = -1 if settings.append_time_ms is None else settings.append_time_ms
        plan[Plan.DEFAULT_TIMESTAMP] = timestamp_ms
        plan[Plan.BASE_TIMESTAMP] = -1 if settings.delete_horizon_ms is None else settings.delete_horizon_ms
        plan[Plan.KEEP_OFFSETS] = int(keep_offsets)
        plan[Plan.NEXT_OFFSET] = self.next_offset
        plan[Plan.NEXT_SEQUENCE] = self.next_sequence
        return plan

    def _run(self, step: Callable[[int, memoryview], int], total: int, plan: Int64Array) -> memoryview:
        """Call the kernel until all records are in batches, making room as it asks for it; then compress and checksum."""
        raw = self._raw
        raw.clear()
        done = 0
        while done < total:
            done = step(done, view(raw.buffer))
            raw.size = int(plan[Plan.OUTPUT_END])
            if done < total:
                raw.reserve(len(raw.buffer) - raw.size + 1)
        result = raw if self._codec is Compression.NONE else self._compress()
        write_checksums(result.view())
        # Unsigned: after the very last offset comes one that no record can have.
        self.next_offset = int(plan[Plan.NEXT_OFFSET]) & 0xFFFFFFFFFFFFFFFF
        self.next_sequence = int(plan[Plan.NEXT_SEQUENCE])
        return result.view()

    def _compress(self) -> Arena:
        source, target = self._raw.view(), self._compressed
        target.clear()
        headers = walk_headers(source)
        for start, size in zip(headers.position.tolist(), headers.size_bytes.tolist(), strict=True):
            payload = compress(self._codec, source[start + HEADER_SIZE : start + size], self._settings.level)
            length_at = target.size + LENGTH_POSITION
            target.append(source[start : start + HEADER_SIZE])
            target.append(payload)
            target.buffer[length_at : length_at + 4] = (HEADER_SIZE - LOG_OVERHEAD + len(payload)).to_bytes(4, "big")
        return target


def write_checksums(batches: memoryview) -> None:
    """Compute and write the CRC of every batch in `batches`."""
    headers = walk_headers(batches)
    places = headers.position[:, None] + np.arange(CRC_POSITION, CRC_POSITION + 4)
    np.frombuffer(batches, np.uint8)[places] = checksums(batches, headers).astype(">u4").view(np.uint8).reshape(-1, 4)


def encode_batches(records: Iterable[Row], *, base_offset: int = 0, timestamp_ms: int = -1, **settings: Any) -> bytes:
    """Encode records into batches, in one call: the settings are those of `BatchSettings`."""
    return bytes(BatchEncoder(BatchSettings(**settings), base_offset=base_offset).encode(records, timestamp_ms=timestamp_ms))


def encode_arrow(records: "pa.Table | pa.RecordBatch", *, base_offset: int = 0, timestamp_ms: int = -1, **settings: Any) -> bytes:
    """Encode Arrow columns into batches, in one call: the settings are those of `BatchSettings`."""
    return bytes(BatchEncoder(BatchSettings(**settings), base_offset=base_offset).encode_arrow(records, timestamp_ms=timestamp_ms))

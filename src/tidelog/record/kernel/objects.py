"""The records of one batch as Python objects, decoded as they are asked for."""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

from tidelog.record.faults import Fault, raise_fault
from tidelog.record.kernel.record import Record

if not cython.compiled:  # compiled, these are C functions, named in objects.pxd
    from tidelog.record.kernel.any_record import long_varint
    from tidelog.record.kernel.records import parse_one

Pointer = Any  # a C pointer when compiled, the memoryview itself when not

PAYLOAD_TOO_SHORT = int(Fault.PAYLOAD_TOO_SHORT)
PAYLOAD_TOO_LONG = int(Fault.PAYLOAD_TOO_LONG)


class RecordIterator:
    """The records of one batch, decoded as they are asked for."""

    def __init__(
        self,
        payload: Any,
        start: int,
        end: int,
        count: int,
        base_offset: int,
        base_timestamp: int,
        is_append_time: int,
        append_time: int,
        base_sequence: int,
        topic: str | None,
        partition: int,
        batch_position: int,
    ) -> None:
        """`batch_position`: where the batch lies, if positions in its payload mean nothing to the caller; else -1."""
        self.payload = payload
        self.at = start
        self.end = end
        self.index = 0
        self.count = count
        self.base_offset = base_offset
        self.base_timestamp = base_timestamp
        self.is_append_time = is_append_time
        self.append_time = append_time
        self.base_sequence = base_sequence
        self.topic = topic
        self.partition = partition
        self.batch_position = batch_position

    def __iter__(self) -> "RecordIterator":
        return self

    def __next__(self) -> Record:
        if self.index >= self.count:
            self.finish()
            raise StopIteration
        return self.advance()

    def finish(self) -> None:
        """After the last record nothing may be left."""
        if self.at != self.end:
            left = self.end - self.at
            self.end = self.at
            raise_fault(PAYLOAD_TOO_LONG, self.at, left, self.at, self.batch_position)

    def advance(self) -> Record:
        """Decode the next record."""
        p: Pointer = cython.address(self.payload[0]) if cython.compiled else self.payload
        at, timestamp_delta, offset_delta, key_start, key_length, value_start, value_length, headers_start, header_count = parse_one(
            p, self.at, self.end
        )
        if at < 0:
            index, self.index = self.index, self.count
            start, self.at = self.at, self.end
            if start == self.end:
                raise_fault(PAYLOAD_TOO_SHORT, start, index, self.count, self.batch_position)
            raise_fault(-at, timestamp_delta, offset_delta, key_start, self.batch_position)
        record = Record.__new__(Record)
        record.topic = self.topic
        record.partition = self.partition
        record.offset = wrap64(self.base_offset + offset_delta)
        if self.is_append_time:
            record.timestamp_ms = self.append_time
            record.timestamp_type_id = 1
        else:
            record.timestamp_ms = wrap64(self.base_timestamp + timestamp_delta)
            record.timestamp_type_id = 0
        record.sequence = -1 if self.base_sequence < 0 else (self.base_sequence + offset_delta) & 0x7FFFFFFF
        record.key = None if key_length < 0 else take(p, key_start, key_length)
        record.value = None if value_length < 0 else take(p, value_start, value_length)
        record.headers = () if header_count == 0 else read_headers(p, headers_start, at, header_count)
        self.at = at
        self.index += 1
        return record


def read_headers(p: Pointer, at: int, end: int, header_count: int) -> tuple[tuple[str, bytes | None], ...]:
    """Headers that `parse_record` has checked. A name that is not UTF-8 is read as Kafka reads it, with replacement characters."""
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(header_count):
        at, length = long_varint(p, at, end, 32)
        name = take(p, at, length).decode("utf-8", "replace")
        at, length = long_varint(p, at + length, end, 32)
        if length < 0:
            headers.append((name, None))
        else:
            headers.append((name, take(p, at, length)))
            at += length
    return tuple(headers)


def take(p: Pointer, start: int, size: int) -> bytes:
    """A bytes object of `size` bytes."""
    if cython.compiled:
        return p[start : start + size]  # type: ignore[no-any-return]
    return bytes(p[start : start + size])


def wrap64(number: int) -> int:
    """Fold into a signed 64-bit integer, as Java and compiled code do by themselves."""
    if not cython.compiled:
        number = (number + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000
    return number

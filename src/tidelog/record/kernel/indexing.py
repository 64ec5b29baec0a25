"""Which batches of a segment get entries in its offset and time index, and the bytes of these entries.

For each batch, in this order, as Kafka does it since 4.0.1:

    1  a larger max timestamp than any before becomes the running maximum, with the batch's last offset
    2  if more than `interval_bytes` lie between here and the batch of the last entry (that one included), the batch gets an offset entry,
       and the time index the running maximum, unless its last entry is as late already
    3  the batch's size is added to the bytes since the last entry

The layout of the entries is drawn in `tidelog.record.kernel.index_search`.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

from tidelog.record.outcomes import IndexStop

if not cython.compiled:  # compiled, this is a C function, named in indexing.pxd
    from tidelog.record.kernel.encode import put_int

Pointer = Any  # a C pointer when compiled, the memoryview itself when not

OFFSET_OUT_OF_RANGE = int(IndexStop.OFFSET_OUT_OF_RANGE)
OFFSET_INDEX_FULL = int(IndexStop.OFFSET_INDEX_FULL)
TIME_INDEX_FULL = int(IndexStop.TIME_INDEX_FULL)
POSITION_OUT_OF_RANGE = int(IndexStop.POSITION_OUT_OF_RANGE)
OFFSET_NOT_INCREASING = int(IndexStop.OFFSET_NOT_INCREASING)
OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12
MAX_INT32 = 0x7FFFFFFF


class IndexRun:
    """Where a segment stands between two of its batches: all that the rules look at. One thread at a time."""

    __slots__ = (
        "base_offset",
        "bytes_since_last_entry",
        "interval_bytes",
        "last_entry_offset",
        "last_time_entry_ms",
        "max_timestamp_ms",
        "offset_of_max_timestamp",
    )

    def __init__(
        self,
        base_offset: int,
        interval_bytes: int,
        *,
        bytes_since_last_entry: int = 0,
        last_entry_offset: int = -1,
        last_time_entry_ms: int = -1,
        max_timestamp_ms: int = -1,
        offset_of_max_timestamp: int = -1,
    ) -> None:
        """A segment opened again goes on with the last entries of its indexes; that of the time index is the running maximum too."""
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.bytes_since_last_entry = bytes_since_last_entry
        self.last_entry_offset = last_entry_offset
        self.last_time_entry_ms = last_time_entry_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.offset_of_max_timestamp = offset_of_max_timestamp

    def copy(self) -> "IndexRun":
        """For a try that may be dropped."""
        return IndexRun(
            self.base_offset,
            self.interval_bytes,
            bytes_since_last_entry=self.bytes_since_last_entry,
            last_entry_offset=self.last_entry_offset,
            last_time_entry_ms=self.last_time_entry_ms,
            max_timestamp_ms=self.max_timestamp_ms,
            offset_of_max_timestamp=self.offset_of_max_timestamp,
        )

    def add_batch(
        self, position: int, size_bytes: int, last_offset: int, max_timestamp_ms: int, free_offset_slots: int, free_time_slots: int
    ) -> tuple[int, bytes, bytes]:
        """One batch at `position` of the file: (stop, offset entry, time entry). No entry is no bytes; a stop changes nothing."""
        entries = bytearray(OFFSET_ENTRY_SIZE + TIME_ENTRY_SIZE)
        out: Pointer = entries
        written = self.advance(
            position, size_bytes, last_offset, max_timestamp_ms, out, 0, out, OFFSET_ENTRY_SIZE, free_offset_slots, free_time_slots
        )
        if written < 0:
            return -written, b"", b""
        return (
            0,
            take(out, 0, OFFSET_ENTRY_SIZE) if written > 0 else b"",
            take(out, OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE) if written > 1 else b"",
        )

    def add_batches(
        self,
        fields: Any,
        capacity: int,
        first: int,
        count: int,
        shift: int,
        offset_entries: Any,
        time_entries: Any,
        free_offset_slots: int,
        free_time_slots: int,
    ) -> tuple[int, int, int, int]:
        """`count` batches from `first` on, in the file `shift` bytes behind where they lie in the buffer.

        Gives back (stop, batches added, offset entries, time entries). The two outputs have room for an entry a batch.
        """
        if first < 0 or count < 0 or count > capacity - first or 14 * capacity > len(fields):
            raise ValueError(f"no headers {first} to {first + count} in an array for {capacity}")
        if len(offset_entries) < OFFSET_ENTRY_SIZE * count or len(time_entries) < TIME_ENTRY_SIZE * count:
            raise ValueError(f"no room for the entries of {count} batches")
        if count == 0:
            return 0, 0, 0, 0
        if cython.compiled:
            a = cython.address(fields[first])
            o = cython.address(offset_entries[0])
            t = cython.address(time_entries[0])
        else:
            a, o, t = fields[first:], offset_entries, time_entries
        done = 0
        offset_count = 0
        time_count = 0
        stop = 0
        with cython.nogil:
            while done < count:
                written = self.advance(
                    a[done] + shift,
                    a[capacity + done],
                    a[5 * capacity + done],
                    a[7 * capacity + done],
                    o,
                    OFFSET_ENTRY_SIZE * offset_count,
                    t,
                    TIME_ENTRY_SIZE * time_count,
                    free_offset_slots - offset_count,
                    free_time_slots - time_count,
                )
                if written < 0:
                    stop = -written
                    break
                if written > 0:
                    offset_count += 1
                    time_count += written - 1
                done += 1
        return stop, done, offset_count, time_count

    def advance(
        self,
        position: int,
        size: int,
        last_offset: int,
        max_timestamp: int,
        o: Pointer,
        offset_at: int,
        t: Pointer,
        time_at: int,
        free_offset_slots: int,
        free_time_slots: int,
    ) -> int:
        """One batch: how many entries it got (1: an offset entry, 2: a time entry too), written to `o` and `t`; or -stop."""
        relative_offset = last_offset - self.base_offset
        if last_offset < self.base_offset or relative_offset < 0 or relative_offset > MAX_INT32:
            return -OFFSET_OUT_OF_RANGE
        running_max = self.max_timestamp_ms
        running_offset = self.offset_of_max_timestamp
        if max_timestamp > running_max:
            running_max = max_timestamp
            running_offset = last_offset
        written = 0
        if self.bytes_since_last_entry > self.interval_bytes:
            if position < 0 or position > MAX_INT32:
                return -POSITION_OUT_OF_RANGE
            if free_offset_slots < 1:
                return -OFFSET_INDEX_FULL
            if last_offset <= self.last_entry_offset:
                return -OFFSET_NOT_INCREASING
            written = 1
            if running_max > self.last_time_entry_ms:
                if free_time_slots < 1:
                    return -TIME_INDEX_FULL
                written = 2
                put_int(t, time_at, running_max, 8)
                put_int(t, time_at + 8, running_offset - self.base_offset, 4)
                self.last_time_entry_ms = running_max
            put_int(o, offset_at, relative_offset, 4)
            put_int(o, offset_at + 4, position, 4)
            self.last_entry_offset = last_offset
            self.bytes_since_last_entry = 0
        self.max_timestamp_ms = running_max
        self.offset_of_max_timestamp = running_offset
        self.bytes_since_last_entry += size
        return written

    def last_time_entry(self) -> bytes:
        """The time entry that a segment gets when it is rolled, closed or recovered: the running maximum, or no bytes if it is there."""
        if self.max_timestamp_ms <= self.last_time_entry_ms:
            return b""
        entry = bytearray(TIME_ENTRY_SIZE)
        out: Pointer = entry
        put_int(out, 0, self.max_timestamp_ms, 8)
        put_int(out, 8, self.offset_of_max_timestamp - self.base_offset, 4)
        self.last_time_entry_ms = self.max_timestamp_ms
        return take(out, 0, TIME_ENTRY_SIZE)


def take(p: Pointer, start: int, size: int) -> bytes:
    """A bytes object of `size` bytes."""
    if cython.compiled:
        return p[start : start + size]  # type: ignore[no-any-return]
    return bytes(p[start : start + size])

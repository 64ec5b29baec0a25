"""Make Arrow columns from slices: where the bytes were only pointed at, gather them.

Binary columns are int32 offsets, data back to back, and a validity bitmap that the caller has filled with ones. Batches of format v2
are decoded straight into columns (`tidelog.record.kernel.records`); this is for legacy messages and for headers.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

if not cython.compiled:  # compiled, these are C functions, named in columns.pxd
    from tidelog.record.kernel.any_record import long_varint
    from tidelog.record.kernel.records import copy_bytes


def gather(payload: Any, starts: Any, lengths: Any, offsets: Any, data: Any, validity: Any) -> int:
    """Fill a binary column from slices of `payload`; give back how many are null (length -1). The caller has made room."""
    count = len(starts)
    nulls = 0
    at = 0
    if cython.compiled:
        p = cython.address(payload[0])
        d = cython.address(data[0])
    else:
        p, d = payload, data
    with cython.nogil:
        for i in range(count):
            offsets[i] = at
            length = lengths[i]
            if length > 0:
                copy_bytes(d, at, p, starts[i], length)
                at += length
            elif length < 0:
                validity[i >> 3] = validity[i >> 3] & (255 - (1 << (i & 7)))
                nulls += 1
        offsets[count] = at
    return nulls


def locate_headers(payload: Any, starts: Any, counts: Any, slices: Any) -> int:
    """Where every header of these records lies: four numbers each (name start, name length, value start, value length) in `slices`.

    The records were parsed before, so every length is known to be sound.
    """
    record_count = len(starts)
    end = len(payload)
    if record_count == 0 or end == 0:
        return 0
    if cython.compiled:
        p = cython.address(payload[0])
    else:
        p = payload
    done = 0
    capacity = len(slices) // 4
    with cython.nogil:
        for record in range(record_count):
            at = starts[record]
            for _ in range(counts[record]):
                at, length = long_varint(p, at, end, 32)
                slices[done] = at
                slices[capacity + done] = length
                at, length = long_varint(p, at + length, end, 32)
                slices[2 * capacity + done] = at
                slices[3 * capacity + done] = length
                if length > 0:
                    at += length
                done += 1
    return done

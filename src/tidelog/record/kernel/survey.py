"""Visit every record of v2 batches, as a leader does before it appends: check that all parse, and count what its rules ask for.

The answers for a batch are `SURVEY_FIELDS` numbers: max timestamp, records without a key, records whose timestamp is out of range, records
without a timestamp (-1), and 1 if the offset deltas are 0, 1, 2 … else 0. Timestamps are base plus delta, whatever the type bit says; the
largest of none is -1, and so is the largest of those below -1.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

from tidelog.record import slots
from tidelog.record.faults import Fault

if not cython.compiled:  # compiled, these are C functions, named in survey.pxd
    from tidelog.record.kernel.records import parse_one, report, report_record

Pointer = Any  # a C pointer when compiled, the memoryview itself when not

NEGATIVE_COUNT = int(Fault.NEGATIVE_COUNT)
RECORD_COUNT = int(Fault.RECORD_COUNT)
PAYLOAD_TOO_LONG = int(Fault.PAYLOAD_TOO_LONG)
BATCH_FIELDS = slots.BATCH_FIELDS
SURVEY_FIELDS = 5
MIN_RECORD_SIZE = 7

# From this many bytes on other threads may run in the meantime; for less, letting them costs more than the survey.
LARGE_BYTES = 65536


def survey_batches(payload: Any, batches: Any, lowest_ms: int, highest_ms: int, answers: Any, fault: Any) -> bool:
    """Survey batches described as for `decode_batches`. False: bad bytes, with (fault, position, found, expected, batch) in `fault`.

    `answers` has room for `SURVEY_FIELDS` numbers a batch. Of a count that cannot be, the position is where the payload starts.
    """
    count = len(batches) // BATCH_FIELDS
    if count == 0:
        return True
    size_bytes = len(payload)
    if len(answers) < SURVEY_FIELDS * count:
        raise ValueError(f"no room for the answers for {count} batches")
    if cython.compiled:
        # A payload of no bytes has no address; its batches are empty, and none is read.
        p = cython.address(payload[0]) if size_bytes else cython.NULL
        b = cython.address(batches[0])
        a = cython.address(answers[0])
        f = cython.address(fault[0])
    else:
        p, b, a, f = payload, batches, answers, fault
    ok = True
    with cython.nogil:
        for batch in range(count):
            field = BATCH_FIELDS * batch
            if b[field] < 0 or b[field + 1] < b[field] or b[field + 1] > size_bytes:
                ok = report(f, 0, b[field], b[field + 1], size_bytes, batch)
                break
            ok, max_timestamp, keyless, out_of_range, untimed, is_dense = survey(
                p, b[field], b[field + 1], b[field + 2], b[field + 4], lowest_ms, highest_ms, batch, f
            )
            if not ok:
                break
            field = SURVEY_FIELDS * batch
            a[field] = max_timestamp
            a[field + 1] = keyless
            a[field + 2] = out_of_range
            a[field + 3] = untimed
            a[field + 4] = is_dense
    if not ok and fault[0] == 0:
        raise ValueError(f"payload from byte {fault[1]} to {fault[2]} of a buffer of {size_bytes}")
    return ok


def survey_records(
    payload: Any, start: int, end: int, count: int, base_timestamp_ms: int, lowest_ms: int, highest_ms: int, fault: Any
) -> tuple[int, int, int, int, int]:
    """Survey one batch, whose records lie in `payload` from `start` to `end`. An `is_dense` of -1: bad bytes, told in `fault`."""
    size_bytes = len(payload)
    if start < 0 or end < start or end > size_bytes:
        raise ValueError(f"payload from byte {start} to {end} of a buffer of {size_bytes}")
    if cython.compiled:
        p = cython.address(payload[0]) if size_bytes else cython.NULL
        f = cython.address(fault[0])
    else:
        p, f = payload, fault
    if end - start < LARGE_BYTES:
        ok, max_timestamp, keyless, out_of_range, untimed, is_dense = survey(
            p, start, end, count, base_timestamp_ms, lowest_ms, highest_ms, 0, f
        )
    else:
        with cython.nogil:
            ok, max_timestamp, keyless, out_of_range, untimed, is_dense = survey(
                p, start, end, count, base_timestamp_ms, lowest_ms, highest_ms, 0, f
            )
    return max_timestamp, keyless, out_of_range, untimed, is_dense if ok else -1


def survey(
    p: Pointer, at: int, end: int, count: int, base_timestamp: int, lowest: int, highest: int, batch: int, f: Pointer
) -> tuple[bool, int, int, int, int, int]:
    """The records of one batch: (whether they parse, and the answers)."""
    max_timestamp = -1
    keyless = 0
    out_of_range = 0
    untimed = 0
    is_dense = 1
    if count < 0:
        return report(f, NEGATIVE_COUNT, at, count, 0, batch), 0, 0, 0, 0, 0
    if count > (end - at) // MIN_RECORD_SIZE:
        return report(f, RECORD_COUNT, at, count, (end - at) // MIN_RECORD_SIZE, batch), 0, 0, 0, 0, 0
    for index in range(count):
        start = at
        at, timestamp_delta, offset_delta, key_start, key_length, _, _, _, _ = parse_one(p, at, end)
        if at < 0:
            return report_record(f, start, end, index, count, batch, at, timestamp_delta, offset_delta, key_start), 0, 0, 0, 0, 0
        timestamp = wrap64(base_timestamp + timestamp_delta)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if timestamp == -1:
            untimed += 1
        elif timestamp < lowest or timestamp > highest:
            out_of_range += 1
        if key_length < 0:
            keyless += 1
        if offset_delta != index:
            is_dense = 0
    if at != end:
        return report(f, PAYLOAD_TOO_LONG, at, end - at, at, batch), 0, 0, 0, 0, 0
    return True, max_timestamp, keyless, out_of_range, untimed, is_dense


def wrap64(number: int) -> int:
    """Fold into a signed 64-bit integer, as Java and compiled code do by themselves."""
    if not cython.compiled:
        number = (number + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000
    return number

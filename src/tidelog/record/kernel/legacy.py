"""Parse v0 and v1 messages, whose headers have been walked, into slices (see `tidelog.record.kernel.records`).

The layout is drawn in `tidelog.record.legacy`.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

from tidelog.record.faults import Fault

if not cython.compiled:  # compiled, these are C functions, named in legacy.pxd
    from tidelog.record.kernel.headers import read_i32
    from tidelog.record.kernel.records import report

KEY_LENGTH = int(Fault.KEY_LENGTH)
VALUE_LENGTH = int(Fault.VALUE_LENGTH)
MESSAGE_SIZE = int(Fault.MESSAGE_SIZE)


def scan_messages(buffer: Any, positions: Any, sizes: Any, magics: Any, slices: Any, fault: Any) -> bool:
    """Parse messages into slices (key start, key length, value start, value length). False: bad bytes, told in `fault`.

    `walk_headers` has checked that each message lies in the buffer and has at least the smallest size of its magic.
    """
    count = len(positions)
    if count == 0:
        return True
    if cython.compiled:
        p = cython.address(buffer[0])
        f = cython.address(fault[0])
    else:
        p, f = buffer, fault
    ok = True
    with cython.nogil:
        for i in range(count):
            end = positions[i] + sizes[i]
            field = positions[i] + (26 if magics[i] == 1 else 18)
            key_start = field + 4
            key_length = read_i32(p, field)
            # Four bytes of the value's length must follow the key.
            if key_length < -1 or key_length > end - key_start - 4:
                ok = report(f, KEY_LENGTH, field, key_length, end - key_start - 4, i)
                break
            field = key_start
            if key_length > 0:
                field += key_length
            value_start = field + 4
            value_length = read_i32(p, field)
            if value_length < -1 or value_length > end - value_start:
                ok = report(f, VALUE_LENGTH, field, value_length, end - value_start, i)
                break
            field = value_start
            if value_length > 0:
                field += value_length
            if field != end:
                ok = report(f, MESSAGE_SIZE, positions[i], field - positions[i], sizes[i], i)
                break
            slices[i] = key_start
            slices[count + i] = key_length
            slices[2 * count + i] = value_start
            slices[3 * count + i] = value_length
    return ok

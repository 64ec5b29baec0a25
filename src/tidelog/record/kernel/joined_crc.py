"""The CRC-32C that a row of v2 batches must have as a whole if each batch has the one its header says.

A CRC is linear: that of A followed by B is that of A, shifted by the length of B, exclusive-or that of B. So the CRCs in the headers, and
the 21 bytes of each header that they do not cover, give the CRC of all the bytes, and to compare it with what the bytes have takes one
pass over them without a stop at each batch, in which the interpreter is not needed. A batch that is not as its header says changes the
result as surely as it changes its own CRC; of several, the odds that they cancel out are one in 2^32, as for any damage of a CRC.

To shift by n bytes is to multiply by x^(8n) modulo the polynomial. Bit 31 stands for x^0, as in every reflected CRC.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

Pointer = Any  # a C pointer when compiled, the memoryview itself when not

POLYNOMIAL = 0x82F63B78
ALL_ONES = 0xFFFFFFFF
BYTES = 256
POWERS = 1024
TABLE_SIZE = BYTES + 2 * POWERS
"""The CRC of each byte; x^(8n) for n below 1,024; x^(8n) for the first 1,024 multiples of 1,024."""
MAX_SPAN = POWERS * POWERS
CRC_START = 21
MAGIC_V2 = 2
IS_COMPILED: bool = cython.compiled


def fill_table(table: Any) -> None:
    """Compute the tables: uint32, `TABLE_SIZE` of them."""
    for byte in range(BYTES):
        crc = byte
        for _ in range(8):
            crc = times_x(crc)
        table[byte] = crc
    power = 1 << 31
    for n in range(POWERS):
        table[BYTES + n] = power
        for _ in range(8):
            power = times_x(power)
    step = power
    power = 1 << 31
    for n in range(POWERS):
        table[BYTES + POWERS + n] = power
        power = multiply(power, step)


def joined_crc(buffer: Any, fields: Any, capacity: int, first: int, count: int, table: Any) -> int:
    """By the headers of `count` batches from `first` on. -1: legacy, as large as `MAX_SPAN`, or not one behind the other."""
    if count == 0:
        return 0
    if cython.compiled:
        p = cython.address(buffer[0])
        a = cython.address(fields[first])
        t = cython.address(table[0])
    else:
        p, a, t = buffer, fields[first:], table
    crc = 0
    position = a[0]
    ok = True
    with cython.nogil:
        for i in range(count):
            span = a[capacity + i] - CRC_START
            if a[i] != position or a[2 * capacity + i] != MAGIC_V2 or span >= MAX_SPAN:
                ok = False
                break
            crc ^= ALL_ONES
            for at in range(position, position + CRC_START):
                crc = t[(crc ^ p[at]) & 255] ^ (crc >> 8)
            crc ^= ALL_ONES
            shift = multiply(t[BYTES + (span & 1023)], t[BYTES + POWERS + (span >> 10)])
            crc = multiply(crc, shift) ^ a[13 * capacity + i]
            position += span + CRC_START
    return crc if ok else -1


def multiply(a: int, b: int) -> int:
    """The product of two polynomials modulo the CRC's. No branch depends on the bits: they are random."""
    product = 0
    for i in range(32):
        product ^= b * ((a >> (31 - i)) & 1)
        b = times_x(b)
    return product


def times_x(a: int) -> int:
    """One bit further."""
    return (a >> 1) ^ (POLYNOMIAL * (a & 1))

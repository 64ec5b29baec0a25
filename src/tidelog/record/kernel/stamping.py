"""Put a producer into the headers of v2 batches that have none, and correct their CRCs, without a look at their records.

A CRC is linear: by how much that of a batch changes depends on the bytes of the header that change, and on how many bytes follow them. So
the CRC that was in the header goes on to speak for all the others.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

if not cython.compiled:  # compiled, these are C functions, named in stamping.pxd
    from tidelog.record.kernel.encode import put_int
    from tidelog.record.kernel.index_search import read_i32
    from tidelog.record.kernel.joined_crc import multiply

Pointer = Any  # a C pointer when compiled, the memoryview or the bytearray itself when not

HEADER_SIZE = 61
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
LOW_ATTRIBUTES_POSITION = 22
PRODUCER_POSITION = 43
TRANSACTIONAL_BIT = 0x10
BYTES = 256
POWERS = 1024
MAX_SPAN = 1 << 20
MAX_SEQUENCE = 0x7FFFFFFF
UNSIGNED = 0x100000000


def stamp_headers(parts: list[Any], counts: Any, producer_id: int, epoch: int, sequence: int, table: Any) -> int:
    """Stamp the batches of `parts`, a header and a payload for each, as transactional; give back the sequence that comes next.

    `counts` has the offsets of each batch, `table` what `joined_crc.fill_table` makes.
    """
    count = len(parts) // 2
    if count > len(counts):
        raise ValueError(f"{count} batches, and the counts of {len(counts)}")
    t: Pointer = cython.address(table[0]) if cython.compiled else table
    for i in range(count):
        header = parts[2 * i]
        if len(header) != HEADER_SIZE:
            raise ValueError(f"a header of {len(header)} bytes")
        payload_size = len(parts[2 * i + 1])
        p: Pointer = header
        before = checksum(p, t)
        p[LOW_ATTRIBUTES_POSITION] |= TRANSACTIONAL_BIT
        put_int(p, PRODUCER_POSITION, producer_id, 8)
        put_int(p, PRODUCER_POSITION + 8, epoch, 2)
        put_int(p, PRODUCER_POSITION + 10, sequence, 4)
        change = shifted(before ^ checksum(p, t), payload_size, t)
        stored = read_i32(p, CRC_POSITION)
        if stored < 0:
            stored += UNSIGNED
        put_int(p, CRC_POSITION, stored ^ change, 4)
        sequence = (sequence + counts[i]) & MAX_SEQUENCE
    return sequence


def checksum(p: Pointer, t: Pointer) -> int:
    """Of the part of a header that a CRC covers, without the ones that go before and behind: they cancel out."""
    crc = 0
    for at in range(ATTRIBUTES_POSITION, HEADER_SIZE):
        crc = t[(crc ^ p[at]) & 255] ^ (crc >> 8)
    return crc


def shifted(crc: int, size_bytes: int, t: Pointer) -> int:
    """A CRC, so many bytes further on."""
    while size_bytes > 0:
        step = size_bytes if size_bytes < MAX_SPAN else MAX_SPAN - 1
        crc = multiply(crc, multiply(t[BYTES + (step & 1023)], t[BYTES + POWERS + (step >> 10)]))
        size_bytes -= step
    return crc

"""Headers that get a producer, and the CRC that goes with it: that of the whole batch, computed anew, is the referee."""

import struct

import numpy as np
import pytest
from crc32c import crc32c

from tidelog.record.headers import crc_table
from tidelog.record.kernel.stamping import stamp_headers
from tidelog.record.views import view

TABLE = view(crc_table())
HEADER = struct.Struct(">qiiBIhiqqqhii")


def header_and_payload(payload_size: int, attributes: int = 0) -> list[bytearray | bytes]:
    payload = np.random.default_rng(payload_size).bytes(payload_size)
    header = bytearray(HEADER.pack(5, 49 + payload_size, 3, 2, 0, attributes, 8, 1_700_000_000_000, 1_700_000_000_009, -1, -1, -1, 9))
    struct.pack_into(">I", header, 17, crc32c(payload, crc32c(bytes(header[21:]))))
    return [header, payload]


@pytest.mark.parametrize("sizes", [[0], [1, 2, 3], [1023, 1024, 1025], [(1 << 20) - 1, 1 << 20, (1 << 20) + 1], [70_000] * 9])
@pytest.mark.parametrize("attributes", [0, 3, 0x10, 0x08])
def test_the_crc_is_that_of_the_whole_batch(sizes: list[int], attributes: int) -> None:
    parts = [part for size in sizes for part in header_and_payload(size, attributes)]
    counts = np.arange(1, len(sizes) + 1, dtype=np.int64)
    sequence = 0x7FFFFFFF - 1
    assert stamp_headers(parts, view(counts), (1 << 40) + 7, 300, sequence, TABLE) == (sequence + int(counts.sum())) & 0x7FFFFFFF
    for header, payload, count in zip(parts[::2], parts[1::2], counts.tolist(), strict=True):
        fields = HEADER.unpack(bytes(header))
        assert fields[5:] == (attributes | 0x10, 8, 1_700_000_000_000, 1_700_000_000_009, (1 << 40) + 7, 300, sequence, 9)
        assert fields[4] == crc32c(payload, crc32c(bytes(header[21:])))
        sequence = (sequence + count) & 0x7FFFFFFF


@pytest.mark.parametrize("bit", [0, 7, 8 * 30 + 1, 8 * 2000 + 5])
def test_damage_stays_damage(bit: int) -> None:
    """The payload is not read: what was wrong with it shows afterwards as before."""
    header, payload = header_and_payload(2001)
    damaged = bytearray(payload)
    damaged[bit // 8] ^= 1 << bit % 8
    stamp_headers([header, damaged], view(np.ones(1, np.int64)), 7, 0, 0, TABLE)
    assert struct.unpack_from(">I", header, 17)[0] != crc32c(damaged, crc32c(bytes(header[21:])))


def test_what_is_no_header_is_refused() -> None:
    with pytest.raises(ValueError, match="60 bytes"):
        stamp_headers([bytearray(60), b""], view(np.ones(1, np.int64)), 7, 0, 0, TABLE)
    with pytest.raises(ValueError, match="counts of 1"):
        stamp_headers(header_and_payload(1) * 2, view(np.ones(1, np.int64)), 7, 0, 0, TABLE)

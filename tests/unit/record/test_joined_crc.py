"""One CRC over many batches: it is the CRC of the bytes exactly if each batch has the one its header says."""

import random
import struct

import crc32c
import numpy as np
import pytest
from numpy.typing import NDArray

from tidelog.record.headers import FIELDS, BatchHeaders, first_bad_checksum, verify_checksums, walk_headers
from tidelog.record.kernel import joined_crc
from tidelog.record.views import view

RANDOM = random.Random(4)


def batch(size_bytes: int, magic: int = 2) -> bytearray:
    """Bytes that are a v2 batch as far as CRCs go."""
    data = bytearray(RANDOM.randbytes(size_bytes))
    struct.pack_into(">qii", data, 0, RANDOM.randrange(2**40), size_bytes - 12, RANDOM.randrange(9))
    data[16] = magic
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return data


def table() -> NDArray[np.uint32]:
    made = np.empty(joined_crc.TABLE_SIZE, np.uint32)
    joined_crc.fill_table(view(made))
    return made


TABLE = table()


def joined(data: bytes | bytearray, headers: BatchHeaders) -> int:
    return joined_crc.joined_crc(memoryview(data), view(headers.flat), headers.capacity, headers.first, len(headers), view(TABLE))


@pytest.mark.parametrize("sizes", [[61], [61, 62], [1044, 1045, 1046, 70], [100_000, 61, 3000], [(1 << 20) + 20, 61]])
def test_it_is_the_crc_of_all_the_bytes(sizes: list[int]) -> None:
    data = b"".join(map(batch, sizes))
    assert joined(data, walk_headers(data)) == crc32c.crc32c(data)


def test_a_part_of_the_batches() -> None:
    data = b"".join(map(batch, [200, 300, 400, 500]))
    headers = walk_headers(data)
    assert joined(data, headers[1:3]) == crc32c.crc32c(data[200:900])
    assert joined(data, headers[1:1]) == 0


@pytest.mark.parametrize("at", [21, 60, 200, 1999])
def test_any_bit_of_any_batch_shows(at: int) -> None:
    for number in range(5):
        for bit in range(8):
            data = bytearray(b"".join(batch(2000) for _ in range(5)))
            data[2000 * number + at] ^= 1 << bit
            assert joined(data, walk_headers(data)) != crc32c.crc32c(data)


def test_a_crc_in_a_header_that_is_another_shows() -> None:
    data = bytearray(b"".join(batch(2000) for _ in range(5)))
    data[4017] ^= 1
    assert joined(data, walk_headers(data)) != crc32c.crc32c(data)


def test_what_it_is_not_meant_for() -> None:
    large = b"".join(map(batch, [100, (1 << 20) + 21]))
    assert joined(large, walk_headers(large)) == -1
    legacy = batch(100) + batch(100, magic=1)
    assert joined(legacy, walk_headers(legacy)) == -1
    data = b"".join(map(batch, [100, 100]))
    apart = BatchHeaders(walk_headers(data).flat.copy(), walk_headers(data).capacity, 0, 2, 200)
    apart.flat[1] += 1
    assert joined(data, apart) == -1


@pytest.mark.parametrize("size_bytes", [100, 2048, 16_000])
@pytest.mark.parametrize("bad", [[], [0], [3], [9], [2, 3], [1, 8, 9]])
def test_the_first_bad_batch_is_found_whichever_way_was_taken(size_bytes: int, bad: list[int]) -> None:
    data = bytearray(b"".join(batch(size_bytes) for _ in range(10)))
    for number in bad:
        data[size_bytes * number + size_bytes - 1] ^= 64
    headers = walk_headers(data)
    headers.may_be_legacy = False
    good, error = first_bad_checksum(data, headers)
    assert good == (bad[0] if bad else 10)
    assert (error is None) == (not bad)
    if error is not None:
        assert error.position == bad[0] * size_bytes


def test_headers_of_another_buffer() -> None:
    data = b"".join(batch(4000) for _ in range(10))
    headers = walk_headers(data)
    with pytest.raises(ValueError, match="another buffer"):
        verify_checksums(data[:-1], headers)
    assert len(FIELDS) * headers.capacity == len(headers.flat)

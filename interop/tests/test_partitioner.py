"""A key goes to the partition that a producer of Kafka would give it: its own classes are asked about thousands of keys."""

from base64 import b64encode
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from interop.judge import Judge
from tidelog.record.hashing import murmur2, partitions_for_keys
from tidelog.record.kernel.hashing import partition_for_key
from tidelog.store.partitioner import Partitioner

MAX_LENGTH = 70
COUNTS = [*range(1, 65), 100, 127, 128, 129, 255, 256, 333, 500, 997, 999, 1000]


def keys_of_all_lengths(draw: Random) -> list[bytes]:
    """Of each length some of any bytes, some of high ones only (Java's bytes have a sign), and some of one byte again and again."""
    keys = []
    for length in range(MAX_LENGTH + 1):
        keys += [draw.randbytes(length) for _ in range(30)]
        keys += [bytes(draw.randrange(0x80, 0x100) for _ in range(length)) for _ in range(20)]
        keys += [bytes([byte]) * length for byte in (0x00, 0x7F, 0x80, 0xFF)]
    return [*keys, *(str(number).encode() for number in range(500)), "ключ".encode(), draw.randbytes(5000)]


@pytest.mark.parametrize("seed", range(2))
def test_keys_go_where_a_producer_puts_them(judge: Judge, seed: int) -> None:
    draw = Random(seed)
    keys = keys_of_all_lengths(draw)
    counts = COUNTS if seed == 0 else sorted(draw.sample(range(1, 1001), 100))
    answer = judge.ask("partitions", keys=[b64encode(key).decode() for key in keys], counts=counts)
    assert murmur2(keys).tolist() == answer["murmur2"]
    assert min(answer["murmur2"]) < 0 < max(answer["murmur2"])
    column = pa.array(keys, pa.binary())
    sizes = np.ones(len(keys), np.int64)
    for count, expected in zip(counts, answer["partitions"], strict=True):
        assert partitions_for_keys(column, count).tolist() == expected, count
        assert [partition_for_key(key, count) for key in keys] == expected, count
        partitioner = Partitioner(count, range(count), draw)
        assert [partitioner.partition(key, 10) for key in keys[::7]] == expected[::7], count
        assert partitioner.partitions(keys, sizes).tolist() == expected, count


def test_the_largest_number_of_partitions(judge: Judge) -> None:
    keys = [b"", b"a", b"\xff" * 13]
    answer = judge.ask("partitions", keys=[b64encode(key).decode() for key in keys], counts=[2**31 - 1])
    assert partitions_for_keys(keys, 2**31 - 1).tolist() == answer["partitions"][0]

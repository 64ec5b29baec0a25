"""Keys go where Kafka's murmur2 says, records without one stick to a partition for a while."""

from collections import Counter
from itertools import groupby, pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from tidelog.record.hashing import partitions_for_keys
from tidelog.record.kernel.hashing import partition_for_key
from tidelog.store.partitioner import Partitioner

# From Kafka's own tests (UtilsTest.testMurmur2), as Java's signed numbers.
KAFKAS = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50, 2**31 - 1])
def test_keys_are_placed_as_kafkas_clients_do(count: int) -> None:
    for key, murmur2 in KAFKAS.items():
        assert partition_for_key(key, count) == (murmur2 & 0x7FFFFFFF) % count == Partitioner(count, range(1), Random(1)).partition(key, 5)


def test_one_by_one_and_all_at_once_are_the_same() -> None:
    random = Random(3)
    keys = [random.randbytes(random.randrange(40)) for _ in range(500)]
    for count in (1, 3, 16):
        expected = partitions_for_keys(keys, count).tolist()
        assert [partition_for_key(key, count) for key in keys] == expected
        assert Partitioner(count, range(count), random).partitions(keys, np.empty(0, np.int64)).tolist() == expected


def test_a_key_need_not_be_bytes_to_be_refused() -> None:
    with pytest.raises(TypeError):
        partition_for_key("text", 3)  # type: ignore[arg-type]


def test_without_a_key_a_partition_is_left_when_it_is_full() -> None:
    partitioner = Partitioner(5, range(5), Random(2), sticky_bytes=1000)
    places = [partitioner.partition(None, 100) for _ in range(10_000)]
    runs = [(place, len(list(group))) for place, group in groupby(places)]
    assert {length for _, length in runs} == {10}
    assert all(count > 1500 for count in Counter(places).values())
    assert len(Counter(places)) == 5


def test_a_large_record_takes_its_turn_alone() -> None:
    partitioner = Partitioner(3, range(3), Random(2), sticky_bytes=1000)
    places = [partitioner.partition(None, 5000) for _ in range(50)]
    assert all(one != other for one, other in pairwise(places))


def test_many_without_a_key_go_on_where_the_last_call_stopped() -> None:
    sizes = np.full(92, 100, np.int64)
    for keys in ([None] * 92, pa.nulls(92, pa.binary())):
        partitioner = Partitioner(5, range(5), Random(2), sticky_bytes=1000)
        places = [*partitioner.partitions(keys, sizes).tolist(), *partitioner.partitions(keys, sizes).tolist()]
        lengths = [len(list(group)) for _, group in groupby(places)]
        assert lengths == [10] * 18 + [4]
        assert [partitioner.partition(None, 100) == places[-1] for _ in range(7)] == [True] * 6 + [False]


def test_some_with_a_key_and_some_without() -> None:
    keys = [b"a", None, b"b", None, None]
    partitioner = Partitioner(7, range(7), Random(4), sticky_bytes=300)
    places = partitioner.partitions(keys, np.full(5, 100, np.int64)).tolist()
    assert [places[0], places[2]] == [partition_for_key(b"a", 7), partition_for_key(b"b", 7)]
    assert places[1] == places[3] == places[4]
    assert partitioner.partition(None, 100) != places[4]


def test_only_partitions_that_are_here_get_records_without_a_key() -> None:
    partitioner = Partitioner(9, (2, 5), Random(2), sticky_bytes=1)
    assert {partitioner.partition(None, 10) for _ in range(50)} == {2, 5}


def test_one_partition_is_always_the_same() -> None:
    partitioner = Partitioner(1, (0,), Random(2), sticky_bytes=1)
    assert {partitioner.partition(None, 10) for _ in range(5)} == {0}

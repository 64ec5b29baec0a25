"""Hashes of keys: a keyed 128-bit hash to tell keys apart, and murmur2 to choose a partition as Kafka's clients do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidelog.record.arrow_input import binary_parts
from tidelog.record.kernel import hashing as kernel
from tidelog.record.views import view

if TYPE_CHECKING:
    import pyarrow as pa


def siphash128(keys: "pa.Array | Sequence[bytes | None]", secret: bytes) -> NDArray[np.uint64]:
    """SipHash-2-4 with 128-bit output of every key, under a `secret` of 16 bytes: an array of two little-endian words a key.

    Nobody who does not know the secret can make two keys collide. A null key hashes to zeros.
    """
    if len(secret) != 16:
        raise ValueError(f"the secret has {len(secret)} bytes: SipHash takes 16")
    data, starts, lengths = _slices(keys)
    hashes = np.empty(2 * len(starts), np.uint64)
    low, high = int.from_bytes(secret[:8], "little"), int.from_bytes(secret[8:], "little")
    kernel.siphash128_slices(data, view(starts), view(lengths), low, high, view(hashes))
    return hashes.reshape(-1, 2)


def murmur2(keys: "pa.Array | Sequence[bytes | None]") -> NDArray[np.int32]:
    """Kafka's murmur2 of every key, as Java's signed int. A null key, which Kafka does not hash, gives 0."""
    data, starts, lengths = _slices(keys)
    hashes = np.empty(len(starts), np.uint32)
    kernel.murmur2_slices(data, view(starts), view(lengths), view(hashes))
    return hashes.view(np.int32)


def partitions_for_keys(keys: "pa.Array | Sequence[bytes | None]", partition_count: int) -> NDArray[np.int32]:
    """The partition that Kafka's default partitioner gives each key: the hash without its sign, modulo the partitions."""
    if partition_count < 1:
        raise ValueError(f"a topic has at least one partition, not {partition_count}")
    partitions: NDArray[np.int32] = (murmur2(keys) & 0x7FFFFFFF) % np.int32(partition_count)
    return partitions


def _slices(keys: Any) -> tuple[memoryview, NDArray[np.int32], NDArray[np.int32]]:
    """(data, starts, lengths) of a key column; a length of -1 is a null."""
    import pyarrow as pa

    array = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.binary())
    offsets, data, nulls = binary_parts("key", array)
    ends = np.frombuffer(offsets, np.int32)
    lengths = np.diff(ends)
    if len(nulls):
        lengths[np.frombuffer(nulls, np.bool_)] = -1
    return data, np.ascontiguousarray(ends[:-1]), lengths

"""Hash whole key columns: SipHash-2-4 with 128-bit output, and murmur2 as Kafka's partitioner has it.

Keys are given as slices of one data buffer (starts and lengths), so that Arrow columns and undecoded payloads are hashed alike. A key of
length -1 (null) hashes to zero. `low64` and `low32` cut to the width that C types have by themselves.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

Pointer = Any  # a C pointer when compiled, the memoryview itself when not

# SipHash's initial state, "somepseudorandomlygeneratedbytes".
INIT0 = 0x736F6D6570736575
INIT1 = 0x646F72616E646F6D
INIT2 = 0x6C7967656E657261
INIT3 = 0x7465646279746573

MURMUR_MULTIPLIER = 0x5BD1E995
MURMUR_SEED = 0x9747B28C


def siphash128_slices(data: Any, starts: Any, lengths: Any, key0: int, key1: int, hashes: Any) -> None:
    """Two 64-bit words a key into `hashes` (uint64), under the 128-bit key (key0, key1)."""
    count = len(starts)
    if count == 0:
        return
    if cython.compiled:
        p = cython.address(data[0])
        h = cython.address(hashes[0])
    else:
        p, h = data, hashes
    i = 0
    with cython.nogil:
        while i < count:
            if lengths[i] < 0:
                h[2 * i] = 0
                h[2 * i + 1] = 0
            elif i + 1 < count and lengths[i] == lengths[i + 1]:
                siphash128_pair(p, starts[i], starts[i + 1], lengths[i], key0, key1, h, 2 * i)
                i += 1
            else:
                low, high = siphash128(p, starts[i], lengths[i], key0, key1)
                h[2 * i] = low
                h[2 * i + 1] = high
            i += 1


def siphash128(p: Pointer, start: int, length: int, key0: int, key1: int) -> tuple[int, int]:
    """SipHash-2-4 with 128-bit output, as two little-endian words."""
    v0 = key0 ^ INIT0
    v1 = key1 ^ INIT1 ^ 0xEE  # what tells the 128-bit variant apart
    v2 = key0 ^ INIT2
    v3 = key1 ^ INIT3
    at = start
    end = start + length - (length & 7)
    while at < end:
        word = read_u64_le(p, at)
        v3 ^= word
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0 ^= word
        at += 8
    word = length & 255
    word = word << 56
    for i in range(length & 7):
        byte = p[at + i]
        word |= byte << (8 * i)
    v3 ^= word
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= 0xEE
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


def siphash128_pair(p: Pointer, start: int, other: int, length: int, key0: int, key1: int, h: Pointer, out_at: int) -> None:
    """`siphash128` of two keys of one length: four words. A round waits for the one before it, but not for the other key's."""
    v0 = w0 = key0 ^ INIT0
    v1 = w1 = key1 ^ INIT1 ^ 0xEE
    v2 = w2 = key0 ^ INIT2
    v3 = w3 = key1 ^ INIT3
    at = 0
    end = length - (length & 7)
    while at < end:
        word = read_u64_le(p, start + at)
        twin = read_u64_le(p, other + at)
        v3 ^= word
        w3 ^= twin
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        w0, w1, w2, w3 = sip_round(w0, w1, w2, w3)
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        w0, w1, w2, w3 = sip_round(w0, w1, w2, w3)
        v0 ^= word
        w0 ^= twin
        at += 8
    word = length & 255
    word = word << 56
    twin = word
    for i in range(length & 7):
        byte = p[start + at + i]
        word |= byte << (8 * i)
        byte = p[other + at + i]
        twin |= byte << (8 * i)
    v3 ^= word
    w3 ^= twin
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    w0, w1, w2, w3 = sip_round(w0, w1, w2, w3)
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    w0, w1, w2, w3 = sip_round(w0, w1, w2, w3)
    v0 ^= word
    w0 ^= twin
    v2 ^= 0xEE
    w2 ^= 0xEE
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        w0, w1, w2, w3 = sip_round(w0, w1, w2, w3)
    h[out_at] = v0 ^ v1 ^ v2 ^ v3
    h[out_at + 2] = w0 ^ w1 ^ w2 ^ w3
    v1 ^= 0xDD
    w1 ^= 0xDD
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        w0, w1, w2, w3 = sip_round(w0, w1, w2, w3)
    h[out_at + 1] = v0 ^ v1 ^ v2 ^ v3
    h[out_at + 3] = w0 ^ w1 ^ w2 ^ w3


def sip_round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    """One SipRound."""
    v0 = low64(v0 + v1)
    v1 = rotate_left(v1, 13) ^ v0
    v0 = rotate_left(v0, 32)
    v2 = low64(v2 + v3)
    v3 = rotate_left(v3, 16) ^ v2
    v0 = low64(v0 + v3)
    v3 = rotate_left(v3, 21) ^ v0
    v2 = low64(v2 + v1)
    v1 = rotate_left(v1, 17) ^ v2
    v2 = rotate_left(v2, 32)
    return v0, v1, v2, v3


def rotate_left(word: int, bits: int) -> int:
    """Rotate 64 bits."""
    return low64(word << bits) | (word >> (64 - bits))


def low64(number: int) -> int:
    """The low 64 bits."""
    return number if cython.compiled else number & 0xFFFFFFFFFFFFFFFF


def low32(number: int) -> int:
    """The low 32 bits."""
    return number if cython.compiled else number & 0xFFFFFFFF


def read_u64_le(p: Pointer, at: int) -> int:
    """Eight bytes, least significant first."""
    word = p[at + 7]
    word = (word << 8) | p[at + 6]
    word = (word << 8) | p[at + 5]
    word = (word << 8) | p[at + 4]
    word = (word << 8) | p[at + 3]
    word = (word << 8) | p[at + 2]
    word = (word << 8) | p[at + 1]
    return (word << 8) | p[at]  # type: ignore[no-any-return]


def murmur2_slices(data: Any, starts: Any, lengths: Any, hashes: Any) -> None:
    """Kafka's murmur2 of every key into `hashes` (uint32)."""
    count = len(starts)
    if count == 0:
        return
    if cython.compiled:
        p = cython.address(data[0])
    else:
        p = data
    with cython.nogil:
        for i in range(count):
            hashes[i] = 0 if lengths[i] < 0 else murmur2(p, starts[i], lengths[i])


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of one key, as Kafka's clients choose it: murmur2 without its sign, modulo the partitions."""
    p: Pointer = key
    h = murmur2(p, 0, len(key))
    return (h & 0x7FFFFFFF) % partition_count


def murmur2(p: Pointer, start: int, length: int) -> int:
    """murmur2, 32 bits, with Kafka's seed."""
    h = low32(MURMUR_SEED ^ length)
    at = start
    end = start + length - (length & 3)
    while at < end:
        k = p[at + 3]
        k = (k << 8) | p[at + 2]
        k = (k << 8) | p[at + 1]
        k = (k << 8) | p[at]
        k = low32(k * MURMUR_MULTIPLIER)
        k ^= k >> 24
        k = low32(k * MURMUR_MULTIPLIER)
        h = low32(h * MURMUR_MULTIPLIER)
        h ^= k
        at += 4
    left = length & 3
    if left > 0:
        k = 0
        for i in range(left):
            byte = p[at + i]
            k |= byte << (8 * i)
        h ^= k
        h = low32(h * MURMUR_MULTIPLIER)
    h ^= h >> 13
    h = low32(h * MURMUR_MULTIPLIER)
    h ^= h >> 15
    return h

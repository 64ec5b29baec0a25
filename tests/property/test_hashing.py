"""Key hashes against models written from their descriptions, one key at a time and in columns."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidelog.record import murmur2, partitions_for_keys, siphash128

MASK64 = 2**64 - 1
MASK32 = 2**32 - 1

keys = st.one_of(st.binary(max_size=40), st.binary(min_size=250, max_size=260))
key_columns = st.lists(st.one_of(st.none(), keys), max_size=12)
secrets = st.binary(min_size=16, max_size=16)


def model_siphash128(key: bytes, secret: bytes) -> tuple[int, int]:
    """SipHash-2-4 with 128 bits of output, after the paper of Aumasson and Bernstein and the 128-bit variant of its authors."""
    k0, k1 = (int.from_bytes(secret[at : at + 8], "little") for at in (0, 8))
    v = [0x736F6D6570736575 ^ k0, 0x646F72616E646F6D ^ k1 ^ 0xEE, 0x6C7967656E657261 ^ k0, 0x7465646279746573 ^ k1]

    def rotate(word: int, bits: int) -> int:
        return ((word << bits) | (word >> (64 - bits))) & MASK64

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & MASK64
            v[2] = (v[2] + v[3]) & MASK64
            v[1] = rotate(v[1], 13) ^ v[0]
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[1]) & MASK64
            v[0] = (v[0] + v[3]) & MASK64
            v[1] = rotate(v[1], 17) ^ v[2]
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = rotate(v[2], 32)

    padded = key + bytes(7 - len(key) % 8) + bytes([len(key) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(4)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return low, v[0] ^ v[1] ^ v[2] ^ v[3]


def model_murmur2(key: bytes) -> int:
    """MurmurHash2 of 32 bits with the seed of Kafka's clients, as a signed int."""
    m = 0x5BD1E995
    h = (0x9747B28C ^ len(key)) & MASK32
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & MASK32
        k = (k ^ k >> 24) * m & MASK32
        h = (h * m & MASK32) ^ k
    if key[whole:]:
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & MASK32
    h = (h ^ h >> 13) * m & MASK32
    h ^= h >> 15
    return h - 2**32 if h >= 2**31 else h


def test_the_models_give_known_answers() -> None:
    # First vectors of the reference implementation, and of Kafka's own test.
    assert model_siphash128(b"", bytes(range(16))) == (0xE6A825BA047F81A3, 0x930255C71472F66D)
    assert model_murmur2(b"21") == -973932308
    assert model_murmur2(b"foobar") == -790332482


@given(keys, secrets)
def test_siphash128_equals_the_model(key: bytes, secret: bytes) -> None:
    assert tuple(siphash128([key], secret)[0].tolist()) == model_siphash128(key, secret)


@given(keys)
def test_murmur2_equals_the_model(key: bytes) -> None:
    assert murmur2([key]).tolist() == [model_murmur2(key)]


@given(key_columns, secrets, st.data())
def test_columns_slices_and_single_keys_agree(column: list[bytes | None], secret: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(column)))
    length = data.draw(st.integers(0, len(column) - start))
    part = column[start : start + length]
    array = pa.array(column, data.draw(st.sampled_from((pa.binary(), pa.large_binary())))).slice(start, length)
    assert siphash128(array, secret).tolist() == [[0, 0] if key is None else list(model_siphash128(key, secret)) for key in part]
    assert murmur2(array).tolist() == [0 if key is None else model_murmur2(key) for key in part]
    assert siphash128(part, secret).tolist() == siphash128(array, secret).tolist()


@given(st.lists(keys, max_size=12), st.integers(1, 2**31 - 1))
def test_partitions_are_the_hash_without_its_sign(column: list[bytes], partition_count: int) -> None:
    expected = [(model_murmur2(key) & 0x7FFFFFFF) % partition_count for key in column]
    assert partitions_for_keys(column, partition_count).tolist() == expected

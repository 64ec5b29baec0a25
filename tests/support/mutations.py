"""Mutations of valid batches that know the format, so that a broken length or count gets past the checks in front of it.

A batch is taken apart into its tokens (every varint and every byte string of every record), one or a few tokens are broken, and it is put
together again: record lengths, compression, batch length and CRC are made right around the damage, most of the time. Everything is
drawn from one `random.Random`, so a seed and an index give the same bytes again.
"""

import random
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import crc32c

from tidelog.record import Compression, ControlType, NewBatch, empty_batch, encode_batches, transaction_marker
from tidelog.record.compression import compress, decompress
from tidelog.record.encoding import BatchSettings

GOLDEN = Path(__file__).parent.parent / "golden" / "batches"
LARGEST_SAMPLE_BYTES = 2000

Tokens = tuple[bytes, ...]

_SMALL = (0, 1, -1, -2, 2, 6, 7, 8, 60, 61, 63, 64, 127, 128, 255, 256, 8191, 8192, 32767, -32768, 65535)
INTERESTING = (*_SMALL, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, -(2**63))

# name -> (position, size) of the fields of a v2 header.
HEADER_FIELDS = {
    "base_offset": (0, 8),
    "batch_length": (8, 4),
    "partition_leader_epoch": (12, 4),
    "magic": (16, 1),
    "crc": (17, 4),
    "attributes": (21, 2),
    "last_offset_delta": (23, 4),
    "base_timestamp": (27, 8),
    "max_timestamp": (35, 8),
    "producer_id": (43, 8),
    "producer_epoch": (51, 2),
    "base_sequence": (53, 4),
    "record_count": (57, 4),
}
HEADER_SIZE = 61


@dataclass(frozen=True, slots=True)
class V2Sample:
    """A valid v2 batch, taken apart."""

    data: bytes
    codec: Compression
    payload: bytes
    records: tuple[Tokens, ...]
    """For each record its tokens after the length: attributes, varints, and byte strings where they are not null."""


@dataclass(frozen=True, slots=True)
class LegacySample:
    """A valid message of magic 0 or 1, or a wrapper with its inner messages."""

    data: bytes
    codec: Compression
    tokens: Tokens
    inner: tuple[Tokens, ...]


Sample = V2Sample | LegacySample


def mutated_buffer(seed: int, index: int) -> bytes:
    """Input `index` of the run with this seed: a buffer of one to four batches, of which at least one was broken."""
    rng = random.Random((seed << 40) + index)
    samples = corpus()
    parts = [mutate_sample(rng, rng.choice(samples))]
    if rng.random() < 0.3:
        parts.append(mutate_sample(rng, rng.choice(samples)) if rng.random() < 0.3 else rng.choice(samples).data)
    if rng.random() < 0.3:
        parts.insert(0, rng.choice(samples).data)
    if rng.random() < 0.002:
        parts.insert(rng.randrange(len(parts) + 1), rng.choice(bombs()))
    buffer = b"".join(parts)
    return mutate_bytes(rng, buffer, rng.choice(samples).data) if rng.random() < 0.05 else buffer


@cache
def corpus() -> Sequence[Sample]:
    """Small valid batches of every kind: from our encoder, and from the golden files that Kafka wrote."""
    buffers = [_own_samples()]
    buffers += [path.read_bytes() for path in sorted(GOLDEN.glob("*.log")) if path.stat().st_size <= LARGEST_SAMPLE_BYTES]
    return tuple(take_apart(batch) for buffer in buffers for batch in split_batches(buffer))


@cache
def bombs() -> Sequence[bytes]:
    """For every codec a batch of few bytes that expands to three mebibytes."""
    return tuple(encode_batches([(b"k", bytes(3 << 20))], compression=codec, batch_bytes=4 << 20) for codec in list(Compression)[1:])


def _own_samples() -> bytes:
    plain = [(b"key", b"value"), (None, b""), (b"", None), (b"k" * 70, b"v" * 300)]
    headers = [("a", b"1"), ("", None), ("näme", b""), ("a", b"x" * 130)]
    rows = [(key, value, headers[: index % 5], 1_700_000_000_000 + delta) for index, ((key, value), delta) in
            enumerate(zip(plain * 2, (0, 5, -7, 2**33, -(2**33), 1, 300, 0), strict=True))]  # fmt: skip
    out = b""
    for codec in Compression:
        out += encode_batches(rows, base_offset=2**40, compression=codec, producer_id=2**34, producer_epoch=3, base_sequence=2**31 - 3)
        out += encode_batches(rows[:2], compression=codec, append_time_ms=2**41)
        out += encode_batches([(b"k", b"v")] * 40, compression=codec, batch_bytes=150)
        out += NewBatch([(b"k", None)], settings=BatchSettings(compression=codec, delete_horizon_ms=2**42), timestamp_ms=2**41).encode()
    out += transaction_marker(ControlType.COMMIT, producer_id=9, producer_epoch=1, coordinator_epoch=3, timestamp_ms=2**41)
    return out + empty_batch(base_offset=10, last_offset=14, partition_leader_epoch=0, attributes=0, max_timestamp_ms=5, producer_id=9)


def split_batches(buffer: bytes) -> list[bytes]:
    """The batches of a valid buffer."""
    batches = []
    while buffer:
        size = 12 + int.from_bytes(buffer[8:12], "big")
        batches.append(buffer[:size])
        buffer = buffer[size:]
    return batches


def take_apart(batch: bytes) -> Sample:
    """The tokens of a valid batch."""
    if batch[16] < 2:
        codec = Compression(batch[17] & 7)
        tokens = _message_tokens(batch)
        inner: tuple[Tokens, ...] = ()
        if codec:
            inner = tuple(_message_tokens(message) for message in split_batches(decompress(codec, tokens[-1], magic=batch[16])))
        return LegacySample(batch, codec, tokens, inner)
    codec = Compression(batch[22] & 7)
    payload = bytes(decompress(codec, batch[HEADER_SIZE:])) if batch[57:61] != bytes(4) else b""
    return V2Sample(batch, codec, payload, _record_tokens(payload))


def _message_tokens(message: bytes) -> Tokens:
    """Offset, size, CRC, magic, attributes, timestamp if any, key length, key, value length, value."""
    sizes = [8, 4, 4, 1, 1] + ([8] if message[16] == 1 else [])
    tokens, at = [], 0
    for size in sizes:
        tokens.append(message[at : at + size])
        at += size
    for _ in range(2):
        length = int.from_bytes(message[at : at + 4], "big", signed=True)
        tokens += [message[at : at + 4], message[at + 4 : at + 4 + max(0, length)]]
        at += 4 + max(0, length)
    assert at == len(message)
    return tuple(tokens)


def _record_tokens(payload: bytes) -> tuple[Tokens, ...]:
    """The tokens of every record."""
    records = []
    at = 0
    while at < len(payload):
        at, length = read_varint(payload, at)
        end = at + length
        tokens = [payload[at : at + 1]]
        at += 1
        for _ in range(2):  # timestamp delta, offset delta
            start = at
            at, _number = read_varint(payload, at)
            tokens.append(payload[start:at])
        at = _string_tokens(payload, at, tokens, 2)
        start = at
        at, count = read_varint(payload, at)
        tokens.append(payload[start:at])
        at = _string_tokens(payload, at, tokens, 2 * count)
        assert at == end
        records.append(tuple(tokens))
    return tuple(records)


def _string_tokens(payload: bytes, at: int, tokens: list[bytes], count: int) -> int:
    for _ in range(count):
        start = at
        at, length = read_varint(payload, at)
        tokens += [payload[start:at], payload[at : at + max(0, length)]]
        at += max(0, length)
    return at


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(next position, value) of a valid zigzag varint."""
    raw = shift = 0
    while True:
        byte = data[at]
        raw |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return at, (raw >> 1) ^ -(raw & 1)


def varint(number: int) -> bytes:
    """A zigzag varint, as long as it takes."""
    raw = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while raw >= 128:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def mutate_sample(rng: random.Random, sample: Sample) -> bytes:
    """A broken copy of a batch, never the batch itself."""
    while True:
        broken = _mutate_v2(rng, sample) if isinstance(sample, V2Sample) else _mutate_legacy(rng, sample)
        if broken != sample.data:
            return broken


def _mutate_v2(rng: random.Random, sample: V2Sample) -> bytes:
    header = bytearray(sample.data[:HEADER_SIZE])
    stored = sample.data[HEADER_SIZE:]
    place = rng.random()
    lied = ""
    if place < 0.55 and sample.records:
        stored = _stored(sample.codec, _mutate_records(rng, sample, header))
    elif place < 0.65:
        stored = _stored(sample.codec, mutate_bytes(rng, sample.payload, b"\x00\x02"))
    elif place < 0.85:
        for _ in range(rng.choice((1, 1, 2))):
            lied = rng.choice(list(HEADER_FIELDS))
            _lie_in_header(rng, header, lied)
    else:
        stored = mutate_bytes(rng, stored, sample.payload)
    if lied != "batch_length" and rng.random() < 0.95:
        header[8:12] = _int_bytes(HEADER_SIZE - 12 + len(stored), 4)
    out = header + stored
    if lied != "crc" and rng.random() < 0.95:
        fix_crc(out)
    return bytes(out)


def fix_crc(batch: bytearray) -> None:
    """Make the CRC of a single batch or message right."""
    if batch[16] >= 2:
        batch[17:21] = crc32c.crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    else:
        batch[12:16] = zlib.crc32(memoryview(batch)[16:]).to_bytes(4, "big")


def _stored(codec: Compression, payload: bytes) -> bytes:
    return bytes(compress(codec, payload))


def _mutate_records(rng: random.Random, sample: V2Sample, header: bytearray) -> bytes:
    records = [list(tokens) for tokens in sample.records]
    lied_length = -1
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        choice = rng.random()
        record = rng.choice(records)
        at = rng.randrange(len(record))
        if choice < 0.5:
            record[at] = _broken_varint(rng, record[at])
        elif choice < 0.65:
            record[at] = mutate_bytes(rng, record[at], rng.choice(record))
        elif choice < 0.75:
            lied_length = rng.randrange(len(records))
        elif choice < 0.8:
            del record[at : at + rng.randint(1, 3)]
            if not record:
                record.append(b"")
        elif choice < 0.85:
            record.insert(at, rng.choice(rng.choice(records)))
        else:
            _mutate_record_list(rng, records, header)
    out = bytearray()
    for index, record in enumerate(records):
        body = b"".join(record)
        length = varint(len(body))
        out += _broken_varint(rng, length) if index == lied_length else length
        out += body
    return bytes(out)


def _mutate_record_list(rng: random.Random, records: list[list[bytes]], header: bytearray) -> None:
    """Repeat, drop or borrow a record; sometimes the count follows."""
    at = rng.randrange(len(records))
    other = rng.choice(corpus())
    if isinstance(other, V2Sample) and other.records and rng.random() < 0.5:
        records.insert(at, list(rng.choice(other.records)))
    elif len(records) > 1 and rng.random() < 0.5:
        del records[at]
    else:
        records.insert(at, list(records[at]))
    if rng.random() < 0.7:
        header[57:61] = _int_bytes(len(records), 4)


def _broken_varint(rng: random.Random, token: bytes) -> bytes:
    choice = rng.random()
    if choice < 0.35 and token and token[-1] < 128 and len(token) <= 10:
        return varint(read_varint(token, 0)[1] + rng.choice((-2, -1, 1, 2, 3, 64, 128)))
    if choice < 0.8:
        return varint(rng.choice(INTERESTING))
    if choice < 0.9:  # longer than it needs to be
        return bytes([byte | 128 for byte in token] or [128]) + b"\x80" * rng.choice((0, 1, 3, 8)) + rng.choice((b"\x00", b"\x01", b"\x0f"))
    return b"\xff" * rng.choice((1, 4, 5, 9, 10, 11)) + rng.choice((b"", b"\x00", b"\x01", b"\x0f", b"\x7f"))


def _lie_in_header(rng: random.Random, header: bytearray, name: str) -> None:
    position, size = HEADER_FIELDS[name]
    if name == "attributes":
        header[22] ^= 1 << rng.randrange(8)
        return
    number = int.from_bytes(header[position : position + size], "big", signed=True)
    number = number + rng.choice((-2, -1, 1, 2, 7, 100)) if rng.random() < 0.4 else rng.choice(INTERESTING)
    header[position : position + size] = _int_bytes(number, size)


def _int_bytes(number: int, size: int) -> bytes:
    return (number & ((1 << 8 * size) - 1)).to_bytes(size, "big")


def _mutate_legacy(rng: random.Random, sample: LegacySample) -> bytes:
    tokens = list(sample.tokens)
    place = rng.random()
    if sample.inner and place < 0.6:
        inner = [bytes(_mutate_message(rng, message, fix=0.9)) if rng.random() < 0.5 else b"".join(message) for message in sample.inner]
        if rng.random() < 0.2:
            inner.insert(rng.randrange(len(inner)), rng.choice(inner))
        payload = b"".join(inner)
        if rng.random() < 0.2:
            payload = mutate_bytes(rng, payload, sample.data)
        tokens[-1] = _stored(sample.codec, payload)
        tokens[-2] = _int_bytes(len(tokens[-1]), 4)
        return bytes(_assemble(tokens, fix_size=True, crc=rng.random() < 0.95))
    if place < 0.8:
        return bytes(_mutate_message(rng, sample.tokens, fix=0.95))
    tokens[-1] = mutate_bytes(rng, tokens[-1], sample.data)
    if rng.random() < 0.9:
        tokens[-2] = _int_bytes(len(tokens[-1]), 4)
    return bytes(_assemble(tokens, fix_size=rng.random() < 0.9, crc=rng.random() < 0.95))


def _mutate_message(rng: random.Random, message: Tokens, *, fix: float) -> bytearray:
    tokens = list(message)
    at = rng.randrange(len(tokens))
    size = len(tokens[at])
    if size in (1, 4, 8) and rng.random() < 0.8:
        number = int.from_bytes(tokens[at], "big", signed=True)
        tokens[at] = _int_bytes(number + rng.choice((-2, -1, 1, 2)) if rng.random() < 0.5 else rng.choice(INTERESTING), size)
    else:
        tokens[at] = mutate_bytes(rng, tokens[at], b"\x00\x00\x00\x02")
    return _assemble(tokens, fix_size=at != 1 and rng.random() < fix, crc=at != 2 and rng.random() < fix)


def _assemble(tokens: Sequence[bytes], *, fix_size: bool, crc: bool) -> bytearray:
    out = bytearray().join(tokens)
    if fix_size and len(out) >= 12:
        out[8:12] = _int_bytes(len(out) - 12, 4)
    if crc and len(out) > 22:
        fix_crc(out)
    return out


def mutate_bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """One blind mutation; `other` is what may be spliced in."""
    return rng.choice(_BLIND)(rng, bytearray(data), other)


def _flip_bit(rng: random.Random, data: bytearray, other: bytes) -> bytes:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _set_byte(rng: random.Random, data: bytearray, other: bytes) -> bytes:
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))
    return bytes(data)


def _cut(rng: random.Random, data: bytearray, other: bytes) -> bytes:
    return bytes(data[: rng.randint(0, len(data))])


def _delete(rng: random.Random, data: bytearray, other: bytes) -> bytes:
    at = rng.randint(0, len(data))
    del data[at : at + rng.choice((1, 1, 2, 4, 8, 50))]
    return bytes(data)


def _insert(rng: random.Random, data: bytearray, other: bytes) -> bytes:
    at = rng.randint(0, len(data))
    data[at:at] = rng.choice((b"\x00", b"\xff", b"\x80\x80", rng.randbytes(rng.randint(1, 20)), other[: rng.randint(0, len(other))]))
    return bytes(data)


def _splice(rng: random.Random, data: bytearray, other: bytes) -> bytes:
    return bytes(data[: rng.randint(0, len(data))]) + other[rng.randint(0, len(other)) :]


def _overwrite_int(rng: random.Random, data: bytearray, other: bytes) -> bytes:
    layout = rng.choice((">i", "<I", ">h", ">q"))
    size = struct.calcsize(layout)
    if len(data) >= size:
        at = rng.randint(0, len(data) - size)
        number = rng.choice(INTERESTING) & ((1 << 8 * size) - 1)
        data[at : at + size] = number.to_bytes(size, "little" if layout[0] == "<" else "big")
    return bytes(data)


_BLIND: tuple[Callable[[random.Random, bytearray, bytes], bytes], ...] = (
    _flip_bit,
    _flip_bit,
    _set_byte,
    _set_byte,
    _cut,
    _delete,
    _insert,
    _splice,
    _overwrite_int,
)

"""The offset map: its size, its memory of the last offset, and what a hash that collides would cost."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.cleaning import clean, fill, left, open_compacted, plan
from tests.support.logs import TIME
from tidelog.compaction.cleaning import clean_log
from tidelog.compaction.offset_map import BYTES_PER_ENTRY, OffsetMap, siphash
from tidelog.errors import InvalidConfigError


def column(*keys: bytes | None) -> tuple[bytes, list[int], list[int]]:
    """Keys as slices of one buffer."""
    data, starts, lengths = b"", [], []
    for key in keys:
        starts.append(len(data))
        lengths.append(-1 if key is None else len(key))
        data += key or b""
    return data, starts, lengths


def put(offset_map: OffsetMap, first: int, *keys: bytes | None) -> int:
    return offset_map.put(*column(*keys), list(range(first, first + len(keys))))


def get(offset_map: OffsetMap, *keys: bytes | None) -> list[int]:
    return [int(offset) for offset in offset_map.get(*column(*keys))]


def test_an_entry_takes_24_bytes() -> None:
    kafka = OffsetMap(128 << 20)
    assert (BYTES_PER_ENTRY, kafka.slots, kafka.capacity) == (24, 5_592_405, 5_033_164)
    assert (OffsetMap(24 * 10 + 23).slots, OffsetMap(24 * 10, 0.55).capacity) == (10, 5)


@pytest.mark.parametrize(("memory", "load"), [(0, 0.9), (23, 0.9), (24, 0.9), (47, 0.5), (-5, 1.0), (24, 0.0), (240, 1.5)])
def test_memory_without_room_for_a_key_is_refused(memory: int, load: float) -> None:
    with pytest.raises(InvalidConfigError, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        OffsetMap(memory, load)


def test_the_last_offset_of_a_key_counts() -> None:
    offset_map = OffsetMap(2400)
    assert offset_map.latest_offset == -1
    assert put(offset_map, 100, b"a", b"b", b"a", b"", None) == 5
    assert get(offset_map, b"a", b"b", b"", None, b"c") == [102, 101, 103, -1, -1]
    assert (offset_map.entries, offset_map.latest_offset, offset_map.utilization) == (3, 103, 0.03)


def test_it_takes_keys_until_it_is_full() -> None:
    offset_map = OffsetMap(24 * 3, 1.0)
    assert put(offset_map, 0, b"a", None, b"b", b"b", b"c", None, b"a") == 6
    assert (offset_map.is_full, offset_map.latest_offset) == (True, 4)
    assert put(offset_map, 10, b"a") == 0
    assert get(offset_map, b"a", b"b", b"c") == [0, 3, 4]


def test_a_column_of_any_length() -> None:
    offset_map = OffsetMap(24 * 30_000)
    keys = [str(number).encode() for number in range(20_000)]
    assert put(offset_map, 1 << 33, *keys) == len(keys)
    assert get(offset_map, *keys[::997]) == [(1 << 33) + number for number in range(0, 20_000, 997)]


def test_survivors_are_the_last_offsets() -> None:
    offset_map = OffsetMap(2400)
    put(offset_map, 10, b"a", b"b", b"a", b"c", b"b")
    bits = np.unpackbits(offset_map.survivors(10, 15), bitorder="little")[:5]
    assert bits.tolist() == [0, 0, 1, 1, 1]
    again = np.full(4, 255, np.uint8)
    assert np.unpackbits(offset_map.survivors(12, 14, again)[:1], bitorder="little").tolist() == [1, 1, 0, 0, 0, 0, 0, 0]


def test_cleared_it_is_empty() -> None:
    offset_map = OffsetMap(2400)
    put(offset_map, 0, b"a")
    offset_map.clear()
    assert (offset_map.entries, offset_map.latest_offset, get(offset_map, b"a")) == (0, -1, [-1])


def test_the_hash_has_a_new_key_for_every_run() -> None:
    seen: list[bytes] = []

    def spy(data: Any, starts: Any, lengths: Any, secret: bytes, hashes: Any) -> None:
        seen.append(secret)
        siphash(data, starts, lengths, secret, hashes)

    maps = [OffsetMap(2400, hash_keys=spy), OffsetMap(2400, hash_keys=spy)]
    for offset_map in maps:
        for _ in range(2):
            offset_map.clear()
            put(offset_map, 0, b"a")
    assert len(set(seen)) == 4
    assert all(len(secret) == 16 for secret in seen)


def test_with_a_given_secret_it_is_always_the_same() -> None:
    tables = []
    for _ in range(2):
        offset_map = OffsetMap(2400, secret=bytes(range(16)))
        offset_map.clear()
        put(offset_map, 0, b"a", b"b", b"c")
        tables.append(offset_map._table.tobytes())
    assert tables[0] == tables[1]
    with pytest.raises(ValueError, match="16"):
        OffsetMap(2400, secret=b"short")


def colliding(data: Any, starts: Any, lengths: Any, secret: bytes, hashes: Any) -> None:
    """A hash that somebody has found two keys for."""
    siphash(data, starts, lengths, secret, hashes)
    for number, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        if bytes(data[start : start + max(0, length)]) in (b"alice", b"mallory"):
            hashes[2 * number : 2 * number + 2] = 7


def test_two_keys_with_one_hash_would_lose_the_record_of_the_first(tmp_path: Path) -> None:
    with open_compacted(tmp_path) as log:
        fill(log, "alice=1 bob=1", "mallory=1", "|")
        clean_log(log, plan(log), OffsetMap(2400, hash_keys=colliding), TIME)
        assert left(log) == ["1:bob=1", "2:mallory=1"]  # the record of alice is gone: why the hash is keyed
    with open_compacted(tmp_path / "keyed") as log:
        fill(log, "alice=1 bob=1", "mallory=1", "|")
        clean(log)
        assert left(log) == ["0:alice=1", "1:bob=1", "2:mallory=1"]


def test_keys_outside_of_the_data_are_refused() -> None:
    offset_map = OffsetMap(2400)
    for starts, lengths in (([0], [4]), ([-1], [1]), ([3], [1]), ([0, 0], [1])):
        with pytest.raises(ValueError, match=r"keys"):
            offset_map.put(b"abc", starts, lengths, [0] * len(starts))
        with pytest.raises(ValueError, match=r"keys"):
            offset_map.get(b"abc", starts, lengths)

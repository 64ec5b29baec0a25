"""The offset map: for every key the last offset at which it was seen, in a fixed amount of memory.

24 bytes an entry, as Kafka's: a 16-byte hash of the key and an 8-byte offset; keys themselves are not kept. Two keys with one hash would be
one key to it, and the record of the first would be lost. Kafka hashes with MD5, for which anyone can make such keys. Here it is SipHash
under a secret that is drawn anew for every run, so that nobody can prepare them, and chance has odds of one in 2^128 a pair.
"""

import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidelog.errors import InvalidConfigError
from tidelog.record.kernel import hashing
from tidelog.record.kernel import offset_map as kernel
from tidelog.record.views import byte_view, view

BYTES_PER_ENTRY = 24
MAX_MEMORY_BYTES = 0x7FFFFFFF
DEFAULT_LOAD_FACTOR = 0.9
SECRET_BYTES = 16
_BLOCK_KEYS = 8192  # hashes of so many stay in the processor's cache until they are put

Hash = Callable[[memoryview, NDArray[np.int32], NDArray[np.int32], bytes, NDArray[np.uint64]], None]
"""Fills in two words a key, given the data, where the keys are in it, and the secret."""


def siphash(data: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32], secret: bytes, hashes: NDArray[np.uint64]) -> None:
    """The hash in use."""
    low, high = int.from_bytes(secret[:8], "little"), int.from_bytes(secret[8:], "little")
    hashing.siphash128_slices(data, view(starts), view(lengths), low, high, view(hashes))


class OffsetMap:
    """Kafka's SkimpyOffsetMap with a keyed hash. One thread at a time."""

    def __init__(
        self, memory_bytes: int, load_factor: float = DEFAULT_LOAD_FACTOR, secret: bytes | None = None, hash_keys: Hash = siphash
    ) -> None:
        """`secret` is for tests: without it there is a new one for every `clear`, that is for every run."""
        memory_bytes = min(memory_bytes, MAX_MEMORY_BYTES)
        self.memory_bytes = memory_bytes
        self.load_factor = load_factor
        self.slots = max(0, memory_bytes // BYTES_PER_ENTRY)
        self.capacity = int(self.slots * load_factor)
        """Entries it takes."""
        if self.capacity < 1 or not 0 < load_factor <= 1:
            raise InvalidConfigError(
                "the memory for the offset map does not hold a single key",
                expected=f"at least {int(BYTES_PER_ENTRY / max(load_factor, 1e-9)) + 1} bytes a cleaner thread, load factor in (0, 1]",
                found=f"{memory_bytes} bytes, load factor {load_factor}",
                hint="log.cleaner.dedupe.buffer.size, log.cleaner.threads",
            )
        if secret is not None and len(secret) != SECRET_BYTES:
            raise ValueError(f"the secret has {len(secret)} bytes: SipHash takes {SECRET_BYTES}")
        self._given_secret = secret
        self._secret = secret or secrets.token_bytes(SECRET_BYTES)
        self._hash_keys = hash_keys
        self._table = np.zeros(BYTES_PER_ENTRY // 8 * self.slots, np.uint64)
        self._hashes = np.empty(2 * _BLOCK_KEYS, np.uint64)
        self.entries = 0
        self.latest_offset = -1
        """Up to here the log was read: what lies behind is not judged by this map. -1 when nothing was put."""
        self.is_searched_whole = True

    @property
    def utilization(self) -> float:
        """The share of slots in use."""
        return self.entries / self.slots

    @property
    def is_full(self) -> bool:
        """Whether it takes no further key, be it one that it has."""
        return self.entries >= self.capacity

    def clear(self) -> None:
        """Forget everything, the secret too."""
        if self.entries:
            self._table.fill(0)
        self.entries = 0
        self.latest_offset = -1
        self._secret = self._given_secret or secrets.token_bytes(SECRET_BYTES)

    def put(self, data: Any, starts: Any, lengths: Any, offsets: Any) -> int:
        """Note the offsets of keys that are slices of one buffer: how many records were taken before it was full.

        A key that is there gets the new offset. A null key, of length -1, is passed over and counts as taken.
        """
        source, starts, lengths = checked_slices(data, starts, lengths)
        done = self.put_slices(source, starts, lengths, np.ascontiguousarray(offsets, np.int64))
        keyed = np.flatnonzero(lengths[:done] >= 0)
        if len(keyed):
            self.latest_offset = int(offsets[keyed[-1]])
        return done

    def put_slices(self, source: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32], offsets: NDArray[np.int64]) -> int:
        """`put` of keys that the kernel has found in a buffer, which are within it; the latest offset is the caller's to set."""
        done = 0
        while done < len(lengths):
            block = slice(done, done + _BLOCK_KEYS)
            own = lengths[block]
            hashes = self._hashed(source, starts[block], own)
            taken, self.entries = kernel.put_hashes(
                view(self._table), self.slots, hashes, view(own), view(offsets[block]), self.entries, self.capacity
            )
            done += taken
            if taken < len(own):
                break
        return done

    def get(self, data: Any, starts: Any, lengths: Any) -> NDArray[np.int64]:
        """The offset of each key; -1 where there is none."""
        return self.get_slices(*checked_slices(data, starts, lengths))

    def get_slices(self, source: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32]) -> NDArray[np.int64]:
        """`get` of keys that the kernel has found in a buffer."""
        found = np.empty(len(lengths), np.int64)
        for start in range(0, len(lengths), _BLOCK_KEYS):
            block = slice(start, start + _BLOCK_KEYS)
            own = lengths[block]
            kernel.get_hashes(view(self._table), self.slots, self._hashed(source, starts[block], own), view(own), view(found[block]))
        return found

    def last_offsets(
        self, source: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32], offsets: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """`get_slices`, as `LastOffsets` has it: the records' own offsets do not matter."""
        return self.get_slices(source, starts, lengths)

    def put_entries(self) -> NDArray[np.uint64]:
        """What was put: a row for each key, the two words of its hash and its offset. Rows are about in the order of the first word."""
        rows = self._table.reshape(-1, BYTES_PER_ENTRY // 8)
        taken: NDArray[np.uint64] = rows[rows[:, 2] != 0]
        taken[:, 2] -= np.uint64(1)
        return taken

    def survivors(self, first: int, end: int, out: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
        """Which offsets of [first, end) are the last of their key: a bit each, least significant first."""
        size = (max(0, end - first) + 7) // 8
        if out is None:
            out = np.zeros(size, np.uint8)
        else:
            out[:size] = 0
        kernel.mark_offsets(view(self._table), self.slots, first, end, view(out))
        return out

    def _hashed(self, data: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32]) -> memoryview:
        hashes = self._hashes[: 2 * len(starts)]
        self._hash_keys(data, starts, lengths, self._secret, hashes)
        return view(hashes)


def checked_slices(data: Any, starts: Any, lengths: Any) -> tuple[memoryview, NDArray[np.int32], NDArray[np.int32]]:
    """What the kernel takes. Slices that are not within the data are refused."""
    source = byte_view(data)
    starts = np.ascontiguousarray(starts, np.int32)
    lengths = np.ascontiguousarray(lengths, np.int32)
    if len(starts) != len(lengths):
        raise ValueError(f"{len(starts)} starts of {len(lengths)} keys")
    if len(starts):
        ends = starts.astype(np.int64) + np.maximum(lengths, 0)
        is_key = lengths >= 0
        if (starts[is_key] < 0).any() or (ends[is_key] > len(source)).any():
            raise ValueError(f"keys outside of the {len(source)} bytes that were given")
    return source if len(source) else memoryview(b"\0"), starts, lengths

"""The table of the offset map: put, get and list over whole columns of hashes.

Open addressing with linear probing. A slot is three 64-bit words, 24 bytes: the two words of a key's hash, and the offset plus one, so that
a slot of zeros is empty. Where a key belongs is the high half of its first word, taken as a fraction of all slots: no division. The columns
are worked off in blocks, and the slots of a block are asked of the memory before the first of them is looked at.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

Pointer = Any  # a C pointer when compiled, the memoryview itself when not

WORDS = 3
BLOCK = 64


def put_hashes(table: Any, slots: int, hashes: Any, lengths: Any, offsets: Any, entries: int, limit: int) -> tuple[int, int]:
    """Put the offset of every key: (keys taken, entries then). Ends before the first key once there are `limit` entries.

    A key that is there gets the new offset. A key of negative length is passed over, and counts as taken.
    """
    count = len(lengths)
    check_table(table, slots, hashes, count)
    if len(offsets) < count or limit > slots:
        raise ValueError(f"{len(offsets)} offsets for {count} keys, {limit} entries for {slots} slots")
    if count == 0:
        return 0, entries
    if cython.compiled:
        t = cython.address(table[0])
        h = cython.address(hashes[0])
        n = cython.address(lengths[0])
        o = cython.address(offsets[0])
    else:
        t, h, n, o = table, hashes, lengths, offsets
    done = 0
    is_full = False
    with cython.nogil:
        while done < count and not is_full:
            end = done + BLOCK
            if end > count:
                end = count
            if cython.compiled:
                for i in range(done, end):
                    prefetch_slot(t + WORDS * slot_of(h[2 * i], slots))  # type: ignore[name-defined]  # noqa: F821
            while done < end:
                if n[done] >= 0:
                    if entries >= limit:
                        is_full = True
                        break
                    at = find_slot(t, slots, h[2 * done], h[2 * done + 1])
                    if t[at + 2] == 0:
                        t[at] = h[2 * done]
                        t[at + 1] = h[2 * done + 1]
                        entries += 1
                    t[at + 2] = o[done] + 1
                done += 1
    return done, entries


def get_hashes(table: Any, slots: int, hashes: Any, lengths: Any, found: Any) -> None:
    """The offset of every key into `found` (int64): -1 where there is none, and for a key of negative length."""
    count = len(lengths)
    check_table(table, slots, hashes, count)
    if len(found) < count:
        raise ValueError(f"room for {len(found)} offsets of {count} keys")
    if count == 0:
        return
    if cython.compiled:
        t = cython.address(table[0])
        h = cython.address(hashes[0])
        n = cython.address(lengths[0])
        f = cython.address(found[0])
    else:
        t, h, n, f = table, hashes, lengths, found
    done = 0
    with cython.nogil:
        while done < count:
            end = done + BLOCK
            if end > count:
                end = count
            if cython.compiled:
                for i in range(done, end):
                    prefetch_slot(t + WORDS * slot_of(h[2 * i], slots))  # type: ignore[name-defined]  # noqa: F821
            while done < end:
                offset = -1
                if n[done] >= 0:
                    at = find_slot(t, slots, h[2 * done], h[2 * done + 1])
                    if at >= 0 and t[at + 2] != 0:
                        offset = t[at + 2]
                        offset -= 1
                f[done] = offset
                done += 1


def mark_offsets(table: Any, slots: int, first: int, end: int, bits: Any) -> int:
    """Set the bit of every offset of [first, end) that is in the table, least significant bit first: how many."""
    if end - first > 8 * len(bits):
        raise ValueError(f"{end - first} offsets in {len(bits)} bytes")
    if slots < 1 or len(table) < WORDS * slots:
        raise ValueError(f"{slots} slots in {len(table)} words")
    if end <= first:
        return 0
    if cython.compiled:
        t = cython.address(table[0])
        b = cython.address(bits[0])
    else:
        t, b = table, bits
    marked = 0
    with cython.nogil:
        for slot in range(slots):
            offset = t[WORDS * slot + 2]
            offset -= 1
            if first <= offset < end:
                offset -= first
                b[offset >> 3] = b[offset >> 3] | (1 << (offset & 7))
                marked += 1
    return marked


def check_table(table: Any, slots: int, hashes: Any, count: int) -> None:
    """Refuse what would be read past its end."""
    if slots < 1 or len(table) < WORDS * slots or len(hashes) < 2 * count:
        raise ValueError(f"{slots} slots in {len(table)} words, {count} keys with {len(hashes)} words of hashes")


def slot_of(word: int, slots: int) -> int:
    """Where a key belongs; there are less than 2^32 slots."""
    return ((word >> 32) * slots) >> 32


def find_slot(t: Pointer, slots: int, low: int, high: int) -> int:
    """The place of a key's slot in the table, or that of the empty one where the search for it ended; -1 if there is neither."""
    slot = slot_of(low, slots)
    for _ in range(slots):
        at = WORDS * slot
        if t[at + 2] == 0 or (t[at] == low and t[at + 1] == high):
            return at
        slot += 1
        if slot == slots:
            slot = 0
    return -1

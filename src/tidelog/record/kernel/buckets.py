"""Share entries of keys out into buckets, in the order in which they come.

An entry is three 64-bit words: two of hash, and an offset. Its bucket is the low half of the first word, taken as a fraction of all
buckets. A table places keys by a high half: buckets of that would crowd it in one place.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

WORDS = 3


def count_entries(entries: Any, counts: Any) -> None:
    """Add to `counts` (int64, one a bucket) how many entries each bucket gets."""
    count = len(entries) // WORDS
    buckets = len(counts)
    if count == 0:
        return
    check_buckets(buckets)
    if cython.compiled:
        e = cython.address(entries[0])
        c = cython.address(counts[0])
    else:
        e, c = entries, counts
    with cython.nogil:
        for i in range(count):
            bucket = bucket_of(e[WORDS * i], buckets)
            c[bucket] = c[bucket] + 1


def place_entries(entries: Any, places: Any, out: Any) -> None:
    """Copy every entry to the next place of its bucket: `places` (int64, one a bucket) says which in `out`, and moves on."""
    count = len(entries) // WORDS
    buckets = len(places)
    room = len(out) // WORDS
    if count == 0:
        return
    check_buckets(buckets)
    if room == 0:
        raise ValueError(f"no room for {count} entries")
    if cython.compiled:
        e = cython.address(entries[0])
        p = cython.address(places[0])
        o = cython.address(out[0])
    else:
        e, p, o = entries, places, out
    is_full = False
    with cython.nogil:
        for i in range(count):
            bucket = bucket_of(e[WORDS * i], buckets)
            at = p[bucket]
            if at < 0 or at >= room:
                is_full = True
                break
            p[bucket] = at + 1
            at = WORDS * at
            o[at] = e[WORDS * i]
            o[at + 1] = e[WORDS * i + 1]
            o[at + 2] = e[WORDS * i + 2]
    if is_full:
        raise ValueError(f"a bucket has more entries than were counted: room for {room}")


def check_buckets(buckets: int) -> None:
    """Refuse what a fraction of 32 bits cannot name."""
    if buckets < 1 or buckets > 1 << 31:
        raise ValueError(f"{buckets} buckets")


def bucket_of(word: int, buckets: int) -> int:
    """Where an entry belongs."""
    low = 0xFFFFFFFF
    low = low & word
    return (low * buckets) >> 32

"""Search the entries of an offset or time index, in the bytes of its file.

    offset index, 8 bytes      relative offset i32, position i32
    time index, 12 bytes       timestamp i64, relative offset i32

Both are sorted by each of their columns. `entries` is how many of the file's slots are used; behind them lie zeros. Targets may have any
64-bit value. A search takes some tens of nanoseconds, so it keeps the GIL.
"""

from typing import Any

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

Pointer = Any  # a C pointer when compiled, the memoryview itself when not

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12


def find_offset(view: Any, entries: int, relative_offset: int) -> int:
    """In an offset index, the slot of the last entry whose offset is `relative_offset` or less; -1 if there is none."""
    check_entries(entries, len(view), OFFSET_ENTRY_SIZE)
    if entries == 0:
        return -1
    p: Pointer = cython.address(view[0]) if cython.compiled else view
    return last_up_to(p, entries, OFFSET_ENTRY_SIZE, 0, relative_offset)


def locate_offset(view: Any, entries: int, offset: int, base_offset: int) -> tuple[int, int, int, int]:
    """What lies around an offset of the log: the last entry that is not above it, and the one behind that.

    As (offset, position, next offset, next position), offsets counted from `base_offset` on; -1 stands for what is not there.
    """
    check_entries(entries, len(view), OFFSET_ENTRY_SIZE)
    if entries == 0:
        return -1, -1, -1, -1
    p: Pointer = cython.address(view[0]) if cython.compiled else view
    slot = last_up_to(p, entries, OFFSET_ENTRY_SIZE, 0, offset - base_offset)
    found = -1
    position = -1
    next_offset = -1
    next_position = -1
    if slot >= 0:
        found = base_offset + read_i32(p, OFFSET_ENTRY_SIZE * slot)
        position = read_i32(p, OFFSET_ENTRY_SIZE * slot + 4)
    if slot + 1 < entries:
        next_offset = base_offset + read_i32(p, OFFSET_ENTRY_SIZE * slot + 8)
        next_position = read_i32(p, OFFSET_ENTRY_SIZE * slot + 12)
    return found, position, next_offset, next_position


def find_offset_from(view: Any, entries: int, relative_offset: int) -> int:
    """In an offset index, how many entries lie below `relative_offset`: the slot of the first that does not, or `entries`."""
    check_entries(entries, len(view), OFFSET_ENTRY_SIZE)
    if entries == 0:
        return 0
    p: Pointer = cython.address(view[0]) if cython.compiled else view
    return first_from(p, entries, OFFSET_ENTRY_SIZE, 0, relative_offset)


def find_position(view: Any, entries: int, position: int) -> tuple[int, int, int]:
    """In an offset index, the first entry at `position` or behind it: (slot, relative offset, position), or -1 for each.

    By this Kafka bounds its search for aborted transactions, and like Kafka it passes over entry 0 if that lies exactly at `position`:
    then the answer is entry 1, or none.
    """
    check_entries(entries, len(view), OFFSET_ENTRY_SIZE)
    if entries == 0:
        return -1, -1, -1
    p: Pointer = cython.address(view[0]) if cython.compiled else view
    slot = first_from(p, entries, OFFSET_ENTRY_SIZE, 4, position)
    if slot == 0 and read_i32(p, 4) == position:
        slot = 1
    if slot == entries:
        return -1, -1, -1
    return slot, read_i32(p, OFFSET_ENTRY_SIZE * slot), read_i32(p, OFFSET_ENTRY_SIZE * slot + 4)


def offset_entry(view: Any, slot: int) -> tuple[int, int]:
    """Entry `slot` of an offset index: (relative offset, position)."""
    check_slot(slot, len(view), OFFSET_ENTRY_SIZE)
    p: Pointer = cython.address(view[0]) if cython.compiled else view
    return read_i32(p, OFFSET_ENTRY_SIZE * slot), read_i32(p, OFFSET_ENTRY_SIZE * slot + 4)


def find_time(view: Any, entries: int, timestamp_ms: int) -> tuple[int, int, int]:
    """In a time index, the last entry whose timestamp is `timestamp_ms` or less: (slot, timestamp, relative offset), or -1 for each."""
    check_entries(entries, len(view), TIME_ENTRY_SIZE)
    if entries == 0:
        return -1, -1, -1
    p: Pointer = cython.address(view[0]) if cython.compiled else view
    slot = last_up_to_time(p, entries, timestamp_ms)
    if slot < 0:
        return -1, -1, -1
    return slot, read_i64(p, TIME_ENTRY_SIZE * slot), read_i32(p, TIME_ENTRY_SIZE * slot + 8)


def find_time_by_offset(view: Any, entries: int, relative_offset: int) -> int:
    """In a time index, how many entries have an offset below `relative_offset`: the slot of the first that has not, or `entries`."""
    check_entries(entries, len(view), TIME_ENTRY_SIZE)
    if entries == 0:
        return 0
    p: Pointer = cython.address(view[0]) if cython.compiled else view
    return first_from(p, entries, TIME_ENTRY_SIZE, 8, relative_offset)


def time_entry(view: Any, slot: int) -> tuple[int, int]:
    """Entry `slot` of a time index: (timestamp, relative offset)."""
    check_slot(slot, len(view), TIME_ENTRY_SIZE)
    p: Pointer = cython.address(view[0]) if cython.compiled else view
    return read_i64(p, TIME_ENTRY_SIZE * slot), read_i32(p, TIME_ENTRY_SIZE * slot + 8)


def last_up_to(p: Pointer, entries: int, entry_size: int, column: int, target: int) -> int:
    """The last of `entries` (at least one) whose number at byte `column` is `target` or less; -1 if there is none."""
    slot = 0
    left = entries
    while left > 1:
        half = left >> 1
        # No branch that could be guessed wrong: the compiler makes a conditional move of it.
        slot += half if read_i32(p, (slot + half) * entry_size + column) <= target else 0
        left -= half
    return slot if read_i32(p, slot * entry_size + column) <= target else slot - 1


def last_up_to_time(p: Pointer, entries: int, target: int) -> int:
    """`last_up_to` for the timestamps of a time index."""
    slot = 0
    left = entries
    while left > 1:
        half = left >> 1
        slot += half if read_i64(p, (slot + half) * TIME_ENTRY_SIZE) <= target else 0
        left -= half
    return slot if read_i64(p, slot * TIME_ENTRY_SIZE) <= target else slot - 1


def first_from(p: Pointer, entries: int, entry_size: int, column: int, target: int) -> int:
    """The first of `entries` (at least one) whose number at byte `column` is `target` or more; `entries` if there is none."""
    low = 0
    high = entries
    while low < high:
        middle = (low + high) >> 1
        if read_i32(p, middle * entry_size + column) < target:
            low = middle + 1
        else:
            high = middle
    return low


def check_entries(entries: int, size_bytes: int, entry_size: int) -> None:
    """Refuse to search beyond the bytes that are there."""
    if entries < 0 or entries > size_bytes // entry_size:
        raise ValueError(f"{size_bytes} bytes do not hold {entries} entries of {entry_size} bytes")


def check_slot(slot: int, size_bytes: int, entry_size: int) -> None:
    """Refuse to read beyond the bytes that are there."""
    if slot < 0 or slot >= size_bytes // entry_size:
        raise ValueError(f"{size_bytes} bytes have no entry {slot} of {entry_size} bytes")


def read_i32(p: Pointer, at: int) -> int:
    """Four bytes, signed. Shifting in a wide local keeps C from sign-extending a byte."""
    u = p[at]
    u = (u << 8) | p[at + 1]
    u = (u << 8) | p[at + 2]
    u = (u << 8) | p[at + 3]
    return as_i32(u)


def read_i64(p: Pointer, at: int) -> int:
    """Eight bytes, signed."""
    u = p[at + 4]
    u = (u << 8) | p[at + 5]
    u = (u << 8) | p[at + 6]
    u = (u << 8) | p[at + 7]
    high = read_i32(p, at)
    return (high << 32) | u  # type: ignore[no-any-return]


def as_i32(number: int) -> int:
    """Fold 32 bits into a signed integer, which compiled code does by the type it returns."""
    if not cython.compiled and number >= 0x80000000:
        number -= 0x100000000
    return number

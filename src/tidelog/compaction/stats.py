"""The figures of one cleaning."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.compaction.offset_map import BYTES_PER_ENTRY, OffsetMap


class CleanerStats(NamedTuple):
    """What a pass read, wrote and dropped. Names are those of Kafka's CleanerStats where that has them."""

    bytes_read: int = 0
    bytes_written: int = 0
    messages_read: int = 0
    """Of batches that were looked into; those of aborted transactions go unseen."""
    messages_written: int = 0
    map_bytes_read: int = 0
    map_messages_read: int = 0
    invalid_messages_read: int = 0
    """Without a key, dropped."""
    tombstones_removed: int = 0
    """Past their horizon, or superseded by a later record of their key."""
    markers_removed: int = 0
    """Markers of transactions."""
    aborted_messages_removed: int = 0
    batches_kept_empty: int = 0
    """Headers that stay without records: a producer's last batch, or the end of the cleaned part."""
    segments_before: int = 0
    segments_after: int = 0
    buffer_utilization: float = 0.0
    """The share of the offset map's slots that was used."""
    map_entries: int = 0
    """Distinct keys in the part that was cleaned for the first time."""
    map_was_full: bool = False
    passes_needed: int = 1
    """How many passes like this one the whole dirty part would take, with this memory: an estimate if more than 1."""
    memory_for_one_pass: int = 0
    """Bytes of offset map that would do it in one pass: an estimate where this pass did not see all keys."""
    peak_extra_bytes: int = 0
    """The most that the pass took on disk beside what was there before it."""
    map_ms: float = 0.0
    elapsed_ms: float = 0.0


@dataclass(slots=True)
class Counts:
    """The same while they are being counted."""

    bytes_read: int = 0
    bytes_written: int = 0
    messages_read: int = 0
    messages_written: int = 0
    map_bytes_read: int = 0
    map_messages_read: int = 0
    invalid_messages_read: int = 0
    tombstones_removed: int = 0
    markers_removed: int = 0
    aborted_messages_removed: int = 0
    batches_kept_empty: int = 0
    extra_bytes: int = 0
    peak_extra_bytes: int = 0
    null_key_offsets: list[int] = field(default_factory=list)
    """The first hundred."""
    null_keys: int = 0

    def extra_on_disk(self, change: int) -> None:
        """The pass takes so many more bytes on disk."""
        self.extra_bytes += change
        self.peak_extra_bytes = max(self.peak_extra_bytes, self.extra_bytes)


class PassEstimate(NamedTuple):
    """How often, and with how much memory."""

    passes_needed: int
    memory_for_one_pass: int


def estimate_passes(offset_map: OffsetMap, *, is_full: bool, read_bytes: int, dirty_bytes: int) -> PassEstimate:
    """From the distinct keys that were seen, and the share of the dirty bytes in which they were.

    A map that was not full has seen all keys: one pass, and the memory is exactly what they need. Of one that was full it is assumed that
    the rest of the dirty part brings new keys at the same rate. Keys that come back make both figures too high, never too low by much.
    """
    entries = offset_map.entries
    if not is_full:
        return PassEstimate(1, _memory_for(entries, offset_map.load_factor))
    share = dirty_bytes / max(1, read_bytes)
    return PassEstimate(max(2, math.ceil(share)), _memory_for(math.ceil(entries * max(1.0, share)), offset_map.load_factor))


def _memory_for(keys: int, load_factor: float) -> int:
    """The least memory whose map holds so many keys, and is not full then: a full one takes no key that it has either."""
    slots = math.ceil((keys + 1) / load_factor)
    while int(slots * load_factor) < keys + 1:
        slots += 1
    return BYTES_PER_ENTRY * slots

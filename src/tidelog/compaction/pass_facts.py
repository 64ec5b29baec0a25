"""What holds for a whole pass over a log."""

from collections.abc import Mapping
from typing import NamedTuple


class ScannedSpan(NamedTuple):
    """Plain batches one behind the other, all of whose records are dirty and have a key and a value."""

    size_bytes: int
    first_offset: int
    last_offset: int
    records: int


class KeyScan(NamedTuple):
    """What filling the offset map found."""

    end_offset: int
    """Below this everything was taken in: the new first dirty offset."""
    is_full: bool
    """Whether the map ended it."""
    has_tombstones: bool
    has_null_keys: bool
    is_ordered: bool
    """Whether the offsets of records only ever rose, as they do in every sound log."""
    has_discarded: bool
    """Whether data of transactions was taken for aborted, and is not in the map. The rewriting may find that it was not."""
    spans: Mapping[tuple[int, int], ScannedSpan]
    """By the base offset of their segment and their position in it: about four mebibytes each."""


class PassFacts(NamedTuple):
    """What the rewriting goes by."""

    now_ms: int
    delete_retention_ms: int
    bound: int
    first_dirty_offset: int
    scan: KeyScan
    latest_offset: int
    """As far as the map judges."""

"""The figures of a segment, a value: what `stats` answers, and what its parts are put together to."""

from collections import Counter
from dataclasses import dataclass, field, fields

import numpy as np

from tidelog.inspection.distinct_keys import Registers, estimate


@dataclass(slots=True)
class SegmentStats:
    """The figures of a segment, or of a part of it, or of several: `add` puts them together."""

    directory: str
    base_offset: int
    size_bytes: int = 0
    batches: int = 0
    records: int = 0
    """Without markers."""
    markers: int = 0
    """Control records: the ends of transactions."""
    transactional_batches: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    first_timestamp_ms: int | None = None
    """The smallest that a header has: the first record's of a batch. A record behind it may be older."""
    last_timestamp_ms: int | None = None
    smallest_batch_bytes: int | None = None
    largest_batch_bytes: int | None = None
    codecs: Counter[str] = field(default_factory=Counter)
    """Batches by codec."""
    magics: Counter[int] = field(default_factory=Counter)
    """Batches by format."""
    damaged_bytes: int = 0
    """That are no batches, or whose records could not be read."""
    tombstones: int | None = None
    null_keys: int | None = None
    key_bytes: int | None = None
    value_bytes: int | None = None
    keys: Registers | None = None

    @property
    def distinct_keys(self) -> int | None:
        """About how many; None if records were not looked at."""
        return None if self.keys is None else estimate(self.keys)

    @property
    def average_batch_bytes(self) -> float | None:
        """None without batches."""
        return self.size_bytes / self.batches if self.batches else None

    def add(self, other: "SegmentStats") -> None:
        """Take in the figures of another part."""
        for each in fields(self):
            mine, its = getattr(self, each.name), getattr(other, each.name)
            if each.name in ("directory", "base_offset") or its is None:
                continue
            if mine is None:
                setattr(self, each.name, its)
            elif each.name.startswith(("first_", "smallest_")):
                setattr(self, each.name, min(mine, its))
            elif each.name.startswith(("last_", "largest_")):
                setattr(self, each.name, max(mine, its))
            elif each.name == "keys":
                self.keys = np.maximum(mine, its)
            else:
                setattr(self, each.name, mine + its)

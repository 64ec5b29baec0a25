"""What a task of `table` or `history` reads: of each split the last record of each key, or all versions behind a point.

    look      keys, offsets and timestamps are decoded, and no value: keys are hashed into a table that keeps the last offset of each
    fetch     only batches with a record that is wanted are read again, and only these records become rows

So of a key that is written a thousand times in a split one row goes to Spark. The hash is SipHash with a secret of the attempt's own, as
the cleaner has it. When too much is noted, it is fetched in between and forgotten: the same key may then come twice, and Spark takes the
later one.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidelog.compaction.key_entries import WORDS
from tidelog.compaction.last_offset_search import LastOffsetTable
from tidelog.compaction.offset_map import siphash
from tidelog.record.columns import ColumnDecoder
from tidelog.record.views import byte_view
from tidelog.spark.row_batches import RowBatches, joined
from tidelog.spark.split_reading import read_split
from tidelog.spark.splits import Split, SplitPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.log.log_reading import Isolation

MOST_KEYS = 1 << 21
"""In a table, which has about 32 bytes for each; records that count whatever comes behind them are counted with them."""


@dataclass(frozen=True, slots=True)
class KeyedReading:
    """Which records count. Small: it travels with every task."""

    columns: tuple[str, ...]
    """Of the data source. Key, value, offset and timestamp are among them."""
    isolation: "Isolation" = "committed"
    until_ms: int | None = None
    """Records with a later timestamp do not count."""
    all_from_offset: int | None = None
    """Of a split from this offset on every version counts, below it the last of each key. None: nowhere."""
    all_after_ms: int | None = None
    """The same by time: every version whose timestamp is above it."""
    keys: frozenset[bytes] | None = None
    """Only records with one of these."""
    keeps_null_keys: bool = False
    """Whether records without a key count, each for itself."""
    fail_on_data_loss: bool = True

    def wanted(self, timestamps_ms: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which records count at all, by their timestamps."""
        if self.until_ms is None:
            return np.ones(len(timestamps_ms), np.bool_)
        found: NDArray[np.bool_] = timestamps_ms <= self.until_ms
        return found

    def is_version(self, offsets: NDArray[np.int64], timestamps_ms: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of them count whatever comes behind them."""
        is_version = np.zeros(len(offsets), np.bool_)
        if self.all_after_ms is not None:
            is_version = timestamps_ms > self.all_after_ms
        elif self.all_from_offset is not None:
            is_version = offsets >= self.all_from_offset
        return is_version


def read_keyed(split: Split, reading: KeyedReading) -> "Iterator[pa.RecordBatch]":
    """The rows of a split, in batches of a size that travels well."""
    how = SplitPartition((split,), reading.columns, reading.isolation, fail_on_data_loss=reading.fail_on_data_loss)
    return joined(batch for only in _survivors(split, how, reading) for batch in _fetched(split, how, reading, only))


def _survivors(split: Split, how: SplitPartition, reading: KeyedReading) -> Iterator[NDArray[np.int64]]:
    """The offsets that are wanted, which rise; more than once if a table had to be emptied."""
    look = _Look(reading)
    for decoded in read_split(split, how, look):
        look.take(decoded)
        if look.kept > MOST_KEYS:
            yield look.found()
    found = look.found()
    if len(found):
        yield found


def _fetched(split: Split, how: SplitPartition, reading: KeyedReading, only: NDArray[np.int64]) -> "Iterator[pa.RecordBatch]":
    return read_split(split, how, _Fetch(reading.columns, only), only=only)


class _Look:
    """Decodes keys, offsets and timestamps, and keeps which offsets are wanted."""

    def __init__(self, reading: KeyedReading) -> None:
        self.table = LastOffsetTable()
        self._reading = reading
        self._versions: list[NDArray[np.int64]] = []
        self._secret = secrets.token_bytes(16)
        self._decoder = ColumnDecoder(["offset", "key", "timestamp_ms"])
        self._keys = None
        if reading.keys is not None:
            import pyarrow as pa

            self._keys = pa.array(sorted(reading.keys), pa.binary())

    @property
    def kept(self) -> int:
        """How many offsets are noted."""
        return self.table.keys + sum(map(len, self._versions))

    def decode(self, batches: memoryview) -> "Iterator[pa.RecordBatch]":
        """As `RowBatches` has it."""
        return self._decoder.decode(batches)

    def arrange(self, decoded: "pa.RecordBatch", topic: str, partition: int) -> "pa.RecordBatch":
        """As `RowBatches` has it: nothing is to be arranged."""
        return decoded

    def take(self, decoded: "pa.RecordBatch") -> None:
        """Note what is wanted of some records."""
        import pyarrow.compute as pc

        keys, offsets = decoded.column(1), decoded.column(0).to_numpy()
        timestamps_ms = decoded.column(2).to_numpy()
        is_wanted = self._reading.wanted(timestamps_ms)
        if keys.null_count:
            has_key = pc.is_valid(keys).to_numpy(zero_copy_only=False)
            if self._reading.keeps_null_keys and self._keys is None:
                self._versions.append(offsets[is_wanted & ~has_key])
            is_wanted &= has_key
        if self._keys is not None:
            is_wanted &= pc.is_in(keys, value_set=self._keys).to_numpy(zero_copy_only=False)
        is_version = is_wanted & self._reading.is_version(offsets, timestamps_ms)
        if is_version.any():
            self._versions.append(offsets[is_version])
            is_wanted &= ~is_version
        if is_wanted.any():
            self.table.put(_entries(keys, offsets, is_wanted, self._secret))

    def found(self) -> NDArray[np.int64]:
        """The offsets so far; it begins anew."""
        found = np.sort(np.concatenate([self.table.offsets(), *self._versions]))
        self.table = LastOffsetTable()
        self._versions = []
        return found


class _Fetch(RowBatches):
    """Rows of the records whose offsets are wanted, and of no others."""

    def __init__(self, columns: tuple[str, ...], only: NDArray[np.int64]) -> None:
        super().__init__(columns, None)
        self._only = only

    def arrange(self, decoded: "pa.RecordBatch", topic: str, partition: int) -> "pa.RecordBatch":
        """The columns that were asked for, of the records that were."""
        import pyarrow as pa

        offsets = decoded.column(0).to_numpy()
        places = np.minimum(np.searchsorted(self._only, offsets), len(self._only) - 1)
        is_wanted = self._only[places] == offsets
        if not is_wanted.all():
            decoded = decoded.filter(pa.array(is_wanted))
        return super().arrange(decoded, topic, partition)


def _entries(keys: "pa.Array", offsets: NDArray[np.int64], is_wanted: NDArray[np.bool_], secret: bytes) -> NDArray[np.uint64]:
    """Hash and offset of each key that is wanted."""
    bounds, data = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1], keys.buffers()[2]
    starts, lengths = bounds[:-1], np.diff(bounds)
    if not is_wanted.all():
        starts, lengths, offsets = starts[is_wanted], lengths[is_wanted], offsets[is_wanted]
    hashes = np.empty(2 * len(starts), np.uint64)
    source = byte_view(data) if data is not None and data.size else memoryview(b"\0")
    siphash(source, np.ascontiguousarray(starts), np.ascontiguousarray(lengths), secret, hashes)
    entries = np.empty((len(starts), WORDS), np.uint64)
    entries[:, :2] = hashes.reshape(-1, 2)
    entries[:, 2] = offsets
    return entries

"""A topic as a table: the latest value of each key.

It works on columns. Of a chunk each key is looked at once, however often it is there; only what is kept becomes an object. So memory goes
with the number of keys, and time, for keys that are often replaced, with the bytes that are read.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from tidelog.disk.names import TopicPartition
from tidelog.log.log_reading import Isolation
from tidelog.log.positions import LATEST
from tidelog.log.reading import resolve
from tidelog.store.known_points import check_state
from tidelog.store.log_past import checkpointed, look_at_past
from tidelog.store.topic_columns import TopicColumns
from tidelog.store.topic_range import PartitionRange

if TYPE_CHECKING:
    import pyarrow as pa


def table_of(
    topic: str, ranges: Sequence[PartitionRange], isolation: Isolation, until_ms: int | None, *, allow_incomplete: bool = False
) -> dict[bytes, bytes]:
    """The table of some partitions. One as of a point that the logs do not have everything of any more raises, unless that is allowed."""
    is_past = not allow_incomplete and (until_ms is not None or any(isinstance(part.end, int) for part in ranges))
    if not is_past:
        return _table_of(topic, ranges, isolation, until_ms)
    ends = {part.log.partition: part.end - 1 for part in ranges if isinstance(part.end, int)}
    before = _check_past(ranges, ends, until_ms)
    found = _table_of(topic, ranges, isolation, until_ms)
    if [checkpointed(part.log) for part in ranges] != before:  # somebody has compacted meanwhile
        _check_past(ranges, ends, until_ms)
    return found


def _check_past(ranges: Sequence[PartitionRange], ends: dict[TopicPartition, int], until_ms: int | None) -> list[int | None]:
    """Raise if the state as of then cannot be told: up to where the cleaner has been."""
    for part in ranges:
        part.log.refresh()
    cleaned = [checkpointed(part.log) for part in ranges]
    check_state([look_at_past(part.log) for part in ranges], offsets=ends, timestamp_ms=until_ms)
    return cleaned


def _table_of(topic: str, ranges: Sequence[PartitionRange], isolation: Isolation, until_ms: int | None) -> dict[bytes, bytes]:
    for part in ranges:
        part.log.refresh()
        part.end = min(resolve(part.log, part.end, isolation), resolve(part.log, LATEST, isolation))
    columns = ["key", "value"] if until_ms is None else ["key", "value", "timestamp_ms"]
    reader = TopicColumns(topic, columns, isolation, "skip")
    tables = [latest_of(reader.read([part]), "value", until_ms=until_ms) for part in ranges]
    several = keys_in_several(tables) if len(tables) > 1 else set()
    times: list[dict[bytes, tuple[int, int]]] = []
    for part in ranges if several else ():
        at = []
        for column in ("timestamp_ms", "offset"):
            reader = TopicColumns(topic, list(dict.fromkeys(("key", "timestamp_ms", column))), isolation, "skip")
            at.append(latest_of(reader.read([part]), column, until_ms=until_ms, only=several))
        times.append({key: (timestamp_ms, at[1][key]) for key, timestamp_ms in at[0].items() if key in at[1]})
    return joined(tables, times)


def latest_of(
    batches: "Iterable[pa.RecordBatch]", column: str, *, until_ms: int | None, only: Collection[bytes] | None = None
) -> dict[bytes, Any]:
    """The last value of a column for each key: None where that is null, as it is for the value of a tombstone.

    Records above a time do not count, nor do those without a key.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    latest: dict[bytes, Any] = {}
    wanted = None if only is None else pa.array(sorted(only), pa.binary())
    for batch in batches:
        rows = batch
        if rows.column("key").null_count:
            rows = rows.filter(pc.is_valid(rows.column("key")))
        if until_ms is not None:
            rows = rows.filter(pc.less_equal(rows.column("timestamp_ms"), until_ms))
        if wanted is not None:
            rows = rows.filter(pc.is_in(rows.column("key"), wanted))
        if rows.num_rows:
            keys, places = _last_places(rows.column("key"))
            latest.update(zip(keys.to_pylist(), rows.column(column).take(places).to_pylist(), strict=True))
    return latest


def _last_places(keys: "pa.Array") -> "tuple[pa.Array, pa.Array]":
    """Each key once, and the last row that has it."""
    import pyarrow as pa

    encoded = keys.dictionary_encode()
    places = np.empty(len(encoded.dictionary), np.int64)
    places[encoded.indices.to_numpy()] = np.arange(len(keys))  # of several rows with one key, the last is the one that stays
    return encoded.dictionary, pa.array(places)


def keys_in_several(tables: Sequence[dict[bytes, Any]]) -> set[bytes]:
    """The keys that more than one partition has."""
    seen: set[bytes] = set()
    several: set[bytes] = set()
    for table in tables:
        before = len(seen)
        seen.update(table)
        if len(seen) < before + len(table):  # which is seldom, so that the rest is not done for nothing
            several = {key for key, count in Counter(chain.from_iterable(tables)).items() if count > 1}
            break
    return several


def joined(tables: Sequence[dict[bytes, bytes | None]], times: Sequence[dict[bytes, tuple[int, int]]]) -> dict[bytes, bytes]:
    """The tables of all partitions as one, without tombstones. The first one is used for it.

    A key that is in several partitions, which no partitioner of Kafka's would do, has the value with the latest timestamp; of equal ones
    that of the highest offset, then partition. `times` has the timestamps and offsets of such keys.
    """
    newest: dict[bytes, tuple[tuple[int, int], bytes | None]] = {}
    for table, known in zip(tables, times, strict=False):
        for key, when in known.items():
            if key in table and (key not in newest or when >= newest[key][0]):
                newest[key] = when, table[key]
    whole: dict[bytes, Any] = tables[0] if tables else {}
    for table in tables[1:]:
        whole.update(table)
    whole.update((key, value) for key, (_, value) in newest.items())
    for key in [key for key, value in whole.items() if value is None]:
        del whole[key]
    return whole

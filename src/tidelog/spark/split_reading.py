"""One task: the records of its splits, as Arrow batches in Spark's types.

Each split is looked for by its offsets in what is there now: nothing of the files that were planned with needs to be there still. A fetch
brings whole batches; what is not data (markers), was aborted, or is too old as a whole is left out by the headers, after its CRC was
checked too; the rest goes through the column decoder, chunk by chunk, and never all of it is in memory.

What is gone since the plan was made, because it expired, was trimmed or cut off, is an error, or with failOnDataLoss=false told and passed
over. So is a hole between batches of a stream that no cleaner can have made: who reads has the headers, and sees it for nothing.
"""

import logging
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tidelog.errors import CorruptBatchError, DataLossError, InconsistentTopicIdError, LogNotFoundError, OffsetOutOfRangeError
from tidelog.spark.offset_bounds import latest_offset
from tidelog.spark.splits import Aborted, Split, SplitPartition

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql.datasource import InputPartition

    from tidelog.log.fetched import Fetched
    from tidelog.log.log_reading import Isolation
    from tidelog.log.read_only import ReadOnlyLog
    from tidelog.record.headers import BatchHeaders
    from tidelog.spark.gaps import KeptAs

logger = logging.getLogger("tidelog.spark")

FETCH_BYTES = 2 << 20
"""As much as the decoder takes at a time."""
SLACK_BYTES = 32 << 10
"""What a split may have more than the indexes said."""
FEW_BYTES_EACH = 64 << 10
"""Of records that are further apart than that, each is looked up by itself."""


def read_splits(partition: "InputPartition") -> "Iterator[pa.RecordBatch]":
    """The records of a task, split after split in their order. Spark's stand-in for no work at all has none."""
    if not isinstance(partition, SplitPartition):
        return iter(())
    if partition.latest_by_key:
        from tidelog.spark.latest_by_key import KeyedReading, read_keyed

        reading = KeyedReading(
            partition.columns,
            partition.isolation,
            keys=partition.keys,
            keeps_null_keys=True,
            fail_on_data_loss=partition.fail_on_data_loss,
        )
        return (batch for split in partition.splits for batch in read_keyed(split, reading))
    from tidelog.spark.row_batches import joined

    return joined(_read(partition))


def read_split(
    split: Split, partition: SplitPartition, rows: Any, *, only: "NDArray[np.int64] | None" = None
) -> "Iterator[pa.RecordBatch]":
    """The records of one split as `rows` decodes and arranges them, as `RowBatches` does.

    With `only`, offsets that rise, batches that have none of these are passed over; of those that are read other records may come along.
    """
    return _SplitReading(split, partition, rows, only).read()


def _read(partition: SplitPartition) -> "Iterator[pa.RecordBatch]":
    from tidelog.spark.row_batches import RowBatches

    rows = RowBatches(partition.columns, partition.keys)
    for split in partition.splits:
        yield from _SplitReading(split, partition, rows).read()


class _SplitReading:
    """Reads one split."""

    def __init__(self, split: Split, partition: SplitPartition, rows: Any, only: "NDArray[np.int64] | None" = None) -> None:
        self._split = split
        self._only = only
        self._oldest_ms = partition.oldest_ms
        self._fail_on_data_loss = partition.fail_on_data_loss
        self._checks_holes = partition.checks_holes
        self._kept: KeptAs | None = None
        # Whose transactions are known need not be worked out again by every task.
        is_decided = partition.isolation == "committed" and split.aborted is not None
        self._isolation: Isolation = "high_watermark" if is_decided else partition.isolation
        self._fetch_bytes = min(FETCH_BYTES, split.size_bytes + SLACK_BYTES) if split.size_bytes else FETCH_BYTES
        if only is not None and split.size_bytes > len(only) * FEW_BYTES_EACH:
            self._fetch_bytes = SLACK_BYTES
        self._rows = rows

    def read(self) -> "Iterator[pa.RecordBatch]":
        split = self._split
        from tidelog.log.read_only import open_read_only

        try:
            log = open_read_only(split.directory)
        except LogNotFoundError:
            self._lost(split.start_offset, split.end_offset, "its directory is gone")
            return
        with log:
            self._check_topic()
            yield from self._read(log)

    def _read(self, log: "ReadOnlyLog") -> "Iterator[pa.RecordBatch]":
        from tidelog.log.reading import placed
        from tidelog.spark.gaps import holes_between
        from tidelog.store.topic_columns import cut_rows, walk_up_to

        split = self._split
        offset, stop = split.start_offset, split.end_offset
        while (offset := self._next_wanted(offset)) < stop:
            fetched = self._fetch(log, offset)
            if fetched is None:
                return
            offset = max(offset, fetched.offset)
            try:
                headers = walk_up_to(log, fetched, stop)
                if self._checks_holes:
                    self._check_holes(log, holes_between(headers, offset, stop))
                for at, run in self._wanted(fetched, headers):
                    for decoded in self._decode(run, at):
                        wanted = cut_rows(decoded, offset, stop)
                        if wanted.num_rows:
                            offset = wanted.column(0)[-1].as_py() + 1
                            yield self._rows.arrange(wanted, split.topic, split.partition)
                offset = max(offset, int(headers.last_offset[-1]) + 1)
            except CorruptBatchError as error:
                # The bytes of a log that somebody else cuts and writes on may change while they are read.
                if not log.is_outdated(fetched):
                    raise placed(error, log, fetched)  # noqa: B904 - the same error

    def _next_wanted(self, offset: int) -> int:
        if self._only is None:
            return offset
        place = int(self._only.searchsorted(offset))
        return int(self._only[place]) if place < len(self._only) else self._split.end_offset

    def _fetch(self, log: "ReadOnlyLog", offset: int) -> "Fetched | None":
        """What the log has from an offset on; None if that is nothing below the end of the split."""
        stop = self._split.end_offset
        while offset < stop:
            try:
                fetched = log.fetch(offset, self._fetch_bytes, isolation=self._isolation)
            except OffsetOutOfRangeError as error:
                start, end = error.log_start_offset, error.log_end_offset
                if offset >= start:
                    self._lost(offset, stop, f"the log ends at {end}")
                    return None
                self._lost(offset, min(start, stop), f"the log starts at {start}")
                offset = start
                continue
            if fetched.data:
                return fetched
            bound = latest_offset(log, self._isolation)
            if bound < stop:
                self._lost(max(offset, bound), stop, f"readers see offsets below {bound}")
            elif self._checks_holes:
                self._check_holes(log, [(offset, stop)])
            return None
        return None

    def _check_holes(self, log: "ReadOnlyLog", holes: list[tuple[int, int]]) -> None:
        """Between batches nothing may be missing, unless a cleaner may have taken it. How the log is kept is asked only where it counts."""
        from tidelog.spark.gaps import how_kept

        for first, behind in holes:
            if self._kept is None or self._kept.kind_of_hole(first) == "lost":
                self._kept = how_kept(log)  # a cleaner says where it has been after it has been there
            if self._kept.kind_of_hole(first) == "lost":
                self._lost(first, behind, "neither retention nor compaction explains it")

    def _decode(self, run: memoryview, at: int) -> "Iterator[pa.RecordBatch]":
        try:
            yield from self._rows.decode(run)
        except CorruptBatchError as error:
            error.position = None if error.position is None else error.position + at
            raise

    def _wanted(self, fetched: "Fetched", headers: "BatchHeaders") -> Iterator[tuple[int, memoryview]]:
        """The batches of data that are to be read, as runs of batches that lie together, each with its place."""
        import numpy as np

        from tidelog.record.headers import verify_checksums
        from tidelog.record.layout import CONTROL_BIT, TRANSACTIONAL_BIT

        source = memoryview(fetched.data)
        attributes, is_v2 = headers.attributes, headers.magic == 2
        is_left_out = is_v2 & (attributes & CONTROL_BIT != 0)
        for producer_id, first, last in self._aborted(fetched, int(headers.last_offset[-1])):
            is_its = (headers.producer_id == producer_id) & (headers.base_offset >= first) & (headers.base_offset <= last)
            is_left_out |= is_its & is_v2 & (attributes & TRANSACTIONAL_BIT != 0)
        if self._oldest_ms is not None:
            is_left_out |= is_v2 & (headers.max_timestamp_ms < self._oldest_ms)
        if self._only is not None:
            is_left_out |= self._only.searchsorted(headers.base_offset) == self._only.searchsorted(headers.last_offset, side="right")
        if not is_left_out.any():
            yield 0, source[: headers.end_position]
            return
        cuts = [0, *(np.flatnonzero(is_left_out[1:] != is_left_out[:-1]) + 1).tolist(), len(headers)]
        for begin, end in pairwise(cuts):
            part = headers[begin:end]
            if is_left_out[begin]:
                verify_checksums(source, part)  # what is left out has to be what it says, too
            else:
                at = int(part.position[0])
                yield at, source[at : part.end_position]

    def _aborted(self, fetched: "Fetched", last_offset: int) -> list[Aborted]:
        if self._split.aborted is not None:
            return [entry for entry in self._split.aborted if entry[2] >= fetched.offset and entry[1] <= last_offset]
        return [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in fetched.aborted_transactions]

    def _check_topic(self) -> None:
        """Raise if the directory is that of another topic by now, which was made after this one was deleted."""
        split = self._split
        if split.topic_id is None:
            return
        from tidelog.disk.file_pool import SHARED
        from tidelog.disk.partition_metadata import format_topic_id, read_metadata

        found = read_metadata(SHARED.disk, split.directory)
        if found is not None and format_topic_id(found) != split.topic_id:
            raise InconsistentTopicIdError(
                "the topic was deleted, and made again, since the query was planned",
                path=split.directory,
                expected=split.topic_id,
                found=format_topic_id(found),
            )

    def _lost(self, first: int, stop: int, why: str) -> None:
        """Records are gone that were planned to be read."""
        split = self._split
        what = f"offsets {first} to {stop - 1} of {split.topic}-{split.partition} are not there any more: {why}"
        if self._fail_on_data_loss:
            raise DataLossError(what, path=split.directory, hint="failOnDataLoss=false goes on with what is there")
        logger.warning("tidelog: %s; failOnDataLoss=false goes on with what is there", what)

"""Whether an offset that no batch has was ever there to be had.

Compaction leaves gaps, so a fetch goes on with the next batch behind one. But the last offset of a batch is among what its CRC covers: if
it is rotten, the batch seems to end before an offset that it holds, and would be passed over in silence. So before a gap is believed, the
batch in front of it is checked. Where there is no gap, that costs nothing.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.errors import ChecksumError, CorruptBatchError, TidelogError
from tidelog.log.batch_checksum import MAGIC_POSITION, checksums_in_file
from tidelog.log.segment import Segment
from tidelog.record.layout import ATTRIBUTES_POSITION

if TYPE_CHECKING:
    from tidelog.log.segment_read import FoundBatch

NextBatch = Callable[[Segment, int], "FoundBatch | None"]
"""The batch at a position of a segment, if there is a whole one."""


def check_gap(segment: Segment, offset: int, position: int, next_batch: NextBatch) -> None:
    """No batch before `position` has `offset`, or a later one. Raise if the last of them is not sound."""
    entry = segment.index.lookup(offset).position
    before = None
    if 0 < entry < position:
        try:
            before = _last_before(segment, entry, position, next_batch)
        except TidelogError:
            before = None  # an entry that does not point at a batch
    if before is None:
        before = _last_before(segment, 0, position, next_batch)
    if before is not None:
        _check(segment, before)


def _last_before(segment: Segment, position: int, stop: int, next_batch: NextBatch) -> "FoundBatch | None":
    """The last whole batch before a byte; None if nothing ends there."""
    last: FoundBatch | None = None
    while position < stop:
        found = next_batch(segment, position)
        if found is None or found.position + found.size_bytes > stop:
            break
        if last is not None and 0 <= found.base_offset <= last.last_offset:
            _check(segment, last)
            raise CorruptBatchError(
                "offsets of batches go back",
                path=segment.file.path,
                position=found.position,
                expected=f"a first offset above {last.last_offset}",
                found=found.base_offset,
            )
        last = found
        position = found.position + found.size_bytes
    return last


def _check(segment: Segment, batch: "FoundBatch") -> None:
    opened = segment.file.open()
    disk = segment.pool.disk
    header = disk.read(opened.fd, ATTRIBUTES_POSITION, batch.position)
    stored, computed = checksums_in_file(disk, opened.fd, header, batch.position, batch.size_bytes, magic=header[MAGIC_POSITION])
    if stored != computed:
        raise ChecksumError(
            "the CRC of a batch does not match",
            path=segment.file.path,
            position=batch.position,
            expected=f"{stored:#010x} as its header says",
            found=f"{computed:#010x}",
        )

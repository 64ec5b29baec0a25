"""The offset of a time in a log that cannot be opened, since it is damaged: found by its batches alone, from the first on.

That reads all of it up to the answer, where a look-up reads two indexes and a batch; so it is for backups of which the look-up has failed.
Behind damage nothing is looked for: who restores such a log does not go on there.
"""

from collections.abc import Iterator

import numpy as np

from tidelog.compaction.segment_chunks import Chunk, ChunkReader
from tidelog.disk.file_pool import SHARED
from tidelog.disk.names import LOG, parse_segment_file
from tidelog.errors import CorruptError, UnsupportedError
from tidelog.inspection.repair_files import PartitionFiles
from tidelog.log.segment import Segment
from tidelog.record.reading import read_batches
from tidelog.record.seeking import record_at_time


def first_at_time(directory: str, files: PartitionFiles, time_ms: int, log_start_offset: int) -> int | None:
    """The first record, in the order of offsets, whose timestamp is not below a time; None if there is none before damage, or at all."""
    for chunk in _sound_chunks(directory, files):
        found = _in_chunk(chunk, time_ms, log_start_offset)
        if found is not None:
            return found
    return None


def _sound_chunks(directory: str, files: PartitionFiles) -> Iterator[Chunk]:
    """The batches of all segments, up to the first that is not sound."""
    reader = ChunkReader()
    for base_offset in files.base_offsets:
        entry = files.segments[base_offset][LOG]
        segment = Segment(SHARED, directory, base_offset, size_bytes=entry.size_bytes, index_bytes=0, time_index_bytes=0)
        parsed = parse_segment_file(entry.name)
        if parsed is not None and parsed.stage:
            segment.restaged(parsed.stage)
        position, end, is_sound = 0, segment.size_bytes, True
        try:
            while position < end:
                try:
                    for chunk in reader.read(segment, position, end=end):
                        yield chunk
                        position = chunk.file_position + chunk.headers.end_position
                except (CorruptError, UnsupportedError) as error:
                    is_sound = False
                    # Of the chunk in which it is, what lies before it is sound.
                    end = min(end - 1, position if error.position is None else error.position)
        finally:
            segment.forget()
        if not is_sound:
            return


def _in_chunk(chunk: Chunk, time_ms: int, log_start_offset: int) -> int | None:
    headers = chunk.headers
    for row in np.flatnonzero(headers.max_timestamp_ms >= time_ms).tolist():
        start = int(headers.position[row])
        (batch,) = read_batches(chunk.buffer[start : start + int(headers.size_bytes[row])])
        record = record_at_time(batch, time_ms, log_start_offset)
        if record is not None:
            return record[0]
    return None

"""What a copy takes of the disk beside its target: whether there is room for it, and what goes as soon as nobody needs it.

All of the new store is staged before it gets its name. A segment that was copied in pieces is there twice while it is put together.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from tidelog.disk.file_pool import SHARED
from tidelog.log.storage_errors import check_space
from tidelog.store.copy_plan import LogSource
from tidelog.store.copy_values import NewSegment

_INDEX_SHARE = 64
"""Indexes, snapshots and what producers did are about such a part of the batches, or less."""


def check_copy_space(staging: str, sources: Sequence[LogSource]) -> None:
    """Raise if logs of which nothing is left out do not fit."""
    check_space(SHARED.disk, staging, copy_bytes(sources), "not enough space for the copy", hint="nothing was made")


def copy_bytes(sources: Sequence[LogSource]) -> int:
    """About how many bytes a copy of all of them takes at most, while it is made."""
    in_pieces = sum(segment.size_bytes for source in sources for segment in source.segments if len(segment.pieces) > 1)
    total = sum(source.size_bytes for source in sources)
    return total + in_pieces + total // _INDEX_SHARE


def discard_segments(segments: Iterable[NewSegment]) -> None:
    """Remove segments that were made and are to be made again. What cannot be removed goes with the staging folder."""
    for segment in segments:
        for kind in segment.sizes.kinds if segment.path is not None else ():
            with suppress(OSError):
                SHARED.disk.remove(f"{segment.path}{kind}")

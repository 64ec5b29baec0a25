"""Decompress the payloads of many batches into one arena.

lz4 and zstd, which most topics have, are called without leaving compiled code; the other codecs through a function of the caller's.
"""

from collections.abc import Callable
from typing import Any

from tidelog.record import slots
from tidelog.record.kernel.arena import Arena
from tidelog.record.kernel.lz4_frame import decompress as decompress_lz4
from tidelog.record.kernel.zstd_frame import decompress as decompress_zstd

BATCH_FIELDS = slots.BATCH_FIELDS


def decompress_payloads(
    chunk: memoryview,
    batches: Any,
    attributes: Any,
    first: int,
    arena: Arena,
    max_bytes: int,
    enough_bytes: int,
    decompress_other: Callable[[int, memoryview, Arena, int], None],
    progress: Any,
) -> int:
    """Decompress from batch `first` on until the arena holds `enough_bytes`; give back the batch after the last one.

    The payload's place in `batches` (see `decode_batches`) becomes its place in the arena. When an error is raised, `progress` has the
    number of the batch.
    """
    count = len(attributes)
    index = first
    while index < count:
        progress[0] = index
        field = BATCH_FIELDS * index
        codec = attributes[index] & 7
        start = batches[field]
        end = batches[field + 1]
        payload = chunk[start:end]
        batches[field] = arena.size
        if codec == 4:
            decompress_zstd(payload, arena, max_bytes)
        elif codec == 3:
            decompress_lz4(payload, arena, max_bytes, True)
        else:
            decompress_other(codec, payload, arena, max_bytes)
        batches[field + 1] = arena.size
        index += 1
        if arena.size >= enough_bytes:
            break
    return index

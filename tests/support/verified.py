"""A log that a test leaves behind has to be in order; and logs by hand, to see what verify makes of them."""

import os
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tidelog.disk.checkpoints import EpochEntry, format_epochs
from tidelog.disk.names import segment_file
from tidelog.inspection import Finding, verify


def complaints(directory: Path | str, allow: Collection[str] = ()) -> list[Finding]:
    """Errors and warnings about a partition directory, but for those with an allowed code."""
    return [finding for finding in verify(directory, level="records") if finding.severity != "note" and finding.code not in allow]


def assert_verified(directory: Path | str, allow: Collection[str] = ()) -> None:
    """Fail if verify finds an error or a warning whose code is not allowed. A directory that is gone is in order."""
    if not os.path.isdir(directory):  # noqa: PTH112
        return
    found = complaints(directory, allow)
    assert not found, "\n".join(map(str, found))


def write_segment(directory: Path, base_offset: int, batches: list[bytes], *, tail: bytes = b"") -> None:
    """A segment of these batches as they are, with an index entry for every batch but the first; `tail` goes behind the batches."""
    directory.mkdir(parents=True, exist_ok=True)
    index, time_index = bytearray(), bytearray()
    position, latest, latest_offset, noted = 0, -1, 0, -1
    for number, batch in enumerate(batches):
        base, delta = struct.unpack_from(">q15xi", batch)
        max_timestamp_ms = struct.unpack_from(">q", batch, 35)[0]
        relative = (base + delta - base_offset) & 0x7FFFFFFF
        if max_timestamp_ms > latest:
            latest, latest_offset = max_timestamp_ms, relative
        if number:
            index += struct.pack(">ii", relative, position)
            if latest > noted:
                time_index += struct.pack(">qi", latest, latest_offset)
                noted = latest
        position += len(batch)
    if latest > noted:
        time_index += struct.pack(">qi", latest, latest_offset)
    (directory / segment_file(base_offset, ".log")).write_bytes(b"".join(batches) + tail)
    (directory / segment_file(base_offset, ".index")).write_bytes(index)
    (directory / segment_file(base_offset, ".timeindex")).write_bytes(time_index)


def write_epochs(directory: Path, *entries: tuple[int, int]) -> None:
    """The leader epochs of a partition."""
    (directory / "leader-epoch-checkpoint").write_bytes(format_epochs(EpochEntry(*entry) for entry in entries))


def codes(directory: Path | str, **options: Any) -> list[str]:
    """The codes of what verify finds, without notes, each once and in order."""
    return sorted({finding.code for finding in verify(directory, **options) if finding.severity != "note"})


def notes(directory: Path | str) -> list[str]:
    """The codes of what verify notes, each once and in order."""
    return sorted({finding.code for finding in verify(directory) if finding.severity == "note"})

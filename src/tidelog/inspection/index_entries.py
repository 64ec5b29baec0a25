"""The entries of index files as verify reads them: whole, up to a limit, in columns; and what becomes of the findings about them.

Zeros behind the entries are what a preallocated file of an active segment looks like.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tidelog.disk.disk import Disk
from tidelog.inspection.finding import NOTHING, RECOVERY, REINDEX, Finding

MOST_INDEX_BYTES = 32 << 20
"""Of an index file is read; Kafka's default is 10 MiB."""
MOST_HELD = 1000

OFFSET_LAYOUT = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_LAYOUT = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


@dataclass(slots=True)
class IndexEntries:
    """The entries of an index file, in columns."""

    path: str
    columns: dict[str, np.ndarray]
    entry_size: int
    padding: int
    """Entries of zeros behind the last one."""

    def __len__(self) -> int:
        return len(self.columns["offset"])


def read_entries(disk: Disk, path: str, layout: np.dtype, *, is_active: bool) -> tuple[IndexEntries, list[Finding]]:
    """An index file, and what its size says. `is_active`: of the last segment, where zeros behind the entries are in order."""
    findings = []
    size = layout.itemsize
    fd = disk.open_plain(path)
    try:
        size_bytes = disk.size(fd)
        content = _read(disk, fd, min(size_bytes, MOST_INDEX_BYTES - MOST_INDEX_BYTES % size))
    finally:
        disk.close(fd)
    if size_bytes % size:
        what = f"the size of an index is no multiple of {size} bytes"
        findings.append(Finding("warning", "index-size", path, what, REINDEX, size_bytes - size_bytes % size, None, None, size_bytes))
    if size_bytes > MOST_INDEX_BYTES:
        what = f"only the first {MOST_INDEX_BYTES} bytes of an index were looked at"
        findings.append(Finding("note", "index-large", path, what, NOTHING, MOST_INDEX_BYTES, None, None, size_bytes))
    raw = np.frombuffer(content, layout, len(content) // size)
    names = layout.names or ()
    used = np.flatnonzero(np.logical_or.reduce([raw[name] != 0 for name in names]))
    count = int(used[-1]) + 1 if len(used) else 0
    if count == 0 and len(raw) and "timestamp" in names and not is_active:
        count = 1  # a first batch of one record from the very beginning of 1970; the batches will tell
    padding = len(raw) - count
    if padding and not is_active:
        what = f"{padding} empty entries at the end of an index that is no longer written to: a broker takes them for entries"
        findings.append(Finding("warning", "index-not-trimmed", path, what, REINDEX, count * size))
    columns = {name: raw[name][:count].astype(np.int64) for name in names}
    return IndexEntries(path, columns, size, padding), findings


def hold(held: list[Finding], findings: Iterable[Finding]) -> None:
    """Keep findings until the walk is over: the first thousand, since an index may be nothing but garbage."""
    for finding in findings:
        if len(held) < MOST_HELD:
            held.append(finding)


def settled(findings: list[Finding], entries: IndexEntries) -> list[Finding]:
    """Findings about an index with room behind its entries. Kafka leaves there what a truncation has dropped, and does not look at it.

    So if all that is wrong is a run of entries at the end, it is one note.
    """
    if not entries.padding:
        return findings
    rows = sorted({finding.position // entries.entry_size for finding in findings if finding.position is not None})
    if not rows or rows != list(range(len(entries) - len(rows), len(entries))):
        return findings
    what = f"{len(rows)} entries at the end that do not count, as a truncation leaves them in the index that is written to"
    return [Finding("note", "index-stale", entries.path, what, RECOVERY, rows[0] * entries.entry_size)]


def _read(disk: Disk, fd: int, size_bytes: int) -> bytes:
    """So many bytes, or what there is."""
    parts: list[bytes] = []
    position = 0
    while position < size_bytes:
        part = disk.read(fd, min(4 << 20, size_bytes - position), position)
        if not part:
            break
        parts.append(part)
        position += len(part)
    return b"".join(parts)

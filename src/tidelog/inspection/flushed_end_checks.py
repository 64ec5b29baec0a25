"""The file by which an owner of ours says how far its log is flushed: whether it can be read, and whether the log goes so far."""

import time
from collections.abc import Iterator

from tidelog.disk.disk import Disk
from tidelog.disk.names import LOG, segment_file
from tidelog.disk.published_end import PUBLISHED_END, SIZE, FlushedEnd, fault_of, parse_flushed_end
from tidelog.errors import TidelogError
from tidelog.inspection.finding import Finding
from tidelog.inspection.side_file_checks import read_side_file, unreadable

_TRIES = 5
_MEND = "opening the log, which writes it anew"


def load_flushed_end(disk: Disk, path: str) -> tuple[FlushedEnd | None, list[Finding]]:
    """What is published. A living owner may be writing it at this moment, so what cannot be right is read again."""
    content = b""
    for attempt in range(_TRIES):
        try:
            content = read_side_file(disk, path)
        except FileNotFoundError:
            return None, []
        except (TidelogError, OSError) as error:
            return None, [unreadable(error, path, "flushed-end-unreadable", _MEND)]
        end = parse_flushed_end(content)
        if end is not None:
            return end, []
        time.sleep(0.0001 * attempt)
    what = f"what is published about the flushed end of the log cannot be used: {fault_of(content)}"
    return None, [Finding("warning", "flushed-end-unreadable", path, what, _MEND, None, None, f"{SIZE} bytes", len(content))]


def check_flushed_end(disk: Disk, directory: str, end: FlushedEnd, end_offset: int) -> Iterator[Finding]:
    """Hold what was published before the log was walked against the log. Owners cut logs, and say so: then it is another by now."""
    path = f"{directory}/{PUBLISHED_END}"
    beyond = end.offset > end_offset
    if not beyond and not _is_outside(disk, directory, end):
        return
    if load_flushed_end(disk, path)[0] != end:
        return
    if beyond:
        what = "more is said to be flushed than the log has: it was lost, or cut by somebody who does not know this file, as a broker"
        yield Finding("warning", "flushed-end-beyond", path, what, _MEND, 8, end.offset, f"at most {end_offset}", end.offset)
    else:
        what = "the flushed end is said to lie where its segment has no byte"
        found = f"byte {end.position} of segment {end.segment_base_offset}"
        yield Finding("warning", "flushed-end-place", path, what, _MEND, 16, end.offset, "a byte of a segment", found)


def _is_outside(disk: Disk, directory: str, end: FlushedEnd) -> bool:
    try:
        fd = disk.open_plain(f"{directory}/{segment_file(end.segment_base_offset, LOG)}")
    except OSError:
        return True
    try:
        return disk.size(fd) < end.position
    finally:
        disk.close(fd)

"""What a compaction in parts takes of the disk while it runs: whether there is room for it, and what goes as soon as nobody needs it.

    entries of keys      some 24 bytes a record, from the scan to the search
    units                what stays of groups that several workers share, from the rewriting until they are put together
    new segments         all of them, of all logs, until they are swapped in

So nothing is changed where the disk gets full, and a run that has no chance is refused before it writes anything large. How much stays is
known by then, as a number of records; that it is the same share of the bytes is an estimate. The local cleaner needs less, as it swaps
every group by itself.
"""

from collections.abc import Sequence
from contextlib import suppress

from tidelog.compaction.parts_outcome import RunningLog
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import SHARED
from tidelog.log.storage_errors import check_space, typed_refusals

_WHAT = "not enough space for the new segments of all logs that are compacted"
_HINT = "nothing was changed; compact fewer topics at a time, or in this process (Store.compact), which needs room for one segment only"


def check_rewrite(staging: str | None, running: Sequence[RunningLog]) -> None:
    """Raise if what the logs are rewritten to does not fit into the staging folder, or not beside logs that lie elsewhere."""
    if staging is None or not running:
        return
    disk = running[0].log.segments[0].pool.disk
    for path, size_bytes in needed_bytes(staging, running, disk).items():
        with typed_refusals(path, "asking for free space failed"):
            is_short = disk.free_bytes(path) < size_bytes
        for one in running if is_short else ():
            if one.log.deleted_bytes:  # what waits to be removed does not wait when space is short
                one.log.remove_deleted(at_once=True)
        check_space(disk, path, size_bytes, _WHAT, hint=_HINT)


def needed_bytes(staging: str, running: Sequence[RunningLog], disk: Disk) -> dict[str, int]:
    """About how many bytes are needed, and where: in the staging folder, and on file systems to which segments are copied from there."""
    needed = {staging: 0}
    elsewhere: dict[int, str] = {}
    with typed_refusals(staging, "asking for its file system failed"):
        own = disk.file_system(staging)
        for one in running:
            group_bytes = [int(group.most_bytes * one.kept_share) for group in one.parts.groups]
            shared = {unit.group for unit in one.units if not unit.is_whole_group}
            needed[staging] += sum(group_bytes) + sum(group_bytes[group] for group in shared)
            file_system = disk.file_system(one.log.directory)
            if file_system != own:
                directory = elsewhere.setdefault(file_system, one.log.directory)
                needed[directory] = needed.get(directory, 0) + sum(group_bytes)
    return needed


def check_assembly(staging: str | None, size_bytes: int) -> None:
    """Raise if segments of so many bytes cannot be put together: now it is known to the byte."""
    if staging is not None and size_bytes:
        check_space(SHARED.disk, staging, size_bytes, _WHAT, hint=_HINT)


def discard_keys(one: RunningLog) -> None:
    """Remove the entries of keys that were searched, and events of transactions. What cannot be removed goes with the staging folder."""
    for path in {path for scanned in one.scanned for path in (scanned.path, scanned.events_path) if path is not None}:
        with suppress(OSError):
            SHARED.disk.remove(path)

"""Which files of a partition directory make up its segments, by their names: what loading would leave, worked out without touching any.

Segments on their way in or out have a suffix (`tidelog.log.swap` tells the protocol). Loading finishes or undoes such a change; a reader
must not, and need not: the files that would stay are there, if not under their last name.

    .deleted                             is gone
    .cleaned                             is not there yet, nor is a .swap at or above the lowest of them
    .swap otherwise                      stands for the file without suffix
    no suffix, in the range of the       has been replaced
    .log.swap files
"""

from collections.abc import Callable, Iterable

from tidelog.disk.disk import Seen
from tidelog.disk.names import CLEANED, DELETED, LOG, SWAP, SegmentFile, is_foreign_segment_file, parse_segment_file
from tidelog.errors import DamagedLogError

Files = dict[str, Seen]
"""The files of one segment by their kind."""
MAX_OFFSET = (1 << 63) - 1
MAX_FILES = 400_000
"""No log has more: such a directory is not read but refused, before it takes all memory."""


def relevant(directory: str, seen: Iterable[Seen]) -> list[tuple[SegmentFile, Seen]]:
    """The files of segments, among whatever else is there. Raises for what pretends to be one."""
    found = []
    for entry in seen:
        parsed = parse_segment_file(entry.name)
        if parsed is None or parsed.base_offset > MAX_OFFSET:
            if parsed is not None or is_foreign_segment_file(entry.name):
                raise DamagedLogError(
                    "a file that is named like a segment's but is none",
                    path=f"{directory}/{entry.name}",
                    expected=f"an offset of 20 digits, up to {MAX_OFFSET}",
                    found=entry.name.partition(".")[0],
                    hint="a broker would not load it either; move it elsewhere",
                )
            continue
        if entry.kind != "file" and parsed.stage in ("", SWAP):
            raise DamagedLogError(
                "something that is named like a segment's file but is none",
                path=f"{directory}/{entry.name}",
                expected="a file",
                found={"link": "a link", "directory": "a directory"}.get(entry.kind, "neither file nor directory"),
                hint="a broker writes plain files only; nothing was read",
            )
        if parsed.stage == DELETED:
            continue  # however many there are, they are gone
        found.append((parsed, entry))
        if len(found) > MAX_FILES:
            raise too_many_files(directory)
    return found


def too_many_files(directory: str) -> DamagedLogError:
    """A directory in which somebody has put more than can be looked at."""
    return DamagedLogError(
        "more files than a log can have", path=directory, expected=f"at most {MAX_FILES} files of segments", found="more"
    )


def resolve(found: Iterable[tuple[SegmentFile, Seen]], next_offset_of: Callable[[int, Files], int]) -> dict[int, Files]:
    """Files by base offset and kind, snapshots among them, as loading would leave them.

    `next_offset_of` says where a segment ends whose files have the suffix `.swap`; it is asked only where there are such.
    """
    final: dict[int, Files] = {}
    swaps: dict[int, Files] = {}
    lowest_cleaned: int | None = None
    for (base_offset, kind, stage), entry in found:
        if not stage:
            final.setdefault(base_offset, {})[kind] = entry
        elif stage == SWAP:
            swaps.setdefault(base_offset, {})[kind] = entry
        elif stage == CLEANED and (lowest_cleaned is None or base_offset < lowest_cleaned):
            lowest_cleaned = base_offset
    if lowest_cleaned is not None:
        swaps = {base_offset: files for base_offset, files in swaps.items() if base_offset < lowest_cleaned}
    replacing = {base_offset: files for base_offset, files in swaps.items() if LOG in files}
    if replacing:
        low = min(replacing)
        high = max(next_offset_of(base_offset, files) for base_offset, files in replacing.items())
        final = {base_offset: files for base_offset, files in final.items() if not low <= base_offset < high}
    for base_offset, files in swaps.items():
        final.setdefault(base_offset, {}).update(files)
    return final

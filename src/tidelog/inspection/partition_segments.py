"""The segments of a partition directory as its names and sizes say, whatever state they are in. Nothing is opened."""

from collections.abc import Sequence

from tidelog.disk.disk import OS, Disk
from tidelog.disk.file_pool import SHARED, FilePool
from tidelog.disk.names import INDEX, LOG, TIME_INDEX, TXN_INDEX, parse_partition, parse_segment_file
from tidelog.errors import NO_DIRECTORY, LogNotFoundError, UnknownTopicError
from tidelog.inspection.directory_checks import MAX_OFFSET
from tidelog.log.segment import Segment


def segments_in(directory: str, disk: Disk = OS) -> list[Segment]:
    """By base offset; nothing of a directory that is not there, or that cannot be listed: its verifying tells that."""
    try:
        return listed_segments(directory, disk)
    except OSError:
        return []


def listed_segments(directory: str, disk: Disk = OS) -> list[Segment]:
    """By base offset. Raises what the system refuses."""
    pool = SHARED if disk is OS else FilePool(disk)
    sizes: dict[int, dict[str, int]] = {}
    for entry in disk.entries(directory):
        parsed = parse_segment_file(entry.name) if entry.name.isascii() and not entry.is_directory else None
        if parsed is not None and not parsed.stage and parsed.base_offset <= MAX_OFFSET:
            sizes.setdefault(parsed.base_offset, {})[parsed.kind] = entry.size_bytes
    return [
        Segment(
            pool,
            directory,
            base_offset,
            size_bytes=kinds[LOG],
            index_bytes=kinds.get(INDEX, 0),
            time_index_bytes=kinds.get(TIME_INDEX, 0),
            txn_index_bytes=kinds.get(TXN_INDEX),
        )
        for base_offset, kinds in sorted(sizes.items())
        if LOG in kinds
    ]


def partitions_in(root: str, topics: Sequence[str] | None, disk: Disk = OS) -> list[str]:
    """The partition directories of some topics, or of all, by topic and number. A topic that is not there raises."""
    try:
        found = [parsed for name in disk.names(root) if name.isascii() and (parsed := parse_partition(name)) is not None]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise LogNotFoundError("no such directory", path=root, hint=NO_DIRECTORY) from error
    known = sorted(partition for partition in found if topics is None or partition.topic in topics)
    for topic in topics or ():
        if not any(partition.topic == topic for partition in known):
            names = sorted({partition.topic for partition in found})
            hint = f"there are: {', '.join(names[:10])}{' …' if len(names) > 10 else ''}" if names else "there are none"
            raise UnknownTopicError(f"no topic {topic!r}", path=root, hint=hint)
    return [str(partition) for partition in known]

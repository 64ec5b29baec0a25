"""Build all indexes and producer snapshots of a log anew from its batches: the files that a recovery of the whole log would leave.

Segments are read one by one, by anybody and in any order (`reindex_scan`): that gives offset and time index, and what producers did. Then
the producers are followed through all of them (`replay_files`), which gives the transaction indexes and the snapshots. Batches are never
touched. A log with damage inside is refused as a whole: what its batches say is not to be built upon before it is repaired.

Each file is replaced by itself, durably: a crash leaves some old ones and some new ones, and doing it again does the rest.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike, fspath

from tidelog.config import LogConfig
from tidelog.disk.disk import OS, Disk
from tidelog.disk.log_directory import LogDirectory
from tidelog.disk.names import (
    INDEX,
    LOG_START_OFFSET_CHECKPOINT,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    parse_partition,
    parse_segment_file,
    segment_file,
)
from tidelog.errors import LogNotFoundError
from tidelog.inspection.partition_segments import listed_segments
from tidelog.inspection.reindex_scan import Scans, SegmentIndexed, check_settled, check_sound, indexed
from tidelog.inspection.repair_state import LogReplay
from tidelog.inspection.side_file_checks import load_checkpoint
from tidelog.log.producer_state import ProducerState
from tidelog.log.recovery import ScannedSegment
from tidelog.log.segment import Segment
from tidelog.log.storage_errors import typed_refusals

PRODUCER_EXPIRATION_MS = 86_400_000
_log = logging.getLogger("tidelog")


@dataclass(frozen=True, slots=True)
class ReindexFacts:
    """What has to be known of a log besides its batches."""

    directory: str
    index_interval_bytes: int
    log_start_offset: int
    now_ms: int
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS


@dataclass(frozen=True, slots=True)
class RebuiltFile:
    """A file that is not as it should be."""

    name: str
    why: str
    """missing, or other content, or not needed."""
    content: bytes | None
    """None: it is to be removed."""


@dataclass(frozen=True, slots=True)
class ReindexReport:
    """What was built anew, or would be."""

    directory: str
    dry_run: bool
    segments: int
    size_bytes: int
    changed: tuple[tuple[str, str], ...]
    """Names of files and what was wrong with them."""
    note: str | None = None

    def __str__(self) -> str:
        would = "would be built anew" if self.dry_run else "were built anew"
        text = f"{self.directory}: {len(self.changed)} files {would}, of {self.segments} segments with {self.size_bytes} bytes"
        lines = [text, *(f"  {name}: {why}" for name, why in self.changed)]
        return "\n".join(lines if self.note is None else [*lines, f"  {self.note}"])


def reindex(
    directory: str | PathLike[str],
    *,
    config: LogConfig | None = None,
    dry_run: bool = False,
    now_ms: int = 0,
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    disk: Disk = OS,
) -> ReindexReport:
    """Build the indexes and snapshots of a partition directory anew. Takes the lock of its log directory, unless it is a `dry_run`.

    `now_ms` is by what producers expire; 0 keeps them all.
    """
    path = fspath(directory).rstrip("/")
    root, _, name = path.rpartition("/")
    partition = parse_partition(name)
    if partition is None or not disk.exists(path):
        raise LogNotFoundError("not a partition directory", path=path, expected="topic-partition, as in emails-0")
    facts = reindex_facts(path, (config or LogConfig()).index_interval_bytes, now_ms, producer_expiration_ms, disk)
    with typed_refusals(path, "building indexes anew failed"):
        home = None if dry_run else LogDirectory.claim(root or ".", partition, disk=disk)
        try:
            return _reindex(facts, disk, dry_run=dry_run)
        finally:
            if home is not None:
                home.abandon(partition)  # its batches are as they were, and so is whether it was closed in order


def reindex_facts(directory: str, index_interval_bytes: int, now_ms: int, producer_expiration_ms: int, disk: Disk) -> ReindexFacts:
    """What the checkpoints above a partition directory say."""
    root, _, name = directory.rpartition("/")
    partition = parse_partition(name)
    assert partition is not None
    start = load_checkpoint(disk, f"{root or '.'}/{LOG_START_OFFSET_CHECKPOINT}")[0].get(partition, 0)
    return ReindexFacts(directory, index_interval_bytes, start, now_ms, producer_expiration_ms)


def _reindex(facts: ReindexFacts, disk: Disk, *, dry_run: bool) -> ReindexReport:
    check_settled(disk, facts.directory)
    segments = listed_segments(facts.directory, disk)
    outlines: list[SegmentIndexed] = []
    scans = Scans(facts.index_interval_bytes)
    rebuilt: list[tuple[str, str]] = []

    def take(files: Iterator[RebuiltFile]) -> None:
        for file in files:
            rebuilt.append((file.name, file.why))
            if not dry_run:
                replace_with(disk, facts.directory, file)

    pending: list[RebuiltFile] = []
    for segment in segments:
        found = scans.scan(segment)
        pending += index_files(disk, segment, found)
        outlines.append(scans.keep(indexed(found)))
    note = check_sound(facts.directory, outlines)
    take(iter(pending))
    take(replay_files(disk, facts, outlines, scans.again(segments)))
    size_bytes = sum(segment.size_bytes for segment in segments)
    return ReindexReport(facts.directory, dry_run, len(segments), size_bytes, tuple(rebuilt), note)


def index_files(disk: Disk, segment: Segment, scanned: ScannedSegment) -> Iterator[RebuiltFile]:
    """Offset index and time index, where they are not what they should be."""
    for kind, entries in ((INDEX, scanned.offset_entries), (TIME_INDEX, scanned.time_entries)):
        yield from _compared(disk, segment.directory, segment_file(segment.base_offset, kind), bytes(entries))


def replay_files(
    disk: Disk, facts: ReindexFacts, outlines: Sequence[SegmentIndexed], scanned: Iterable[SegmentIndexed]
) -> Iterator[RebuiltFile]:
    """Transaction indexes and producer snapshots, where they are not what they should be.

    `outlines` are those of all segments, `scanned` the same with what producers did: asked for one by one, and not kept.
    """
    directory, start = facts.directory, facts.log_start_offset
    bases = [one.base_offset for one in outlines]
    if not bases:
        return
    end = max(one.next_offset for one in outlines)
    # Like Kafka: where the log starts nothing is known yet, so there is no snapshot; an empty log has none at all.
    wanted = {offset for offset in (*bases, end) if offset > max(start, bases[0])}
    state = ProducerState(disk, directory, (), expiration_ms=facts.producer_expiration_ms, is_read_only=True)
    replaying = LogReplay(state, frozenset(wanted), next_offset=bases[0])
    for one in scanned:
        if facts.now_ms:
            state.remove_expired(facts.now_ms)
        replaying.add(ScannedSegment(one.base_offset, one.size_bytes, one.valid_bytes, one.next_offset, producers=one.producers))
        content = b"".join(entry.pack() for entry in replaying.aborted.pop(one.base_offset))
        name = segment_file(one.base_offset, TXN_INDEX)
        if content or disk.exists(f"{directory}/{name}"):
            yield from _compared(disk, directory, name, content)
    replaying.finish()
    for offset, snapshot in sorted(replaying.snapshots.items()):
        yield from _compared(disk, directory, segment_file(offset, SNAPSHOT), snapshot)
    for name in sorted(disk.names(directory)):
        parsed = parse_segment_file(name)
        # One at the end of an empty log may have producers that no batch tells of any more: it stays.
        if parsed is not None and parsed.kind == SNAPSHOT and not parsed.stage and parsed.base_offset not in {*wanted, end}:
            yield RebuiltFile(name, "a snapshot that belongs to no segment", None)


def replace_with(disk: Disk, directory: str, file: RebuiltFile) -> None:
    """Put a file in its place, durably."""
    name = directory.rpartition("/")[2]
    if file.content is None:
        disk.remove(f"{directory}/{file.name}")
        _log.info("%s: removed %s: %s", name, file.name, file.why)
    else:
        disk.replace_file(directory, file.name, file.content)
        _log.info("%s: built %s anew: %s", name, file.name, file.why)


def _compared(disk: Disk, directory: str, name: str, content: bytes) -> Iterator[RebuiltFile]:
    try:
        found: bytes | None = disk.read_file(f"{directory}/{name}")
    except FileNotFoundError:
        found = None
    if found is None:
        yield RebuiltFile(name, "missing", content)
    elif found != content:
        yield RebuiltFile(name, f"other content: {len(found)} bytes, now {len(content)}", content)

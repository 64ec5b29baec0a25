"""One partition, from its first segment to its last."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tidelog.disk.disk import Disk
from tidelog.disk.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    SNAPSHOT,
    parse_partition,
    segment_file,
)
from tidelog.disk.published_end import PUBLISHED_END
from tidelog.inspection.batch_checks import Bounds
from tidelog.inspection.directory_checks import MAX_OFFSET, PartitionFiles
from tidelog.inspection.finding import NOTHING, RECOVERY, REPAIR, Finding, limited
from tidelog.inspection.flushed_end_checks import check_flushed_end, load_flushed_end
from tidelog.inspection.producer_checks import ProducerChecks
from tidelog.inspection.proofs import Proven
from tidelog.inspection.segment_checks import LogContext, SegmentChecks
from tidelog.inspection.side_file_checks import check_metadata, load_checkpoint, load_epochs, load_snapshot

Progress = Callable[[int], None]


@dataclass(slots=True)
class PartitionChecks:
    """Checks one partition, once. Afterwards `first_base` and `end_offset` say where the log begins and ends."""

    disk: Disk
    files: PartitionFiles
    level: str
    now_ms: int
    progress: Progress | None = None
    first_base: int | None = None
    end_offset: int = 0
    last: SegmentChecks | None = None
    """The last segment."""
    is_unread: bool = False
    """Whether some of the batches could not be read, so that where the log ends is not known."""
    vanished: list[int] = field(default_factory=list)
    """Segments that were gone when it came to them, or had become others."""
    proven: Mapping[int, Proven] = field(default_factory=dict)
    """Of segments, by base offset, what need not be read again."""

    @property
    def is_end_known(self) -> bool:
        """Whether where the log ends is known. Nothing else says that what could not be read is gone."""
        return not self.is_unread and not self.vanished

    def run(self) -> Iterator[Finding]:
        """All findings about what is in the files."""
        directory = self.files.directory
        flushed, findings = load_flushed_end(self.disk, f"{directory}/{PUBLISHED_END}")
        yield from findings
        epochs, findings = load_epochs(self.disk, f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
        yield from findings
        yield from limited(epochs.check_order())
        yield from check_metadata(self.disk, f"{directory}/{PARTITION_METADATA}")
        bases = sorted(self.files.segments)
        yield from limited(self._old_snapshots(bases), by_file=False)
        if not bases:
            return
        self.first_base = self.end_offset = bases[0]
        bounds = Bounds("", bases[0], None, self.now_ms, bases[0] - 1)
        snapshots = [offset for offset in self.files.snapshots if offset >= bases[0]]
        known_from = max(bases[0], self._log_start_offset(), epochs.entries[0].start_offset if epochs.entries else 0)
        log = LogContext(self.disk, self.files, self.level, known_from, bounds, ProducerChecks(), epochs, snapshots, self.vanished)
        log.proven = self.proven
        empty = 0
        first_offset: int | None = None
        for place, base_offset in enumerate(bases):
            next_base = bases[place + 1] if place + 1 < len(bases) else None
            yield from limited(log.check_snapshots(base_offset))
            segment = SegmentChecks(log, base_offset, next_base)
            found = list(limited(segment.run()))
            if any(finding.severity != "note" for finding in found) and self._was_replaced(segment, base_offset, next_base):
                self.vanished.append(base_offset)
            else:
                yield from found
            self.last = segment
            self.is_unread = self.is_unread or segment.is_unread
            if first_offset is None:
                first_offset = segment.first_offset
            is_known = not segment.is_unread and base_offset not in self.vanished
            empty += segment.size_bytes == 0 and next_base is not None and is_known
            self.end_offset = max(self.end_offset, bounds.last_offset + 1)
            if self.progress is not None:
                self.progress(segment.size_bytes)
        if empty:
            what = f"{empty} segments without a batch before the last one, as compaction may leave them"
            yield Finding("note", "empty-segments", directory, what, NOTHING)
        if flushed is not None and self.is_end_known and not self._has_rolled(flushed.segment_base_offset):
            yield from check_flushed_end(self.disk, directory, flushed, self.end_offset)
        yield from limited(log.check_snapshots(self.end_offset))
        yield from limited(self._snapshots_beyond(snapshots), by_file=False)
        yield from limited(epochs.check_end(first_offset, self.end_offset if self.is_end_known else MAX_OFFSET))
        path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        if LEADER_EPOCH_CHECKPOINT not in self.files.others and bounds.last_epoch >= 0 and not self.disk.exists(path):
            yield Finding("warning", "epochs-missing", path, "batches have leader epochs, but there is no file of them", REPAIR)

    def _was_replaced(self, segment: SegmentChecks, base_offset: int, next_base: int | None) -> bool:
        """Whether another file is in its place since it was listed, as compaction leaves it, with what was in those behind it.

        Then what does not fit together need not, and it has to be looked at by itself.
        """
        listed = self.files.logs.get(base_offset)
        if listed is None or listed.kind != "file" or next_base is None or base_offset in self.vanished:
            return False
        try:
            is_another = self.disk.mtime_ns(self.path(base_offset, LOG)) != listed.mtime_ns or segment.size_bytes != listed.size_bytes
        except OSError:
            return True
        return is_another or not self.disk.exists(self.path(next_base, LOG))

    def _has_rolled(self, base_offset: int) -> bool:
        """Whether a segment has come since the directory was listed."""
        return base_offset not in self.files.segments and self.disk.exists(self.path(base_offset, LOG))

    def _log_start_offset(self) -> int:
        """Where the log starts by the checkpoint above it, since nothing below is replayed; 0 if that does not say."""
        root, _, name = self.files.directory.rpartition("/")
        partition = parse_partition(name)
        if partition is None:
            return 0
        return load_checkpoint(self.disk, f"{root or '.'}/{LOG_START_OFFSET_CHECKPOINT}")[0].get(partition, 0)

    def _old_snapshots(self, bases: list[int]) -> Iterator[Finding]:
        """Those below the log can only be parsed."""
        for offset in self.files.snapshots:
            if not bases or offset < bases[0]:
                yield from load_snapshot(self.disk, self.path(offset, SNAPSHOT))[1]

    def _snapshots_beyond(self, snapshots: list[int]) -> Iterator[Finding]:
        for offset in snapshots:
            path = self.path(offset, SNAPSHOT)
            _, findings = load_snapshot(self.disk, path)
            yield from findings
            what = "a producer snapshot behind the end of the log"
            if self.is_end_known:
                yield Finding("warning", "snapshot-beyond-end", path, what, RECOVERY, None, offset, f"at most {self.end_offset}", offset)

    def path(self, base_offset: int, kind: str) -> str:
        """A file of a segment."""
        return f"{self.files.directory}/{segment_file(base_offset, kind)}"


def only_about(findings: Iterable[Finding], paths: set[str]) -> Iterator[Finding]:
    """The findings about certain files."""
    return (finding for finding in findings if finding.path in paths)

"""What became of a compaction, or would: typed, and printed for people."""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.compaction.cleaning import CleanedLog, CleanerStats
from tidelog.disk.names import TopicPartition
from tidelog.plurals import counted


class PartitionCompacted(NamedTuple):
    """What was done to a partition, pass by pass."""

    partition: TopicPartition
    passes: tuple[CleanedLog, ...]
    """One is enough where the memory holds all keys. Of a dry run only the first is known."""
    why: str | None = None
    """Why nothing was cleaned; None if something was."""
    note: str | None = None
    """What the caller should know besides."""

    @property
    def stats(self) -> tuple[CleanerStats, ...]:
        """The figures of each pass."""
        return tuple(cleaned.stats for cleaned in self.passes)

    @property
    def records_removed(self) -> int:
        """Records that went: superseded, aborted, markers, tombstones whose time was over."""
        return sum(removed_by(stats) for stats in self.stats)

    @property
    def bytes_removed(self) -> int:
        """By how much the log is smaller."""
        return sum(stats.bytes_read - stats.bytes_written for stats in self.stats)

    @property
    def tombstones_removed(self) -> int:
        """Of the records, those that marked a key as deleted."""
        return sum(stats.tombstones_removed for stats in self.stats)

    @property
    def markers_removed(self) -> int:
        """Of the records, those that ended a transaction."""
        return sum(stats.markers_removed for stats in self.stats)

    @property
    def peak_extra_bytes(self) -> int:
        """The most that the pass needed on disk besides the log: new files, and old ones that wait to be removed."""
        return max((stats.peak_extra_bytes for stats in self.stats), default=0)

    def __str__(self) -> str:
        note = "" if self.note is None else f"\n  {self.note}"
        if not self.passes:
            return f"{self.partition}: nothing to compact, {self.why}{note}"
        first, last = self.passes[0], self.passes[-1]
        would = "would go" if last.dry_run else "went"
        text = (
            f"{self.partition}: {self.records_removed} of {first.stats.messages_read} records {would}, {self.bytes_removed} of "
            f"{first.stats.bytes_read} bytes; {counted(self.tombstones_removed, 'tombstone')} and "
            f"{counted(self.markers_removed, 'marker')} among them; "
            f"clean up to offset {last.next_dirty_offset}"
        )
        if last.dry_run:
            plan = "\n".join(f"  {line}" for line in str(first.plan).splitlines())
            return f"{text}\n{plan}{_passes(first.stats)}{note}"
        return f"{text}; {counted(len(self.passes), 'pass', 'passes')}, {self.peak_extra_bytes} bytes on disk besides{note}"


class CompactFailure(NamedTuple):
    """What could not be done. The rest went on."""

    partition: TopicPartition
    error: Exception


class CompactResult(NamedTuple):
    """What a compaction of a store, or of a topic, did; of a dry run, what it would do."""

    now_ms: int
    dry_run: bool
    partitions: tuple[PartitionCompacted, ...]
    left_alone: tuple[tuple[TopicPartition, str], ...]
    """Partitions that were not looked at, and why."""
    failures: tuple[CompactFailure, ...]

    @property
    def compacted(self) -> tuple[PartitionCompacted, ...]:
        """Those of which something was cleaned."""
        return tuple(one for one in self.partitions if one.passes)

    @property
    def records_removed(self) -> int:
        """Records that went from all of them."""
        return sum(one.records_removed for one in self.partitions)

    @property
    def bytes_removed(self) -> int:
        """By how much all of them are smaller."""
        return sum(one.bytes_removed for one in self.partitions)

    @property
    def tombstones_removed(self) -> int:
        """Tombstones that went."""
        return sum(one.tombstones_removed for one in self.partitions)

    @property
    def markers_removed(self) -> int:
        """Markers of transactions that went."""
        return sum(one.markers_removed for one in self.partitions)

    @property
    def peak_extra_bytes(self) -> int:
        """The most that one of them needed on disk besides its log."""
        return max((one.peak_extra_bytes for one in self.partitions), default=0)

    def __str__(self) -> str:
        lines = [str(one) for one in self.partitions]
        lines += [f"{partition}: left alone, {why}" for partition, why in self.left_alone]
        lines += [f"{failure.partition}: failed, {failure.error}" for failure in self.failures]
        return "\n".join(lines) or "there is nothing"


def gather(
    now_ms: int, *, dry_run: bool, found: Iterable[PartitionCompacted | CompactFailure | tuple[TopicPartition, str]]
) -> CompactResult:
    """One result from what became of each partition."""
    partitions, failures, left_alone = [], [], []
    for one in found:
        if isinstance(one, PartitionCompacted):
            partitions.append(one)
        elif isinstance(one, CompactFailure):
            failures.append(one)
        else:
            left_alone.append(one)
    return CompactResult(now_ms, dry_run, tuple(partitions), tuple(left_alone), tuple(failures))


def removed_by(stats: CleanerStats) -> int:
    """Records that went in a pass. Those of aborted transactions go unread."""
    return stats.messages_read - stats.messages_written + stats.aborted_messages_removed


def _passes(stats: CleanerStats) -> str:
    if stats.passes_needed <= 1:
        return ""
    return f"\n  about {stats.passes_needed} passes; one would do with {stats.memory_for_one_pass} bytes of memory for keys"

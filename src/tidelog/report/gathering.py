"""Gather what a report says about a directory that is only read: explain, stats and verify, asked once each.

Nothing is written and no lock is taken. Memory does not grow with the log: segments become figures one by one, and of more topics,
partitions, segments or findings than a page can tell the rest is summed up.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Final, TypeVar

from tidelog.disk.disk import Disk
from tidelog.disk.names import TopicPartition
from tidelog.disk.store_content import STORE_FILE
from tidelog.errors import TidelogError
from tidelog.inspection import SegmentStats, verify, verify_log_directory
from tidelog.inspection.finding import printable
from tidelog.inspection.verify_log_directory import META_PROPERTIES
from tidelog.log.log_reading import LogReading
from tidelog.report.facts import FateFacts, Kind, PartitionFacts, ReportFacts, TopicFacts, Totals
from tidelog.report.fates import FATES, sum_fates
from tidelog.report.finding_list import FindingList
from tidelog.report.partition_gathering import Gathered, PartitionSource, gather_partition
from tidelog.report.strata import budgets, fold
from tidelog.report.throughput import Throughput
from tidelog.report.topic_gathering import TopicSource, gather_topic
from tidelog.report.topic_watch import TopicWatch
from tidelog.store.explain import PartitionExplanation
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.version import __version__

MOST_STRATA: Final = 1000
MOST_PARTITIONS: Final = 250
MOST_TOPICS: Final = 100

T = TypeVar("T", TopicFacts, PartitionFacts)


def gather(
    store: ReadOnlyStore, disk: Disk, *, only: TopicPartition | None = None, records: bool = False, now_ms: int | None = None
) -> ReportFacts:
    """The facts of a store that is read through `disk`, or of `only` one partition in it. With `records` every record is read."""
    root = store.paths[0]
    explained = store.explain(None if only is None else only.topic, now_ms)
    level = "records" if records else "headers"
    shown = root if only is None else f"{root}/{only}"
    now_ms = explained.now_ms
    check = verify_log_directory if only is None else verify
    findings = FindingList(check(shown, level=level, now_ms=now_ms, disk=disk), shown)  # type: ignore[arg-type]
    work = _Work(store, disk, findings, now_ms, records=records)
    for topic, partitions in _by_topic(one for one in explained.partitions if only is None or one.partition == only):
        work.take(topic, partitions)
    return work.facts(printable(shown), _kind(disk, root, only), level, _free_bytes(disk, root))


class _Work:
    """What was gathered so far."""

    def __init__(self, store: ReadOnlyStore, disk: Disk, findings: FindingList, now_ms: int, *, records: bool) -> None:
        self.store = store
        self.disk = disk
        self.findings = findings
        self.now_ms = now_ms
        self.records = records
        self.throughput = Throughput()
        self.total = SegmentStats("", 0)
        self.topics: list[TopicFacts] = []
        self.partitions: list[PartitionFacts] = []
        self.fates: dict[str, FateFacts] = {}

    def take(self, topic: str, partitions: Sequence[PartitionExplanation]) -> None:
        """A topic, partition by partition."""
        settings = self.store.settings(topic)
        watch = TopicWatch(topic, self.throughput)
        gathered: list[Gathered] = []
        logs: list[LogReading] = []
        for explained in partitions:
            log = self._log(explained.partition)
            source = PartitionSource(explained.partition, self._directory(explained.partition), log, explained, settings.config)
            one = gather_partition(source, self.findings, watch, self.now_ms, self.disk, records=self.records)
            for fate in sum_fates(one.facts.strata):
                before = self.fates.get(fate.fate, FateFacts(fate.fate, 0, 0))
                self.fates[fate.fate] = FateFacts(fate.fate, before.segments + fate.segments, before.size_bytes + fate.size_bytes)
            self.total.add(one.figures)
            gathered.append(Gathered(_folded(one.facts, MOST_STRATA), one.figures))
            logs += [] if log is None else [log]
        self.partitions += (one.facts for one in gathered)
        opened = (nullcontext(log) for log in logs)
        self.topics.append(gather_topic(TopicSource(self.store, topic, settings), gathered, watch, opened, self.now_ms))

    def _log(self, partition: TopicPartition) -> LogReading | None:
        try:
            return self.store.log(*partition)
        except TidelogError as error:
            if self._is_there_still(partition):
                self.findings.note_unreadable(f"{self.store.paths[0]}/{partition}", error)
            return None

    def _is_there_still(self, partition: TopicPartition) -> bool:
        """Whether it should be: not one that a broker has deleted, or moved away, meanwhile."""
        try:
            return partition.partition in self.store.found_topic(partition.topic).partition_ids()
        except TidelogError:
            return False

    def _directory(self, partition: TopicPartition) -> str | None:
        homes = self.store.found_topic(partition.topic).homes.get(partition.partition, [])
        return f"{homes[0]}/{partition}" if len(homes) == 1 else None

    def facts(self, directory: str, kind: Kind, level: str, free_bytes: int | None) -> ReportFacts:
        """All of it, no more of each than a page can tell."""
        partitions = _gravest(self.partitions, MOST_PARTITIONS)
        room = budgets([len(one.strata) for one in partitions], MOST_STRATA)
        topics = _gravest(self.topics, MOST_TOPICS)
        total = self.total
        return ReportFacts(
            directory=directory,
            kind=kind,
            now_ms=self.now_ms,
            version=__version__,
            reads="records" if self.records else "headers",
            totals=Totals(
                topics=len(self.topics),
                partitions=len(self.partitions),
                segments=sum(one.segments for one in self.partitions),
                size_bytes=sum(one.size_bytes for one in self.partitions),
                records=total.records,
                markers=total.markers,
                batches=total.batches,
                damaged_bytes=total.damaged_bytes,
                first_timestamp_ms=total.first_timestamp_ms,
                last_timestamp_ms=total.last_timestamp_ms,
                tombstones=total.tombstones,
                free_bytes=free_bytes,
            ),
            fates=tuple(self.fates[fate] for fate in FATES if fate in self.fates),
            soundness=self.findings.soundness(level),
            throughput=self.throughput.facts(),
            topics=topics,
            partitions=tuple(_folded(one, most) for one, most in zip(partitions, room, strict=True)),
            left_off_topics=len(self.topics) - len(topics),
            left_off_partitions=len(self.partitions) - len(partitions),
            findings=self.findings.objects(),
            left_off_findings=self.findings.left_off(),
        )


def _by_topic(partitions: Iterable[PartitionExplanation]) -> Iterator[tuple[str, list[PartitionExplanation]]]:
    found: dict[str, list[PartitionExplanation]] = {}
    for one in partitions:
        found.setdefault(one.partition.topic, []).append(one)
    yield from found.items()


def _gravest(all_of_them: Sequence[T], most: int) -> tuple[T, ...]:
    """Those with findings, then the largest, in the order in which they were."""
    if len(all_of_them) <= most:
        return tuple(all_of_them)
    order = sorted(range(len(all_of_them)), key=lambda place: (all_of_them[place].findings == 0, -all_of_them[place].size_bytes))
    return tuple(all_of_them[place] for place in sorted(order[:most]))


def _folded(partition: PartitionFacts, most: int) -> PartitionFacts:
    return partition if len(partition.strata) <= most else replace(partition, strata=fold(partition.strata, most))


def _kind(disk: Disk, root: str, only: TopicPartition | None) -> Kind:
    if only is not None:
        return "partition"
    if disk.exists(f"{root}/{STORE_FILE}"):
        return "store"
    return "broker" if disk.exists(f"{root}/{META_PROPERTIES}") else "directory"


def _free_bytes(disk: Disk, root: str) -> int | None:
    try:
        return disk.free_bytes(root)
    except OSError:
        return None

"""A floor under the free space of a store, which Kafka does not have: when the disk gets full, the oldest segments of all go first."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.errors import InvalidConfigError
from tidelog.retention.policy import Expired, PartitionFacts, StoreFacts
from tidelog.retention.rules import SegmentFacts


@dataclass(frozen=True, slots=True)
class FreeSpaceFloor:
    """Where a file system has less than `min_free_bytes` free, the oldest segments on it go, over all partitions.

    Only of topics whose `cleanup.policy` has `delete`, and never an active segment: there is always something left to read. What is
    deleted already and waits to be removed counts as free. Order is by the newest record of a segment.
    """

    min_free_bytes: int
    name: str = "free space"

    def __post_init__(self) -> None:
        if type(self.min_free_bytes) is not int or self.min_free_bytes < 0:
            raise InvalidConfigError("a floor of free space that cannot be", expected="bytes, 0 or more", found=repr(self.min_free_bytes))

    def expired_in_store(self, store: StoreFacts, now_ms: int) -> Iterator[Expired]:
        """See `StoreRetentionPolicy`."""
        for file_system in sorted({directory.file_system for directory in store.directories}):
            here = [directory for directory in store.directories if directory.file_system == file_system]
            free_bytes = min(directory.free_bytes for directory in here)
            missing = self.min_free_bytes - free_bytes - sum(directory.deleted_bytes for directory in here)
            if missing > 0:
                paths = {directory.path for directory in here}
                reason = f"{free_bytes} bytes are free, and the floor is {self.min_free_bytes}"
                yield from _oldest([facts for facts in store.partitions if facts.directory in paths], missing, reason)


def _oldest(partitions: list[PartitionFacts], missing: int, reason: str) -> Iterator[Expired]:
    """The oldest segments of all that make up for what is missing. Of a log always the first one that is left."""
    queues = [(facts, candidates) for facts in partitions if (candidates := _candidates(facts))]
    heap = [(candidates[0].largest_timestamp_ms, number, 0) for number, (_, candidates) in enumerate(queues)]
    heapq.heapify(heap)
    while heap and missing > 0:
        _, number, place = heapq.heappop(heap)
        facts, candidates = queues[number]
        yield Expired(facts.partition, candidates[place].base_offset, reason)
        missing -= candidates[place].size_bytes
        if place + 1 < len(candidates):
            heapq.heappush(heap, (candidates[place + 1].largest_timestamp_ms, number, place + 1))


def _candidates(facts: PartitionFacts) -> list[SegmentFacts]:
    if not facts.config.is_deleted_by_age:
        return []
    log = facts.log
    return [segment for segment in log.segments if not segment.is_active and segment.end_offset <= log.high_watermark]

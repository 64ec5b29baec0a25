"""What producing many records answers: where they went."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.log.append_info import AppendInfo
from tidelog.plurals import counted


class PartitionAppended(NamedTuple):
    """What a call appended to one partition. If others append at the same time, their offsets may lie between the first and the last."""

    records: int
    batches: int
    size_bytes: int
    """As stored."""
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class AppendSummary:
    """What a call appended, altogether and by partition."""

    partitions: dict[int, PartitionAppended] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """In all partitions."""
        return sum(part.records for part in self.partitions.values())

    @property
    def batches(self) -> int:
        """In all partitions."""
        return sum(part.batches for part in self.partitions.values())

    @property
    def size_bytes(self) -> int:
        """In all partitions, as stored."""
        return sum(part.size_bytes for part in self.partitions.values())

    def add(self, partition: int, infos: Sequence[AppendInfo]) -> None:
        """Count what one more call to the log answered; for who makes the summary."""
        if not infos:
            return
        before = self.partitions.get(partition) or PartitionAppended(0, 0, 0, infos[0].first_offset, -1)
        self.partitions[partition] = PartitionAppended(
            before.records + sum(info.last_offset - info.first_offset + 1 for info in infos),
            before.batches + len(infos),
            before.size_bytes + sum(info.size_bytes for info in infos),
            before.first_offset,
            infos[-1].last_offset,
        )

    def __str__(self) -> str:
        batches, where = counted(self.batches, "batch", "batches"), counted(len(self.partitions), "partition")
        return f"{counted(self.records, 'record')} in {batches}, {self.size_bytes} bytes, in {where}"

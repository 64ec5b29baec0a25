"""What salvage found, kept and lost."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from tidelog.plurals import counted


class LostRange(NamedTuple):
    """Offsets that are not in the new log."""

    first_offset: int
    last_offset: int | None
    """None where nobody knows: behind the last batch."""
    reason: str

    def __str__(self) -> str:
        to = "an offset that is not known" if self.last_offset is None else str(self.last_offset)
        return f"offsets {self.first_offset} to {to}: {self.reason}"


class OpenTransaction(NamedTuple):
    """A transaction without its end."""

    producer_id: int
    first_offset: int
    may_have_lost_marker: bool
    """Whether offsets behind its beginning are lost, or not there, of which one may have been its marker."""


@dataclass(frozen=True, slots=True)
class SegmentSalvage:
    """One file of the source."""

    base_offset: int
    size_bytes: int
    kept_bytes: int
    dropped_bytes: int
    unreadable_bytes: int
    """Of those dropped, what the disk refused to give."""


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """What `salvage` did."""

    source: str
    target: str
    log_start_offset: int
    log_end_offset: int
    batch_count: int
    record_count: int
    kept_bytes: int
    dropped_bytes: int
    lost: tuple[LostRange, ...]
    gaps: tuple[LostRange, ...]
    """Offsets of which there is no byte: compaction leaves such gaps, so nothing says that something is lost there."""
    segments: tuple[SegmentSalvage, ...]
    open_transactions: tuple[OpenTransaction, ...]
    bad_files: tuple[str, ...]
    """Files of the new directory that have the bad bytes."""
    findings: tuple[str, ...]
    """What was odd, in words."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing was lost."""
        return not self.lost and not self.dropped_bytes

    def to_json(self) -> dict[str, Any]:
        """For one line of JSON."""
        facts = {name: getattr(self, name) for name in self.__slots__ if name not in ("lost", "gaps", "segments", "open_transactions")}
        return {
            "type": "result",
            **facts,
            "lost": [lost._asdict() for lost in self.lost],
            "gaps": [gap._asdict() for gap in self.gaps],
            "segments": [asdict(segment) for segment in self.segments],
            "open_transactions": [found._asdict() for found in self.open_transactions],
            "bad_files": list(self.bad_files),
            "findings": list(self.findings),
        }

    def __str__(self) -> str:
        offsets = f"offsets {self.log_start_offset} to {self.log_end_offset - 1}"
        kept = f"{counted(self.batch_count, 'batch', 'batches')}, {counted(self.record_count, 'record')}, {self.kept_bytes} bytes kept"
        lines = [f"salvaged {self.source} to {self.target}: {offsets}, {kept}, {self.dropped_bytes} not"]
        lines += [f"lost: {lost}" for lost in self.lost]
        lines += [f"not there: {gap}" for gap in self.gaps]
        for found in self.open_transactions:
            why = ": its end may be among what was lost" if found.may_have_lost_marker else ""
            lines.append(f"open: the transaction of producer {found.producer_id} from offset {found.first_offset}{why}")
        return "\n".join([*lines, *self.findings])

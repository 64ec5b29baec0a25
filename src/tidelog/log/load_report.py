"""What opening a log found and did: nothing is repaired in silence."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cut:
    """Bytes that recovery took out of a segment."""

    base_offset: int
    position: int
    """Where the segment now ends; 0 for a segment that is gone as a whole."""
    size_bytes: int
    reason: str
    kept_in: str | None
    """The file in the partition directory that has them now; None if they were nothing but zeros."""


@dataclass(slots=True)
class LoadReport:
    """Attached to every log as `log.load_report`."""

    was_clean: bool = True
    recovered_segments: list[int] = field(default_factory=list)
    """Base offsets of the segments that were read and checked from end to end."""
    recovered_bytes: int = 0
    rebuilt_indexes: list[int] = field(default_factory=list)
    """Base offsets of segments whose indexes were missing or damaged."""
    cuts: list[Cut] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    """Files removed or renamed, in words."""

    @property
    def has_changed(self) -> bool:
        """Whether opening has changed any file."""
        return bool(self.recovered_segments or self.rebuilt_indexes or self.cuts or self.actions)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far recovery is; handed to the `progress` callback after each segment."""

    segments_done: int
    segments_total: int
    bytes_done: int
    bytes_total: int

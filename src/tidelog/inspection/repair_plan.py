"""What repair would do: typed actions, each with the file it is about, why, and how many bytes it concerns."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

from tidelog.disk.disk import Entry


@dataclass(frozen=True, slots=True)
class Action(ABC):
    """One step. `files` are those that it replaces, removes or makes; of what is replaced or removed the old bytes are kept aside."""

    files: tuple[str, ...]
    reason: str
    size_bytes: int
    """How many bytes of what is there now are replaced or moved."""

    @property
    @abstractmethod
    def what(self) -> str:
        """What it does, in words."""

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """For JSON."""
        return {"action": type(self).__name__, "what": self.what} | {
            field.name: list(value) if isinstance(value := getattr(self, field.name), tuple) else value for field in fields(self)
        }


@dataclass(frozen=True, slots=True)
class RemoveLeftover(Action):
    """Take a file away that loading would remove."""

    @property
    def what(self) -> str:
        """In words."""
        return f"set {self.files[0]} aside"


@dataclass(frozen=True, slots=True)
class FinishSwap(Action):
    """Give a file of a complete replacement its final name: `files` are the old and the new one."""

    @property
    def what(self) -> str:
        """In words."""
        return f"rename {self.files[0]} to {self.files[1]}"


@dataclass(frozen=True, slots=True)
class SetSegmentAside(Action):
    """Take a whole segment out of the log, because it lies behind a cut that was asked for."""

    base_offset: int

    @property
    def what(self) -> str:
        """In words."""
        return f"set segment {self.base_offset} aside ({self.size_bytes} bytes)"


@dataclass(frozen=True, slots=True)
class CutSegment(Action):
    """Cut a segment at a position."""

    base_offset: int
    position: int

    @property
    def what(self) -> str:
        """In words."""
        return f"cut segment {self.base_offset} at byte {self.position} ({self.size_bytes} bytes)"


@dataclass(frozen=True, slots=True)
class SplitSegment(Action):
    """Split a segment whose offsets are too far apart into several, with indexes of their own. Its batches stay as they are."""

    base_offset: int
    new_base_offsets: tuple[int, ...]

    @property
    def what(self) -> str:
        """In words."""
        return f"split segment {self.base_offset} into segments {', '.join(map(str, self.new_base_offsets))}"


@dataclass(frozen=True, slots=True)
class RebuildIndex(Action):
    """Build the offset index, the time index or both of a segment anew."""

    base_offset: int
    kinds: tuple[str, ...]

    @property
    def what(self) -> str:
        """In words."""
        return f"rebuild {' and '.join(self.files)}"


@dataclass(frozen=True, slots=True)
class RebuildTxnIndex(Action):
    """Build the transaction index of a segment anew."""

    base_offset: int

    @property
    def what(self) -> str:
        """In words."""
        return f"rebuild {self.files[0]}"


@dataclass(frozen=True, slots=True)
class RebuildSnapshots(Action):
    """Write producer snapshots anew, and take away those that cannot be right."""

    offsets: tuple[int, ...]
    """Written."""
    removed: tuple[int, ...]
    """Taken away and not written again."""

    @property
    def what(self) -> str:
        """In words."""
        parts = [f"rebuild producer snapshots at offsets {', '.join(map(str, self.offsets))}"] if self.offsets else []
        parts += [f"set producer snapshots aside at offsets {', '.join(map(str, self.removed))}"] if self.removed else []
        return " and ".join(parts)


@dataclass(frozen=True, slots=True)
class RebuildEpochs(Action):
    """Write `leader-epoch-checkpoint` anew."""

    entries: tuple[tuple[int, int], ...]
    """Epochs and where they start, as they will be."""

    @property
    def what(self) -> str:
        """In words."""
        return f"rebuild {self.files[0]}"


@dataclass(frozen=True, slots=True)
class Unrepaired:
    """Something that is wrong and that repair leaves alone."""

    path: str
    position: int | None
    what: str
    hint: str

    def __str__(self) -> str:
        place = "" if self.position is None else f" at byte {self.position}"
        return f"{self.path}{place}: {self.what} ({self.hint})"

    def to_json(self) -> dict[str, Any]:
        """For JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """Made by `plan_repair`, carried out by `apply_repair`."""

    directory: str
    actions: tuple[Action, ...]
    unrepaired: tuple[Unrepaired, ...]
    """What is wrong and is not mended by this plan."""
    seen: tuple[Entry, ...]
    """The files as they were when it was made."""
    index_interval_bytes: int
    cut_at: tuple[int, int] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.actions

    def __str__(self) -> str:
        lines = [f"plan for {self.directory}:"]
        lines += [f"{number}. {action}" for number, action in enumerate(self.actions, 1)]
        if not self.actions:
            lines.append("nothing to do")
        lines += [f"not repaired: {found}" for found in self.unrepaired]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """For one line of JSON."""
        return {
            "type": "result",
            "directory": self.directory,
            "actions": [action.to_json() for action in self.actions],
            "unrepaired": [found.to_json() for found in self.unrepaired],
        }


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What `apply_repair` did."""

    directory: str
    done: tuple[Action, ...]
    kept_aside: tuple[str, ...]
    """Files of the partition directory that have the old bytes. They are yours: nothing removes them."""
    unrepaired: tuple[Unrepaired, ...]

    def __str__(self) -> str:
        lines = [f"repaired {self.directory}:" if self.done else f"{self.directory}: nothing was to be done"]
        lines += [str(action) for action in self.done]
        lines += [f"kept: {name}" for name in self.kept_aside]
        lines += [f"not repaired: {found}" for found in self.unrepaired]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """For one line of JSON."""
        return {
            "type": "result",
            "directory": self.directory,
            "done": [action.to_json() for action in self.done],
            "kept_aside": list(self.kept_aside),
            "unrepaired": [found.to_json() for found in self.unrepaired],
        }

"""What a log may hold after a crash, worked out from what a workload had begun, had been answered, and had seen fail.

A workload notes each call twice on its `RecordingDisk`: "begin" before it, "done" or "failed" behind it. `Model` follows those notes; at
any moment `faults_of` says what is wrong with a log that was recovered then. Batches are compared by all bytes that a leader leaves
alone, CRC included, by offsets, and by leader epoch.
"""

import struct
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

_HEAD = struct.Struct(">qiib")
_LAST_OFFSET_DELTA = struct.Struct(">i")


class Stored(NamedTuple):
    """A batch in a log."""

    base_offset: int
    last_offset: int
    epoch: int
    tail: bytes
    """Everything from the CRC on."""

    @property
    def producer_id(self) -> int:
        """-1 if it has none."""
        return int.from_bytes(self.tail[26:34], "big", signed=True)

    def as_sent(self) -> bytes:
        """As its producer sent it: without offset and leader epoch, which are not covered by its CRC."""
        return _HEAD.pack(0, len(self.tail) + 5, -1, 2) + self.tail

    def __repr__(self) -> str:
        return f"{self.base_offset}-{self.last_offset}@{self.epoch}:{self.tail[-9:-1]!r}"


def stored_batches(data: bytes) -> list[Stored]:
    """The batches that lie one behind the other."""
    batches = []
    position = 0
    while position < len(data):
        base_offset, length, epoch, _ = _HEAD.unpack_from(data, position)
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, position + 23)
        end = position + 12 + length
        batches.append(Stored(base_offset, base_offset + delta, epoch, data[position + 17 : end]))
        position = end
    return batches


@dataclass(frozen=True, slots=True)
class Op:
    """A call that changes a log, or might."""

    kind: str
    batches: tuple[Stored, ...] = ()
    """What is appended, with the offsets that are due; of "replace" what the log holds afterwards."""
    offset: int = 0
    """Where it is cut, or where it starts then."""
    thread: int = -1
    """Of a workload with several threads, where offsets are only known when the call is done."""

    def __repr__(self) -> str:
        return f"{self.kind}({self.offset}, {list(self.batches)})"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was in a log when it was opened after the crash."""

    start: int
    end: int
    batches: tuple[Stored, ...]
    """From the one that holds `start` on."""
    epochs: tuple[tuple[int, int], ...] | None
    """None of a reader, which does not know them."""

    def own_faults(self) -> list[str]:
        """What is wrong whatever was written."""
        found = []
        for one, next_one in zip(self.batches, self.batches[1:], strict=False):
            if next_one.base_offset <= one.last_offset:
                found.append(f"offsets go back: {one}, {next_one}")
        if self.epochs is None:
            return found
        starts = [start for _, start in self.epochs]
        if list(self.epochs) != sorted(set(self.epochs)) or starts != sorted(set(starts)):
            found.append(f"leader epochs do not go up: {self.epochs}")
        if starts and starts[-1] > self.end:
            found.append(f"a leader epoch starts behind the end {self.end}: {self.epochs}")
        for batch in self.batches:
            place = bisect_right(starts, max(batch.base_offset, self.start)) - 1
            if place < 0 or self.epochs[place][0] != batch.epoch:
                found.append(f"leader epochs {self.epochs} do not say the epoch of {batch}")
        return found


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One thing that the log may be: `batches` up to an offset from `min_end` to `max_end`, readable from `min_start` to `max_start` on."""

    why: str
    batches: tuple[Stored, ...]
    min_end: int
    max_end: int
    min_start: int
    max_start: int
    may_have_holes: bool = False

    def mismatch(self, found: Recovered) -> str | None:
        if not self.min_start <= found.start <= self.max_start:
            return f"{self.why}: starts at {found.start}, not within {self.min_start} to {self.max_start}"
        if not max(self.min_end, found.start) <= found.end <= max(self.max_end, found.start):
            return f"{self.why}: ends at {found.end}, not within {self.min_end} to {self.max_end}"
        wanted = tuple(batch for batch in self.batches if found.start <= batch.last_offset < found.end)
        if self.may_have_holes:
            # A segment that was rolled but not synced may be gone while the one behind it is there; never anything below the durable end.
            lost = [batch for batch in wanted if batch not in found.batches]
            if not [batch for batch in lost if batch.last_offset < self.min_end]:
                wanted = tuple(batch for batch in wanted if batch not in lost)
        if found.batches != wanted:
            return f"{self.why}: expected {list(wanted)}, found {list(found.batches)}"
        return None


@dataclass(slots=True)
class Model:
    """A log that one thread writes to."""

    flush_messages: int = 1
    """As in the settings: 1 is durable."""
    batches: tuple[Stored, ...] = ()
    start: int = 0
    end: int = 0
    file_end: int = 0
    """Where the last batch ends: a log cut inside a batch, or in a gap, ends here once it is opened again."""
    durable_end: int = 0
    """What a power cut cannot take."""
    pending: Op | None = None
    failed: list[tuple[Stored, ...]] = field(default_factory=list)
    """Appends at the end that raised. They may be there, in part, until something else was acknowledged there."""
    half_done: list[Op] = field(default_factory=list)
    """Other calls that raised: what they were to do may have happened, or not."""
    attempted: set[Stored] = field(default_factory=set)
    """Everything that was ever to be in the log."""

    def follow(self, label: str, op: object) -> None:
        """One note further."""
        assert isinstance(op, Op)
        if label == "begin":
            self.pending = op
            self.attempted.update(op.batches)
            return
        assert self.pending == op, (self.pending, op)
        self.pending = None
        if label == "failed":
            self._fail(op)
        else:
            self._do(op)

    def _do(self, op: Op) -> None:
        if op.kind == "append":
            self.batches += self._between(op) + op.batches
            self.end = self.file_end = op.batches[-1].last_offset + 1
            self.failed.clear()
            self.durable_end = max(self.durable_end, self.end - self.flush_messages + 1)
        elif op.kind == "truncate" and op.offset < self.end:
            self.batches, self.file_end = self._cut(op.offset)
            self.end = op.offset
            self.start = min(self.start, op.offset)
            self.durable_end = min(self.durable_end, self.file_end)
            self.failed.clear()
        elif op.kind == "truncate_fully":
            self.batches = ()
            self.start = self.end = self.file_end = self.durable_end = op.offset
            self.failed.clear()
        elif op.kind in ("delete_before", "delete_segments"):
            self.start = max(self.start, op.offset)
        elif op.kind == "replace":
            self.batches = op.batches
        elif op.kind == "flush":
            self.durable_end = self.file_end
        self.half_done = [half_done for half_done in self.half_done if half_done.kind != op.kind]

    def _fail(self, op: Op) -> None:
        if op.kind == "append":
            self.failed.append(self._between(op) + op.batches)
        elif op.kind not in ("nothing", "flush"):
            self.half_done.append(op)

    def _between(self, op: Op) -> tuple[Stored, ...]:
        """What is in the log between what was acknowledged and what is appended now: the beginning of something that raised."""
        base_offset = op.batches[0].base_offset
        for batches in self.failed:
            there = tuple(batch for batch in batches if batch.last_offset < base_offset)
            if there and there[-1].last_offset + 1 == base_offset:
                return there
        return ()

    def _cut(self, offset: int) -> tuple[tuple[Stored, ...], int]:
        """What stays of a log that is cut at `offset`, and where the files end then."""
        kept = tuple(batch for batch in self.batches if batch.last_offset < offset)
        if kept:
            return kept, kept[-1].last_offset + 1
        return (), min([self.start, offset, *(batch.base_offset for batch in self.batches[:1])])

    def faults_of(self, found: Recovered) -> list[str]:
        """What is wrong with a log that was recovered now."""
        own = found.own_faults()
        if own:
            return own
        if any(op.kind == "truncate_fully" and self._is_part(found, op) for op in (*self.half_done, self.pending) if op is not None):
            return []
        mismatches = [candidate.mismatch(found) for candidate in self._candidates()]
        return [] if None in mismatches else [mismatch for mismatch in mismatches if mismatch is not None]

    def _is_part(self, found: Recovered, op: Op) -> bool:
        """Whether it is some run of our batches: what is being dropped goes piece by piece. Offsets that were deleted do not come back."""
        if found.end < min(self.start, op.offset):
            return False
        places = [self.batches.index(batch) for batch in found.batches if batch in self.batches]
        return len(places) == len(found.batches) and (not places or places == list(range(places[0], places[0] + len(places))))

    def was_attempted(self, batch: Stored) -> bool:
        """Whether it was to be in the log at any time."""
        return batch in self.attempted

    def _candidates(self) -> list[_Candidate]:
        min_end = self.durable_end if self.flush_messages > 1 else self.file_end
        now = _Candidate("as acknowledged", self.batches, min_end, self.end, self.start, self.start, self.flush_messages > 1)
        candidates = [now]
        for op in (*self.half_done, *([] if self.pending is None else [self.pending])):
            candidates += self._outcomes(op, now)
        for batches in self.failed:
            candidates += [replace(candidate, why="with what failed", **_more(self.batches, batches)) for candidate in list(candidates)]
        return candidates

    def _outcomes(self, op: Op, now: _Candidate) -> list[_Candidate]:
        """What a call can have done when it is cut off."""
        if op.kind == "append":
            return [replace(now, why="with what is being appended", **_more(self.batches, self._between(op) + op.batches))]
        if op.kind == "truncate":
            _, cut_end = self._cut(op.offset)
            return [replace(now, why="while it is cut", min_end=min(now.min_end, cut_end), min_start=min(self.start, op.offset))]
        if op.kind in ("delete_before", "delete_segments"):
            return [replace(now, why="while its start moves", max_start=max(self.start, op.offset))]
        if op.kind == "replace":
            return [replace(now, why="with replaced segments", batches=op.batches)]
        if op.kind == "truncate_fully":
            return [_Candidate("emptied", (), op.offset, op.offset, op.offset, op.offset)]
        assert op.kind in ("flush", "nothing"), op
        return []


def _more(batches: tuple[Stored, ...], more: tuple[Stored, ...]) -> dict[str, Any]:
    return {"batches": batches + more, "max_end": more[-1].last_offset + 1}


@dataclass(slots=True)
class ThreadedModel:
    """A log that several threads append to, and do nothing else."""

    attempted: dict[bytes, int] = field(default_factory=dict)
    """Batches, by what is behind their header, with their thread."""
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    """By offset."""

    def follow(self, label: str, op: object) -> None:
        """One note further."""
        assert isinstance(op, Op)
        for batch in op.batches:
            if label == "begin":
                self.attempted[batch.tail] = op.thread
            elif label == "done":
                self.acknowledged[batch.base_offset] = batch.tail

    def was_attempted(self, batch: Stored) -> bool:
        """Whether it was to be in the log."""
        return batch.tail in self.attempted

    def faults_of(self, found: Recovered) -> list[str]:
        """What is wrong with a log that was recovered now."""
        faults = found.own_faults()
        by_offset = {batch.base_offset: batch.tail for batch in found.batches}
        for offset, tail in self.acknowledged.items():
            if by_offset.get(offset) != tail:
                faults.append(f"offset {offset} was acknowledged as {tail[-9:]!r}, found {by_offset.get(offset, b'nothing')[-9:]!r}")
        if list(by_offset) != list(range(len(by_offset))):
            faults.append(f"offsets have gaps: {list(by_offset)}")
        faults += [f"{batch} was never appended" for batch in found.batches if batch.tail not in self.attempted]
        for thread in set(self.attempted.values()):
            wanted = [tail for tail, owner in self.attempted.items() if owner == thread]
            own = [tail for tail in by_offset.values() if self.attempted.get(tail) == thread]
            if own != wanted[: len(own)]:
                faults.append(f"the batches of thread {thread} are not in order: {own}")
        return faults

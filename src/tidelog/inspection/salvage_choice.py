"""Decide which runs of batches belong into the log, and where: pure functions on what was found.

Base offsets lie outside the CRC, so a batch may be sound and claim an offset that cannot be. What can be is judged by the neighbours:

- A batch lies within its segment: not below its base offset, not at or above the next segment's.
- Offsets rise. Of runs that contradict each other, those stay that together have the most batches.
- A batch that does not fit, but lies right between two that do, with exactly its number of offsets missing between them, had those.
- Batches at or above the next segment's base offset are a second copy, if they follow a run of their own segment without a gap. They
  are used where the next segment has lost its own, and never where it has not.

Whatever is left over is kept with the bad bytes.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import pairwise

from tidelog.inspection.salvage_scan import Run, WalkedSegment

_SPAN_BITS = 80
_MAX_OFFSET = (1 << 63) - 1
"""No batch ends here: what follows it would have no offset."""


@dataclass(slots=True)
class Choice:
    """What becomes of the runs of a segment."""

    kept: list[Run] = field(default_factory=list)
    """In the order of offsets, and of positions."""
    copies: list[Run] = field(default_factory=list)
    """Second copies of what the next segments should have."""
    rejected: list[Run] = field(default_factory=list)
    """At offsets that cannot be."""


def choose_runs(walked: WalkedSegment) -> Choice:
    """Which runs of a segment are its own, where the rest belongs."""
    choice = Choice()
    inside: list[Run] = []
    next_offset: int | None = None  # behind a run that can be
    for run in walked.runs:
        if run.first_offset < walked.base_offset or not run.first_offset <= run.last_offset < _MAX_OFFSET:
            choice.rejected.append(run)
            next_offset = None
            continue
        if walked.next_base is None or run.last_offset < walked.next_base:
            inside.append(run)
        elif run.is_adjacent and run.first_offset == next_offset:
            choice.copies.append(run)
        else:
            choice.rejected.append(run)
            next_offset = None
            continue
        next_offset = run.last_offset + 1
    choice.kept = longest_rise(inside, walked)
    kept = {id(run) for run in choice.kept}
    choice.rejected += [run for run in inside if id(run) not in kept]
    _move_rotten(walked, choice)
    return choice


def longest_rise(runs: list[Run], walked: WalkedSegment) -> list[Run]:
    """The runs, in order of position, whose offsets rise and that have the most batches together."""
    if all(before.last_offset < after.first_offset for before, after in pairwise(runs)):
        return runs
    lasts: list[int] = []  # ascending, and so are their weights: the best chain that ends at or below an offset
    weights: list[int] = []
    ends: list[int] = []
    links = [-1] * len(runs)
    for number, run in enumerate(runs):
        # Twice the batches, and one more for each end that meets the segment's own: of equals, those are more likely.
        weight = 2 * run.batch_count + (run.first_offset == walked.base_offset) + (run.last_offset + 1 == walked.next_base)
        weight = (weight << _SPAN_BITS) + run.last_offset - run.first_offset  # and then those with more offsets
        before = bisect_left(lasts, run.first_offset) - 1
        if before >= 0:
            weight += weights[before]
            links[number] = ends[before]
        place = bisect_right(lasts, run.last_offset)
        if place > 0 and weights[place - 1] >= weight:
            continue
        if place > 0 and lasts[place - 1] == run.last_offset:
            place -= 1
        stop = place
        while stop < len(lasts) and weights[stop] <= weight:
            stop += 1
        lasts[place:stop], weights[place:stop], ends[place:stop] = [run.last_offset], [weight], [number]
    chosen = []
    number = ends[-1]
    while number >= 0:
        chosen.append(runs[number])
        number = links[number]
    return chosen[::-1]


def _move_rotten(walked: WalkedSegment, choice: Choice) -> None:
    """Give single batches back the offsets that are missing exactly where they lie."""
    by_start = {run.position: run for run in choice.kept}
    by_end = {run.end_position: run for run in choice.kept}
    moved = []
    for run in choice.rejected:
        before, after = by_end.get(run.position), by_start.get(run.end_position)
        first = before.last_offset + 1 if before is not None else walked.base_offset if run.position == 0 else None
        behind = after.first_offset if after is not None else walked.next_base if run.end_position == walked.size_bytes else None
        span = run.last_offset - run.first_offset + 1
        if first is None or behind is None or run.batch_count > 1 or run.is_legacy:
            continue
        if span >= 1 and behind - first == span:
            run.moved_to = first
            run.first_offset, run.last_offset = first, behind - 1
            moved.append(run)
    if moved:
        gone = {id(run) for run in moved}
        choice.rejected = [run for run in choice.rejected if id(run) not in gone]
        choice.kept = sorted([*choice.kept, *moved], key=lambda run: run.first_offset)


def holes_for(copy: Run, kept: list[Run]) -> list[tuple[int, int]]:
    """Offsets (first and last) of a second copy that none of the kept runs, in order of offsets, has."""
    holes = []
    first = copy.first_offset
    for run in kept:
        if run.last_offset < first:
            continue
        if run.first_offset > copy.last_offset:
            break
        if run.first_offset > first:
            holes.append((first, run.first_offset - 1))
        first = run.last_offset + 1
    if first <= copy.last_offset:
        holes.append((first, copy.last_offset))
    return holes

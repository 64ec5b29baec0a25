"""Lay the runs of all segments out in the order of offsets, and say what is missing between them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from tidelog.inspection.salvage_choice import Choice, holes_for
from tidelog.inspection.salvage_copy import Piece, large_batch, wanted_parts
from tidelog.inspection.salvage_reader import SalvageReader, merge_ranges, overlaps
from tidelog.inspection.salvage_report import LostRange
from tidelog.inspection.salvage_scan import READ_BYTES, Run, WalkedSegment
from tidelog.record.headers import FIELDS, walk_block

_MANY_GAPS = 16
"""Gaps without any damage: so many of them are compaction's."""

_MOST_ALIKE = 20

Fingerprint = tuple[int, int, int, int]


@dataclass(slots=True)
class Pieces:
    """The new log."""

    pieces: list[Piece] = field(default_factory=list)
    """In the order of offsets."""
    dropped: list[list[tuple[int, int]]] = field(default_factory=list)
    """For each segment, the places of batches that do not go into it though their CRC is right."""
    lost: list[LostRange] = field(default_factory=list)
    gaps: list[LostRange] = field(default_factory=list)


def gather(
    walked: list[WalkedSegment],
    orphan_bases: list[int],
    choices: list[Choice],
    open_reader: Callable[[WalkedSegment], SalvageReader],
    findings: list[str],
) -> Pieces:
    """Put the pieces together. `orphan_bases` are segments of which only indexes are there."""
    found = Pieces()
    for segment, choice in zip(walked, choices, strict=True):
        found.pieces += [Piece(segment, run, run.first_offset, run.last_offset) for run in choice.kept]
        found.dropped.append([(run.position, run.end_position) for run in choice.rejected])
        if len(choice.rejected) > _MOST_ALIKE:
            findings.append(f"{segment.path}: {len(choice.rejected)} runs of batches have offsets that cannot be there; the first of them:")
        for run in choice.rejected[:_MOST_ALIKE]:
            findings.append(
                f"{segment.path}: {run.batch_count} batches at byte {run.position} have offsets {run.first_offset} to {run.last_offset}, "
                "which cannot be there; left out"
            )
    kept = [piece.run for piece in found.pieces]
    for place, (segment, choice) in enumerate(zip(walked, choices, strict=True)):
        for run in choice.copies:
            _use_copy(found, place, segment, run, kept, open_reader, findings)
    found.pieces.sort(key=lambda piece: piece.first_offset)
    _find_missing(found, walked, orphan_bases)
    return found


def _use_copy(
    found: Pieces,
    place: int,
    segment: WalkedSegment,
    copy: Run,
    kept: list[Run],
    open_reader: Callable[[WalkedSegment], SalvageReader],
    findings: list[str],
) -> None:
    """A second copy fills what the later segments have lost. The rest of it is dropped if they have the same, kept as bad bytes if not."""
    holes = holes_for(copy, kept)
    whole = [(copy.first_offset, copy.last_offset)]
    for first, last in holes if holes == whole else _filled(open_reader, segment, copy, holes):
        found.pieces.append(Piece(segment, copy, first, last))
    offsets = f"offsets {copy.first_offset} to {copy.last_offset}"
    if holes == whole:
        findings.append(f"{segment.path}: {offsets} belong to a later segment, which does not have them; taken from here")
        return
    own = set(fingerprints(open_reader, Piece(segment, copy, copy.first_offset, copy.last_offset)))
    own = {print_ for print_ in own if not any(first <= print_[0] and print_[1] <= last for first, last in holes)}
    for piece in found.pieces:
        if piece.run is not copy and piece.last_offset >= copy.first_offset and piece.first_offset <= copy.last_offset:
            own.difference_update(fingerprints(open_reader, piece))
    if own:
        found.dropped[place].append((copy.position, copy.end_position))
        findings.append(f"{segment.path}: {offsets} are in a later segment too, with other bytes; those of the later segment are kept")
    else:
        findings.append(f"{segment.path}: {offsets} are in a later segment too, with the same bytes; one copy is kept")


def _filled(
    open_reader: Callable[[WalkedSegment], SalvageReader], segment: WalkedSegment, copy: Run, holes: list[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """What of the holes a copy really fills: one of its batches may reach beyond a hole, and goes nowhere then."""
    for hole in holes:
        stretch: tuple[int, int] | None = None
        for base_offset, last_offset, *_ in fingerprints(open_reader, Piece(segment, copy, *hole)):
            first = base_offset if base_offset >= 0 else last_offset
            if stretch is not None and first != stretch[1] + 1:
                yield stretch
                stretch = None
            stretch = (first if stretch is None else stretch[0], last_offset)
        if stretch is not None:
            yield stretch


def fingerprints(open_reader: Callable[[WalkedSegment], SalvageReader], piece: Piece) -> Iterator[Fingerprint]:
    """First offset, last offset, CRC and size of every batch of a piece."""
    reader = open_reader(piece.walked)
    flat = np.empty(len(FIELDS) * 4096, np.int64)
    try:
        position = piece.run.position
        while position < piece.run.end_position:
            window = reader.read(position, min(READ_BYTES, piece.run.end_position - position))
            headers, _ = walk_block(memoryview(window), 0, len(window), flat)
            if len(headers) == 0:
                large = large_batch(window, piece.run.end_position - position)
                if large is None:
                    return
                headers = large
            for part in wanted_parts(headers, piece):
                columns = (part.base_offset, part.last_offset, part.crc, part.size_bytes)
                yield from zip(*(column.tolist() for column in columns), strict=True)
            position += headers.end_position
    finally:
        reader.close()


def _find_missing(found: Pieces, walked: list[WalkedSegment], orphan_bases: list[int]) -> None:
    """Offsets between the pieces: lost where bytes between them are bad, or the file of a segment is missing whose indexes are there.

    How many of them had a record nobody knows: the sound batches on both sides are the bounds. Where there is no byte between two
    batches nothing speaks for a loss, since a log has such gaps by right.
    """
    bad = _BadBytes(walked, found.dropped)
    undamaged: list[tuple[int, int]] = []
    next_offset = walked[0].base_offset
    before: Piece | None = None
    for piece in found.pieces:
        if piece.first_offset > next_offset:
            gap = (next_offset, piece.first_offset - 1)
            if any(next_offset <= base < piece.first_offset for base in orphan_bases):
                found.lost.append(LostRange(*gap, "the file of a segment is missing"))
            elif bad.are_between(before, piece):
                found.lost.append(LostRange(*gap, "damaged bytes"))
            else:
                undamaged.append(gap)
        next_offset = piece.last_offset + 1
        before = piece
    last_base = walked[-1].base_offset
    if last_base > next_offset:
        if bad.are_between(before, None):
            found.lost.append(LostRange(next_offset, last_base - 1, "damaged bytes"))
        else:
            undamaged.append((next_offset, last_base - 1))
    if any(base >= max(next_offset, last_base) for base in orphan_bases):
        found.lost.append(LostRange(max(next_offset, last_base), None, "the file of the last segment is missing"))
    is_compacted = any(segment.is_compacted for segment in walked) or len(undamaged) > _MANY_GAPS
    reason = "no bytes, as compaction leaves it" if is_compacted else "no bytes: compacted away, cut out between batches, or a file is gone"
    found.gaps += [LostRange(first, last, reason) for first, last in undamaged]


class _BadBytes:
    """Asks whether there are bad bytes between two pieces, many times."""

    def __init__(self, walked: list[WalkedSegment], dropped: list[list[tuple[int, int]]]) -> None:
        self._bad = [merge_ranges([*segment.bad, *places]) for segment, places in zip(walked, dropped, strict=True)]
        self._places = {segment.base_offset: place for place, segment in enumerate(walked)}

    def are_between(self, before: Piece | None, behind: Piece | None) -> bool:
        """In the segment of both, at the end of one, at the beginning of the other, in between. No `behind`: up to the last segment."""
        first = 0 if before is None else self._places[before.walked.base_offset]
        last = len(self._bad) - 2 if behind is None else self._places[behind.walked.base_offset]
        for place in range(first, max(first, last) + 1):  # a second copy may come from an earlier segment than what is before it
            start = before.run.end_position if before is not None and place == first else 0
            end = behind.run.position if behind is not None and place == last else 1 << 62
            if overlaps(self._bad[place], start, end):
                return True
        return False

"""Fold segments that follow each other into fewer strata, where there are more than a page can tell one by one. Pure.

What looks alike is folded first: a stratum of several segments has one fate, is all clean or all dirty, and has findings or has none, as
long as there is room for as many strata as there are changes between these.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from typing import TypeVar

from tidelog.report.facts import Stratum

T = TypeVar("T", int, float)


def budgets(counts: Sequence[int], most: int) -> list[int]:
    """How many strata each partition may have, so that all together have about `most`: by how many segments it has, and one at least."""
    total = sum(counts)
    if total <= most:
        return list(counts)
    return [max(1, count * most // total) if count else 0 for count in counts]


def fold(strata: Sequence[Stratum], most: int) -> tuple[Stratum, ...]:
    """At most `most` strata, one at least, that cover the same segments."""
    if len(strata) <= most:
        return tuple(strata)
    runs = [list(run) for _, run in groupby(strata, key=_look)]
    if len(runs) > most:
        runs = [list(strata)]
    spare = most - len(runs)
    rest = len(strata) - len(runs)
    folded: list[Stratum] = []
    for run in runs:
        # Each run gets one, and of what is left its share.
        folded += (_joined(part) for part in _parts(run, 1 + spare * (len(run) - 1) // max(1, rest)))
    return tuple(folded)


def _look(stratum: Stratum) -> tuple[object, ...]:
    return stratum.fate, stratum.is_dirty, stratum.is_active, stratum.findings > 0


def _parts(run: list[Stratum], count: int) -> Iterable[list[Stratum]]:
    """A run in so many parts of nearly the same length."""
    edges = [len(run) * place // count for place in range(count + 1)]
    return (run[start:end] for start, end in pairwise(edges))


def _joined(part: list[Stratum]) -> Stratum:
    first, last = part[0], part[-1]
    if len(part) == 1:
        return first
    return Stratum(
        base_offset=first.base_offset,
        end_offset=last.end_offset,
        segments=sum(one.segments for one in part),
        size_bytes=sum(one.size_bytes for one in part),
        records=_sum(one.records for one in part),
        batches=_sum(one.batches for one in part),
        first_timestamp_ms=min(_known(one.first_timestamp_ms for one in part), default=None),
        last_timestamp_ms=max(_known(one.last_timestamp_ms for one in part), default=None),
        tombstones=_sum(one.tombstones for one in part),
        damaged_bytes=sum(one.damaged_bytes for one in part),
        is_active=last.is_active,
        is_dirty=None if first.is_dirty is None else any(one.is_dirty for one in part),
        fate=first.fate,
        goes_by=first.goes_by,
        when_ms=first.when_ms,
        after_bytes=first.after_bytes,
        why=first.why,
        findings=sum(one.findings for one in part),
    )


def _known(values: Iterable[T | None]) -> list[T]:
    return [value for value in values if value is not None]


def _sum(values: Iterable[int | None]) -> int | None:
    """None only if none of them is known."""
    known = _known(values)
    return sum(known) if known else None

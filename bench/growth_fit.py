"""What the figures of growth say: is time linear, is memory flat.

    seconds a GiB     of the median sample, at each size; linear if those of the largest are at most a quarter above the least of any other
    peak              of memory, at each size; flat if that of the largest is at most a fifth above that at 256 MiB

Where something costs the same whatever the size, a small one takes more seconds a GiB: that is no fault of growth, and must not hide one,
so the smallest size is not what the largest is held against if one between them does better. Memory is judged from
256 MiB on, as the promise about compaction has it: in less not all keys have come, and not all buffers have been full.

Reproduce: `.venv/bin/python -m bench.page`
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

GIBIBYTE = 1 << 30
LINEAR_AT_MOST = 1.25
FLAT_AT_MOST = 1.2
FLAT_FROM_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Point:
    """One job at one size."""

    size_bytes: int
    done_bytes: int
    """What was really read or written: a little more, by whole batches."""
    seconds: float
    """The median."""
    lowest: float
    highest: float
    python_bytes: int
    worker_bytes: int
    jvm_bytes: int

    @property
    def seconds_per_gibibyte(self) -> float:
        """How long a GiB took."""
        return self.seconds / self.done_bytes * GIBIBYTE

    @property
    def bytes_per_second(self) -> float:
        """The same the other way round."""
        return self.done_bytes / self.seconds


@dataclass(frozen=True, slots=True)
class Growth:
    """One job at all sizes, the smallest first."""

    job: str
    points: tuple[Point, ...]

    @property
    def settled(self) -> Point:
        """From where on memory is judged: the smallest size that is large enough, or the smallest if only that could be compared."""
        return next((point for point in self.points[:-1] if point.size_bytes >= FLAT_FROM_BYTES), self.points[0])

    @property
    def time_ratio(self) -> float:
        """Seconds a GiB at the largest size against the least at a smaller one."""
        least = min(point.seconds_per_gibibyte for point in self.points[:-1] or self.points)
        return self.points[-1].seconds_per_gibibyte / least

    @property
    def is_linear(self) -> bool:
        """Whether time goes with the size, or grows slower."""
        return self.time_ratio <= LINEAR_AT_MOST

    @property
    def memory_ratio(self) -> float:
        """The peak at the largest size against that at 256 MiB; of Spark's jobs that of the largest worker, where the work is."""
        return _peak(self.points[-1]) / _peak(self.settled)

    @property
    def jvm_ratio(self) -> float | None:
        """The same of the JVM, where there is one."""
        first = self.settled.jvm_bytes
        return self.points[-1].jvm_bytes / first if first else None

    @property
    def is_flat(self) -> bool:
        """Whether memory does not go with the size."""
        return self.memory_ratio <= FLAT_AT_MOST


def growths(measurements: Sequence[Mapping[str, Any]]) -> list[Growth]:
    """The measurements of `growth.json`, job by job in their order."""
    by_job: dict[str, list[Point]] = {}
    for one in measurements:
        seconds = one["seconds"]
        by_job.setdefault(one["job"], []).append(
            Point(
                one["size_bytes"],
                one["bytes"],
                median(seconds),
                min(seconds),
                max(seconds),
                one["python_bytes"],
                one["worker_bytes"],
                one["jvm_bytes"],
            )
        )
    return [Growth(job, tuple(sorted(points, key=lambda point: point.size_bytes))) for job, points in by_job.items()]


def size_text(size_bytes: int) -> str:
    """A size as people say it."""
    return f"{size_bytes >> 30} GiB" if size_bytes >= GIBIBYTE else f"{size_bytes >> 20} MiB"


def _peak(point: Point) -> int:
    return point.worker_bytes or point.python_bytes

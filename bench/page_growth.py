"""The part of the page about growth: time and memory at each size, and what they say.

Reproduce: `.venv/bin/python -m bench.page`
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.growth_fit import FLAT_AT_MOST, LINEAR_AT_MOST, Growth, Point, size_text
from bench.page_text import Column, paragraph, table


def growth_section(grown: Sequence[Growth], kept: Mapping[str, Any]) -> str:
    """Time and memory at each size."""
    sizes = sorted({point.size_bytes for growth in grown for point in growth.points})
    machine = kept["machine"]
    commits = dict.fromkeys(f"`{one.get('commit', machine['commit'])}`" for one in kept["measurements"])
    columns: list[Column] = [("Job", "words"), *((size_text(size), "number") for size in sizes), ("Ratio", "number"), ("", "words")]
    return "\n\n".join(
        [
            "## Growth",
            paragraph(
                f"The same jobs over logs from {size_text(sizes[0])} to {size_text(sizes[-1])}: `python -m bench.growth`, "
                f"{machine['measured_at'][:10]}, commit {', '.join(commits)}, {machine['cores']} cores, a load average of "
                f"{machine['load_average'][0]:g} as it began. A log is four partitions with "
                "keys out of "
                f"{kept['keys']:,}, in the page cache. Each job at each size is a process of its own; what is imported late, and the "
                "JVM, are "
                "warmed up by the smallest log. Spark is `local[2]`, all else one thread. `append` syncs nothing, and drops old "
                "segments before the system has written them out; `compact-local` has 16 MiB for keys."
            ),
            "![Seconds of each job by the size of the log; the table below has the figures](performance/growth-time.svg)",
            paragraph(
                "Seconds a GiB, by the median sample; in brackets the lowest and the highest. The ratio is that of the largest size to the "
                f"least of the others, and time is linear where it is at most {LINEAR_AT_MOST:g}: what costs the same whatever the size "
                "weighs more on a small log, so less than 1 is no wonder."
            ),
            table(columns, (_time_cells(growth, sizes) for growth in grown)),
            "![Peak memory of each job by the size of the log; the table below has the figures](performance/growth-memory.svg)",
            paragraph(
                f"Peak of the resident memory. The ratio is that of the largest size to {size_text(grown[0].settled.size_bytes)}, and "
                f"memory is flat where it is at most {FLAT_AT_MOST:g}; in a smaller log not all keys have come, and not all buffers have "
                "been full. Of a job on Spark the largest Python "
                "worker is "
                "judged, where the work is done; all Python together counts shared pages several times, and a JVM takes what its heap "
                "may have "
                "before it collects."
            ),
            table(columns, (cells for growth in grown for cells in _memory_cells(growth, sizes))),
        ]
    )


def _time_cells(growth: Growth, sizes: Sequence[int]) -> list[str]:
    verdict = "linear" if growth.is_linear else "**not linear**"
    return [f"`{growth.job}`", *_at(growth, sizes, _seconds), f"{growth.time_ratio:.2f}", verdict]


def _memory_cells(growth: Growth, sizes: Sequence[int]) -> list[list[str]]:
    verdict = "flat" if growth.is_flat else "**not flat**"
    first, last = growth.points[0], growth.points[-1]
    judged = f"{growth.memory_ratio:.2f}"
    if not first.worker_bytes:
        return [[f"`{growth.job}`", *_at(growth, sizes, lambda point: _megabytes(point.python_bytes)), judged, verdict]]
    rows = [
        [f"`{growth.job}`, largest worker", *_at(growth, sizes, lambda point: _megabytes(point.worker_bytes)), judged, verdict],
        [
            f"`{growth.job}`, driver and all workers",
            *_at(growth, sizes, lambda point: _megabytes(point.python_bytes)),
            f"{last.python_bytes / growth.settled.python_bytes:.2f}",
            "",
        ],
    ]
    if growth.jvm_ratio is not None:
        jvm = _at(growth, sizes, lambda point: _megabytes(point.jvm_bytes))
        rows.append([f"`{growth.job}`, JVM", *jvm, f"{growth.jvm_ratio:.2f}", ""])
    return rows


def _at(growth: Growth, sizes: Sequence[int], text: Callable[[Point], str]) -> list[str]:
    """A cell for each size; empty where nothing was measured."""
    found = {point.size_bytes: text(point) for point in growth.points}
    return [found.get(size, "") for size in sizes]


def _seconds(point: Point) -> str:
    each = point.seconds_per_gibibyte / point.seconds
    return f"{point.seconds_per_gibibyte:.2f} ({point.lowest * each:.2f} – {point.highest * each:.2f})"


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.0f} MB"

"""Growth as two drawings: seconds against size, where linear is a line of the slope that is dashed, and peak memory, where flat is level.

Both scales are logarithmic. Each job has a colour and a shape, and its name at the end of its line.

Reproduce: `.venv/bin/python -m bench.page`
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.growth_fit import Growth, Point, size_text
from bench.plot import BLUE, BROWN, GREEN, GREY, ORANGE, PURPLE, ROSE, TEAL, Shape, drawing, line, mark, path, words

WIDTH, HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 560, 44, 310
_LABEL_STEP = 15
_LOOKS: tuple[tuple[str, Shape], ...] = (
    (BLUE, "disc"),
    (TEAL, "square"),
    (GREEN, "triangle"),
    (BROWN, "diamond"),
    (ORANGE, "ring"),
    (ROSE, "cross"),
    (PURPLE, "box"),
    (GREY, "plus"),
    ("currentColor", "diamond"),
)


@dataclass(frozen=True, slots=True)
class Line:
    """A job in a drawing."""

    name: str
    points: tuple[tuple[float, float], ...]
    """Size and value, the smallest first."""


def time_chart(growths: Sequence[Growth]) -> str:
    """Seconds of each job at each size."""
    lines = [Line(growth.job, _of(growth, lambda point: point.seconds)) for growth in growths]
    return _chart("Seconds as the log grows", lines, _seconds, is_linear_dashed=True)


def memory_chart(growths: Sequence[Growth]) -> str:
    """Peak memory of each job at each size; of Spark's jobs the largest worker of Python, and the JVM apart."""
    lines = []
    for growth in growths:
        is_spark = growth.points[0].worker_bytes > 0
        lines.append(
            Line(
                f"{growth.job} worker" if is_spark else growth.job,
                _of(growth, lambda point: (point.worker_bytes or point.python_bytes) / 1e6),
            )
        )
    for growth in growths:
        if growth.points[0].jvm_bytes and growth.job.startswith("compact"):
            lines.append(Line(f"{growth.job} JVM", _of(growth, lambda point: point.jvm_bytes / 1e6)))
    return _chart("Peak memory as the log grows", lines, _megabytes, is_linear_dashed=False)


def _of(growth: Growth, value: Callable[[Point], float]) -> tuple[tuple[float, float], ...]:
    return tuple((point.size_bytes, value(point)) for point in growth.points)


def _chart(title: str, lines: Sequence[Line], unit: Callable[[float], str], *, is_linear_dashed: bool) -> str:
    sizes = sorted({size for one in lines for size, _ in one.points})
    values = [value for one in lines for _, value in one.points]
    low, high = math.floor(math.log10(min(values) * 0.9)), math.ceil(math.log10(max(values) * 1.1))

    def x(size: float) -> float:
        if len(sizes) == 1:
            return (_LEFT + _RIGHT) / 2
        return _LEFT + 16 + (_RIGHT - _LEFT - 32) * math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])

    def y(value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * (math.log10(value) - low) / (high - low)

    parts = [words(12, 22, title, bold=True)]
    for power in range(low, high + 1):
        parts.append(line(_LEFT, y(10**power), _RIGHT, y(10**power), opacity=0.15))
        parts.append(words(_LEFT - 8, y(10**power) + 4, unit(10**power), anchor="end", faint=True))
    for size in sizes:
        parts.append(line(x(size), _TOP, x(size), _BOTTOM, opacity=0.15))
        parts.append(words(x(size), _BOTTOM + 18, size_text(int(size)), anchor="middle", faint=True))
    if is_linear_dashed and len(sizes) > 1:
        parts += _slope(sizes, x, y, low, high)
    ends = _apart([(y(one.points[-1][1]), place) for place, one in enumerate(lines)])
    for place, one in enumerate(lines):
        colour, shape = _LOOKS[place % len(_LOOKS)]
        parts.append(path([(x(size), y(value)) for size, value in one.points], colour=colour))
        parts += [mark(x(size), y(value), shape, colour=colour) for size, value in one.points]
        last_x, last_y = x(one.points[-1][0]), y(one.points[-1][1])
        parts.append(line(last_x + 7, last_y, _RIGHT + 6, ends[place], colour=colour, opacity=0.6))
        parts.append(mark(_RIGHT + 14, ends[place], shape, colour=colour, size=3.5))
        parts.append(words(_RIGHT + 24, ends[place] + 4, one.name))
    return drawing(WIDTH, HEIGHT, title, parts)


def _slope(sizes: Sequence[float], x: Callable[[float], float], y: Callable[[float], float], low: int, high: int) -> list[str]:
    """What linear looks like, as high as the middle of the drawing."""
    middle = 10 ** ((low + high) / 2)
    centre = math.sqrt(sizes[0] * sizes[-1])
    ends = [(x(size), y(middle * size / centre)) for size in (sizes[0], sizes[-1])]
    return [path(ends, colour="currentColor", dashes="3 5"), words(ends[0][0] + 8, ends[0][1] - 10, "linear", faint=True)]


def _apart(wanted: Sequence[tuple[float, int]]) -> dict[int, float]:
    """Where labels go so that none covers another: as near to where they belong as there is room, within the drawing."""
    placed: dict[int, float] = {}
    highest = float(_TOP)
    for y, place in sorted(wanted):
        placed[place] = highest = max(y, highest)
        highest += _LABEL_STEP
    over = max(placed.values(), default=0) - _BOTTOM
    if over > 0:  # push up from the end
        lowest = float(_BOTTOM)
        for place, y in sorted(placed.items(), key=lambda item: -item[1]):
            placed[place] = lowest = min(y, lowest)
            lowest -= _LABEL_STEP
    return placed


def _seconds(value: float) -> str:
    return f"{value:g} s" if value >= 1 else f"{value * 1000:g} ms"


def _megabytes(value: float) -> str:
    return f"{value / 1000:g} GB" if value >= 1000 else f"{value:g} MB"

"""The promises of an issue as bars: ours divided by the peer's, on a logarithmic scale, from 1, where both are equal.

    bar             the ratio of the medians
    thin line       from the lowest to the highest that the samples of both sides allow
    bent mark       the promise: it opens towards what keeps it
    disc, cross     kept, not kept; the words at the right say it, too

Reproduce: `.venv/bin/python -m bench.page`
"""

import math

from bench.page_rows import Issue, Row
from bench.page_text import times
from bench.plot import BLUE, GREY, ORANGE, bar, drawing, line, mark, words

WIDTH = 900
_NAMES, _PLOT, _ROW, _TOP, _FOOT = 262, 452, 26, 40, 30
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_MOST_TICKS = 9


def promise_chart(issue: Issue) -> str:
    """The drawing of an issue that has rows."""
    scale = Scale.of(issue.rows)
    height = _TOP + _ROW * len(issue.rows) + _FOOT
    bottom = height - _FOOT
    kept = sum(row.kept for row in issue.rows)
    title = f"Issue {issue.number}, {issue.title}: {kept} of {len(issue.rows)} promises kept"
    parts = [words(12, 22, title, bold=True)]
    for tick in scale.ticks:
        x = scale.x(tick)
        parts.append(line(x, _TOP - 6, x, bottom, opacity=0.55 if tick == 1 else 0.15))
        parts.append(words(x, bottom + 16, f"{tick:g}", anchor="middle", faint=True))
    parts.append(words(12, bottom + 16, "ours divided by the peer's", faint=True))
    for place, row in enumerate(issue.rows):
        parts += _row(row, scale, _TOP + _ROW * place + _ROW / 2)
    return drawing(WIDTH, height, title, parts)


class Scale:
    """From ratios to places, by their logarithms."""

    def __init__(self, least: float, most: float) -> None:
        self.least, self.most = least, most
        self._step = _PLOT / math.log(most / least)

    @classmethod
    def of(cls, rows: tuple[Row, ...]) -> "Scale":
        """One that holds all ratios, their spread, their promises, and 1."""
        held = [1.0, *(value for row in rows for value in (row.ratio, row.lowest, row.highest, row.bound) if value > 0)]
        return cls(min(held) / 1.15, max(held) * 1.15)

    def x(self, ratio: float) -> float:
        """Where it is."""
        return _NAMES + self._step * math.log(max(ratio, self.least) / self.least)

    @property
    def ticks(self) -> list[float]:
        """Round numbers within; where those are many, powers of ten."""
        within = [tick for tick in _TICKS if self.least <= tick <= self.most]
        return within if len(within) <= _MOST_TICKS else [tick for tick in within if math.log10(tick).is_integer()]


def _row(row: Row, scale: Scale, y: float) -> list[str]:
    one, ratio, bound = scale.x(1), scale.x(row.ratio), scale.x(row.bound)
    colour = BLUE if row.kept else ORANGE
    bend = 5 if row.is_at_least else -5
    right = _NAMES + _PLOT
    return [
        words(12, y + 4, row.name, is_name=True),
        bar(min(one, ratio), y - 5, abs(ratio - one), 10, colour=colour, opacity=0.45),
        line(scale.x(row.lowest), y, scale.x(row.highest), y, colour=colour, width=1.5),
        *(line(scale.x(end), y - 4, scale.x(end), y + 4, colour=colour, width=1.5) for end in (row.lowest, row.highest)),
        line(bound, y - 10, bound, y + 10, width=2),
        *(line(bound, y + edge, bound + bend, y + edge, width=2) for edge in (-9, 9)),
        mark(ratio, y, "disc" if row.kept else "cross", colour=colour, size=5),
        words(right + 52, y + 4, times(row.ratio), anchor="end", bold=True),
        words(right + 64, y + 4, f"{'≥' if row.is_at_least else '≤'} {row.bound:g}", faint=True),
        words(right + 112, y + 4, "kept" if row.kept else "not kept", bold=not row.kept),
        line(12, y + _ROW / 2, WIDTH - 12, y + _ROW / 2, colour=GREY, opacity=0.2),
    ]

"""How the page is written: paragraphs of the width that the other pages have, tables, and numbers as people read them.

Reproduce: `.venv/bin/python -m bench.page`
"""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal

WIDTH = 140

Column = tuple[str, Literal["words", "number"]]


def paragraph(text: str) -> str:
    """Wrapped, so that a change of one figure is a change of few lines; names and links stay whole."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def item(text: str) -> str:
    """A paragraph of a list."""
    return textwrap.fill(
        " ".join(text.split()), WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> str:
    """Numbers stand to the right."""
    head = f"| {' | '.join(name for name, _ in columns)} |"
    rule = "|".join("---:" if kind == "number" else "---" for _, kind in columns)
    return "\n".join([head, f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)])


def short(number: float) -> str:
    """A number with three figures."""
    for size, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return times(number / size) + suffix
    return f"{number:.3g}"


def times(ratio: float) -> str:
    """A ratio with two decimals, or three figures."""
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


def rate(bytes_per_second: float) -> str:
    """Bytes a second."""
    return f"{bytes_per_second / 1e9:.2f} GB/s" if bytes_per_second >= 1e9 else f"{bytes_per_second / 1e6:.0f} MB/s"


def span(seconds: float) -> str:
    """A time as people say it."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"

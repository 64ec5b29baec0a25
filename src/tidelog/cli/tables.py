"""Rows of facts: JSON lines on request, a table with colours on a terminal, plain columns when piped."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.cli.output import has_colours, plain, print_json, print_line, to_text
from tidelog.cli.progress import clear_drawn

_GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, and how its values are shown."""

    name: str
    """Of the fact, as JSON has it."""
    title: str
    show: Callable[[Any], str] = to_text
    is_right: bool = False
    style: str | None = None
    """On a terminal, in the words of rich."""


def number(value: Any) -> str:
    """A number with its thousands apart; nothing where nothing is known."""
    return "" if value is None else f"{value:,}".replace(",", " ")


def optional(show: Callable[[Any], str]) -> Callable[[Any], str]:
    """The same, but nothing where nothing is known."""
    return lambda value: "" if value is None else show(value)


def print_rows(rows: Iterable[dict[str, Any]], columns: Sequence[Column], *, as_json: bool, empty: str = "nothing") -> None:
    """Objects, each a row. As JSON they have all of their facts, in a table those of the columns."""
    if as_json:
        for row in rows:
            print_json(row)
        return
    cells = [[plain(column.show(row.get(column.name))) for column in columns] for row in rows]
    clear_drawn()
    if not cells:
        print_line(empty)
    elif sys.stdout.isatty():
        _print_rich(columns, cells)
    else:
        for line in plain_lines(columns, cells):
            print_line(line)


def plain_lines(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width, two blanks between them, no blanks at the end of a line."""
    widths = [max(len(column.title), *(len(row[place]) for row in cells)) for place, column in enumerate(columns)]
    lines = []
    for row in ([column.title for column in columns], *cells):
        parts = [
            text.rjust(width) if column.is_right else text.ljust(width) for text, width, column in zip(row, widths, columns, strict=True)
        ]
        lines.append(_GAP.join(parts).rstrip())
    return lines


def _print_rich(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.title, justify="right" if column.is_right else "left", style=column.style, no_wrap=True)
    for row in cells:
        table.add_row(*map(Text, row))  # nothing in it is markup
    console = Console(highlight=False)
    # A time that is folded into two cells cannot be read, nor copied: a narrow terminal wraps whole lines instead.
    widest = max(map(len, plain_lines(columns, cells)))
    console.width = max(console.width, widest + len(columns))
    console.print(table, soft_wrap=True)


def print_heading(text: str, *, is_first: bool = False) -> None:
    """What the rows below it are about; bold on a terminal. What is not the first thing has a blank line before it."""
    if not is_first:
        print_line("")
    print_line(f"\x1b[1m{plain(text)}\x1b[0m" if has_colours() else plain(text))

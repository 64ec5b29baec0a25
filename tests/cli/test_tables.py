"""Tables: plain when piped, with rich on a terminal, JSON lines on request."""

import io
import json
import sys

import pytest

from tidelog.cli.tables import Column, number, optional, print_rows

COLUMNS = (Column("name", "NAME"), Column("size", "SIZE", number, is_right=True), Column("note", "", optional(str)))
ROWS: list[dict[str, object]] = [
    {"type": "x", "name": "a[red]", "size": 1234567, "note": None},
    {"type": "x", "name": "b\x1b[31m", "size": None, "note": "active"},
]


def printed(monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, object]], *, as_json: bool = False, is_terminal: bool = False) -> str:
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", stream)
    print_rows(rows, COLUMNS, as_json=as_json, empty="no rows")
    return stream.getvalue()


def test_plain_columns_when_piped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(monkeypatch, ROWS) == "NAME            SIZE\na[red]     1 234 567\nb\\x1b[31m             active\n"
    assert printed(monkeypatch, []) == "no rows\n"


def test_a_terminal_gets_the_same_cells_and_bold_titles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = printed(monkeypatch, ROWS, is_terminal=True)
    assert "\x1b[1m" in text
    assert "a[red]" in text
    assert "b\\x1b[31m" in text
    assert "1 234 567" in text


def test_a_narrow_terminal_folds_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "dumb")
    rows: list[dict[str, object]] = [{"name": "2020-01-01T00:00:00.009Z", "size": 5, "note": "2020-01-01T00:00:00.010Z"}]
    text = printed(monkeypatch, rows, is_terminal=True)
    assert "2020-01-01T00:00:00.009Z" in text
    assert "2020-01-01T00:00:00.010Z" in text
    assert len(text.splitlines()) == 2


def test_json_has_all_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [json.loads(line) for line in printed(monkeypatch, ROWS, as_json=True, is_terminal=True).splitlines()] == ROWS
    assert printed(monkeypatch, [], as_json=True) == ""

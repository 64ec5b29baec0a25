"""What a page has in it: its facts, its elements, its text."""

import json
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.cli.commands import run

VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """A page, parsed. Elements that are not closed, or closed twice, raise."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.ids: list[str] = []
        self.rows: dict[str, list[str]] = {}
        """The cells of rows of tables, by id."""
        self._row: list[str] | None = None
        self.size_bytes = len(content.encode())
        self.feed(content)
        self.close()
        assert self.open == []

    @property
    def facts(self) -> dict[str, Any]:
        [script] = self.scripts
        found: dict[str, Any] = json.loads(script)
        return found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += ((tag, name, value) for name, value in attrs)
        given = dict(attrs)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "tr":
            self._row = self.rows.setdefault(str(given.get("id")), [])
        if tag == "td" and self._row is not None:
            self._row.append("")
        if tag == "script":
            assert given == {"id": "facts", "type": "application/json"}
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open and self.open[-1] != "style":
            self.texts.append(data)
            if self._row and "td" in self.open:
                self._row[-1] += data


def made(directory: Path, output: Path, *options: str) -> Page:
    """The page that the command writes."""
    done = run("-q", "report", directory, "-o", output, *options)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return Page(output.read_text())

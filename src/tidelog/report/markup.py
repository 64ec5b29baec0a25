"""Text for the page: everything that came from a disk passes through here, and nothing in it is markup any more.

Names of topics, keys and paths are any bytes. What does not print is escaped, so that neither a control character nor a change of writing
direction hides what is there; then what HTML could take amiss. The facts are embedded as JSON in which no `<` is left, so nothing ends
their element early.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final, NewType

Html = NewType("Html", str)
"""Markup that is safe to put into the page."""
THIN_SPACE: Final = "\u202f"
"""Keeps a number and its unit together, and thousands apart; unlike a comma it is read the same everywhere."""


def text(value: object) -> Html:
    """Anything as text, also between the quotes of an attribute."""
    shown = str(value)
    if not shown.isprintable():
        shown = "".join(char if char.isprintable() or char == THIN_SPACE else _escaped(char) for char in shown)
    return Html(escape(shown, quote=True))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode()


def joined(parts: Iterable[Html], between: str = "") -> Html:
    """Markup one behind the other."""
    return Html(between.join(parts))


def element(name: str, content: Html | str = "", /, **attributes: object) -> Html:
    """An element. Content that is not markup already is escaped; `class_` is `class`, `aria_label` is `aria-label`; None leaves one out."""
    given = "".join(f' {key.rstrip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items() if value is not None)
    return Html(f"<{name}{given}>{content}</{name}>")


def table(heads: Sequence[tuple[str, bool]], rows: Iterable[Html], caption: str | None = None, **attributes: object) -> Html:
    """A table; of each head its text, and whether its column is of numbers. Too wide a one scrolls by itself, not with the page."""
    cells = joined(element("th", text(head), scope="col", class_="n" if is_number else None) for head, is_number in heads)
    inner = (element("caption", text(caption)) if caption else Html("")) + element("thead", element("tr", cells))
    return element("div", element("table", Html(inner + element("tbody", joined(rows))), **attributes), class_="scroll", tabindex=0)


def row(cells: Iterable[tuple[Html, bool]], **attributes: object) -> Html:
    """A row of a table; of each cell its content, and whether it is a number."""
    return element("tr", joined(element("td", content, class_="n" if is_number else None) for content, is_number in cells), **attributes)


def embedded(facts: Any) -> Html:
    """JSON that can stand in a `script` element."""
    dumped = json.dumps(facts, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for char in "<>&\u2028\u2029":
        dumped = dumped.replace(char, f"\\u{ord(char):04x}")
    return Html(dumped.encode("utf-8", "backslashreplace").decode())


def key_text(key: str | dict[str, str]) -> Html:
    """A key as it is shown: text, or the bytes of what is none, in hexadecimal."""
    return text(key) if isinstance(key, str) else text("0x" + base64.b64decode(key["base64"]).hex())

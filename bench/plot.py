"""Drawings as SVG, made of plain strings: a ground, lines, shapes and words.

A drawing is shown by pages that are light and by pages that are dark, as an image that inherits nothing. So it brings its own ground,
follows the reader's system by a media query, and draws words and axes in `currentColor`; the few other colours stand out on both grounds.
What a colour says, a shape or a word says too. Numbers have one decimal, so that the same figures give the same bytes.

Reproduce: `.venv/bin/python -m bench.page`
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Literal

BLUE, ORANGE, GREEN, PURPLE, BROWN, TEAL, ROSE, GREY = (
    "#3b82c4",
    "#c2602e",
    "#3f9142",
    "#8b64c8",
    "#96703c",
    "#1f8f8f",
    "#c2557f",
    "#7d838c",
)
_STYLE = (
    "svg{color:#1f2328;font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
    ".ground{fill:#fff}.name{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:11px}"
    "@media(prefers-color-scheme:dark){svg{color:#e6edf3}.ground{fill:#15191f}}"
)
Anchor = Literal["start", "middle", "end"]
Shape = Literal["disc", "cross", "square", "diamond", "triangle", "ring", "box", "plus"]


def drawing(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """The whole file. The title is what a screen reader says."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {n(width)} {n(height)}" width="{n(width)}" height="{n(height)}" role="img" '
        f'aria-label="{escape(title)}">'
    )
    ground = f'<rect class="ground" width="{n(width)}" height="{n(height)}"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{_STYLE}</style>", ground, *parts, "</svg>"]) + "\n"


def words(
    x: float, y: float, text: str, *, anchor: Anchor = "start", is_name: bool = False, faint: bool = False, bold: bool = False
) -> str:
    """Text, its base line at `y`; a name is set as code."""
    given = f' text-anchor="{anchor}"' if anchor != "start" else ""
    given += ' class="name"' if is_name else ""
    given += ' opacity="0.7"' if faint else ""
    given += ' font-weight="600"' if bold else ""
    return f'<text x="{n(x)}" y="{n(y)}" fill="currentColor"{given}>{escape(text)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, *, width: float = 1, colour: str = "currentColor", opacity: float = 1) -> str:
    """A straight line."""
    faint = f' opacity="{opacity:g}"' if opacity != 1 else ""
    return f'<line x1="{n(x1)}" y1="{n(y1)}" x2="{n(x2)}" y2="{n(y2)}" stroke="{colour}" stroke-width="{width:g}"{faint}/>'


def path(points: Sequence[tuple[float, float]], *, colour: str, dashes: str | None = None) -> str:
    """Straight lines from point to point."""
    given = f' stroke-dasharray="{dashes}"' if dashes else ""
    joined = " ".join(f"{n(x)},{n(y)}" for x, y in points)
    return f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="1.8"{given}/>'


def bar(x: float, y: float, width: float, height: float, *, colour: str, opacity: float = 1) -> str:
    """A filled box."""
    faint = f' opacity="{opacity:g}"' if opacity != 1 else ""
    return f'<rect x="{n(x)}" y="{n(y)}" width="{n(width)}" height="{n(height)}" fill="{colour}"{faint}/>'


def mark(x: float, y: float, shape: Shape, *, colour: str, size: float = 4.5) -> str:
    """A small shape around a point."""
    stroke = f'fill="none" stroke="{colour}" stroke-width="2"'
    s = size
    if shape == "disc":
        return f'<circle cx="{n(x)}" cy="{n(y)}" r="{n(s)}" fill="{colour}"/>'
    if shape == "ring":
        return f'<circle cx="{n(x)}" cy="{n(y)}" r="{n(s)}" {stroke}/>'
    if shape == "cross":
        return f'<path d="M{n(x - s)} {n(y - s)}L{n(x + s)} {n(y + s)}M{n(x - s)} {n(y + s)}L{n(x + s)} {n(y - s)}" {stroke}/>'
    if shape == "plus":
        return f'<path d="M{n(x - s)} {n(y)}H{n(x + s)}M{n(x)} {n(y - s)}V{n(y + s)}" {stroke}/>'
    if shape == "box":
        return f'<rect x="{n(x - s)}" y="{n(y - s)}" width="{n(2 * s)}" height="{n(2 * s)}" {stroke}/>'
    if shape == "square":
        return f'<rect x="{n(x - s)}" y="{n(y - s)}" width="{n(2 * s)}" height="{n(2 * s)}" fill="{colour}"/>'
    corners = [(x, y - s), (x + s, y), (x, y + s), (x - s, y)] if shape == "diamond" else [(x, y - s), (x + s, y + s), (x - s, y + s)]
    return f'<polygon points="{" ".join(f"{n(a)},{n(b)}" for a, b in corners)}" fill="{colour}"/>'


def n(number: float) -> str:
    """A coordinate."""
    return f"{number:.1f}".removesuffix(".0")

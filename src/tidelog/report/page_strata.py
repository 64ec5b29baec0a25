"""The picture of a partition: its segments as layers, the oldest at the bottom, each as thick as it is large; and the same as a table.

Shapes are SVG that is stretched to the width there is, text lies above it as HTML, so that it keeps its size. Each layer is drawn from its
wavy upper edge down to the ground, the newest first: the next one covers the rest.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.report.amounts import count, instant, plural, size
from tidelog.report.facts import PartitionFacts, Stratum
from tidelog.report.markup import Html, element, joined, row, table, text
from tidelog.report.strata import fold
from tidelog.report.words import goes, offsets, reason, state

HEIGHT: Final = 240
"""Of the largest partition of a topic, in pixels."""
_LEAST: Final = 3
"""Thinner layers are drawn as one."""
_LABELLED: Final = 18
_WAVE: Final = 3.0
MOST_CORES: Final = 60


class Layer(NamedTuple):
    """A stratum in the picture, from the top."""

    stratum: Stratum
    target: int
    """Which stratum of the page it stands for, the first of them."""
    top: float
    height: float


def layers(strata: Sequence[Stratum], first_target: int, height: float) -> list[Layer]:
    """Where each stratum is drawn, newest first; as many as can be told apart."""
    filled = [stratum for stratum in strata if stratum.size_bytes > 0]
    places = {stratum.base_offset: first_target + place for place, stratum in enumerate(strata)}
    drawn = fold(filled, max(1, int(height / _LEAST)))
    total = sum(stratum.size_bytes for stratum in drawn)
    # Each is thick enough to be seen; what is left of the height is shared by size.
    spare = max(0.0, height - _LEAST * len(drawn))
    found, top = [], 0.0
    for stratum in reversed(drawn):
        thick = _LEAST + spare * stratum.size_bytes / total
        found.append(Layer(stratum, places[stratum.base_offset], top, thick))
        top += thick
    return found


def core(partition: PartitionFacts, first_target: int, largest_bytes: int, now_ms: int) -> Html:
    """A partition as a column of layers, as high as it is large among those of its topic."""
    caption = Html(
        element("strong", text(partition.partition))
        + text(f" · {size(partition.size_bytes)}")
        + Html("<br>")
        + element("span", text(_age(partition)), class_="soft")
    )
    if partition.size_bytes == 0:
        return element("figure", Html(element("div", class_="rock empty") + element("figcaption", caption)), class_="core")
    height = max(14.0, HEIGHT * partition.size_bytes / max(1, largest_bytes))
    drawn = layers(partition.strata, first_target, height)
    shapes = joined(_shape(layer, place, height, now_ms) for place, layer in enumerate(drawn))
    picture = element(
        "svg", shapes, viewBox=f"0 0 100 {height:.1f}", height=f"{height:.1f}", preserveAspectRatio="none", aria_hidden="true"
    )
    rock = element("div", Html(picture + joined(_marks(layer, now_ms) for layer in drawn)), class_="rock")
    return element("figure", Html(rock + element("figcaption", caption)), class_="core")


def _age(partition: PartitionFacts) -> str:
    newest = max((one.last_timestamp_ms for one in partition.strata if one.last_timestamp_ms is not None), default=None)
    if partition.left_alone is not None and partition.log_end_offset is None:
        return "cannot be read"
    return "empty" if partition.size_bytes == 0 else instant(newest, by="days") if newest is not None else ""


def _shape(layer: Layer, place: int, height: float, now_ms: int) -> Html:
    wave = min(_WAVE, layer.height / 3) * (1 if place % 2 else -1)
    tilt = wave * ((place * 7 % 5) - 2) / 4
    top = layer.top + (0 if place else abs(wave))
    edge = f"M0 {top + tilt:.1f}Q25 {top + wave:.1f} 50 {top:.1f}T100 {top - tilt:.1f}V{height:.1f}H0Z"
    shown = element("path", element("title", text(_title(layer.stratum, now_ms))), d=edge, style=f"fill:var(--{layer.stratum.fate})")
    return element("a", shown, href=f"#s{layer.target}", tabindex=-1)


def _title(stratum: Stratum, now_ms: int) -> str:
    what = f"{plural(stratum.segments, 'segment')}, " if stratum.segments > 1 else ""
    said = [f"{what}offsets {offsets(stratum)}", size(stratum.size_bytes), state(stratum), f"goes {goes(stratum, now_ms)}"]
    return " · ".join(filter(None, said))


def _marks(layer: Layer, now_ms: int) -> Html:
    """What lies above a layer: hatching where it is dirty, a bar for its tombstones, a crack where there are findings, its label."""
    stratum, place = layer.stratum, f"top:{layer.top:.1f}px;height:{layer.height:.1f}px"
    marks = [element("span", class_="hatch", style=place)] if stratum.is_dirty else []
    if stratum.findings or stratum.damaged_bytes:
        marks.append(element("span", class_="crack", style=place))
    if stratum.tombstones and stratum.records:
        share = layer.height * stratum.tombstones / stratum.records
        marks.append(element("span", class_="stone", style=f"top:{layer.top + layer.height - share:.1f}px;height:{max(1.0, share):.1f}px"))
    if stratum.is_active:
        marks.append(element("span", class_="surface", style="top:0"))
    if layer.height >= _LABELLED:
        many = f"{plural(stratum.segments, 'segment')} · " if stratum.segments > 1 else ""
        said = [goes(stratum, now_ms) if stratum.fate != "compacted" else "", state(stratum)]
        more = element("span", text("".join(f" · {one}" for one in said if one)), class_="more")
        middle = layer.top + layer.height / 2 - 8
        marks.append(element("span", Html(text(f"{many}{size(stratum.size_bytes)}") + more), class_="lab", style=f"top:{middle:.1f}px"))
    return joined(marks)


def strata_table(partitions: Sequence[PartitionFacts], first_targets: Sequence[int], now_ms: int, settings: dict[str, str]) -> Html:
    """The same as a table, the newest first, as in the picture."""
    has_tombstones = any(one.tombstones for partition in partitions for one in partition.strata)
    has_folded = any(one.segments > 1 for partition in partitions for one in partition.strata)
    heads = [("Partition", True), ("Offsets", True), *([("Segments", True)] if has_folded else []), ("Size", True), ("Records", True)]
    heads += [*([("Tombstones", True)] if has_tombstones else []), ("Newest record", True), ("State", False), ("Goes", False)]
    rows = []
    for partition, first in zip(partitions, first_targets, strict=True):
        for place, one in reversed(list(enumerate(partition.strata))):
            cells = [(text(partition.partition), True), (text(offsets(one)), True)]
            cells += [(text(count(one.segments)), True)] if has_folded else []
            cells += [(text(size(one.size_bytes)), True), (text(count(one.records)), True)]
            cells += [(text(count(one.tombstones)), True)] if has_tombstones else []
            cells += [(text(instant(one.last_timestamp_ms)), True), (text(state(one)), False), (text(reason(one, now_ms, settings)), False)]
            rows.append(row(cells, id=f"s{first + place}"))
    return table(heads, rows)

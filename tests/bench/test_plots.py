"""Drawings show what the rows say, by shapes and words, and can be read on any ground."""

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from bench.growth_fit import Growth, Point
from bench.page_rows import Issue, Row
from bench.plot import Shape, drawing, mark, words
from bench.plot_growth import _LABEL_STEP, _apart, memory_chart, time_chart
from bench.plots import Scale, promise_chart

SVG = "{http://www.w3.org/2000/svg}"
ROW = Row("1-decode", 80.0, 10.0, "records/s", 8.0, 5.0, 9.0, ">= 4", True, "aiokafka", 9)
FAST = replace(ROW, name="1-fast")
SLOW = replace(ROW, name="1-slow", ratio=2.0, lowest=0.5, highest=3.0, kept=False)
SMALL = replace(ROW, name="1-small", ratio=0.25, lowest=0.2, highest=0.3, promise="<= 0.5")


def chart(*rows: Row) -> ElementTree.Element:
    return parsed(promise_chart(Issue("1", "Layers < & >", rows, ())))


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)  # noqa: S314 - our own


def texts(svg: ElementTree.Element) -> list[str]:
    return ["".join(found.itertext()) for found in svg.iter(f"{SVG}text")]


def test_kept_and_not_kept_differ_in_shape_and_words() -> None:
    kept, broken = chart(FAST), chart(SLOW)
    assert [len(list(svg.iter(f"{SVG}circle"))) for svg in (kept, broken)] == [1, 0]
    assert [len(list(svg.iter(f"{SVG}path"))) for svg in (kept, broken)] == [0, 1]
    assert {"8.00", "≥ 4", "kept"} <= set(texts(kept))
    assert {"2.00", "≥ 4", "not kept"} <= set(texts(broken))
    assert {"0.25", "≤ 0.5", "kept"} <= set(texts(chart(SMALL)))


def test_ratio_bar_and_spread_are_where_the_scale_has_them() -> None:
    rows = (FAST, SLOW, SMALL)
    scale, svg = Scale.of(rows), chart(*rows)
    (fast, small) = svg.iter(f"{SVG}circle")
    assert float(fast.attrib["cx"]) == pytest.approx(scale.x(8.0), abs=0.06)
    assert float(small.attrib["cx"]) == pytest.approx(scale.x(0.25), abs=0.06)
    bars = [rect for rect in svg.iter(f"{SVG}rect") if "opacity" in rect.attrib]
    starts = [float(rect.attrib["x"]) for rect in bars]
    ends = [float(rect.attrib["x"]) + float(rect.attrib["width"]) for rect in bars]
    assert starts[0] == pytest.approx(scale.x(1), abs=0.2)
    assert ends[2] == pytest.approx(scale.x(1), abs=0.2)
    spreads = [
        found for found in svg.iter(f"{SVG}line") if found.attrib["stroke-width"] == "1.5" and found.attrib["y1"] == found.attrib["y2"]
    ]
    assert [(float(one.attrib["x1"]), float(one.attrib["x2"])) for one in spreads] == [
        pytest.approx((scale.x(row.lowest), scale.x(row.highest)), abs=0.06) for row in rows
    ]


def test_the_mark_of_a_promise_opens_towards_what_keeps_it() -> None:
    for row, opens in ((FAST, 1), (SMALL, -1)):
        (scale, svg) = Scale.of((row,)), chart(row)
        bends = [
            found for found in svg.iter(f"{SVG}line") if found.attrib["stroke-width"] == "2" and found.attrib["y1"] == found.attrib["y2"]
        ]
        assert len(bends) == 2
        for bend in bends:
            assert float(bend.attrib["x1"]) == pytest.approx(scale.x(row.bound), abs=0.06)
            assert (float(bend.attrib["x2"]) - float(bend.attrib["x1"])) * opens > 0


def test_everything_stays_within_the_drawing() -> None:
    wide = replace(ROW, ratio=900.0, lowest=0.01, highest=1500.0)
    svg = chart(FAST, wide, SMALL)
    width = float(svg.attrib["width"])
    for found in svg.iter():
        for name in ("x", "x1", "x2", "cx"):
            assert 0 <= float(found.attrib.get(name, 0)) <= width


@pytest.mark.parametrize("bound", [0.01, 1.0, 40.0])
def test_a_scale_has_ticks_that_do_not_crowd(bound: float) -> None:
    scale = Scale.of((replace(ROW, promise=f">= {bound:g}"),))
    places = [scale.x(tick) for tick in scale.ticks]
    assert 1 in scale.ticks
    assert all(later - place > 20 for place, later in pairwise(places))


def test_words_take_the_readers_colour_and_names_cannot_be_markup() -> None:
    svg = drawing(10, 10, "a < b", [words(1, 1, "<script>")])
    assert 'fill="currentColor"' in svg
    assert "prefers-color-scheme:dark" in svg
    assert "<script>" not in svg
    assert texts(parsed(svg)) == ["<script>"]


def test_every_shape_is_drawn_and_no_two_look_the_same() -> None:
    shapes: list[Shape] = ["disc", "cross", "square", "diamond", "triangle", "ring", "box", "plus"]
    assert len({mark(5, 5, shape, colour="red") for shape in shapes}) == len(shapes)


def point(size: int, seconds: float, *, python: int = 100_000_000, worker: int = 0, jvm: int = 0) -> Point:
    return Point(size, size, seconds, seconds, seconds, python, worker, jvm)


def test_growth_is_drawn_by_sizes_and_names() -> None:
    sizes = (64 << 20, 256 << 20, 1 << 30)
    grown = [
        Growth("append", tuple(point(size, size / 1e9) for size in sizes)),
        Growth("compact-spark", tuple(point(size, size / 5e8, worker=90_000_000, jvm=10**9) for size in sizes)),
    ]
    time, memory = parsed(time_chart(grown)), parsed(memory_chart(grown))
    assert {"append", "compact-spark", "64 MiB", "256 MiB", "1 GiB", "linear"} <= set(texts(time))
    assert {"append", "compact-spark worker", "compact-spark JVM", "100 MB"} <= set(texts(memory))
    lines = [re.split("[ ,]", found.attrib["points"]) for found in memory.iter(f"{SVG}polyline")]
    for line in lines:  # flat is level
        assert len(set(line[1::2])) == 1
    (append, *_) = [found.attrib["points"] for found in time.iter(f"{SVG}polyline") if "stroke-dasharray" not in found.attrib]
    (linear,) = [found.attrib["points"] for found in time.iter(f"{SVG}polyline") if "stroke-dasharray" in found.attrib]
    assert slope(append) == pytest.approx(slope(linear), rel=0.01)


def slope(points: str) -> float:
    places = [tuple(map(float, place.split(","))) for place in points.split()]
    (x1, y1), (x2, y2) = places[0], places[-1]
    return (y2 - y1) / (x2 - x1)


def test_one_size_can_be_drawn() -> None:
    assert "64 MiB" in texts(parsed(time_chart([Growth("append", (point(64 << 20, 0.1),))])))


def test_labels_never_cover_each_other() -> None:
    for wanted in ([300.0] * 9, [50.0] * 9, [44.0, 45.0, 200.0, 201.0, 309.0, 310.0, 310.0]):
        placed = sorted(_apart([(y, place) for place, y in enumerate(wanted)]).values())
        assert all(later - place >= _LABEL_STEP - 0.01 for place, later in pairwise(placed))
        assert placed[-1] <= 310
        assert placed[0] >= 44

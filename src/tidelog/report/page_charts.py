"""Charts: throughput over time, and counts by powers of two. Shapes are SVG that is stretched, text is HTML that is not."""

from collections.abc import Mapping, Sequence

from tidelog.report.amounts import count, duration, instant, plural, short_count, size, whole_size
from tidelog.report.facts import HotKey, ThroughputFacts
from tidelog.report.markup import Html, element, joined, key_text, row, table, text

_HEIGHT = 100
_OTHERS = "all others"


def throughput_section(facts: ThroughputFacts | None) -> Html:
    """Records and bytes over time, topics on top of each other."""
    heading = element("h2", text("Throughput"))
    if facts is None:
        return element("section", Html(heading + element("p", text("No record has a time."), class_="soft")), id="throughput")
    said = f"By the newest timestamp of each batch, in steps of {duration(facts.bucket_ms)}."
    if facts.outside_records:
        said += f" Left out: {plural(facts.outside_records, 'record')} with a time that is far from all others."
    if facts.untimed_records:
        said += f" {plural(facts.untimed_records, 'record')} without a time."
    names = joined(
        element(
            "li",
            Html(
                element("span", class_="key", style=f"background:var(--s{_colour(one.topic, place)})")
                + Html(" ")
                + text(one.topic or _OTHERS)
            ),
        )
        for place, one in enumerate(facts.series)
    )
    records, sizes = [one.records for one in facts.series], [one.size_bytes for one in facts.series]
    colours = [_colour(one.topic, place) for place, one in enumerate(facts.series)]
    inner = Html(
        heading
        + element("p", text(said), class_="soft small")
        + _chart("Bytes", sizes, colours, facts, size)
        + _chart("Records", records, colours, facts, short_count)
        + element("ul", names, class_="names")
        + _as_table(facts)
    )
    return element("section", inner, id="throughput")


def _colour(topic: str | None, place: int) -> int:
    return place if topic is not None else 5


def _chart(name: str, series: Sequence[Sequence[int]], colours: Sequence[int], facts: ThroughputFacts, show: object) -> Html:
    shown = show if callable(show) else str
    sums = [sum(values) for values in zip(*series, strict=True)]
    top, below, bars = max(1, *sums), [0.0] * len(sums), []
    for values, colour in zip(series, colours, strict=True):
        path = ""
        for place, value in enumerate(values):
            if value:
                high = _HEIGHT * value / top
                path += f"M{place} {_HEIGHT - below[place] - high:.2f}h.92v{high:.2f}h-.92z"
                below[place] += high
        if path:
            bars.append(element("path", d=path, style=f"fill:var(--s{colour})"))
    over = joined(
        element("rect", element("title", text(f"{_step(facts, place)}: {shown(value)}")), x=place, y=0, width=1, height=_HEIGHT)
        for place, value in enumerate(sums)
        if value
    )
    per = f"{name} each {duration(facts.bucket_ms)}"
    head = element("div", Html(element("span", text(per)) + element("span", text(f"most: {shown(top)}"))), class_="top")
    picture = element(
        "svg", Html(joined(bars) + over), viewBox=f"0 0 {len(sums)} {_HEIGHT}", preserveAspectRatio="none", role="img",
        aria_label=f"{name} over time; the table below says the same",
    )  # fmt: skip
    ends = [facts.start_ms, facts.start_ms + len(sums) * facts.bucket_ms // 2, facts.start_ms + len(sums) * facts.bucket_ms]
    by = "days" if facts.bucket_ms * len(sums) > 4 * 86_400_000 else "minutes" if facts.bucket_ms * len(sums) > 600_000 else "milliseconds"
    axis = element("div", joined(element("span", text(instant(end, by=by))) for end in ends), class_="axis")
    return element("figure", Html(head + picture + axis), class_="chart")


def _step(facts: ThroughputFacts, place: int) -> str:
    return instant(facts.start_ms + place * facts.bucket_ms, by="minutes" if facts.bucket_ms >= 60_000 else "milliseconds")


def _as_table(facts: ThroughputFacts) -> Html:
    rows = []
    for place in range(len(facts.series[0].records)):
        records = sum(one.records[place] for one in facts.series)
        size_bytes = sum(one.size_bytes[place] for one in facts.series)
        if records or size_bytes:
            rows.append(row([(text(_step(facts, place)), False), (text(count(records)), True), (text(size(size_bytes)), True)]))
    return element(
        "details", Html(element("summary", text("As a table")) + table([("From", False), ("Records", True), ("Bytes", True)], rows))
    )


def size_bars(title: str, counts: Mapping[int, int], *, is_bytes: bool = True) -> Html:
    """Counts by powers of two, from the smallest to the largest without a gap."""
    if not counts:
        return Html("")
    steps = sorted(counts)
    powers = [step for step in (0, *(1 << power for power in range(64))) if steps[0] <= step <= steps[-1]]
    labels = [_range_text(step, is_bytes=is_bytes) for step in powers]
    return _bars(title, [(text(label), counts.get(step, 0)) for label, step in zip(labels, powers, strict=True)])


def _range_text(step: int, *, is_bytes: bool) -> str:
    shown = whole_size(step) if is_bytes else short_count(step)
    return shown if step <= 1 else f"{shown} +"


def key_bars(title: str, keys: Sequence[HotKey]) -> Html:
    """The hottest keys."""
    return (
        _bars(title, [(key_text(one.key) or element("i", text("empty")), one.records) for one in keys], "bars keys") if keys else Html("")
    )


def count_bars(title: str, counts: Mapping[str, int]) -> Html:
    """Counts by name."""
    return _bars(title, [(text(name), number) for name, number in counts.items()]) if counts else Html("")


def _bars(title: str, rows: Sequence[tuple[Html, int]], kind: str = "bars") -> Html:
    most = max((number for _, number in rows), default=0) or 1
    items = joined(
        element(
            "li",
            Html(
                element("span", label, class_="l")
                + element(
                    "span", element("i", style=f"width:{100 * number / most:.1f}%") if number else Html(""), class_="b", aria_hidden="true"
                )
                + element("span", text(short_count(number)), class_="n", title=count(number))
            ),
        )
        for label, number in rows
    )
    return element("div", Html(element("h4", text(title)) + element("ul", items, class_=kind)))

"""Topics: all of them as a table, then each with its strata, its settings, what others would do, and what its batches and keys are like."""

from collections.abc import Mapping, Sequence

from tidelog.report.amounts import count, instant, plural, size
from tidelog.report.facts import PartitionFacts, ReportFacts, TopicFacts
from tidelog.report.fates import next_to_go
from tidelog.report.markup import Html, element, joined, row, table, text
from tidelog.report.page_charts import count_bars, key_bars, size_bars
from tidelog.report.page_strata import MOST_CORES, core, strata_table
from tidelog.report.words import goes, setting_text


def topics_section(facts: ReportFacts) -> Html:
    """The table, then each topic."""
    by_topic = _by_topic(facts.partitions)
    first_targets = _first_targets(facts.partitions)
    parts = [element("h2", text("Topics")), _overview(facts, by_topic), element("h2", text("Strata")), _how_to_read()]
    for place, topic in enumerate(_largest_first(facts.topics)):
        partitions = by_topic.get(topic.topic, [])
        targets = [first_targets[one.topic, one.partition] for one in partitions]
        parts.append(_topic(place, topic, partitions, targets, facts))
    if facts.left_off_topics or facts.left_off_partitions:
        left = f"{plural(facts.left_off_topics, 'topic')} and {plural(facts.left_off_partitions, 'partition')}"
        parts.append(
            element("p", text(f"{left} more are only in the sums above: those with findings and the largest are shown."), class_="soft")
        )
    return element("section", joined(parts), id="topics")


def _largest_first(topics: Sequence[TopicFacts]) -> list[TopicFacts]:
    return sorted(topics, key=lambda topic: -topic.size_bytes)


def _by_topic(partitions: Sequence[PartitionFacts]) -> dict[str, list[PartitionFacts]]:
    found: dict[str, list[PartitionFacts]] = {}
    for one in partitions:
        found.setdefault(one.topic, []).append(one)
    return found


def _first_targets(partitions: Sequence[PartitionFacts]) -> dict[tuple[str, int], int]:
    """The number of the first stratum of each partition: strata are numbered over the whole page."""
    found, number = {}, 0
    for one in partitions:
        found[one.topic, one.partition] = number
        number += len(one.strata)
    return found


def _overview(facts: ReportFacts, by_topic: Mapping[str, Sequence[PartitionFacts]]) -> Html:
    heads = [("Topic", False), ("Size", True), ("Records", True), ("First to go", True), ("Findings", True), ("Policy", False)]
    heads += [("Partitions", True), ("Segments", True), ("Newest record", True)]
    rows = []
    for place, topic in enumerate(_largest_first(facts.topics)):
        first = next_to_go([one for partition in by_topic.get(topic.topic, ()) for one in partition.strata])
        rows.append(
            row(
                [
                    (element("a", text(topic.topic), href=f"#t{place}"), False),
                    (text(size(topic.size_bytes)), True),
                    (text(count(topic.records)), True),
                    (text("–" if first is None else goes(first, facts.now_ms)), True),
                    (element("span", text(count(topic.findings)), class_="bad" if topic.findings else "soft"), True),
                    (text(topic.cleanup_policy or "left alone"), False),
                    (text(count(topic.partitions)), True),
                    (text(count(topic.segments)), True),
                    (text(instant(topic.last_timestamp_ms)), True),
                ]
            )
        )
    return table(heads, rows)


def _how_to_read() -> Html:
    hatch = element("span", element("span", class_="hatch"), class_="key", style="background:var(--compacted)")
    stone = element("span", element("span", class_="stone", style="top:0;bottom:0"), class_="key", style="background:var(--compacted)")
    crack = element("span", element("span", class_="crack", style="top:0;bottom:0"), class_="key", style="background:var(--kept)")
    surface = element("span", element("span", class_="surface", style="top:0"), class_="key", style="background:var(--later)")
    said = text(
        "A column is a partition, a layer a segment: the oldest at the bottom, as thick as it is large, coloured by when it goes as in the "
        "bar above. The columns of a topic have one scale."
    )
    items = (
        Html(hatch + text(" dirty: the cleaner has not been there")),
        Html(stone + text(" share of tombstones")),
        Html(surface + text(" active segment")),
        Html(crack + text(" findings")),
    )
    return Html(
        element("p", said, class_="soft small") + element("ul", joined(element("li", item) for item in items), class_="names legend")
    )


def _topic(place: int, topic: TopicFacts, partitions: Sequence[PartitionFacts], targets: Sequence[int], facts: ReportFacts) -> Html:
    head = element(
        "header",
        Html(
            element("h3", text(topic.topic))
            + element("span", text(topic.cleanup_policy or "left alone"), class_="soft")
            + element(
                "span",
                text(f"{size(topic.size_bytes)} · {plural(topic.records, 'record')} · {plural(topic.partitions, 'partition')}"),
                class_="soft",
            )
        ),
    )
    largest = max((one.size_bytes for one in partitions), default=0)
    drawn = sorted(zip(partitions, targets, strict=True), key=lambda one: -one[0].size_bytes)[:MOST_CORES]
    order = sorted(drawn, key=lambda one: one[0].partition)
    cores = element("div", joined(core(one, target, largest, facts.now_ms) for one, target in order), class_="cores")
    more = len(partitions) - len(drawn)
    inner = [head, _settings(topic), cores]
    if more:
        inner.append(
            element("p", text(f"The {MOST_CORES} largest are drawn; {plural(more, 'partition')} more in the tables."), class_="soft small")
        )
    alone = {one.left_alone for one in partitions if one.left_alone is not None}
    inner += [element("p", text(f"Left alone: {why}"), class_="small warn") for why in sorted(alone)]
    inner.append(_what_if(topic))
    listed = strata_table(partitions, targets, facts.now_ms, topic.settings)
    number = sum(len(one.strata) for one in partitions)
    inner.append(element("details", Html(element("summary", text(f"Segments as a table ({plural(number, 'row')})")) + listed)))
    inner.append(element("details", Html(element("summary", text("Partitions")) + _partitions(partitions))))
    inner.append(_distributions(topic))
    return element("article", joined(inner), class_="topic", id=f"t{place}")


def _settings(topic: TopicFacts) -> Html:
    is_by_age = "delete" in topic.settings["cleanup.policy"]
    idle = {"cleanup.policy", *(() if is_by_age else ("retention.ms", "retention.bytes"))}
    shown = [f"{name} {setting_text(name, value)}" for name, value in topic.settings.items() if name not in idle]
    origin = f"from {topic.settings_from}" if topic.settings_from else ""
    if topic.is_assumed:
        origin += "; what is not written down there is assumed"
    return element("ul", joined(element("li", text(one)) for one in [*shown, origin] if one), class_="chips")


def _what_if(topic: TopicFacts) -> Html:
    """One line: what other settings would remove now."""
    if not topic.what_if or not topic.size_bytes:
        return Html("")
    said = []
    for one in topic.what_if:
        config = ", ".join(f"{name}={setting_text(name, value)}" for name, value in one.config.items())
        said.append(f"{config}: {size(one.size_bytes)} in {plural(one.segments, 'segment')}" if one.segments else f"{config}: nothing")
    return element("p", text("What if? Would go now with " + "; ".join(said) + "."), class_="small soft")


def _partitions(partitions: Sequence[PartitionFacts]) -> Html:
    has_cleaning = any(one.cleaning is not None for one in partitions)
    heads = [
        ("Partition", True),
        ("Start", True),
        ("High watermark", True),
        ("End", True),
        ("Segments", True),
        ("Size", True),
        ("Records", True),
    ]
    heads += [("Dirty", True), ("Cleaner", False)] if has_cleaning else []
    rows = []
    for one in partitions:
        numbers = (one.partition, one.log_start_offset, one.high_watermark, one.log_end_offset, one.segments)
        cells = [(text(count(number)), True) for number in numbers]
        cells += [(text(size(one.size_bytes)), True), (text(count(one.records)), True)]
        if has_cleaning:
            ratio = "–" if one.cleaning is None else f"{100 * one.cleaning.dirty_ratio:.0f} %"
            why = "" if one.cleaning is None else f"{'would clean it' if one.cleaning.is_eligible else 'would not'}: {one.cleaning.why}"
            cells += [(text(ratio), True), (text(why), False)]
        rows.append(row(cells))
    return table(heads, rows)


def _distributions(topic: TopicFacts) -> Html:
    """What its batches, records and keys are like."""
    parts = [size_bars("Batches by size", topic.batch_sizes)]
    if topic.value_sizes is not None and topic.key_sizes is not None:
        parts += [size_bars("Values by size", topic.value_sizes), size_bars("Keys by size", topic.key_sizes)]
    if topic.keys is not None:
        parts += [
            size_bars("Records per key", topic.keys.records_per_key, is_bytes=False),
            key_bars("Hottest keys", topic.keys.hottest),
        ]
    if len(topic.codecs) > 1 or (topic.codecs and "none" not in topic.codecs):
        parts.append(count_bars("Batches by codec", topic.codecs))
    if len(topic.magics) > 1 or (topic.magics and 2 not in topic.magics):
        parts.append(count_bars("Batches by format", {f"v{magic}": number for magic, number in topic.magics.items()}))
    said = []
    if topic.keys is not None:
        said = [f"about {plural(topic.keys.distinct, 'distinct key')}", plural(topic.keys.tombstones, "tombstone")]
        said += [f"{plural(topic.keys.null_keys, 'record')} without a key"] if topic.keys.null_keys else []
    said += [plural(topic.markers, "transaction marker")] if topic.markers else []
    facts = element("p", text(", ".join(said)), class_="small") if said else Html("")
    return Html(facts + element("div", joined(filter(None, parts)), class_="spread")) if any(parts) else facts

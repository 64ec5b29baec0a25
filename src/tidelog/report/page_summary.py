"""The first screen: how much is here, is it sound, what goes when."""

from collections.abc import Iterable

from tidelog.report.amounts import instant, plural, size
from tidelog.report.facts import FateFacts, ReportFacts, SoundnessFacts
from tidelog.report.fates import next_to_go
from tidelog.report.markup import Html, element, joined, text
from tidelog.report.words import FATE_MEANING, FATE_WORDS, goes

_LEVELS = {
    "headers": "Headers of batches, indexes and side files were checked; neither checksums nor records. The option --records reads all.",
    "records": "Every checksum and every record was checked.",
}


def summary(facts: ReportFacts) -> Html:
    """Three answers, and how much goes when."""
    answers = element("div", joined((_how_much(facts), _is_it_sound(facts), _what_goes(facts))), class_="answers")
    return element("section", Html(answers + fate_panel(facts.fates)), id="summary", aria_label="Summary")


def _answer(question: str, big: Html, lines: Iterable[Html]) -> Html:
    return element("div", Html(element("h4", text(question)) + big + joined(element("p", line) for line in lines)), class_="answer")


def _how_much(facts: ReportFacts) -> Html:
    totals = facts.totals
    lines = [
        text(f"{plural(totals.records, 'record')} in {plural(totals.segments, 'segment')}"),
        text(f"{plural(totals.topics, 'topic')}, {plural(totals.partitions, 'partition')}"),
    ]
    if totals.first_timestamp_ms is not None and totals.last_timestamp_ms is not None:
        days = f"{instant(totals.first_timestamp_ms, by='days')} to {instant(totals.last_timestamp_ms, by='days')}"
        lines.append(element("span", text(days), class_="soft"))
    if totals.free_bytes is not None:
        lines.append(element("span", text(f"{size(totals.free_bytes)} free on its file system"), class_="soft small"))
    return _answer("How much is here", element("div", text(size(totals.size_bytes)), class_="big"), lines)


def _is_it_sound(facts: ReportFacts) -> Html:
    soundness = facts.soundness
    word, kind = verdict(soundness)
    big = element("div", text(word), class_=f"big {kind}")
    others = [
        plural(number, noun)
        for number, noun in ((soundness.errors, "error"), (soundness.warnings, "warning"), (soundness.notes, "note"))
        if number
    ]
    lines = [text(", ".join(others) or "nothing was found")]
    if others:
        lines = [element("a", lines[0], href="#findings")]
    if facts.totals.damaged_bytes:
        lines.append(element("span", text(f"{size(facts.totals.damaged_bytes)} are no batches that can be read"), class_="bad"))
    lines.append(element("span", text(_LEVELS[facts.reads]), class_="soft small"))
    return _answer("Is it sound", big, lines)


def verdict(soundness: SoundnessFacts) -> tuple[str, str]:
    """In one word, and its colour."""
    if soundness.errors:
        return "✗ Damaged", "bad"
    if soundness.warnings:
        return "! Nearly", "warn"
    return "✓ Sound", "good"


def _what_goes(facts: ReportFacts) -> Html:
    strata = {id(one): partition for partition in facts.partitions for one in partition.strata}
    first = next_to_go([one for partition in facts.partitions for one in partition.strata])
    going = next((fate for fate in facts.fates if fate.fate == "now"), None)
    if going is not None:
        big = f"{size(going.size_bytes)} now"
        lines = [text(f"{plural(going.segments, 'segment')} with the next round of retention")]
    elif first is not None:
        home = strata[id(first)]
        big = goes(first, facts.now_ms)
        lines = [text(f"{size(first.size_bytes)} of {home.topic}-{home.partition} are the first to go, by time")]
    else:
        big = "Nothing" if facts.totals.segments else "–"
        lines = [text("by the clock alone")] if facts.totals.segments else [text("there is nothing")]
    lines += _cleaner_line(facts)
    if any(topic.is_assumed for topic in facts.topics):
        lines.append(
            element("span", text("Some settings are nowhere in this directory, and are taken for Kafka's defaults."), class_="soft small")
        )
    return _answer("What goes when", element("div", text(big), class_="big"), lines)


def _cleaner_line(facts: ReportFacts) -> list[Html]:
    compacted = [partition for partition in facts.partitions if partition.cleaning is not None]
    eligible = [partition for partition in compacted if partition.cleaning is not None and partition.cleaning.is_eligible]
    if not compacted:
        return []
    if not eligible:
        return [text(f"none of {plural(len(compacted), 'compacted partition')} is dirty enough to be cleaned")]
    dirty = sum(partition.cleaning.cleanable_bytes for partition in eligible if partition.cleaning is not None)
    return [text(f"{plural(len(eligible), 'partition')} would be compacted, {size(dirty)} of it dirty")]


def fate_panel(fates: Iterable[FateFacts]) -> Html:
    """All bytes by when they go: a bar, and what its colours mean. It is the legend of the strata too."""
    fates = list(fates)
    total = sum(fate.size_bytes for fate in fates)
    bar = joined(
        element(
            "span",
            style=f"flex:{fate.size_bytes} 1 0;background:var(--{fate.fate})",
            title=f"{FATE_WORDS[fate.fate]}: {size(fate.size_bytes)}",
        )
        for fate in fates
        if fate.size_bytes
    )
    rows = joined(
        element(
            "li",
            Html(
                element("span", class_="key", style=f"background:var(--{fate.fate})")
                + element("span", text(FATE_WORDS[fate.fate]), title=FATE_MEANING[fate.fate])
                + element("span", text(f"{size(fate.size_bytes)} · {_share(fate.size_bytes, total)}"), class_="n soft")
            ),
        )
        for fate in fates
    )
    inner = Html(
        element("h4", text("All bytes by when they go"))
        + element("div", bar, class_="fatebar", aria_hidden="true")
        + element("ul", rows, class_="fates")
    )
    return element("div", inner, class_="panel", style="margin-top:1rem") if fates else Html("")


def _share(part: int, total: int) -> str:
    share = 100 * part / total if total else 0
    return f"{share:.0f} %" if share >= 10 or share == 0 else f"{share:.1f} %" if share >= 0.1 else "< 0.1 %"


def subtitle(facts: ReportFacts) -> str:
    """What kind of directory it is, and when it was looked at."""
    kinds = {"store": "a store", "broker": "a broker's data directory", "directory": "a data directory", "partition": "one partition"}
    return f"{kinds[facts.kind]}, as of {instant(facts.now_ms)} UTC"

"""The page: one file that needs nothing else. No script runs in it, and by its own policy none could; nothing is fetched.

Everything is drawn here, from the facts alone, which are embedded as JSON for programs to read.
"""

from collections.abc import Sequence

from tidelog.report.amounts import instant, plural
from tidelog.report.facts import ReportFacts
from tidelog.report.markup import Html, element, embedded, joined, row, table, text
from tidelog.report.page_charts import throughput_section
from tidelog.report.page_summary import subtitle, summary
from tidelog.report.page_topics import topics_section
from tidelog.report.style import style_sheet

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def build_page(facts: ReportFacts) -> str:
    """The whole page."""
    name = facts.directory.rstrip("/").rpartition("/")[2] or facts.directory
    header = element(
        "header",
        Html(
            element("h1", text(name))
            + element(
                "p",
                Html(
                    element("span", text(facts.directory), class_="path")
                    + element("span", text(f" · {subtitle(facts)}"), class_="soft small")
                ),
            )
        ),
    )
    sections = (summary(facts), topics_section(facts), throughput_section(facts.throughput), findings_section(facts))
    body = Html(header + element("main", joined(sections)) + _footer(facts))
    data = f'<script id="facts" type="application/json">{embedded(facts.to_json())}</script>'
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{text(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        '<meta name="referrer" content="no-referrer">\n<link rel="icon" href="data:,">\n'
        f"<title>{text(name)}: tidelog report</title>\n<style>{style_sheet()}</style>\n</head>\n"
        f'<body>\n<div class="page">{body}</div>\n{data}\n</body>\n</html>\n'
    )


def findings_section(facts: ReportFacts) -> Html:
    """What verify has found, the gravest first."""
    heading = element("h2", text("Findings"))
    if not facts.findings:
        return element("section", Html(heading + element("p", text("Nothing was found."), class_="soft")), id="findings")
    grave = [one for one in facts.findings if one["severity"] != "note"]
    notes = [one for one in facts.findings if one["severity"] == "note"]
    parts = [heading]
    parts.append(_findings_table(grave) if grave else element("p", text("Neither errors nor warnings."), class_="soft"))
    if notes:
        shown = element("summary", text(f"{plural(facts.soundness.notes, 'note')}: leftovers, and facts worth knowing"))
        parts.append(element("details", Html(shown + _findings_table(notes))))
    if facts.left_off_findings:
        parts.append(element("p", text(f"{plural(facts.left_off_findings, 'finding')} more; verify lists them all."), class_="soft small"))
    return element("section", joined(parts), id="findings")


def _findings_table(findings: Sequence[dict[str, object]]) -> Html:
    kinds = {"error": "bad", "warning": "warn", "note": "soft"}
    rows = [
        row(
            [
                (element("span", text(one["severity"]), class_=kinds.get(str(one["severity"]), "soft")), False),
                (element("span", text(_where(one)), class_="path"), False),
                (text(_what(one)), False),
                (text(one["mend"]), False),
            ]
        )
        for one in findings
    ]
    return table([("Severity", False), ("Where", False), ("What", False), ("Would mend it", False)], rows)


def _where(finding: dict[str, object]) -> str:
    at = f" at byte {finding['position']}" if finding["position"] is not None else ""
    return f"{finding['path']}{at}"


def _what(finding: dict[str, object]) -> str:
    said = f"{finding['what']}"
    if finding["offset"] is not None:
        said += f" (offset {finding['offset']})"
    if finding["expected"] is not None:
        said += f": expected {finding['expected']}, found {finding['found']}"
    return f"{said} [{finding['code']}]"


def _footer(facts: ReportFacts) -> Html:
    said = f"Made by tidelog {facts.version}, as of {instant(facts.now_ms, by='seconds')} UTC. Nothing in the directory was changed."
    more = "All facts of this page are in it as JSON, in the element with the id “facts”."
    return element("footer", Html(element("p", text(said)) + element("p", text(more))))

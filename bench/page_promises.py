"""The part of the page about promises: a drawing and a table for each issue.

Reproduce: `.venv/bin/python -m bench.page`
"""

from collections.abc import Sequence

from bench.page_rows import Issue, Row
from bench.page_text import Column, paragraph, short, table, times

_COLUMNS: tuple[Column, ...] = (
    ("What", "words"),
    ("Ours", "number"),
    ("Peer", "number"),
    ("Unit", "words"),
    ("Ratio", "number"),
    ("Spread", "number"),
    ("Promise", "words"),
    ("", "words"),
    ("Peer is", "words"),
)


def promise_section(issues: Sequence[Issue]) -> str:
    """All promises, kept or not."""
    rows = [row for issue in issues for row in issue.rows]
    missing = sum(len(issue.missing) for issue in issues)
    kept = sum(row.kept for row in rows)
    summary = f"**{kept} of {len(rows) + missing} promises are kept**, {len(rows) - kept} are not"
    summary += f", and {missing} were not measured in this run, which counts as not kept" if missing else ""
    how = (
        "A bar is ours divided by the peer's, by the medians of all samples, on a logarithmic scale; it starts at 1, where both are equal. "
        "The thin line is the spread: from our lowest sample divided by the peer's highest to our highest divided by the peer's lowest. "
        "The "
        "bent mark is the promise, and opens towards what keeps it. A disc is a promise kept, a cross one that is not."
    )
    return "\n\n".join(["## Promises", paragraph(f"{summary}. {how}"), *(_issue(issue) for issue in issues)])


def _issue(issue: Issue) -> str:
    kept = sum(row.kept for row in issue.rows)
    parts = [f"### {issue.number}. {issue.title}"]
    if issue.rows:
        alt = f"Issue {issue.number}: {kept} of {len(issue.rows)} promises kept; the table below has the figures"
        parts += [f"![{alt}](performance/issue-{issue.number}.svg)", table(_COLUMNS, (_cells(row) for row in issue.rows))]
    if issue.missing:
        parts.append(paragraph("Not measured in this run: " + ", ".join(f"`{name}` ({promise})" for name, promise in issue.missing) + "."))
    return "\n\n".join(parts)


def _cells(row: Row) -> tuple[str, ...]:
    spread = f"{times(row.lowest)} – {times(row.highest)}"
    verdict = "kept" if row.kept else "**not kept**"
    return (f"`{row.name}`", short(row.ours), short(row.peer), row.unit, times(row.ratio), spread, row.promise, verdict, row.peer_version)

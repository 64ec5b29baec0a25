"""The command: `python -m bench.page [--check]`: docs/performance.md, its drawings and the README's figures, from the JSON of kept runs.

    bench/results/latest.json      a whole `make bench`, and machine.json beside it
    bench/results/growth.json      `python -m bench.growth`
    bench/promises.toml            what was promised

The same JSON gives the same bytes, and a test compares them with what is in docs/: figures there are never newer or older than the runs.
Exit code 0; with `--check`, 1 if something in docs/ is not what it would write.

Reproduce: `.venv/bin/python -m bench.page`
"""

import argparse
import json
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.growth_fit import growths
from bench.jvm import ROOT
from bench.page_cluster_text import cluster_section, rates_of
from bench.page_growth import growth_section
from bench.page_promises import promise_section
from bench.page_readme import figures, with_figures
from bench.page_rows import issues, titles_of
from bench.page_text import paragraph
from bench.plot_growth import memory_chart, time_chart
from bench.plots import promise_chart

DOCS = ROOT / "docs"
PAGE = "performance.md"
README = "../README.md"
_RESULTS = ROOT / "bench" / "results"
_PROMISES = ROOT / "bench" / "promises.toml"


def main() -> int:
    """Write what is not there yet, and remove drawings that nobody asks for any more."""
    parser = argparse.ArgumentParser(prog="python -m bench.page", description="docs/performance.md, from the results of kept runs.")
    parser.add_argument("--check", action="store_true", help="write nothing; say what would change")
    options = parser.parse_args()
    made = files()
    stale = [name for name, text in made.items() if not _is(DOCS / name, text)]
    gone = [path for path in sorted((DOCS / "performance").glob("*.svg")) if f"performance/{path.name}" not in made]
    for name in [*stale, *(f"performance/{path.name}" for path in gone)]:
        print(f"{os.path.normpath(f'docs/{name}')} {'is not what the results give' if options.check else 'changed'}")
    if options.check:
        return 1 if stale or gone else 0
    (DOCS / "performance").mkdir(exist_ok=True)
    for name in stale:
        (DOCS / name).write_text(made[name])
    for path in gone:
        path.unlink()
    return 0


def files() -> dict[str, str]:
    """All files, by their names below docs/."""
    latest, machine = (json.loads((_RESULTS / f"{name}.json").read_text()) for name in ("latest", "machine"))
    growth = json.loads((_RESULTS / "growth.json").read_text()) if (_RESULTS / "growth.json").exists() else None
    readme = with_figures((DOCS / README).read_text(), figures(latest, machine))
    return {**rendered(latest, machine, growth, _PROMISES.read_text()), README: readme}


def rendered(latest: list[dict[str, Any]], machine: Mapping[str, Any], growth: Mapping[str, Any] | None, promises: str) -> dict[str, str]:
    """The page and its drawings, from what was measured."""
    found = issues(latest, tomllib.loads(promises), titles_of(promises))
    made = {f"performance/issue-{issue.number}.svg": promise_chart(issue) for issue in found if issue.rows}
    parts = [_head(machine), promise_section(found), *_remarks(latest, machine)]
    grown = growths(growth["measurements"]) if growth is not None else []
    if growth is not None and grown:
        made["performance/growth-time.svg"] = time_chart(grown)
        made["performance/growth-memory.svg"] = memory_chart(grown)
        parts.append(growth_section(grown, growth))
        rates = rates_of(grown, latest)
        if rates is not None:
            parts.append(cluster_section(rates))
    made[PAGE] = "\n\n".join(part.strip() for part in parts) + "\n"
    return made


def _head(machine: Mapping[str, Any]) -> str:
    return "\n\n".join(
        [
            "# Performance",
            paragraph(
                "Every figure on this page is read from `bench/results/` by `python -m bench.page`; none is typed in. "
                "[Benchmarks](benchmarks.md) tells what is measured, against whom, and how it is kept fair; [profiles](profiles.md) where "
                "the time goes."
            ),
            paragraph(
                f"Measured {machine['measured_at'][:10]} at commit `{machine['commit']}`: {machine['processor']}, {machine['cores']} "
                "cores, "
                f"{machine['memory_bytes'] / 2**30:.0f} GiB of memory, {machine['system']}, {machine['python']}, "
                f"tidelog {machine['packages']['tidelog']}. Two threads of hashing were {machine['two_threads_of_sha256']} times as fast "
                "as one."
            ),
        ]
    )


def _remarks(latest: Sequence[Mapping[str, Any]], machine: Mapping[str, Any]) -> list[str]:
    """What sets rows apart from the one run that the page is about."""
    anew = [f"`{name}` (`{commit}`)" for name, commit in sorted(machine.get("measured_anew", {}).items())]
    twice = [f"`{entry['name']}`" for entry in latest if entry.get("extra", {}).get("times", 1) > 1]
    failed = [f"`{entry['name']}` ({entry['error']})" for entry in latest if "error" in entry]
    said = (
        ("Measured by themselves after that run, since the benchmark or what it measures had changed, with the commit of each: ", anew),
        ("Within a tenth of their promise on either side, so measured a second time, and here with all samples of both: ", twice),
        ("A side did not run, or did other work than the other: ", failed),
    )
    return [paragraph(f"{what}{', '.join(names)}.") for what, names in said if names]


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())

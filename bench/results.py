"""What a run leaves: a table on the screen, results as JSON, and beside them the facts of the machine.

Reproduce: `.venv/bin/python -m bench`, then `bench/results/latest.json`
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.jobs import Job
from bench.jvm import ROOT
from bench.timing import Measurement

FOLDER = ROOT / "bench" / "results"

NARROW = 0.1

Result = dict[str, Any]


def result_of(job: Job, measured: Measurement) -> Result:
    """One entry of the JSON."""
    ratio = measured.ours / measured.peer
    return {
        "name": job.name,
        "ours": _figures(measured.ours),
        "peer": _figures(measured.peer),
        "unit": job.unit,
        "ratio": ratio,
        "promise": job.promise,
        "kept": job.is_kept(ratio),
        "ours_samples": [_figures(sample) for sample in measured.ours_samples],
        "peer_samples": [_figures(sample) for sample in measured.peer_samples],
        "peer_version": measured.peer_version,
        "command": command_of(job),
        **({"extra": measured.extra} if measured.extra else {}),
    }


def is_narrow(result: Result) -> bool:
    """Whether a row is so near its promise, on either side, that as many samples again may change what it says."""
    bound = float(result["promise"].split()[1])
    return result["ratio"] is not None and abs(result["ratio"] / bound - 1) <= NARROW


def pooled(job: Job, before: Result, again: Measurement) -> Result:
    """The entry of a promise that was measured twice: by all samples of both times."""
    ours, peer = [*before["ours_samples"], *again.ours_samples], [*before["peer_samples"], *again.peer_samples]
    return result_of(job, Measurement(ours, peer, again.peer_version, {**before.get("extra", {}), **again.extra, "times": 2.0}))


def failed(job: Job, error: Exception) -> Result:
    """The entry of a promise whose sides, or one of them, did not run: it is not kept."""
    return {
        "name": job.name,
        "ours": None,
        "peer": None,
        "unit": job.unit,
        "ratio": None,
        "promise": job.promise,
        "kept": False,
        "ours_samples": [],
        "peer_samples": [],
        "peer_version": "did not run",
        "command": command_of(job),
        "error": f"{type(error).__name__}: {error}".partition("\n")[0],
    }


def command_of(job: Job) -> str:
    """What measures this promise alone."""
    return f".venv/bin/python -m bench --only {job.name}"


def table(results: list[Result]) -> str:
    """For people."""
    rows = [("promise", "ours", "peer", "unit", "ratio", "spread", "promised", "", "peer is")]
    for result in results:
        rows.append(
            (
                result["name"],
                _short(result["ours"]),
                _short(result["peer"]),
                result["unit"],
                "-" if result["ratio"] is None else f"{result['ratio']:.2f}",
                _spread(result),
                result["promise"],
                "kept" if result["kept"] else "BROKEN",
                result["peer_version"],
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    numbers = (1, 2, 4, 5)
    lines = [
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def write(name: str, results: list[Result], facts: dict[str, Any]) -> Path:
    """Keep the results, and the machine's facts beside them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps(results, indent=2) + "\n")
    _machine(name).write_text(json.dumps(facts, indent=2) + "\n")
    return path


def latest() -> tuple[list[Result], dict[str, Any]]:
    """The last whole run, and the machine that it was on."""
    rows, facts = (json.loads(path.read_text()) for path in (FOLDER / "latest.json", _machine("latest")))
    return rows, facts


def remove(name: str) -> None:
    """Forget the results of that name."""
    (FOLDER / f"{name}.json").unlink(missing_ok=True)
    _machine(name).unlink(missing_ok=True)


def _machine(name: str) -> Path:
    return FOLDER / ("machine.json" if name == "latest" else f"{name}-machine.json")


def spread(result: Mapping[str, Any]) -> tuple[float, float]:
    """The lowest and the highest ratio that samples of both sides give. The ratio is among them, also where samples were rounded."""
    ours, peer, ratio = result["ours_samples"], result["peer_samples"], float(result["ratio"])
    return min(ratio, min(ours) / max(peer)), max(ratio, max(ours) / min(peer)) if min(peer) else ratio


def _spread(result: Result) -> str:
    return "-" if result["ratio"] is None else "{:.2f} to {:.2f}".format(*spread(result))


def _figures(number: float) -> float:
    """Whole where that is exact enough; a small one, as milliseconds are, with four figures, so that samples tell their own ratio."""
    return round(number) if abs(number) >= 1000 else float(f"{number:.4g}")


def _short(number: float | None) -> str:
    if number is None:
        return "-"
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.2f} {suffix}"
    return f"{number:.0f}"

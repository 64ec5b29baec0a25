"""docs/performance.md is what the kept runs give, and says of each promise whether it was kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench import page
from bench.growth_fit import growths
from bench.jvm import ROOT
from bench.page_cluster import EXECUTORS, TOTAL_BYTES, Cluster, Rates, entry_files_opened, estimates
from bench.page_cluster_text import rates_of
from bench.page_readme import figures, with_figures
from bench.page_rows import issues, row_of, titles_of
from bench.page_text import paragraph, short, span, times

PROMISES = """
[issue-1] # The first
1-one = ">= 2"
1-two = ">= 2"
[issue-2] # The second
2-append-durable-1 = ">= 1"
"""
MACHINE: dict[str, Any] = {
    "measured_at": "2026-01-31T10:00:00+00:00",
    "commit": "abc",
    "processor": "fast",
    "cores": 2,
    "memory_bytes": 1 << 34,
    "system": "Linux",
    "python": "CPython",
    "packages": {"tidelog": "1"},
    "two_threads_of_sha256": 2.0,
    "load_average": [0.5, 1.0, 2.0],
}
GIBIBYTE = 1 << 30


def entry(name: str, ratio: float = 3.0, promise: str = ">= 2", **more: Any) -> dict[str, Any]:
    ours = [round(1000 * ratio * swing) for swing in (0.9, 1, 1.1)]
    kept = ratio >= float(promise.split()[1])
    found = {"name": name, "ours": ours[1], "peer": 1000, "unit": "records/s", "ratio": ratio, "promise": promise, "kept": kept}
    return {**found, "ours_samples": ours, "peer_samples": [800, 1000, 1250], "peer_version": "peer 1", **more}


def measured(job: str, size: int, seconds: float, **more: int) -> dict[str, Any]:
    memory = {"python_bytes": 10**8, "worker_bytes": 0, "jvm_bytes": 0, **more}
    return {"job": job, "size_bytes": size, "bytes": size, "seconds": [seconds, seconds * 0.9, seconds * 1.2], **memory}


def test_the_committed_page_and_drawings_are_what_the_kept_runs_give() -> None:
    """Otherwise: `.venv/bin/python -m bench.page`."""
    made = page.files()
    folder = page.DOCS / "performance"
    assert {f"performance/{path.name}" for path in folder.glob("*.svg")} == set(made) - {page.PAGE, page.README}
    assert [name for name, text in made.items() if (page.DOCS / name).read_text() != text] == []


def test_a_promise_that_is_not_kept_or_was_not_measured_is_printed_as_such() -> None:
    text = page.rendered([entry("1-one", 1.5), entry("2-append-durable-1")], MACHINE, None, PROMISES)[page.PAGE]
    assert "**1 of 3 promises are kept**, 1 are not, and 1 were not measured" in text
    (line,) = [line for line in text.splitlines() if line.startswith("| `1-one`")]
    assert line == "| `1-one` | 1.50 k | 1.00 k | records/s | 1.50 | 1.08 – 2.06 | >= 2 | **not kept** | peer 1 |"
    assert "Not measured in this run: `1-two` (>= 2)." in text


def test_rows_that_are_not_of_the_one_run_are_named() -> None:
    failed = {**entry("1-two"), "ours": None, "peer": None, "ratio": None, "kept": False, "error": "OSError: no broker"}
    latest = [entry("1-one", extra={"times": 2.0}), failed, entry("2-append-durable-1", extra={"seconds": 3.0})]
    text = page.rendered(latest, {**MACHINE, "measured_anew": {"1-one": "def"}}, None, PROMISES)[page.PAGE].replace("\n", " ")
    assert "with the commit of each: `1-one` (`def`)." in text
    assert "with all samples of both: `1-one`." in text
    assert "other work than the other: `1-two` (OSError: no broker)." in text
    assert "with the commit of each" not in page.rendered([entry("1-one")], MACHINE, None, PROMISES)[page.PAGE]


def test_the_readme_tells_which_of_its_rows_are_not_of_the_one_run() -> None:
    latest = [entry("5-append-durable-sqlite"), entry("8-write-connector", 2.6)]
    machine = {**MACHINE, "measured_anew": {"8-write-connector": "def", "9-compact-10000-segments": "abc"}}
    text = figures(latest, machine).replace("\n", " ")
    assert "One run of `make bench`" in text
    assert 'but for "Spark, write of 4 M rows, durable", measured by itself after it;' in text
    assert "but for" not in figures(latest, MACHINE)


def test_the_readme_tells_a_ratio_that_is_below_its_promise_as_such() -> None:
    text = figures([entry("6-compact-s-100k", 7.0), entry("6-compact-s-4m", 3.0, ">= 4"), entry("2-append-leader-runs", 2.1)], MACHINE)
    assert "| log compaction, 100 k keys; 4 M | Kafka's own `Cleaner` | 7.00; 3.00 (promised >= 4) |" in text
    assert "DuckDB" not in text  # not measured, not told
    with pytest.raises(ValueError, match="no place for figures"):
        with_figures("# Tidelog", text)


def test_each_issue_with_rows_has_a_drawing_that_the_page_shows() -> None:
    made = page.rendered([entry("2-append-durable-1")], MACHINE, None, PROMISES)
    assert set(made) == {page.PAGE, "performance/issue-2.svg"}
    assert "](performance/issue-2.svg)" in made[page.PAGE]
    assert "issue-1.svg" not in made[page.PAGE]


def test_a_spread_holds_the_ratio_even_where_samples_were_rounded_to_nothing() -> None:
    row = row_of(entry("1-one", 0.4, ours_samples=[0, 0], peer_samples=[1, 1]))
    assert row.lowest <= row.ratio <= row.highest


def test_titles_come_from_the_remarks_of_the_list() -> None:
    assert titles_of(PROMISES) == {"1": "The first", "2": "The second"}
    found = issues([entry("1-two")], {"issue-1": {"1-one": ">= 2", "1-two": ">= 2"}}, {"1": "The first"})
    assert [(issue.number, [row.name for row in issue.rows], issue.missing) for issue in found] == [("1", ["1-two"], (("1-one", ">= 2"),))]


def test_growth_tells_linear_from_what_is_not_and_flat_from_what_is_not() -> None:
    small, large = GIBIBYTE // 16, 4 * GIBIBYTE
    found = growths(
        [
            measured("scan", large, 4.0),
            measured("scan", small, 1 / 16),
            measured("slow", small, 1 / 16),
            measured("slow", large, 5.2, python_bytes=130_000_000),
            measured("spark", small, 1.0, worker_bytes=100, python_bytes=100),
            measured("spark", large, 4.0, worker_bytes=119, python_bytes=900),
            measured("keys", small, 0.1, python_bytes=100),
            measured("keys", 4 * small, 0.4, python_bytes=200),
            measured("keys", large, 6.4, python_bytes=220),
        ]
    )
    assert [(growth.job, growth.is_linear, growth.is_flat) for growth in found] == [
        ("scan", True, True),
        ("slow", False, False),
        ("spark", True, True),
        ("keys", True, True),
    ]
    assert found[0].points[0].seconds_per_gibibyte == pytest.approx(1.0)
    assert found[0].time_ratio == pytest.approx(1.0)


def test_what_costs_the_same_at_any_size_does_not_hide_that_the_rest_grows_faster() -> None:
    sizes = (GIBIBYTE // 16, GIBIBYTE, 4 * GIBIBYTE)
    (fixed,) = growths([measured("fixed", size, 1.0 + size / GIBIBYTE) for size in sizes])
    assert fixed.is_linear
    (square,) = growths([measured("square", size, 1.0 + (size / GIBIBYTE) ** 2) for size in sizes])
    assert square.points[-1].seconds_per_gibibyte < square.points[0].seconds_per_gibibyte
    assert not square.is_linear


def test_measurements_of_several_commits_are_told_with_all_of_them() -> None:
    measurements = [{**measured("append", GIBIBYTE, 1.0), "commit": "def"}, measured("append", 1 << 20, 1.0)]
    kept = {"machine": MACHINE, "keys": 1000, "measurements": measurements}
    text = page.rendered([entry("1-one")], MACHINE, kept, PROMISES)[page.PAGE]
    assert "commit `def`, `abc`, 2 cores" in text.replace("\n", " ")


def test_growth_and_cluster_are_on_the_page_with_their_sources() -> None:
    jobs = ("append", "scan-arrow", "verify-spark", "compact-spark")
    kept: dict[str, Any] = {"machine": MACHINE, "keys": 1000, "measurements": [measured(job, GIBIBYTE, 1.0) for job in jobs]}
    made = page.rendered([entry("2-append-durable-1", 5.0, ">= 1")], MACHINE, kept, PROMISES)
    text = made[page.PAGE]
    assert "| `append` | 1.00 (0.90 – 1.20) | 1.00 | linear |" in text
    assert "a load average of 0.5 as it began" in text.replace("\n", " ")
    assert "| a sync 0.20 ms | `2-append-durable-1`: one batch and its sync |" in text
    assert "compact 1.07 GB/s on 2 cores | `compact-spark` at 1 GiB" in text
    assert {"performance/growth-time.svg", "performance/growth-memory.svg"} < set(made)
    many_keys = entry("9-compact-16m-keys", ours=500_000_000)
    rates = rates_of(growths(kept["measurements"]), [entry("2-append-durable-1"), many_keys])
    assert rates is not None
    assert rates.compact == 250_000_000
    assert rates_of(growths(kept["measurements"][:1]), [entry("2-append-durable-1")]) is None


def test_the_slowest_part_of_a_cluster_is_named() -> None:
    rates = Rates(verify=1e9, scan=1e8, compact=1e9, sync_s=0.0004, sources=())
    found = {(one.job, one.executors): one for one in estimates(rates, Cluster(cores=8, network_bytes=1e9, storage_bytes=20e9))}
    few, many = EXECUTORS[0], EXECUTORS[-1]
    assert found["verify", few].seconds == pytest.approx(TOTAL_BYTES / (few * 1e9))
    assert found["verify", few].bottleneck == "the executors' network"
    assert found["verify", many].bottleneck == "the shared storage"
    assert found["scan to Arrow", few].bottleneck == "the cores"
    compact = found["compact", few]
    assert compact.driver_s == pytest.approx(TOTAL_BYTES / GIBIBYTE * 4 * 0.0004)
    assert compact.seconds == pytest.approx(compact.network_s + compact.driver_s)
    assert compact.network_s > 2.5 * found["verify", few].network_s
    slow_sync = estimates(Rates(1e9, 1e9, 1e9, 1.0, ()), Cluster())[-1]
    assert slow_sync.bottleneck == "the driver's commit"


def test_buckets_ask_pieces_so_one_huge_partition_costs_the_square() -> None:
    assert entry_files_opened(100) / entry_files_opened(1000) == pytest.approx(10, rel=0.05)


def test_check_says_what_is_stale_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {page.PAGE: "text", "performance/issue-1.svg": "<svg/>"}
    monkeypatch.setattr(page, "DOCS", tmp_path)
    monkeypatch.setattr(page, "files", lambda: made)
    monkeypatch.setattr("sys.argv", ["bench.page", "--check"])
    assert page.main() == 1
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("sys.argv", ["bench.page"])
    assert page.main() == 0
    (tmp_path / "performance" / "issue-9.svg").write_text("of an issue that is gone")
    monkeypatch.setattr("sys.argv", ["bench.page", "--check"])
    assert page.main() == 1
    assert "issue-9.svg" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["bench.page"])
    assert page.main() == 0
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["issue-1.svg", page.PAGE]


def test_numbers_as_people_read_them() -> None:
    assert [short(number) for number in (15, 1500, 57_912_917, 9.33e9)] == ["15", "1.50 k", "57.9 M", "9.33 G"]
    assert [times(number) for number in (0.102, 8.061, 12.34, 456.7)] == ["0.10", "8.06", "12.3", "457"]
    assert [span(seconds) for seconds in (14, 2000, 9000)] == ["14 s", "33 min", "2.5 h"]


def test_paragraphs_keep_names_whole() -> None:
    text = paragraph("word " * 27 + "`a-name-with-hyphens-that-stays`")
    assert text.splitlines()[-1] == "`a-name-with-hyphens-that-stays`"


def test_the_same_runs_give_the_same_bytes() -> None:
    latest = json.loads((ROOT / "bench" / "results" / "latest.json").read_text())
    promises = (ROOT / "bench" / "promises.toml").read_text()
    first, second = (page.rendered(latest, MACHINE, None, promises) for _ in range(2))
    assert first == second
    latest[0]["ratio"] += 1
    assert page.rendered(latest, MACHINE, None, promises) != first

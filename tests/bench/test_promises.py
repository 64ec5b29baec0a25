"""What `make bench` measures is what was promised, row by row."""

import json
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from bench.__main__ import JOBS, chosen

ROOT = Path(__file__).parents[2]
PROMISES = {
    name: (issue, promise)
    for issue, rows in tomllib.loads((ROOT / "bench" / "promises.toml").read_text()).items()
    for name, promise in rows.items()
}


def test_each_promise_has_one_row() -> None:
    assert {name: count for name, count in Counter(job.name for job in JOBS).items() if count > 1} == {}
    assert {job.name: job.promise for job in JOBS} == {name: promise for name, (_, promise) in PROMISES.items()}


def test_rows_are_named_by_their_issue() -> None:
    assert [name for name, (issue, _) in PROMISES.items() if not name.startswith(issue.removeprefix("issue-") + "-")] == []


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_ratio_at_the_bound_keeps_a_promise_and_one_beyond_does_not(job: object) -> None:
    (found,) = [one for one in JOBS if one is job]
    relation, bound = found.promise.split()
    beyond = -0.001 if relation == ">=" else 0.001
    assert found.is_kept(float(bound))
    assert not found.is_kept(float(bound) + beyond)


def test_the_kept_run_has_every_promise_and_says_of_each_whether_it_was_kept() -> None:
    kept = json.loads((ROOT / "bench" / "results" / "latest.json").read_text())
    assert {row["name"]: row["promise"] for row in kept} == {name: promise for name, (_, promise) in PROMISES.items()}
    for row in kept:
        (job,) = [one for one in JOBS if one.name == row["name"]]
        if "error" in row:
            assert row["kept"] is False
            continue
        assert row["kept"] == job.is_kept(row["ratio"])
        assert row["ours_samples"]
        assert row["peer_samples"]
        assert row["peer_version"]
        assert row["command"].endswith(f"--only {row['name']}")


def test_a_name_chooses_its_promise_and_no_other() -> None:
    assert [job.name for job in chosen("2-append-durable-1")] == ["2-append-durable-1"]
    assert [job.name for job in chosen("2-append-durable")] == ["2-append-durable-1", "2-append-durable-16"]
    assert chosen(None) == JOBS

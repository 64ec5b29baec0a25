"""What `make bench` measures is what was promised, row by row."""

import json
import sys
import tomllib
from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from bench import __main__ as command
from bench import machine, results
from bench.__main__ import JOBS, chosen
from bench.jobs import Job
from bench.timing import Measurement

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
        assert row["ratio"] == pytest.approx(median(row["ours_samples"]) / median(row["peer_samples"]), rel=0.04)  # samples are rounded
        assert row["peer_version"]
        assert row["command"].endswith(f"--only {row['name']}")


def test_a_name_chooses_its_promise_and_no_other() -> None:
    assert [job.name for job in chosen("2-append-durable-1")] == ["2-append-durable-1"]
    assert [job.name for job in chosen("2-append-durable")] == ["2-append-durable-1", "2-append-durable-16"]
    assert chosen(None) == JOBS


@pytest.mark.parametrize("option", ["--again", "--anew", "--quick"])
def test_no_row_is_measured_with_a_side_that_is_less_than_it_could_be(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "kernel_mode", lambda: "interpreted")
    monkeypatch.setattr(command, "Inputs", None)  # nothing is measured
    monkeypatch.setattr(sys, "argv", ["bench", "--only", "1-import", option])
    assert command.main() == 2
    assert "interpreted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"), [(["--anew"], "rows that --only names"), (["--anew", "--only", "1-none"], "no promise matches")]
)
def test_rows_are_measured_anew_by_name_alone(
    given: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_measure_anew", None)
    monkeypatch.setattr(sys, "argv", ["bench", *given])
    assert command.main() == 2
    assert said in capsys.readouterr().err


def test_a_side_that_fails_again_is_the_rows_error_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(_inputs: object, _pace: object) -> Measurement:
        raise OSError("no broker")

    def measures(_inputs: object, _pace: object) -> Measurement:
        return Measurement([2.1], [1.0], "peer")

    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(machine, "commit", lambda: "abc")
    jobs = [Job("1-one", ">= 2", "ms", fails), Job("1-two", ">= 2", "ms", measures)]
    results.write("latest", [results.result_of(job, Measurement([2.1], [1.0], "peer")) for job in jobs], {"commit": "abc"})
    assert command._measure_again(jobs) == 1
    one, two = results.latest()[0]
    assert (one["kept"], one["ratio"], one["error"]) == (False, None, "OSError: no broker")
    assert two["ours_samples"] == [2.1, 2.1]


def test_a_row_measured_anew_stands_with_its_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    job = Job("1-one", ">= 2", "ms", lambda _inputs, _pace: Measurement([4.0], [1.0], "peer"))
    old = {**results.failed(job, OSError("none")), "ratio": None}
    results.write("latest", [old, {**old, "name": "1-two"}], {"commit": "abc", "measured_anew": {"1-two": "def"}})
    monkeypatch.setattr(machine, "commit", lambda: "123")
    assert command._measure_anew([job]) == 1
    rows, facts = results.latest()
    assert [row["ratio"] for row in rows] == [4.0, None]
    assert facts == {"commit": "abc", "measured_anew": {"1-one": "123", "1-two": "def"}}

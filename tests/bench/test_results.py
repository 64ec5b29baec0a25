"""What a row of the results says, also when its peer did not run."""

from typing import Any, cast

from bench import results
from bench.jobs import Job
from bench.timing import Measurement


def _job() -> Job:
    return Job("2-append-leader-runs", ">= 2", "batches/s", cast("Any", None))


def test_a_row_keeps_the_samples_of_both_sides_the_peers_version_and_the_command() -> None:
    row = results.result_of(_job(), Measurement([4.0, 5.0, 9.0], [2.0, 2.0, 1.0], "Kafka 4.2.0"))
    assert (row["ours"], row["peer"], row["ratio"], row["kept"]) == (5.0, 2.0, 2.5, True)
    assert (row["ours_samples"], row["peer_samples"], row["peer_version"]) == ([4, 5, 9], [2, 2, 1], "Kafka 4.2.0")
    assert row["command"] == ".venv/bin/python -m bench --only 2-append-leader-runs"


def test_a_row_is_kept_by_its_medians_alone() -> None:
    assert not results.result_of(_job(), Measurement([1.0, 3.0, 100.0], [2.0, 2.0, 2.0], "Kafka 4.2.0"))["kept"]


def test_small_figures_are_not_rounded_to_another_ratio() -> None:
    row = results.result_of(_job(), Measurement([12.61, 12.4, 13.44], [150.0], "a bound"))
    assert (row["ours"], row["ours_samples"]) == (12.61, [12.61, 12.4, 13.44])
    assert results.result_of(_job(), Measurement([123456.7], [1.5], "Kafka 4.2.0"))["ours"] == 123457


def test_a_row_whose_peer_did_not_run_is_not_kept_and_says_why() -> None:
    row = results.failed(_job(), OSError("no broker\nand more"))
    assert (row["kept"], row["ratio"], row["peer_samples"], row["error"]) == (False, None, [], "OSError: no broker")
    assert "BROKEN" in results.table([row])


def test_a_row_near_its_promise_is_narrow_on_either_side_and_has_all_samples_of_two_times() -> None:
    rows = [results.result_of(_job(), Measurement([ours], [100.0], "Kafka 4.2.0")) for ours in (170.0, 185.0, 215.0, 230.0)]
    assert [results.is_narrow(row) for row in rows] == [False, True, True, False]
    assert not results.is_narrow(results.failed(_job(), OSError("no broker")))
    again = results.pooled(_job(), rows[1], Measurement([215.0, 225.0], [100.0, 102.0], "Kafka 4.2.0"))
    assert (again["ours_samples"], again["peer_samples"]) == ([185, 215, 225], [100, 100, 102])
    assert (again["ratio"], again["kept"]) == (2.15, True)

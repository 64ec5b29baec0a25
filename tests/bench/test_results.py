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


def test_a_row_whose_peer_did_not_run_is_not_kept_and_says_why() -> None:
    row = results.failed(_job(), OSError("no broker\nand more"))
    assert (row["kept"], row["ratio"], row["peer_samples"], row["error"]) == (False, None, [], "OSError: no broker")
    assert "BROKEN" in results.table([row])

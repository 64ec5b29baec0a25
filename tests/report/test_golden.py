"""Reports of directories that a real Kafka wrote: what they say is what Kafka said, and nothing in them changes."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.commands import objects
from tests.cli.test_read_only import facts as files_of
from tests.report.support import made
from tests.support.golden import GOLDEN
from tests.support.golden_partitions import golden_cases, load_case
from tidelog.store import ReadOnlyStore

BROKER = GOLDEN / "broker" / "data"
NOW_MS = 1_577_900_000_000


@pytest.mark.parametrize("options", [(), ("--records",)], ids=["headers", "records"])
def test_a_brokers_directory(options: tuple[str, ...], tmp_path: Path) -> None:
    before = files_of(GOLDEN / "broker")
    page = made(BROKER, tmp_path / "broker.html", "--now", f"@{NOW_MS}", *options)
    assert files_of(GOLDEN / "broker") == before
    told, expected = page.facts, json.loads((BROKER.parent / "expected.json").read_text())["topics"]
    assert (told["kind"], told["soundness"]["errors"]) == ("broker", 0)
    assert {topic["topic"]: topic["partitions"] for topic in told["topics"]} == {name: one["partitions"] for name, one in expected.items()}
    for topic in told["topics"]:
        written = expected[topic["topic"]]["config"]
        assert {name: value for name, value in topic["settings"].items() if name in written} == {
            name: value for name, value in written.items() if name in topic["settings"]
        }
        assert topic["settings_from"] == "__cluster_metadata"
        assert topic["is_assumed"]
    assert any("taken for Kafka's defaults" in text for text in page.texts)
    with ReadOnlyStore.open(BROKER) as store:
        for one in store.explain(now_ms=NOW_MS).partitions:
            [shown] = [each for each in told["partitions"] if (each["topic"], each["partition"]) == one.partition]
            assert [(s["base_offset"], s["goes_by"], s["when_ms"]) for s in shown["strata"]] == [
                (s.segment.base_offset, s.goes_by, s.when_ms) for s in one.segments
            ]


def test_what_is_given_and_what_is_written_down_together_are_no_assumption() -> None:
    [told] = objects("-q", "report", BROKER, "--config", "cleanup.policy=delete", "--config", "retention.bytes=-1", "--now", f"@{NOW_MS}")
    assert {topic["topic"]: topic["is_assumed"] for topic in told["topics"]} == {
        "again": True, "emails": False, "plain": True, "profiles": True,
    }  # fmt: skip


def test_every_golden_partition(tmp_path: Path) -> None:
    """A hundred logs side by side: old formats, all codecs, transactions, cut and reopened ones; segments and sizes are Kafka's."""
    home, states = tmp_path / "all", {}
    home.mkdir()
    for number, folder in enumerate(golden_cases("partitions")):
        told = [step for step in load_case(folder)["steps"] if "segment_bases" in step]
        if (folder / "closed").is_dir() and told and not any(step["op"] == "close" for step in load_case(folder)["steps"]):
            shutil.copytree(folder / "closed", home / f"tide-{number}")
            states[number] = told[-1]
    done = made(home, tmp_path / "all.html", "--now", "@1700000000000", "--records")
    shown = {one["partition"]: one for one in done.facts["partitions"]}
    assert shown.keys() == states.keys()
    assert len(states) > 60
    for number, state in states.items():
        strata = shown[number]["strata"]
        assert [one["base_offset"] for one in strata] == state["segment_bases"], number
        assert [one["size_bytes"] for one in strata] == state["sizes"], number
        if shown[number]["findings"] == 0:
            assert shown[number]["log_end_offset"] == state["log_end_offset"], number
    assert sum(one["findings"] > 0 for one in shown.values()) < 30
    assert done.facts["topics"][0]["magics"].keys() == {"0", "1", "2"}
    assert done.facts["topics"][0]["codecs"].keys() == {"none", "gzip", "snappy", "lz4", "zstd"}

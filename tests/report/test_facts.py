"""The facts of a report are those of the store: of explain, stats and verify, and of its records, counted plainly."""

import json
import shutil
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.cli.commands import objects
from tests.report.support import made
from tests.report_check.sample_store import DAY_MS, NOW_MS, build_sample
from tests.support.small_stores import open_store
from tidelog.inspection import SegmentStats, stats, verify_log_directory
from tidelog.inspection.stats import piece_stats
from tidelog.log.read_only import ReadOnlyLog
from tidelog.log.segment_piece import SegmentPiece
from tidelog.store import ReadOnlyStore

NOW = f"@{NOW_MS}"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with all ways for data to go."""
    path = tmp_path_factory.mktemp("sample") / "shop"
    build_sample(path, days=10, scale=0.1)
    return path


@pytest.fixture(scope="module")
def facts(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the page says when all records are read."""
    return made(sample, tmp_path_factory.mktemp("page") / "shop.html", "--records", "--now", NOW).facts


def partitions_of(facts: dict[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    return {(one["topic"], one["partition"]): one for one in facts["partitions"]}


def topics_of(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["topic"]: one for one in facts["topics"]}


def power(number: int) -> str:
    """The power of two below."""
    return str(1 << number.bit_length() - 1 if number else 0)


def test_strata_are_what_explain_says(sample: Path, facts: dict[str, Any]) -> None:
    with ReadOnlyStore.open(sample) as store:
        explained = store.explain(now_ms=NOW_MS)
        assert len(explained.partitions) == len(facts["partitions"]) == 16
        for one in explained.partitions:
            told, log = partitions_of(facts)[one.partition], store.log(*one.partition)
            assert (told["log_start_offset"], told["log_end_offset"]) == (log.log_start_offset, log.log_end_offset)
            assert told["left_alone"] is one.left_alone is None
            said = [
                (s["base_offset"], s["end_offset"], s["size_bytes"], s["is_active"], s["goes_by"], s["when_ms"], s["after_bytes"], s["why"])
                for s in told["strata"]
            ]
            assert said == [(*s.segment[:3], s.segment.is_active, s.goes_by, s.when_ms, s.after_bytes, s.why) for s in one.segments]
            assert one.cleaning is not None
            if told["cleaning"] is not None:
                assert told["cleaning"]["why"] == one.cleaning.why
                assert told["cleaning"]["dirty_ratio"] == one.cleaning.dirty_ratio
                first_dirty = one.cleaning.first_dirty_offset
                assert [s["is_dirty"] for s in told["strata"]] == [
                    s["end_offset"] > first_dirty and s["size_bytes"] > 0 for s in told["strata"]
                ]
            else:
                assert {s["is_dirty"] for s in told["strata"]} == {None}
    seen = {s["fate"] for one in facts["partitions"] for s in one["strata"]}
    assert seen >= {"size", "compacted", "kept", "month", "later"}


def test_fates_by_the_clock(sample: Path) -> None:
    """The same store, looked at later and later: what was `later` is `month`, `week`, `day`, and then goes."""
    seen = []
    for days in (-5, 0, 15, 21, 26.5, 60):
        [told] = objects("-q", "report", sample / "orders-0", "--now", f"@{NOW_MS + int(days * DAY_MS)}")
        fates = {one["fate"] for one in told["partitions"][0]["strata"] if one["size_bytes"]}
        seen.append(fates)
        for one in told["partitions"][0]["strata"]:
            left = None if one["when_ms"] is None else one["when_ms"] - told["now_ms"]
            if one["goes_by"] is not None:
                assert one["fate"] == "now"
            elif one["size_bytes"]:
                assert left is not None
                limits = {"day": (0, 1), "week": (1, 7), "month": (7, 30), "later": (30, 10**6)}[one["fate"]]
                assert limits[0] * DAY_MS < left <= limits[1] * DAY_MS
    assert "later" in seen[0]
    assert set().union(*seen) == {"now", "day", "week", "month", "later"}
    assert seen[-1] == {"now"}


def test_figures_are_those_of_stats(sample: Path, facts: dict[str, Any]) -> None:
    for (topic, partition), told in partitions_of(facts).items():
        figures = {one.base_offset: one for one in stats(sample / f"{topic}-{partition}", records=True)}
        assert {s["base_offset"] for s in told["strata"]} == set(figures)
        for s in told["strata"]:
            one = figures[s["base_offset"]]
            assert (s["records"], s["batches"], s["tombstones"], s["damaged_bytes"]) == (one.records, one.batches, one.tombstones, 0)
            assert (s["first_timestamp_ms"], s["last_timestamp_ms"]) == (one.first_timestamp_ms, one.last_timestamp_ms)
    files = list(sample.glob("*/*.log"))
    assert facts["totals"]["segments"] == len(files) == sum(fate["segments"] for fate in facts["fates"])
    sizes = sum(file.stat().st_size for file in files)
    assert facts["totals"]["size_bytes"] == sizes == sum(fate["size_bytes"] for fate in facts["fates"])


def test_sums_and_distributions_are_those_of_the_records(sample: Path, facts: dict[str, Any]) -> None:
    with tidelog.open(sample, mode="r") as store:
        for topic, told in topics_of(facts).items():
            records = list(store.topic(topic).read())
            keys = Counter(record.key for record in records)
            assert told["records"] == len(records) > 0
            assert told["keys"]["tombstones"] == sum(record.value is None for record in records)
            assert told["keys"]["distinct"] == pytest.approx(len(keys), rel=0.05)
            assert told["keys"]["records_per_key"] == Counter(map(power, keys.values()))
            assert [one["records"] for one in told["keys"]["hottest"]] == [number for _, number in keys.most_common(8) if number > 1]
            assert all(keys[one["key"].encode()] == one["records"] for one in told["keys"]["hottest"])
            assert told["key_sizes"] == Counter(power(len(record.key or b"")) for record in records)
            assert told["value_sizes"] == Counter(power(len(record.value)) for record in records if record.value is not None)
            assert (told["first_timestamp_ms"], told["last_timestamp_ms"]) == (
                min(record.timestamp_ms for record in records), max(record.timestamp_ms for record in records),
            )  # fmt: skip
    assert facts["totals"]["records"] == sum(told["records"] for told in facts["topics"])
    assert sum(told["keys"]["tombstones"] for told in facts["topics"]) == facts["totals"]["tombstones"] > 0
    throughput = facts["throughput"]
    assert sum(sum(one["records"]) for one in throughput["series"]) == facts["totals"]["records"]
    assert sum(sum(one["size_bytes"]) for one in throughput["series"]) == facts["totals"]["size_bytes"]
    assert (throughput["outside_records"], throughput["untimed_records"]) == (0, 0)


def test_what_if_is_that_of_the_store(sample: Path, facts: dict[str, Any]) -> None:
    asked = 0
    with ReadOnlyStore.open(sample) as store:
        for topic, told in topics_of(facts).items():
            for one in told["what_if"]:
                [row] = store.what_if(topic, [one["config"]], now_ms=NOW_MS).rows
                assert (one["segments"], one["size_bytes"], one["left_bytes"]) == (row.segments, row.size_bytes, row.left_bytes)
                asked += 1
            assert bool(told["what_if"]) == ("delete" in told["cleanup_policy"])
    assert asked == 12


def test_settings_and_where_they_are_from(facts: dict[str, Any]) -> None:
    orders, customers = topics_of(facts)["orders"], topics_of(facts)["customers"]
    assert (orders["settings"]["retention.ms"], orders["settings_from"], orders["is_assumed"]) == (str(27 * DAY_MS), "tidelog.json", False)
    assert (customers["cleanup_policy"], customers["settings"]["delete.retention.ms"]) == ("compact", str(2 * DAY_MS))
    assert (facts["kind"], facts["reads"], facts["now_ms"]) == ("store", "records", NOW_MS)


def test_json_and_page_have_the_same_facts(sample: Path, facts: dict[str, Any]) -> None:
    [told] = objects("-q", "report", sample, "--records", "--now", NOW)
    assert {**told, "totals": {**told["totals"], "free_bytes": 0}} == {**facts, "totals": {**facts["totals"], "free_bytes": 0}}


def test_without_records_what_only_they_tell_is_null(sample: Path, facts: dict[str, Any], tmp_path: Path) -> None:
    page = made(sample, tmp_path / "page.html", "--now", NOW)
    told = page.facts
    assert (told["reads"], told["totals"]["tombstones"], told["soundness"]["level"]) == ("headers", None, "headers")
    assert {s["tombstones"] for one in told["partitions"] for s in one["strata"]} == {None}
    assert all(topic["keys"] is topic["key_sizes"] is topic["value_sizes"] is None for topic in told["topics"])
    assert told["totals"]["records"] == facts["totals"]["records"]
    assert [topic["batch_sizes"] for topic in told["topics"]] == [topic["batch_sizes"] for topic in facts["topics"]]
    assert any("--records reads all" in text for text in page.texts)


@pytest.mark.leaves
def test_damage_is_told_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "shop"
    build_sample(path, days=6, scale=0.1, damage=True)
    page = made(path, tmp_path / "page.html", "--records", "--now", NOW)
    told = page.facts
    found = [one.to_json() for one in verify_log_directory(path, level="records", now_ms=NOW_MS)]
    order = {"error": 0, "warning": 1, "note": 2}
    expected = sorted(found, key=lambda one: order[str(one["severity"])])
    assert [{**one, "path": f"{path}/{one['path']}"} for one in told["findings"]] == expected
    severities = Counter(one["severity"] for one in found)
    assert told["soundness"] == {
        "level": "records",
        "errors": severities["error"],
        "warnings": severities["warning"],
        "notes": severities["note"],
    }
    assert severities["error"] == 1
    [error] = [one for one in told["findings"] if one["severity"] == "error"]
    home, _, name = error["path"].partition("/")
    hit = [(f"{one['topic']}-{one['partition']}", s["base_offset"]) for one in told["partitions"] for s in one["strata"] if s["findings"]]
    assert (home, int(name.removesuffix(".log"))) in hit
    assert len(hit) == 2
    assert "✗ Damaged" in page.texts
    json.dumps(told)


def three_partitions(path: Path) -> list[Path]:
    with open_store(path) as store:
        topic = store.create_topic("emails", 3)
        for number in range(30):
            topic.append(b"x" * 50, key=b"%d" % number, partition=number % 3)
    return [path / f"emails-{number}" for number in range(3)]


@pytest.mark.leaves
def test_a_partition_that_no_reader_gets_is_damaged_whatever_its_headers_say(tmp_path: Path) -> None:
    """Headers alone are in order here; but the log was closed in order, so that no crash can have left a wrong checksum."""
    homes = three_partitions(tmp_path / "s")
    log = homes[1] / f"{0:020}.log"
    log.write_bytes(bytes([*(content := log.read_bytes())[:-1], content[-1] ^ 1]))
    shutil.rmtree(homes[2])
    page = made(tmp_path / "s", tmp_path / "page.html")
    told = page.facts
    errors = [one for one in told["findings"] if one["severity"] == "error"]
    assert [(one["code"], one["path"]) for one in errors] == [
        ("partition-missing", "emails-2"),
        ("partition-unreadable", f"emails-1/{0:020}.log"),
    ]
    assert "the CRC of a batch does not match" in errors[1]["what"]
    assert (errors[0]["what"].partition(",")[0], errors[0]["mend"]) == (
        "the directory of a partition is missing",
        "restoring it from a backup, or deleting the topic",
    )
    assert told["soundness"]["errors"] == 2
    assert [one["findings"] for one in told["partitions"]] == [0, 1, 1]
    assert [[stratum["findings"] for stratum in one["strata"]] for one in told["partitions"]] == [[0], [1], []]
    assert "✗ Damaged" in page.texts
    [alone] = made(homes[1], tmp_path / "one.html").facts["findings"]
    assert (alone["code"], alone["path"]) == ("partition-unreadable", f"{0:020}.log")
    read = made(tmp_path / "s", tmp_path / "records.html", "--records").facts["findings"]
    assert [one["code"] for one in read if one["severity"] == "error"] == ["batch-crc", "partition-missing"]  # each cause once


def test_a_partition_that_its_owner_deletes_meanwhile_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes = three_partitions(tmp_path / "s")
    (tmp_path / "s" / "tidelog.json").unlink()  # as a broker's, where only directories say what is there
    log_of = ReadOnlyStore.log

    def log(self: ReadOnlyStore, topic: str, partition: int) -> ReadOnlyLog:
        if partition == 2 and homes[2].exists():
            shutil.rmtree(homes[2])
        return log_of(self, topic, partition)

    monkeypatch.setattr(ReadOnlyStore, "log", log)
    told = made(tmp_path / "s", tmp_path / "page.html").facts
    assert told["soundness"]["errors"] == 0


def test_what_is_known_of_keys_does_not_add_up_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four kibibytes for each segment: of all that a partition has they were kept until it was told."""
    with open_store(tmp_path / "s") as store:
        topic = store.create_topic("t")
        for number in range(8):
            topic.append(b"x", key=b"k%d" % number)
            topic.log(0).roll()
    sketches: list[weakref.ref[object]] = []
    alive: list[int] = []

    def watched(piece: SegmentPiece, **how: Any) -> SegmentStats:
        alive.append(sum(sketch() is not None for sketch in sketches))
        found = piece_stats(piece, **how)
        sketches.append(weakref.ref(found.keys))
        return found

    monkeypatch.setattr("tidelog.report.partition_gathering.piece_stats", watched)
    [told] = made(tmp_path / "s", tmp_path / "s.html", "--records").facts["topics"]
    assert told["keys"]["distinct"] == 8
    assert len(alive) == 9
    assert max(alive) <= 2

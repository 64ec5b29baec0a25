"""`tidelog report` as a user types it."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.commands import objects, run
from tests.cli.test_read_only import facts as files_of
from tests.report.support import Page, made
from tests.support.recording_disk import RecordingDisk
from tests.support.small_stores import open_store
from tidelog.cli import report, sources
from tidelog.report import gathering

TIME = 1_700_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with open_store(path) as made_store:
        topic = made_store.create_topic("emails", 2, {"retention.ms": 60_000})
        for number in range(6):
            topic.append(b"x" * 10, key=b"k%d" % (number % 2), timestamp_ms=TIME + number, partition=0)
            if number % 2:
                topic.log(0).roll()
    return path


def test_it_says_where_the_page_is(store: Path, tmp_path: Path) -> None:
    done = run("report", store, "-o", tmp_path / "page.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path}/page.html: 6 records, 5 segments, 480 B; 0 errors, 0 warnings, 0 notes\n"
    assert Page((tmp_path / "page.html").read_text()).facts["totals"]["records"] == 6


def test_nothing_is_overwritten(store: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("mine")
    (tmp_path / "link.html").symlink_to(tmp_path / "nowhere.html")
    for name in ("page.html", "link.html"):
        done = run("report", store, "-o", tmp_path / name)
        assert (done.returncode, done.stdout) == (2, "")
        assert "it is there already" in done.stderr
    with pytest.raises(FileExistsError):
        report._write(tmp_path / "page.html", "theirs")  # somebody has made it meanwhile
    assert (tmp_path / "page.html").read_text() == "mine"
    assert not (tmp_path / "nowhere.html").exists()


def test_never_into_the_directory_itself(store: Path, tmp_path: Path) -> None:
    before = files_of(store)
    (tmp_path / "link").symlink_to(store)
    for output in (store / "page.html", store / "emails-0" / "page.html", tmp_path / "link" / "page.html"):
        done = run("report", store, "-o", output)
        assert (done.returncode, done.stdout) == (2, "")
        assert "in the directory that it is about" in done.stderr
    assert files_of(store) == before


@pytest.mark.parametrize(
    "arguments",
    [["{store}"], ["{store}/nope", "-o", "{tmp}/p.html"], ["{store}", "-o", "{tmp}/no/p.html"], ["{store}", "--json", "--now", "x"]],
)
def test_wrong_use(arguments: list[str], store: Path, tmp_path: Path) -> None:
    done = run("report", *(argument.format(store=store, tmp=tmp_path) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert 1 <= len(done.stderr.splitlines()) <= 2
    assert not (tmp_path / "p.html").exists()


def test_json_is_one_object(store: Path, tmp_path: Path) -> None:
    [facts] = objects("-q", "report", store, "--now", f"@{TIME + 1000}")
    assert (facts["type"], facts["now_ms"], facts["directory"]) == ("report", TIME + 1000, str(store))
    done = run("-q", "report", store, "--json", "-o", tmp_path / "both.html", "--now", f"@{TIME + 1000}")
    [line] = done.stdout.splitlines()
    facts["totals"]["free_bytes"] = 0
    for told in (json.loads(line), Page((tmp_path / "both.html").read_text()).facts):
        told["totals"]["free_bytes"] = 0
        assert told == facts


def test_one_partition(store: Path, tmp_path: Path) -> None:
    whole = made(store, tmp_path / "whole.html", "--now", f"@{TIME + 30_000}").facts
    part = made(store / "emails-0", tmp_path / "part.html", "--now", f"@{TIME + 30_000}").facts
    assert (part["kind"], part["directory"]) == ("partition", str(store / "emails-0"))
    assert part["partitions"] == whole["partitions"][:1]
    assert part["topics"][0]["settings"] == whole["topics"][0]["settings"]
    assert part["totals"]["partitions"] == 1
    (tmp_path / "alone").mkdir()
    shutil.copytree(store / "emails-0", tmp_path / "alone" / "emails-0")
    alone = made(tmp_path / "alone" / "emails-0", tmp_path / "alone.html", "--now", f"@{TIME + 30_000}").facts
    assert alone["topics"][0]["settings_from"] == "Kafka's defaults"
    assert alone["topics"][0]["is_assumed"]
    assert alone["totals"]["records"] == 6


def test_settings_that_are_given(store: Path, tmp_path: Path) -> None:
    (store / "tidelog.json").unlink()
    [facts] = objects(
        "-q", "report", store, "--config", "retention.ms=1h", "--config", "cleanup.policy=delete", "--config", "retention.bytes=-1"
    )
    [topic] = facts["topics"]
    assert (topic["settings"]["retention.ms"], topic["is_assumed"]) == ("3600000", False)
    assert {one["fate"] for one in facts["partitions"][0]["strata"] if one["size_bytes"]} == {"now"}


def test_a_partition_that_is_missing_or_unreadable_does_not_hide_the_others(store: Path, tmp_path: Path) -> None:
    shutil.rmtree(store / "emails-1")
    page = made(store, tmp_path / "page.html")
    [first, second] = page.facts["partitions"]
    assert (first["records"], second["records"], second["strata"]) == (6, 0, [])
    assert "missing" in second["left_alone"]
    assert any("missing" in text for text in page.texts)


def test_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    page = made(tmp_path / "none", tmp_path / "page.html")
    assert (page.facts["kind"], page.facts["totals"]["topics"], page.facts["throughput"]) == ("directory", 0, None)


@pytest.mark.leaves("index-missing")
@pytest.mark.parametrize("options", [(), ("--records",)], ids=["headers", "records"])
def test_the_disk_is_asked_for_nothing_but_reading(
    options: tuple[str, ...], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in store.glob("emails-*/*index"):
        file.unlink()  # they are built in memory, not on disk
    (store / ".lock").unlink()
    before, disk = files_of(store), RecordingDisk(store)
    monkeypatch.setattr(sources, "GentleDisk", lambda *_: disk)
    assert run("report", store, "-o", tmp_path / "page.html", *options).returncode == 0
    assert disk.recording().events == ()
    assert files_of(store) == before


def test_an_interrupt_leaves_nothing_half_done(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError):
        report._write(tmp_path / "page.html", None)  # type: ignore[arg-type]
    assert not (tmp_path / "page.html").exists()
    monkeypatch.setattr("tidelog.report.gather", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run("report", store, "-o", tmp_path / "page.html").returncode == 130
    assert not (tmp_path / "page.html").exists()


def test_somebody_has_it_open(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as owner:
        owner.create_topic("t").append(b"x", key=b"k", timestamp_ms=TIME)
        [facts] = objects("-q", "report", tmp_path / "s", "--records")
        assert (facts["totals"]["records"], facts["soundness"]["errors"]) == (1, 0)
        owner.topic("t").append(b"y", key=b"k", timestamp_ms=TIME)
        [facts] = objects("-q", "report", tmp_path / "s", "--records")
        assert facts["topics"][0]["keys"]["hottest"] == [{"key": "k", "records": 2}]


def test_what_a_page_cannot_tell_is_in_the_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "s") as owner:
        for name, partitions in (("large", 2), ("small", 3), ("tiny", 1)):
            topic = owner.create_topic(name, partitions)
            for partition in range(partitions):
                topic.append(b"x" * 10 * len(name) ** (name != "tiny"), partition=partition, timestamp_ms=TIME)
        owner.topic("large").append(b"x" * 1000, partition=1, timestamp_ms=TIME)
    whole = made(tmp_path / "s", tmp_path / "whole.html").facts
    monkeypatch.setattr(gathering, "MOST_TOPICS", 2)
    monkeypatch.setattr(gathering, "MOST_PARTITIONS", 4)
    page = made(tmp_path / "s", tmp_path / "less.html")
    assert page.facts["totals"]["size_bytes"] == whole["totals"]["size_bytes"]
    assert page.facts["totals"]["partitions"] == 6
    assert page.facts["fates"] == whole["fates"]
    assert [topic["topic"] for topic in page.facts["topics"]] == ["large", "small"]
    assert ("large", 1) in [(one["topic"], one["partition"]) for one in page.facts["partitions"]]
    assert (page.facts["left_off_topics"], page.facts["left_off_partitions"], len(page.facts["partitions"])) == (1, 2, 4)
    assert any("1 topic and 2 partitions more" in text for text in page.texts)


def test_never_into_the_data_directory_of_a_partition(store: Path) -> None:
    before = files_of(store)
    done = run("report", store / "emails-0", "-o", store / "page.html")
    assert (done.returncode, done.stdout) == (2, "")
    assert "in the directory that it is about" in done.stderr
    assert files_of(store) == before


@pytest.mark.leaves("timestamp-future")
def test_a_record_that_is_dated_at_the_end_of_time(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as owner:
        topic = owner.create_topic("t", 1, {"message.timestamp.after.max.ms": (1 << 63) - 1})
        for timestamp_ms in (TIME, TIME + 1, (1 << 63) - 1):
            topic.append(b"x", key=b"k", timestamp_ms=timestamp_ms)
    page = made(tmp_path / "s", tmp_path / "page.html", "--records")
    assert page.size_bytes < 1 << 20
    assert sum(page.facts["throughput"]["series"][0]["records"]) + page.facts["throughput"]["outside_records"] == 3

"""`tidelog dump` as text, against what Kafka's own dump tool printed about the same files; and JSON against the objects it is made from.

`kafka_dump/` has the tool's output, from `tests/golden`, for each case with all of its files in the order of their names:

    java -cp 'interop/.jars/4.2.0/*' kafka.tools.DumpLogSegments --print-data-log --files partitions/CASE/closed/….log,…
"""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.commands import objects, run
from tests.cli.test_cat import as_bytes
from tests.support.golden import GOLDEN, golden_logs
from tests.support.small_stores import open_store
from tidelog.cli.output import to_json
from tidelog.inspection.dump import dump
from tidelog.record import encode_batches

STORED = Path(__file__).parent / "kafka_dump"
CASES = sorted(path.stem for path in STORED.glob("*.txt"))
KINDS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
INNER_CRC = re.compile(r" isValid: true crc: \d+}")
"""Of messages of old formats inside of compressed ones: their own checksum is not shown here."""


@pytest.mark.parametrize("case", CASES)
def test_text_is_what_kafkas_tool_prints(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)
    home = Path("partitions") / case / "closed"
    files = sorted(path for path in home.iterdir() if path.suffix in KINDS)
    done = run("dump", "--records", *files)
    assert (done.returncode, done.stderr) == (0, "")
    theirs = (STORED / f"{case}.txt").read_text()
    if case.startswith("legacy"):
        assert INNER_CRC.sub("", done.stdout) == INNER_CRC.sub("", theirs)
        assert len(INNER_CRC.findall(done.stdout)) > 3
    else:
        assert done.stdout == theirs


def test_there_are_cases() -> None:
    assert len(CASES) >= 9


def test_deep_leaves_out_keys_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)
    [log] = (GOLDEN / "partitions" / "coordinator" / "closed").glob("*0.log")
    theirs = (STORED / "coordinator.txt").read_text().split("Dumping")[2].splitlines()[1:]
    deep = run("dump", "--deep", log).stdout.splitlines()[1:]
    assert deep == [re.sub(r" key: .*| payload: .*", "", line) for line in theirs]
    assert run("dump", log).stdout.splitlines()[1:] == [line for line in theirs if not line.startswith("| ")]


@pytest.mark.parametrize("log", golden_logs(), ids=lambda log: log.name.replace("/", "-"))
def test_json_lines_are_the_objects(log: object, tmp_path: Path) -> None:
    """The lines that are put together by hand are those that the slow way would print."""
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(log.data)  # type: ignore[attr-defined]
    done = run("dump", path, "--records", "--json", "--skip-damage")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [json.dumps(to_json(one), ensure_ascii=False) for one in dump(str(path), records=True)]


def test_old_formats_and_all_codecs_as_text(tmp_path: Path) -> None:
    for log in golden_logs():
        path = tmp_path / f"t-{len(list(tmp_path.iterdir()))}" / f"{0:020}.log"
        path.parent.mkdir()
        path.write_bytes(log.data)
        lines = run("dump", path, "--deep").stdout.splitlines()[2:]
        assert len([line for line in lines if not line.startswith("|")]) == len(log.batches)
        assert len([line for line in lines if line.startswith("| offset: ")]) == sum(len(batch["records"]) for batch in log.batches)


def test_bytes_that_a_terminal_takes_amiss_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(encode_batches([(b"\x1b[31m", b"a\nb", [("n\n", b"")], 5), (None, b"\xff", (), 6)]))
    lines = run("dump", path, "--records").stdout.splitlines()
    assert lines[3].endswith(r"headerKeys: [n\n] key: \x1b[31m payload: a\nb")
    assert lines[4].endswith(r"headerKeys: [] payload: \xff")


def test_where_damage_is_it_stops_or_goes_on(tmp_path: Path) -> None:
    batch = [encode_batches([(b"k", b"value %d" % number)], base_offset=number) for number in range(4)]
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(batch[0] + batch[1] + b"garbage, and more of it" + batch[2] + batch[3])
    place = len(batch[0] + batch[1])
    stopped = run("dump", path, "--records")
    assert stopped.returncode == 0
    assert stopped.stderr == f"{path}: stopped at byte {place}, where no batch follows; --skip-damage goes on behind it\n"
    assert f"error at byte {place}: 23 bytes that are no batches" in stopped.stdout
    assert "value 1" in stopped.stdout
    assert "value 2" not in stopped.stdout
    gone_on = objects("dump", path, "--records", "--skip-damage")
    assert [as_bytes(one["value"]) for one in gone_on if one["type"] == "record"] == [b"value %d" % number for number in range(4)]
    assert [one["code"] for one in gone_on if one["type"] == "finding"] == ["framing-lost"]
    assert run("-q", "dump", path).stderr == ""


def test_every_kind_of_file(tmp_path: Path) -> None:
    broker = GOLDEN / "broker" / "data"
    kinds = {one["type"] for one in objects("dump", broker)}
    assert {
        "segment",
        "batch",
        "time_index_entry",
        "checkpoint_entry",
        "partition_metadata",
        "property",
        "clean_shutdown",
        "quorum_state",
    } <= kinds
    properties = {one["name"]: one["value"] for one in objects("dump", broker / "meta.properties")}
    assert (properties["node.id"], properties["version"]) == ("1", "1")
    with open_store(tmp_path / "s") as made:
        made.create_topic("emails", 1, {"retention.ms": 5}).append(b"x")
        [end] = objects("dump", tmp_path / "s" / "emails-0" / "flushed-end.tidelog")
        assert (end["type"], end["offset"], end["log_start_offset"]) == ("flushed_end", 1, 0)
        made.create_topic("gone")
        made.delete_topic("gone")
    rows = objects("dump", tmp_path / "s" / "tidelog.json")
    assert [row["type"] for row in rows] == ["store", "store_topic", "deleted_topic"]
    assert (rows[1]["topic"], rows[1]["config"]) == ("emails", {"retention.ms": "5"})
    assert run("dump", tmp_path / "s" / "tidelog.json").stdout.splitlines()[2].startswith("topic: emails ")


def test_what_was_put_aside(tmp_path: Path) -> None:
    home = tmp_path / "t-0"
    shutil.copytree(GOLDEN / "partitions" / "index-dense" / "closed", home)
    whole = objects("dump", home / f"{0:020}.log")
    (home / f"{0:020}.log").rename(home / f"cut-{0:020}-at-813.log.tidelog")
    (home / f"{0:020}.index").rename(home / f"rebuilt-{0:020}.index.tidelog")
    (home / "leader-epoch-checkpoint").rename(home / f"timeindex-{0:020}-1.tidelog")
    cut = objects("dump", home / f"cut-{0:020}-at-813.log.tidelog")
    assert [one["type"] for one in cut] == [one["type"] for one in whole]
    assert {one["type"] for one in objects("dump", home / f"rebuilt-{0:020}.index.tidelog")} == {"offset_index_entry"}
    assert {Path(one["path"]).name for one in objects("dump", home)} >= {
        f"cut-{0:020}-at-813.log.tidelog",
        f"rebuilt-{0:020}.index.tidelog",
    }


def test_a_directory_may_have_any_name(tmp_path: Path) -> None:
    for name in ('quo"te-0', b"\xff-0"):
        home = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), os.fsencode(name))))  # noqa: PTH118
        home.mkdir()
        (home / f"{0:020}.log").write_bytes(encode_batches([(b"k", b"v")]))
        [record] = [one for one in objects("dump", home / f"{0:020}.log", "--records") if one["type"] == "record"]
        assert os.fsencode(record["topic"]) == os.fsencode(home.name)[:-2]
        [shown] = objects("cat", home, "--isolation", "log_end")
        assert (shown["topic"], shown["value"]) == (record["topic"], "v")

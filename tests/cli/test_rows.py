"""`ingest` and `history` without Spark: what rows become, and which versions keys have had. `tests/spark` compares both with Spark's."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.commands import objects, run
from tests.support.ingest_files import FILES, write_file
from tests.support.keyed_topics import alive, make_keyed, state
from tests.support.logs import TIME
from tests.support.small_stores import open_store
from tidelog.spark.jobs.history_versions import Row, versions_of
from tidelog.spark.jobs.ingest_columns import java_double


@pytest.mark.parametrize("name", FILES)
def test_every_format(name: str, tmp_path: Path) -> None:
    source, asked = write_file(name, tmp_path)
    result = objects("ingest", tmp_path / "s", "t", source, *asked)[-1]
    found = objects("cat", tmp_path / "s", "t")
    assert (result["type"], result["records"], result["was_there_already"]) == ("result", len(found), False)
    assert len(found) > 1


def test_rows_become_records(tmp_path: Path) -> None:
    source, asked = write_file("words.csv", tmp_path)
    assert run("ingest", tmp_path / "s", "t", source, *asked).returncode == 0
    found = {record["key"]: (record["value"], record["timestamp_ms"]) for record in objects("cat", tmp_path / "s", "t")}
    assert found == {
        "1": ("bill", TIME), "2": (None, TIME + 1000), "3": ("a,b", TIME + 2000),
        "4": (None, TIME - 3_597_000), "5": ("é ö", 1_699_920_000_000),
    }  # fmt: skip
    nested, asked = write_file("nested.json", tmp_path)
    assert run("ingest", tmp_path / "s", "nested", nested, *asked).returncode == 0
    values = {record["key"]: record["value"] for record in objects("cat", tmp_path / "s", "nested")}
    assert values["a"] == '{"k":"a","m":[{"a":1,"b":"x"},null,{}],"z":{"y":[1.0,2.5]}}'


def test_all_or_nothing_and_once(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"key": 1, "value": "x"}\n')
    (tmp_path / "b.json").write_text('{"key": 2, "value": "y"}\n' * 9000 + "no\n")
    assert run("ingest", tmp_path / "s", "t", tmp_path / "a.json", tmp_path / "b.json").returncode == 3
    assert not (tmp_path / "s").exists() or objects("ls", tmp_path / "s") == []
    for is_again in (False, True):
        result = objects("ingest", tmp_path / "s", "t", tmp_path / "a.json", "--transactional-id", "load")[-1]
        assert (result["records"], result["was_there_already"]) == (1, is_again)
    assert [record["value"] for record in objects("cat", tmp_path / "s", "t")] == ["x"]
    assert not [path for path in tmp_path.iterdir() if "staging" in path.name]


@given(st.floats())
def test_numbers_as_java_writes_them(number: float) -> None:
    text = java_double(number)
    if number == number and abs(number) != float("inf"):
        assert float(text) == number
        assert ("E" in text) == (number != 0 and not 1e-3 <= abs(number) < 1e7)
        assert "e" not in text
        assert "." in text


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.0, "1.0"), (1e10, "1.0E10"), (12345678.5, "1.23456785E7"), (0.0001, "1.0E-4"), (-2.5e-7, "-2.5E-7"), (1e7, "1.0E7"),
     (-123456789.0, "-1.23456789E8"), (0.00012345, "1.2345E-4"), (float("nan"), "NaN"), (float("-inf"), "-Infinity"), (0.001, "0.001")],
)  # fmt: skip
def test_some_numbers(number: float, text: str) -> None:
    assert java_double(number) == text


def test_history_says_at_every_time_what_the_table_says(tmp_path: Path) -> None:
    """Of keys that are in one partition: those in several are ordered by time, and the states of their partitions by offset."""
    versions = make_keyed(tmp_path, policy="delete")
    places: dict[bytes, set[int]] = {}
    for one in versions:
        places.setdefault(one.key, set()).add(one.partition)
    own = [one for one in versions if len(places[one.key]) == 1]
    rows = [row for row in objects("history", tmp_path, "tide") if len(places[row["key"].encode()]) == 1]
    assert len(rows) > 20
    for timestamp_ms in [*sorted({one.timestamp_ms for one in own})[::7], TIME - 100_000, TIME + 1_000_000]:
        expected = {key: (one.partition, one.offset) for key, one in alive(state(own, until_ms=timestamp_ms)).items()}
        held = [row for row in rows if row["valid_from_ms"] <= timestamp_ms]
        held = [row for row in held if row["valid_to_ms"] is None or timestamp_ms < row["valid_to_ms"]]
        assert {row["key"].encode(): (row["partition"], row["offset"]) for row in held} == expected


def test_what_is_gone_is_not_made_up(tmp_path: Path) -> None:
    make_keyed(tmp_path, policy="compact")
    assert run("compact", tmp_path, "--roll", "--apply").returncode == 0
    done = run("history", tmp_path, "tide")
    assert (done.returncode, done.stdout) == (3, "")
    first, second = done.stderr.splitlines()
    assert "the history from its beginning cannot be told" in first
    assert second == "hint: --allow-incomplete gives what is left"
    left = objects("history", tmp_path, "tide", "--allow-incomplete")
    assert {row["is_complete"] for row in left} == {False}


def row(offset: int, timestamp_ms: int, *, partition: int = 0, is_tombstone: bool = False, is_version: bool = True) -> Row:
    return Row("t", b"k", None if is_tombstone else b"v", partition, offset, timestamp_ms, is_tombstone, True, is_version)


def test_versions_of_a_key() -> None:
    found = versions_of([row(3, 30), row(1, 10), row(2, 20, is_tombstone=True)])
    assert [(one.row.offset, one.version, one.valid_from_ms, one.valid_to_ms) for one in found] == [
        (1, 1, 10, 20), (2, 1, 20, 30), (3, 2, 30, None),
    ]  # fmt: skip
    late = versions_of([row(1, 50), row(2, 20)])  # behind it an older time was written: it never held
    assert [(one.valid_from_ms, one.valid_to_ms) for one in late] == [(50, 50), (20, None)]
    spread = versions_of([row(1, 50), row(9, 20, partition=1)])  # by time, where partitions have no order
    assert [(one.row.partition, one.version, one.valid_to_ms) for one in spread] == [(1, 1, 50), (0, 2, None)]
    begun = versions_of([row(1, 10, is_version=False), row(4, 12, is_version=False), row(6, 15)])  # two tasks, one start
    assert [(one.row.offset, one.version) for one in begun] == [(4, 1), (6, 2)]


def test_lines_of_a_history(tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [{"key": "a", "value": "1"}, {"key": "a", "value": None}, {"key": "a", "value": "2"}]
    text = "".join(json.dumps(one | {"timestamp_ms": TIME + number}) + "\n" for number, one in enumerate(lines))
    assert run("produce", tmp_path / "s", "t", "--json", "--create", stdin=text.encode()).returncode == 0
    assert run("history", tmp_path / "s", "t").stdout == (
        "a\t1\t2023-11-14T22:13:20.000Z\t2023-11-14T22:13:20.001Z\t1\na\t2\t2023-11-14T22:13:20.002Z\t…\t2\n"
    )
    assert [row["is_tombstone"] for row in objects("history", tmp_path / "s", "t", "--tombstones")] == [False, True, False]
    assert objects("-q", "history", tmp_path / "s", "t", "--key", "b") == []


@pytest.mark.leaves
def test_a_segment_that_its_owner_removes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look into the directory and the opening of the file: a broker's retention does not wait."""
    module = import_module("tidelog.inspection.stats")  # the package has the function under that name
    with open_store(tmp_path) as made:
        topic = made.create_topic("t")
        for number in range(3):
            topic.append(b"x", timestamp_ms=1_700_000_000_000 + number)
            topic.log(0).roll()
    real = module.listed_segments

    def listed(path: str, disk: Any) -> Any:
        found = real(path, disk)
        (tmp_path / "t-0" / f"{0:020}.log").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(module, "listed_segments", listed)
    done = run("stats", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["records"] == 2

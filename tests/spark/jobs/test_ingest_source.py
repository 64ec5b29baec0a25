"""CSV and JSON that others write, as `ingest` reads them: the same rows with Spark and without, or refused by both."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.errors import InvalidRecordTypeError
from tidelog.spark import jobs
from tidelog.spark.jobs.ingest_files import read_rows
from tidelog.spark.jobs.ingest_source import read_source, source_error
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READ = {
    "a line end in quotes": (b'id,v\n1,"a\nb"\n2,c\n', [{"id": "1", "v": "a\nb"}, {"id": "2", "v": "c"}]),
    "the same, in the only column": (b'v\n"a\nb"\nc\n', [{"v": "a\nb"}, {"v": "c"}]),
    "quotes": (b'v\n"say ""hi"""\n', [{"v": 'say "hi"'}]),
    "a quote within a word": (b'v\na"b\n', [{"v": 'a"b'}]),
    "backslashes": (b'v\n"a\\"\nb\\\n', [{"v": "a\\"}, {"v": "b\\"}]),
    "a mark that says UTF-8": (b"\xef\xbb\xbfid,v\n1,\xc3\xa4\n", [{"id": "1", "v": "ä"}]),
    "lines of Windows": (b"id,v\r\n1,2\r\n", [{"id": "1", "v": "2"}]),
    "no end": (b"a,b\n1,2\n3,4", [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]),
    "empty lines": (b"v\n\na\n\n\nb\n", [{"v": "a"}, {"v": "b"}]),
    "a great many empty lines": (b"\nv\na\n" + b"\n" * 20_000 + b"b\n", [{"v": "a"}, {"v": "b"}]),
    "spaces": (b"v\n  x  \n   \ny\n", [{"v": "  x  "}, {"v": "   "}, {"v": "y"}]),
    "nothing": (b'a,b\n,""\nx,\n', [{"a": None, "b": None}, {"a": "x", "b": None}]),
    "a large field": (b"v\n" + b"x" * 300_000 + b"\n", [{"v": "x" * 300_000}]),
    "names in quotes": (b'"a ""x""","b\nc"\n1,2\n', [{'a "x"': "1", "b\nc": "2"}]),
}
REFUSED = {
    "a backslash before a quote": (b'v\n"a\\"b"\n', "line 2"),
    "a quote in the wrong place": (b'a,b\n"a"b,c\n', "line 2"),
    "few columns": (b'a,b\n"1\n1",2\n1\n', "line 4 has other columns: expected 2, found 1"),
    "many columns": (b"a,b\n1,2,3\n", "line 2 has other columns: expected 2, found 3"),
    "a name twice": (b"a,A\n1,2\n", "one name"),
}


JSON_READ = {
    "a mark that says UTF-8": (b'\xef\xbb\xbf{"v":1}\n', [{"v": 1}]),
    "Spark's own name for what it cannot read": (b'{"_corrupt_record":"x","v":1}\n', [{"_corrupt_record": "x", "v": 1}]),
    "names with signs": (b'{"a`b":1,"a.b":2}\n', [{"a`b": 1, "a.b": 2}]),
}
JSON_REFUSED = {
    "not UTF-8": (b'{"v":"\xff"}\n', "utf-8"),
    "torn": (b'{"v":1}\n{"v":', "line 2"),
    "a control character": (b'{"v":"a\tb"}\n', "line 1"),
}
JSON_REFUSED_HERE = {
    "a name twice": (b'{"v":1,"v":2}\n', "line 1 is no JSON: a name is there twice"),
    "a name in two cases": (b'{"v":1}\n{"V":2}\n', "two columns have one name"),
    "a large number": (b'{"v":18446744073709551616}\n', "too large"),
    "half a character": (b'{"v":"\\ud800"}\n', "surrogates"),
    "two objects": (b'{"v":1}{"v":2}\n', "line 1 is no JSON: Extra data"),
}


def here(file: Path) -> list[dict[str, Any]]:
    return [row for rows in read_rows([str(file)], file.suffix[1:]) for row in rows.to_pylist()]


def on_spark(spark: "SparkSession", file: Path) -> list[dict[str, Any]]:
    try:
        return [row.asDict() for row in read_source(spark, file, None, {}).collect()]
    except Exception as error:
        raise source_error(error, "reading") from error


def written(folder: Path, form: str, data: bytes) -> Path:
    file = folder / f"a file.{form}"
    file.write_bytes(data)
    return file


@pytest.mark.parametrize(("form", "case"), [*(("csv", case) for case in READ), *(("json", case) for case in JSON_READ)])
def test_the_same_rows(spark: "SparkSession", tmp_path: Path, form: str, case: str) -> None:
    data, rows = (READ if form == "csv" else JSON_READ)[case]
    file = written(tmp_path, form, data)
    assert here(file) == rows
    assert on_spark(spark, file) == rows


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_both(spark: "SparkSession", tmp_path: Path, case: str) -> None:
    data, said = REFUSED[case]
    file = written(tmp_path, "csv", data)
    with pytest.raises(InvalidRecordTypeError, match=said) as failure:
        here(file)
    assert failure.value.path == str(file)
    with pytest.raises(InvalidRecordTypeError):
        on_spark(spark, file)


def test_names_with_signs_are_columns(spark: "SparkSession", tmp_path: Path) -> None:
    data, rows = JSON_READ["names with signs"]
    jobs.ingest(spark, written(tmp_path, "json", data), tmp_path / "store", "tide", value="*")
    with ReadOnlyStore.open(tmp_path / "store") as store:
        assert [json.loads(record.value or b"") for record in store.topic("tide").read()] == rows


@pytest.mark.parametrize("case", JSON_REFUSED | JSON_REFUSED_HERE)
def test_json_that_is_refused(spark: "SparkSession", tmp_path: Path, case: str) -> None:
    data, said = (JSON_REFUSED | JSON_REFUSED_HERE)[case]
    file = written(tmp_path, "json", data)
    with pytest.raises(InvalidRecordTypeError, match=said):
        here(file)
    if case in JSON_REFUSED:
        with pytest.raises(InvalidRecordTypeError):
            on_spark(spark, file)


def test_what_is_torn_or_not_utf_8_is_refused_without_spark(tmp_path: Path) -> None:
    for number, data in enumerate((b'v\n"a\nb\n', b"v\n\xff\xfe\n")):
        file = tmp_path / f"{number}.csv"
        file.write_bytes(data)
        with pytest.raises(InvalidRecordTypeError, match=r"unexpected end|decode"):
            here(file)


def test_json_that_is_nested_too_deep_is_refused_without_spark(tmp_path: Path) -> None:
    """By a reader that calls itself for each level, in whichever of its steps."""
    for depth in (2000, 100_000):
        (tmp_path / "deep.json").write_text('{"a": ' * depth + "1" + "}" * depth)
        with pytest.raises(InvalidRecordTypeError, match="not the json that can be read here"):
            list(read_rows([str(tmp_path / "deep.json")], "json"))


def test_what_is_exported_is_read_again(spark: "SparkSession", tmp_path: Path) -> None:
    values = [b"plain", b'say "hi"', b"two\nlines", b"a\\", b'a\\"b', b"1,2", b"  "]
    with Store.open(tmp_path / "store", background=False) as store:
        store.create_topic("tide").append_many([(b"k", value) for value in values])
    jobs.export(
        spark, tmp_path / "store", "tide", tmp_path / "csv", format="csv", bytes_as="utf8", columns=["key", "value"], partition_by=None
    )
    jobs.ingest(spark, tmp_path / "csv", tmp_path / "again", "tide", format="csv")
    with ReadOnlyStore.open(tmp_path / "again") as store:
        assert [record.value for record in store.topic("tide").read()] == values

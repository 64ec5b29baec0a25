import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.disk.failing_disk import REPLACE, FailingDisk
from tidelog.disk.disk import OS
from tidelog.disk.partition_metadata import (
    ZERO_ID,
    format_metadata,
    format_topic_id,
    parse_metadata,
    parse_topic_id,
    read_metadata,
    write_metadata,
)
from tidelog.errors import CorruptFileError

TOPIC_ID = uuid.UUID("b4a82608-5464-4d0f-9554-ab1760069714")
TEXT = b"version: 0\ntopic_id: tKgmCFRkTQ-VVKsXYAaXFA"


def test_the_exact_text() -> None:
    assert format_metadata(TOPIC_ID) == TEXT
    assert parse_metadata(TEXT, "f") == TOPIC_ID


def test_the_characters_that_are_special_in_a_url() -> None:
    every_bit = uuid.UUID(int=2**128 - 1)
    assert format_topic_id(every_bit) == "_" * 21 + "w"
    assert parse_topic_id("_" * 21 + "w") == every_bit
    assert format_topic_id(uuid.UUID(bytes=b"\xfb\xef\xbe" * 5 + b"\xf8")) == "--" * 10 + "-A"


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 22 + "==", "A" * 22 + "\n", "+" * 22])
def test_not_a_topic_id(text: str) -> None:
    with pytest.raises(ValueError, match="expected 22 characters"):
        parse_topic_id(text)


@given(st.uuids())
def test_round_trip(topic_id: uuid.UUID) -> None:
    assert parse_topic_id(format_topic_id(topic_id)) == topic_id
    assert parse_metadata(format_metadata(topic_id), "f") == topic_id


@pytest.mark.parametrize(
    "text",
    [
        TEXT + b"\n",
        TEXT.replace(b"\n", b"\r\n"),
        TEXT.replace(b": ", b":\t  "),
        TEXT.replace(b"0", b"1", 1),  # of a later release
        TEXT + b"\nnote: anything",
    ],
)
def test_what_kafka_reads_is_read(text: bytes) -> None:
    assert parse_metadata(text, "f") == TOPIC_ID


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"", "line 1: malformed"),
        (b"\n", "line 1: malformed"),
        (b"version 0\n", "line 1: malformed"),
        (b"version:0\n", "line 1: malformed"),
        (b" version: 0\n", "line 1: malformed"),
        (b"\xff: 0\n", "line 1: malformed"),
        (b"topic_id: tKgmCFRkTQ-VVKsXYAaXFA\nversion: 0", "line 1: malformed"),
        (b"version: -1\n", "line 1: not a version"),
        (b"version: x\n", "line 1: not a version"),
        (b"version: 0 \n", "line 1: not a version"),
        (b"version: 0", "line 2: malformed"),
        (b"version: 0\n", "line 2: malformed"),
        (b"version: 0\nversion: 0", "line 2: malformed"),
        (b"version: 0\ntopic_id tKgmCFRkTQ-VVKsXYAaXFA", "line 2: malformed"),
        (b"version: 0\ntopic_id: ", "line 2: not a topic id"),
        (b"version: 0\ntopic_id: tKgmCFRkTQ-VVKsXYAaXF", "line 2: not a topic id"),
        (b"version: 0\ntopic_id: tKgmCFRkTQ-VVKsXYAaXFAA", "line 2: not a topic id"),
        (b"version: 0\ntopic_id: tKgmCFRkTQ+VVKsXYAaXFA", "line 2: not a topic id"),
        (b"version: 0\ntopic_id: tKgmCFRkTQ-VVKsXYAaXF\xff", "line 2: not a topic id"),
        (b"version: 0\ntopic_id: tKgmCFRkTQ-VVKsXYAaXFA ", "line 2: not a topic id"),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "line 2: not a topic id"),
    ],
)
def test_malformed(text: bytes, what: str) -> None:
    with pytest.raises(CorruptFileError, match=what) as caught:
        parse_metadata(text, "some/file")
    assert caught.value.path == "some/file"
    assert caught.value.found is not None


def test_no_id_is_not_written() -> None:
    with pytest.raises(AssertionError):
        format_metadata(ZERO_ID)


def test_read_and_write(tmp_path: Path) -> None:
    assert read_metadata(OS, str(tmp_path)) is None
    write_metadata(OS, str(tmp_path), TOPIC_ID)
    assert read_metadata(OS, str(tmp_path)) == TOPIC_ID
    assert (tmp_path / "partition.metadata").read_bytes() == TEXT


def test_a_corrupt_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "partition.metadata").write_bytes(b"?")
    with pytest.raises(CorruptFileError) as caught:
        read_metadata(OS, str(tmp_path))
    assert caught.value.path == str(tmp_path / "partition.metadata")


def test_it_is_written_durably(tmp_path: Path) -> None:
    disk = FailingDisk()
    write_metadata(disk, str(tmp_path), TOPIC_ID)
    assert disk.calls == REPLACE

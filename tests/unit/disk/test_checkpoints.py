import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.golden import GOLDEN
from tests.unit.disk.failing_disk import REPLACE, FailingDisk
from tidelog.disk.checkpoints import (
    EpochEntry,
    format_epochs,
    format_offsets,
    parse_epochs,
    parse_offsets,
    read_offsets,
    write_offsets,
)
from tidelog.disk.disk import OS
from tidelog.disk.names import TopicPartition
from tidelog.errors import CorruptFileError, UnsupportedError

topics = st.from_regex(r"[A-Za-z0-9._-]{1,40}", fullmatch=True)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))
offsets = st.integers(0, 2**63 - 1)


def test_offsets_are_sorted_by_topic_and_partition() -> None:
    entries = {TopicPartition("my-topic", 10): 99, TopicPartition("my-topic", 2): 1234, TopicPartition("a.b-1", 0): 0}
    assert format_offsets(entries) == b"0\n3\na.b-1 0 0\nmy-topic 2 1234\nmy-topic 10 99\n"


def test_no_entries() -> None:
    assert format_offsets({}) == b"0\n0\n"
    assert format_epochs([]) == b"0\n0\n"


def test_epochs_keep_their_order() -> None:
    assert format_epochs([EpochEntry(0, 0), EpochEntry(7, 2**40)]) == b"0\n2\n0 0\n7 1099511627776\n"
    assert parse_epochs(b"0\n2\n7 5\n3 9\n", "f") == [EpochEntry(7, 5), EpochEntry(3, 9)]


@given(st.dictionaries(partitions, offsets))
def test_offsets_round_trip(entries: dict[TopicPartition, int]) -> None:
    assert parse_offsets(format_offsets(entries), "f") == entries


@given(st.lists(st.builds(EpochEntry, st.integers(0, 2**31 - 1), offsets)))
def test_epochs_round_trip(entries: list[EpochEntry]) -> None:
    assert parse_epochs(format_epochs(entries), "f") == entries


@given(st.binary(max_size=60) | st.text("0123 \n\rab-+", max_size=40).map(str.encode))
def test_any_bytes_parse_or_raise_the_one_error(text: bytes) -> None:
    with contextlib.suppress(CorruptFileError):
        parse_offsets(text, "f")
    with contextlib.suppress(CorruptFileError):
        parse_epochs(text, "f")


@pytest.mark.parametrize(
    "text",
    [
        b"0\n1\nmy-topic 3 7",  # no line end
        b"0\r\n1\r\nmy-topic 3 7\r\n",
        b"0\r1\rmy-topic 3 7\r",
        b"0\n1\nmy-topic\t 3 \v\f 7 \t\n",
        b"+0\n+1\nmy-topic +3 +7\n",
        b"0\n2\nmy-topic 3 6\nmy-topic 3 7\n",  # the last counts
        b"0\n01\nmy-topic 03 007\n",
    ],
)
def test_what_kafka_reads_is_read(text: bytes) -> None:
    assert parse_offsets(text, "f") == {TopicPartition("my-topic", 3): 7}


@pytest.mark.parametrize("text", [b"", b"0", b"0\n", b"0\n0", b"0\n0\n"])
def test_files_without_entries(text: bytes) -> None:
    assert parse_offsets(text, "f") == {}
    assert parse_epochs(text, "f") == []


HEADS = [
    (b"1\n0\n", "line 1: a version that is not known"),
    (b"\n", "line 1: not a version"),
    (b" 0\n0\n", "line 1: not a version"),
    (b"0 \n0\n", "line 1: not a version"),
    (b"-0\n0\n", "line 1: not a version"),
    (b"zero\n0\n", "line 1: not a version"),
    (b"\xff\n0\n", "line 1: malformed"),
    (b"0\n\n", "line 2: not a number of entries"),
    (b"0\n-1\n", "line 2: not a number of entries"),
    (b"0\n2147483648\n", "line 2: not a number of entries"),
    (b"0\n0x0\n", "line 2: not a number of entries"),
    ("0\n\N{ARABIC-INDIC DIGIT ONE}\n".encode(), "line 2: not a number of entries"),
    (b"0\n1\n", "line 2: not as many entries"),
    (b"0\n0\n\n", "line 3: malformed"),
    (b"0\n0\n \n", "line 3: malformed"),
]

OFFSETS = [
    (b"0\n0\na 0 1\n", "line 2: not as many entries"),
    (b"0\n2\na 0 1\n", "line 2: not as many entries"),
    (b"0\n1\na 0\n", "line 3: malformed"),
    (b"0\n1\na 0 1 2\n", "line 3: malformed"),
    (b"0\n1\n a 0 1\n", "line 3: malformed"),
    (b"0\n1\n 0 1\n", "line 3: malformed"),
    (b"0\n2\na 0 1\na b 0 1\n", "line 4: malformed"),
    (b"0\n1\n\xff 0 1\n", "line 3: malformed"),
    (b"0\n1\na x 1\n", "line 3: not a partition"),
    (b"0\n1\na -1 1\n", "line 3: not a partition"),
    (b"0\n1\na 2147483648 1\n", "line 3: not a partition"),
    (b"0\n1\na 0 x\n", "line 3: not an offset"),
    (b"0\n1\na 0 -1\n", "line 3: not an offset"),
    (b"0\n1\na 0 1.5\n", "line 3: not an offset"),
    (b"0\n1\na 0 1_000\n", "line 3: not an offset"),
    (b"0\n1\na 0 9223372036854775808\n", "line 3: not an offset"),
    (b"0\n1\na 0 " + b"9" * 5000 + b"\n", "line 3: not an offset"),
]

EPOCHS = [
    (b"0\n1\n1\n", "line 3: malformed"),
    (b"0\n1\n1 2 3\n", "line 3: malformed"),
    (b"0\n1\n 1 2\n", "line 3: malformed"),
    (b"0\n1\nx 2\n", "line 3: not an epoch"),
    (b"0\n1\n-1 2\n", "line 3: not an epoch"),
    (b"0\n1\n2147483648 2\n", "line 3: not an epoch"),
    (b"0\n1\n1 -2\n", "line 3: not an offset"),
    (b"0\n3\n1 2\n2 3\n", "line 2: not as many entries"),
]


@pytest.mark.parametrize(("text", "what"), HEADS + OFFSETS)
def test_malformed_offsets(text: bytes, what: str) -> None:
    with pytest.raises(CorruptFileError, match=what) as caught:
        parse_offsets(text, "some/file")
    assert caught.value.path == "some/file"
    assert caught.value.expected is not None
    assert caught.value.found is not None


@pytest.mark.parametrize(("text", "what"), HEADS + EPOCHS)
def test_malformed_epochs(text: bytes, what: str) -> None:
    with pytest.raises(CorruptFileError, match=what) as caught:
        parse_epochs(text, "some/file")
    assert caught.value.path == "some/file"
    assert caught.value.expected is not None
    assert caught.value.found is not None


@pytest.mark.parametrize("topic", ["", "a b", "a\n", "\t"])
def test_a_name_that_would_spoil_the_file_is_not_written(topic: str) -> None:
    with pytest.raises(UnsupportedError, match="white space"):
        format_offsets({TopicPartition("fine", 0): 1, TopicPartition(topic, 0): 1})


def test_a_missing_file_has_no_entries(tmp_path: Path) -> None:
    assert read_offsets(OS, str(tmp_path / "missing")) == {}


@pytest.mark.parametrize("fail_at", range(len(REPLACE)))
def test_a_replacement_that_fails_leaves_a_whole_file(tmp_path: Path, fail_at: int) -> None:
    before, after = {TopicPartition("a", 0): 1}, {TopicPartition("a", 0): 2, TopicPartition("b", 1): 3}
    write_offsets(OS, str(tmp_path), "checkpoint", before)
    disk = FailingDisk(fail_at)
    with pytest.raises(OSError, match=f"no {REPLACE[fail_at]}"):
        write_offsets(disk, str(tmp_path), "checkpoint", after)
    assert disk.calls == REPLACE[: fail_at + 1]
    assert read_offsets(OS, str(tmp_path / "checkpoint")) == (after if REPLACE[fail_at] == "sync_directory" else before)
    write_offsets(OS, str(tmp_path), "checkpoint", after)
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint"}
    assert read_offsets(OS, str(tmp_path / "checkpoint")) == after


GOLDEN_EPOCHS = sorted(GOLDEN.glob("*/*/closed/leader-epoch-checkpoint"))


def test_epochs_that_kafka_wrote_come_out_the_same() -> None:
    for path in GOLDEN_EPOCHS:
        text = path.read_bytes()
        entries = parse_epochs(text, str(path))
        assert format_epochs(entries) == text or (text == b"" and entries == []), path
    assert any(parse_epochs(path.read_bytes(), "") for path in GOLDEN_EPOCHS)

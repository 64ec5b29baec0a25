"""`tidelog.json`: what it looks like, what is read from it, and what is said about one that is wrong."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.small_stores import open_store, tree_of
from tidelog.errors import CorruptFileError, UnsupportedError
from tidelog.store.store_file import MAX_PARTITIONS, STORE_FILE, DeletedTopic, StoreFile, TopicEntry, format_store_file, parse_store_file

ID, OTHER = UUID(int=0xB4A826085464_4D0F_9554_AB17600697_14), UUID(int=77)
SUFFIX = "0123456789abcdef0123456789abcdef"

WHOLE = StoreFile(
    ID,
    directories=2,
    is_adopted=True,
    revision=7,
    topics={
        "emails": TopicEntry(OTHER, 4, {"retention.ms": "-1", "flush.ms": "5"}),
        "adopted": TopicEntry(None, 9, None, absent=frozenset({0, 3})),
        "half": TopicEntry(ID, 1, {}, is_incomplete=True),
    },
    deleted=(DeletedTopic("old", 2, SUFFIX, 1_700_000_000_000, is_renamed=True), DeletedTopic("older", 1, SUFFIX, -5)),
)


def test_what_it_looks_like() -> None:
    text = format_store_file(StoreFile(ID, revision=3, topics={"emails": TopicEntry(OTHER, 4, {"b": "2", "a": "1"})}))
    assert text.decode() == (
        "{\n"
        '  "version": 1,\n'
        '  "store_id": "tKgmCFRkTQ-VVKsXYAaXFA",\n'
        '  "revision": 3,\n'
        '  "directories": 1,\n'
        '  "is_adopted": false,\n'
        '  "topics": {\n'
        '    "emails": {\n'
        '      "topic_id": "AAAAAAAAAAAAAAAAAAAATQ",\n'
        '      "partitions": 4,\n'
        '      "config": {\n'
        '        "a": "1",\n'
        '        "b": "2"\n'
        "      }\n"
        "    }\n"
        "  },\n"
        '  "deleted": []\n'
        "}\n"
    )


def test_there_and_back() -> None:
    assert parse_store_file(format_store_file(WHOLE), "x") == WHOLE


names = st.text(alphabet="ab._-", min_size=1, max_size=5).filter(lambda name: name not in (".", ".."))
configs = st.none() | st.dictionaries(st.text('a.é"', max_size=5), st.text("1-é\\", max_size=5), max_size=3)
entries = st.builds(
    lambda topic_id, partitions, config, half, absent: TopicEntry(
        topic_id, partitions, config, half, frozenset(absent & {*range(partitions)})
    ),
    st.none() | st.uuids(),
    st.integers(1, 9),
    configs,
    st.booleans(),
    st.sets(st.integers(0, 8)),
)
files = st.builds(
    StoreFile,
    st.uuids(),
    st.integers(1, 5),
    st.booleans(),
    st.integers(0, 2**40),
    st.dictionaries(names, entries, max_size=4),
    st.lists(
        st.builds(DeletedTopic, names, st.integers(1, 9), st.just(SUFFIX), st.integers(-(2**40), 2**40), st.booleans()), max_size=3
    ).map(tuple),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files)
def test_any_there_and_back(content: StoreFile) -> None:
    assert parse_store_file(format_store_file(content), "x") == content


def changed(**changes: Any) -> bytes:
    return json.dumps(json.loads(format_store_file(WHOLE)) | changes).encode()


def topic(**changes: Any) -> bytes:
    return changed(topics={"emails": {"topic_id": None, "partitions": 1} | changes})


def gone(**changes: Any) -> bytes:
    return changed(deleted=[{"topic": "a", "partitions": 1, "suffix": SUFFIX, "due_ms": 0, "is_renamed": True} | changes])


BAD = {
    "empty": b"",
    "cut off": format_store_file(WHOLE)[:100],
    "zeros": bytes(100),
    "not UTF-8": b'{"version": "\xff"}',
    "a list": b"[1]",
    "a number": b"7",
    "deep": b"[" * 100_000,
    "no version": b"{}",
    "a version that is none": changed(version="1"),
    "a version that is true": changed(version=True),
    "no store id": changed(store_id=None),
    "half a store id": changed(store_id="tKgm"),
    "a revision below 0": changed(revision=-1),
    "no directories": changed(directories=0),
    "neither true nor false": changed(is_adopted="false"),
    "topics as a list": changed(topics=[]),
    "topics as null": changed(topics=None),
    "a name that leads elsewhere": changed(topics={"../a": {"topic_id": None, "partitions": 1}}),
    "a topic that is none": changed(topics={"a": 5}),
    "no partitions": topic(partitions=0),
    "too many partitions": topic(partitions=MAX_PARTITIONS + 1),
    "partitions in text": topic(partitions="1"),
    "a topic id that is none": topic(topic_id="x"),
    "a setting that is no text": topic(config={"retention.ms": -1}),
    "settings as a list": topic(config=["a"]),
    "half or not": topic(is_incomplete=1),
    "absent beyond the last": topic(absent=[1]),
    "no suffix": gone(suffix="x"),
    "a suffix that leads elsewhere": gone(suffix="/" * 32),
    "no time": gone(due_ms=None),
    "renamed or not": gone(is_renamed=None),
    "deleted without a name": gone(topic=""),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_one_that_is_wrong(text: bytes) -> None:
    with pytest.raises(CorruptFileError) as raised:
        parse_store_file(text, "/data/tidelog.json")
    assert raised.value.path == "/data/tidelog.json"
    assert "backup" in str(raised.value)
    assert "adopt" in str(raised.value)


def test_what_is_missing_is_named() -> None:
    document = json.loads(format_store_file(WHOLE))
    for name in ("store_id", "revision", "directories", "is_adopted", "topics", "deleted"):
        with pytest.raises(CorruptFileError, match=f"'{name}' is missing"):
            parse_store_file(json.dumps({key: value for key, value in document.items() if key != name}).encode(), "x")


def test_a_later_version() -> None:
    with pytest.raises(UnsupportedError, match="expected version 1, found version 2"):
        parse_store_file(changed(version=2), "x")


def test_what_is_not_known_yet_is_no_fault() -> None:
    assert parse_store_file(changed(more="to come"), "x") == WHOLE


@pytest.mark.parametrize("text", [BAD["zeros"], changed(version=2)], ids=["damaged", "later"])
def test_a_store_with_such_a_file_is_not_touched(text: bytes, tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.create_topic("a")
    (tmp_path / STORE_FILE).write_bytes(text)
    before = tree_of(tmp_path)
    for adopt in (False, True):
        with pytest.raises((CorruptFileError, UnsupportedError)):
            open_store(tmp_path, adopt=adopt)
    assert tree_of(tmp_path) == before


def test_one_that_is_lost_can_be_adopted_again(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with open_store(one, two) as store:
        store.create_topic("a", 2)
    (two / STORE_FILE).unlink()
    with open_store(one, two, adopt=True) as store:
        assert store.topic("a").describe().is_looked_after
        assert not store.failures
    (one / STORE_FILE).unlink()
    (two / STORE_FILE).unlink()
    with open_store(one, two, adopt=True) as store:
        assert store.topic("a").partitions == 2
        assert not store.topic("a").describe().is_looked_after

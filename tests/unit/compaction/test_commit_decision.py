"""What is left to be done of a commit that was cut off: the rule, and the file."""

import json
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from tidelog.compaction.cleaned_segment import CleanedSizes
from tidelog.compaction.commit_decision import (
    CommitDecision,
    DecisionVoidError,
    FileFacts,
    GroupDecision,
    UnfinishedGroup,
    format_decision,
    parse_decision,
    what_is_left,
)

OLD = {base_offset: FileFacts(1000 + base_offset, 50 + base_offset, 7_000 + base_offset) for base_offset in (0, 10, 20, 30)}
ACTIVE = {40: FileFacts(80, 99, 9_999)}
NEW = FileFacts(500, 77, 7_020)
FIRST = GroupDecision(tuple((offset, OLD[offset]) for offset in (0, 10, 20)), "1-group-0", CleanedSizes(500, 8, 12, 34), 7_020)
SECOND = GroupDecision(((30, OLD[30]),), None, CleanedSizes(0, 0, 0, None), 7_030)
EMPTY = FileFacts(0, 78, 7_030)
DECISION = CommitDecision("/data/emails-0", UUID(int=17), 40, (FIRST, SECOND))
STAGED = {f"1-group-0{kind}": FileFacts(size, 1, 1) for kind, size in ((".log", 500), (".index", 8), (".timeindex", 12), (".txnindex", 34))}


def left(found: Mapping[int, FileFacts], staged: Mapping[str, FileFacts] = STAGED) -> list[tuple[GroupDecision, tuple[int, ...], bool]]:
    return list(what_is_left(DECISION, {**found, **ACTIVE}, staged))


def test_all_of_it_before_the_first_swap() -> None:
    assert left(OLD) == [UnfinishedGroup(FIRST, (0, 10, 20), False), UnfinishedGroup(SECOND, (30,), False)]


def test_the_rest_after_some_swaps() -> None:
    assert left({0: NEW, 30: OLD[30]}, {}) == [UnfinishedGroup(SECOND, (30,), False)]


def test_old_segments_behind_the_new_one_that_a_load_has_left() -> None:
    assert left({0: NEW, 20: OLD[20], 30: EMPTY}, {}) == [UnfinishedGroup(FIRST, (20,), True)]


def test_nothing_when_all_is_done() -> None:
    assert left({0: NEW, 30: EMPTY}, {}) == []


@pytest.mark.parametrize(
    ("found", "staged", "why"),
    [
        (OLD | {10: OLD[10]._replace(size_bytes=1)}, STAGED, "segment 10 has changed"),
        (OLD | {10: OLD[10]._replace(inode=1)}, STAGED, "segment 10 has changed"),
        (OLD | {10: OLD[10]._replace(mtime_ns=1)}, STAGED, "segment 10 has changed"),
        (OLD | {0: OLD[0]._replace(inode=1)}, STAGED, "segment 0 has changed"),
        ({0: OLD[0], 10: OLD[10], 30: OLD[30]}, STAGED, "segments behind 0 are gone"),
        ({10: OLD[10], 20: OLD[20], 30: OLD[30]}, STAGED, "segment 0 is gone"),
        ({0: NEW}, STAGED, "segment 30 is gone"),
        ({0: NEW._replace(size_bytes=501), 30: OLD[30]}, STAGED, "segment 0 has changed"),
        ({0: NEW._replace(mtime_ns=1), 30: OLD[30]}, STAGED, "segment 0 has changed"),
        ({0: NEW, 30: EMPTY, 35: OLD[10]}, STAGED, "there was no segment 35"),
        (OLD, {name: facts for name, facts in STAGED.items() if not name.endswith(".txnindex")}, "1-group-0.txnindex is not there"),
        (OLD, STAGED | {"1-group-0.log": FileFacts(499, 1, 1)}, "1-group-0.log is not there"),
    ],
)
def test_nothing_at_all_when_the_log_is_another(found: dict[int, FileFacts], staged: dict[str, FileFacts], why: str) -> None:
    with pytest.raises(DecisionVoidError, match=why):
        left(found, staged)


def test_nothing_when_the_log_was_cut() -> None:
    """It may have the same segments, and what is appended at its end would be taken for clean."""
    with pytest.raises(DecisionVoidError, match="the log was cut"):
        what_is_left(DECISION, {0: NEW, 30: EMPTY}, STAGED)


@pytest.mark.parametrize("decision", [DECISION, replace(DECISION, topic_id=None)])
def test_the_file_says_it(decision: CommitDecision) -> None:
    assert parse_decision(format_decision(decision)) == decision


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"directory": 5},
        {"topic_id": "x"},
        {"topic_id": 5},
        {"next_dirty_offset": "5"},
        {"next_dirty_offset": None},
        {"groups": 5},
        {"groups": [{}]},
        {"groups": [{"members": [], "staged": None, "sizes": [0, 0, 0, None], "mtime_ns": 1}]},
        {"groups": [{"members": [[0, 1, 2]], "staged": None, "sizes": [0, 0, 0, None], "mtime_ns": 1}]},
        {"groups": [{"members": [[0, 1, 2, 3]], "staged": "../a", "sizes": [0, 0, 0, None], "mtime_ns": 1}]},
        {"groups": [{"members": [[0, 1, 2, 3]], "staged": "a", "sizes": [0, 0, 0], "mtime_ns": 1}]},
        {"groups": [{"members": [[0, 1, 2, 3]], "staged": "a", "sizes": [0, 0, 0, "5"], "mtime_ns": 1}]},
    ],
)
def test_a_file_of_something_else_is_refused(changes: dict[str, object]) -> None:
    """No path leads out of the staging directory, and a number is one."""
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        parse_decision(json.dumps({**json.loads(format_decision(DECISION)), **changes}).encode())


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"5", b"\xff", b"[" * 100_000])
def test_a_file_that_is_none_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        parse_decision(text)

"""What a commit of several groups has decided, as a file says it, and what is left to be done of it.

    {"version": 1, "directory": "/data/emails-0", "topic_id": "…", "next_dirty_offset": 1234, "groups": [
        {"members": [[0, 1048563, 131, 1700000000000000000], …], "staged": "3-12-group-0-0", "sizes": [2096, 16, 24, null],
         "mtime_ns": 1700000000000000000}, …]}

A member is known again by size, inode and time of its `.log`. If all is as it was, or as the commit leaves it, what is left can be done;
if anything else has happened to the log, nothing is: what was decided was about another log.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from tidelog.compaction.cleaned_segment import CleanedSizes

DECISION_START, DECISION_END = "commit-", ".json"
"""Of the name of such a file; the number of the log in its run is in between."""
_VERSION = 1


class FileFacts(NamedTuple):
    """By which a file is known again."""

    size_bytes: int
    inode: int
    mtime_ns: int


class GroupDecision(NamedTuple):
    """Segments, and the one that takes their place and has the name of the first."""

    members: tuple[tuple[int, FileFacts], ...]
    """Base offset and `.log` of each."""
    staged: str | None
    """How the names of the new files begin, kinds follow; None: it is empty, and made when it is needed."""
    sizes: CleanedSizes
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """All groups of a log, in order."""

    directory: str
    topic_id: UUID | None
    next_dirty_offset: int
    """Up to where the log is clean when all are done."""
    groups: tuple[GroupDecision, ...]


class UnfinishedGroup(NamedTuple):
    """What is left to be done about a group."""

    group: GroupDecision
    base_offsets: tuple[int, ...]
    """The segments that have to go."""
    is_in_place: bool
    """Whether the new segment is there already, and some old ones behind it still are."""


class DecisionVoidError(Exception):
    """What was decided cannot be done any more: why."""


def what_is_left(decision: CommitDecision, found: Mapping[int, FileFacts], staged: Mapping[str, FileFacts]) -> tuple[UnfinishedGroup, ...]:
    """What is left to be done, of all groups together: nothing if one does not hold any more, which raises `DecisionVoidError`.

    `found` are the `.log` files that the log has, by base offset, `staged` the files of the staging directory.
    """
    known = {base_offset for group in decision.groups for base_offset, _ in group.members}
    for base_offset in found:
        if base_offset < decision.next_dirty_offset and base_offset not in known:
            raise DecisionVoidError(f"there was no segment {base_offset}")
    if max(found, default=-1) < decision.next_dirty_offset:
        raise DecisionVoidError("the log was cut")
    left = []
    for group in decision.groups:
        (first, was), *others = group.members
        for base_offset, facts in others:
            if found.get(base_offset, facts) != facts:
                raise DecisionVoidError(f"segment {base_offset} has changed")
        rest = tuple(base_offset for base_offset, _ in others if base_offset in found)
        now = found.get(first)
        if now is None:
            raise DecisionVoidError(f"segment {first} is gone")
        if now == was:
            if len(rest) < len(others):
                raise DecisionVoidError(f"segments behind {first} are gone")
            for kind, size_bytes in zip(group.sizes.kinds, group.sizes, strict=False):
                if group.staged is not None and ((file := staged.get(group.staged + kind)) is None or file.size_bytes != size_bytes):
                    raise DecisionVoidError(f"the staged file {group.staged}{kind} is not there as it was")
            left.append(UnfinishedGroup(group, (first, *rest), is_in_place=False))
        elif (now.size_bytes, now.mtime_ns) != (group.sizes.size_bytes, group.mtime_ns):
            raise DecisionVoidError(f"segment {first} has changed")
        elif rest:  # a crash in a swap leaves those above the last batch of the new one
            left.append(UnfinishedGroup(group, rest, is_in_place=True))
    return tuple(left)


def format_decision(decision: CommitDecision) -> bytes:
    """The file."""
    content = {
        "version": _VERSION,
        "directory": decision.directory,
        "topic_id": None if decision.topic_id is None else str(decision.topic_id),
        "next_dirty_offset": decision.next_dirty_offset,
        "groups": [
            {
                "members": [[base_offset, *facts] for base_offset, facts in group.members],
                "staged": group.staged,
                "sizes": group.sizes,
                "mtime_ns": group.mtime_ns,
            }
            for group in decision.groups
        ],
    }
    return json.dumps(content).encode()


def parse_decision(text: bytes) -> CommitDecision:
    """What a file says; `ValueError` for anything that `format_decision` does not write."""
    try:
        content = json.loads(text)
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']!r}")
        topic_id, groups = content["topic_id"], tuple(map(_group, content["groups"]))
        return CommitDecision(
            _of(str, content["directory"]), None if topic_id is None else UUID(topic_id), _of(int, content["next_dirty_offset"]), groups
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"malformed: {error!r}") from error


def _group(content: Any) -> GroupDecision:
    members = tuple((_of(int, first), FileFacts(*(_of(int, fact) for fact in facts))) for first, *facts in content["members"])
    staged, (size_bytes, index_bytes, time_index_bytes, txn_index_bytes) = content["staged"], content["sizes"]
    if not members or (staged is not None and "/" in _of(str, staged)):
        raise ValueError("a group of nothing, or of files elsewhere")
    sizes = CleanedSizes(
        _of(int, size_bytes),
        _of(int, index_bytes),
        _of(int, time_index_bytes),
        None if txn_index_bytes is None else _of(int, txn_index_bytes),
    )
    return GroupDecision(members, staged, sizes, _of(int, content["mtime_ns"]))


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{value!r} is not of type {kind.__name__}")
    return value

"""Who is a member of which group: one in a process. A forked child starts with nobody."""

import os
import threading
from typing import Protocol
from weakref import ReferenceType, ref

from tidelog.errors import GroupInUseError


class Member(Protocol):
    """A consumer, as far as others care."""

    topics: tuple[str, ...]

    @property
    def is_live(self) -> bool:
        """Whether it can still be used."""


class _Registry:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.members: dict[tuple[str, str], ReferenceType[Member]] = {}

    def find(self, path: str, group: str) -> Member | None:
        found = self.members.get((path, group))
        member = None if found is None else found()
        return member if member is not None and member.is_live else None


_registry = _Registry()


def join(path: str, group: str, member: Member) -> None:
    """Become the member of a group whose positions lie in a store; if there is one already, `GroupInUseError`."""
    registry = _current()
    with registry.lock:
        if registry.find(path, group) is not None:
            raise GroupInUseError(
                f"group {group!r} has a live member in this process",
                path=path,
                hint="close the other consumer first; there is no rebalancing, a group has one member",
            )
        registry.members[path, group] = ref(member)


def leave(path: str, group: str, member: Member) -> None:
    """Be a member no more."""
    registry = _current()
    with registry.lock:
        found = registry.members.get((path, group))
        if found is not None and found() in (member, None):
            del registry.members[path, group]


def live_member(path: str, group: str) -> Member | None:
    """The member of a group, if it has one."""
    registry = _current()
    with registry.lock:
        return registry.find(path, group)


def check_unused(path: str, group: str) -> None:
    """Raise if a group has a live member."""
    if live_member(path, group) is not None:
        raise GroupInUseError(f"group {group!r} has a live member in this process", path=path, hint="close the consumer first")


def _current() -> _Registry:
    global _registry
    if _registry.pid != os.getpid():  # whoever held its lock does not exist in this process
        _registry = _Registry()
    return _registry

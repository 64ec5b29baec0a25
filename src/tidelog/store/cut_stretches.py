"""Keep aside what is cut from a log that is copied: workers put stretches of its files into files of their own."""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import SHARED

_READ_BYTES = 1 << 20


class AsideItem(NamedTuple):
    """A stretch of a file."""

    log: int
    path: str
    start: int
    end: int
    name: str
    """That the file with it is to have."""


def put_aside(items: Sequence[AsideItem], name: str) -> list[str | None]:
    """Work of a task: where the copies are; None of nothing but zeros, which is not worth keeping."""
    return [_copied(SHARED.disk, item, f"{name}-aside-{item.log}-{item.name}") for item in items]


def _copied(disk: Disk, item: AsideItem, staged: str) -> str | None:
    reading, writing = disk.open(item.path), -1
    try:
        position = item.start
        while position < item.end and (data := disk.read(reading, min(_READ_BYTES, item.end - position), position)):
            if writing < 0 and any(data):
                writing = disk.create(staged)
            if writing >= 0:
                disk.write(writing, [data], position - item.start)
            position += len(data)
        if writing >= 0:
            disk.sync(writing)
    finally:
        disk.close(reading)
        if writing >= 0:
            disk.close(writing)
    return staged if writing >= 0 else None

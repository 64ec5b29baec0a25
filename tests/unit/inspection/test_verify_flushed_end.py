"""What verify says about `flushed-end.tidelog`, which an owner that was killed leaves behind."""

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from tests.support.logs import numbered, open_log
from tidelog.disk.published_end import PUBLISHED_END, SIZE, FlushedEnd, format_flushed_end
from tidelog.inspection import Finding, verify, verify_files

pytestmark = pytest.mark.leaves("flushed-end-unreadable", "flushed-end-beyond", "flushed-end-place", "timestamp-1970")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with open_log(tmp_path) as log:
        for number in range(4):
            log.append(numbered(number))
    return Path(log.directory)


def about(directory: Path) -> list[Finding]:
    return [finding for finding in verify(directory) if finding.path.endswith(PUBLISHED_END) and finding.severity != "note"]


def size_of(directory: Path) -> int:
    return (directory / "00000000000000000000.log").stat().st_size


def with_crc(body: bytes) -> bytes:
    return body + struct.pack(">I", crc32c(body))


def test_one_that_is_right_is_only_named(directory: Path) -> None:
    for offset, position in ((4, size_of(directory)), (2, size_of(directory) // 2), (0, 0)):
        (directory / PUBLISHED_END).write_bytes(format_flushed_end(FlushedEnd(offset, 0, position, 0)))
        assert about(directory) == []
        assert list(verify_files([directory / PUBLISHED_END])) == []
    assert [finding.code for finding in verify(directory) if finding.path.endswith(PUBLISHED_END)] == ["own-file"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "size"),
        (bytes(SIZE), "CRC"),
        (format_flushed_end(FlushedEnd(4, 0, 0, 0))[:-1], "size"),
        (format_flushed_end(FlushedEnd(4, 0, 0, 0)) + b"x", "size"),
        (with_crc(struct.pack(">4sIqqqq", b"edit", 1, 4, 0, 0, 0)), "begin"),
        (with_crc(struct.pack(">4sIqqqq", b"tide", 9, 4, 0, 0, 0)), "version 9"),
        (with_crc(struct.pack(">4sIqqqq", b"tide", 1, -4, 0, 0, 0)), "negative"),
    ],
)
def test_one_that_cannot_be_used(content: bytes, words: str, directory: Path) -> None:
    (directory / PUBLISHED_END).write_bytes(content)
    for findings in (about(directory), list(verify_files([directory / PUBLISHED_END]))):
        assert [(finding.code, finding.severity) for finding in findings] == [("flushed-end-unreadable", "warning")]
        assert words in findings[0].what


def test_every_flipped_bit(directory: Path) -> None:
    content = format_flushed_end(FlushedEnd(4, 0, size_of(directory), 0))
    for bit in range(0, SIZE * 8, 5):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        (directory / PUBLISHED_END).write_bytes(flipped)
        assert [finding.code for finding in verify_files([directory / PUBLISHED_END])] == ["flushed-end-unreadable"]


def test_an_end_behind_that_of_the_log(directory: Path) -> None:
    (directory / PUBLISHED_END).write_bytes(format_flushed_end(FlushedEnd(5, 0, size_of(directory), 0)))
    (finding,) = about(directory)
    assert (finding.code, finding.offset, finding.expected, finding.found) == ("flushed-end-beyond", 5, "at most 4", 5)


@pytest.mark.parametrize(("base_offset", "more"), [(0, 1), (3, 0)])
def test_a_place_that_is_none(base_offset: int, more: int, directory: Path) -> None:
    end = FlushedEnd(4, base_offset, size_of(directory) + more, 0)
    (directory / PUBLISHED_END).write_bytes(format_flushed_end(end))
    assert [finding.code for finding in about(directory)] == ["flushed-end-place"]


def test_beside_a_living_owner(tmp_path: Path) -> None:
    with open_log(tmp_path, {"internal.segment.bytes": 250}) as log:
        for number in range(6):
            log.append(numbered(number))
            assert about(Path(log.directory)) == []
        log.truncate_to(2)
        assert about(Path(log.directory)) == []

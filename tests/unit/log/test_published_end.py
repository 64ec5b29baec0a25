"""The file by which an owner says how far its log is flushed: its bytes, and what a reader makes of a write that is half done."""

import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import numbered, open_log
from tidelog.disk.disk import OS, Disk
from tidelog.disk.published_end import (
    PUBLISHED_END,
    SIZE,
    FlushedEnd,
    PublishedEnd,
    format_flushed_end,
    parse_flushed_end,
    read_published_end,
)

END = FlushedEnd(5_000_000_000, 4_999_999_000, 81_234, 17)
LONGS = st.integers(0, 2**63 - 1)


def test_bytes() -> None:
    body = bytes.fromhex("74696465 00000001 000000012a05f200 000000012a05ee18 0000000000013d52 0000000000000011")
    assert format_flushed_end(END) == body + struct.pack(">I", crc32c(body))
    assert len(body) + 4 == SIZE == 44


@given(LONGS, LONGS, LONGS, LONGS)
def test_round_trip(offset: int, base: int, position: int, start: int) -> None:
    end = FlushedEnd(offset, base, position, start)
    assert parse_flushed_end(format_flushed_end(end)) == end


@given(st.integers(0, SIZE * 8 - 1))
def test_a_flipped_bit_is_noticed(bit: int) -> None:
    data = bytearray(format_flushed_end(END))
    data[bit // 8] ^= 1 << bit % 8
    assert parse_flushed_end(bytes(data)) is None


@pytest.mark.parametrize("size", [0, 1, 40, 43, 45, 1000])
def test_another_size(size: int) -> None:
    assert parse_flushed_end((format_flushed_end(END) * 30)[:size]) is None


def test_another_version_says_nothing() -> None:
    body = struct.pack(">4sIqqqq", b"tide", 2, *END)
    assert parse_flushed_end(body + struct.pack(">I", crc32c(body))) is None
    body = struct.pack(">4sIqqqq", b"tide", 1, -1, 0, 0, 0)
    assert parse_flushed_end(body + struct.pack(">I", crc32c(body))) is None


def test_published_and_read(tmp_path: Path) -> None:
    assert read_published_end(OS, str(tmp_path)) is None
    published = PublishedEnd.open_for_writing(OS, str(tmp_path))
    assert read_published_end(OS, str(tmp_path)) is None
    published.publish(*END)
    assert read_published_end(OS, str(tmp_path)) == END
    again = PublishedEnd.open_for_writing(OS, str(tmp_path))
    assert read_published_end(OS, str(tmp_path)) == END, "what is there stays until something else is published"
    again.publish(1, 0, 70, 0, is_durable=True)
    assert read_published_end(OS, str(tmp_path)) == (1, 0, 70, 0)
    again.withdraw()
    again.withdraw()
    assert read_published_end(OS, str(tmp_path)) is None


def test_one_small_write(tmp_path: Path) -> None:
    calls: list[str] = []

    class Counting(Disk):
        def write_some(self, fd: int, parts: object, position: int) -> int:
            calls.append("write")
            return super().write_some(fd, parts, position)  # type: ignore[arg-type]

        def sync(self, fd: int) -> None:
            calls.append("sync")

    published = PublishedEnd.open_for_writing(Counting(), str(tmp_path))
    published.publish(*END)
    assert calls == ["write"]
    published.publish(*END, is_durable=True)
    assert calls == ["write", "write", "sync"]


class Torn(Disk):
    """Gives half of the new content and half of the old, so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def read(self, fd: int, size: int, position: int) -> bytes:
        data = super().read(fd, size, position)
        if self.left > 0:
            self.left -= 1
            return data[:12] + format_flushed_end(FlushedEnd(1, 1, 1, 1))[12:]
        return data


@pytest.mark.parametrize(("times", "expected"), [(0, END), (1, END), (3, END), (1000, None)])
def test_a_write_half_done_is_read_again(times: int, expected: FlushedEnd | None, tmp_path: Path) -> None:
    PublishedEnd.open_for_writing(OS, str(tmp_path)).publish(*END)
    assert read_published_end(Torn(times), str(tmp_path)) == expected


def test_something_else_by_that_name_vouches_for_nothing(tmp_path: Path) -> None:
    (tmp_path / PUBLISHED_END).mkdir()
    assert read_published_end(OS, str(tmp_path)) is None


def test_the_owner_of_a_log_publishes(tmp_path: Path) -> None:
    with open_log(tmp_path, {"internal.segment.bytes": 250}) as log:
        for number in range(5):
            log.append(numbered(number))
            active = log.segments[-1]
            assert read_published_end(OS, log.directory) == (number + 1, active.base_offset, active.size_bytes, 0)
        log.delete_segments(1, "a test")
        published = read_published_end(OS, log.directory)
        assert published is not None
        assert published.log_start_offset == log.log_start_offset > 0
        log.truncate_to(4)
        published = read_published_end(OS, log.directory)
        assert published is not None
        assert published.offset <= 4

"""Assignment on the leader, against the header taken apart and put together again."""

import struct
from dataclasses import dataclass

import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tests.support.batches import with_crc
from tidelog.record.assign import assign_header
from tidelog.record.layout import signed64

HEADER = struct.Struct(">qiibIhiqqqhii")
timestamps = st.one_of(st.just(-1), st.sampled_from((1_700_000_000_000, 1_700_000_000_001)), st.integers(-(2**63), 2**63 - 1))


@dataclass(frozen=True, slots=True)
class Assignment:
    next_offset: int
    leader_epoch: int
    append_time_ms: int | None


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    count = draw(st.one_of(st.integers(0, 9), st.integers(0, 2**31 - 1)))
    payload = draw(st.binary(max_size=30))
    return with_crc(
        HEADER.pack(
            draw(st.integers(-(2**63), 2**63 - 1)),
            49 + len(payload),
            draw(st.integers(-(2**31), 2**31 - 1)),
            2,
            0,
            draw(st.one_of(st.integers(0, 0x7F), st.integers(-(2**15), 2**15 - 1))),
            draw(st.one_of(st.just(count - 1), st.integers(-(2**31), 2**31 - 1))),
            draw(timestamps),
            draw(timestamps),
            draw(st.integers(-1, 2**63 - 1)),
            draw(st.integers(-1, 2**15 - 1)),
            draw(st.integers(-1, 2**31 - 1)),
            count,
        )
        + payload
    )


assignments = st.builds(
    Assignment,
    st.one_of(st.integers(0, 2**33), st.integers(0, 2**63 - 1), st.integers(2**63 - 9, 2**63 - 1)),
    st.integers(-1, 2**31 - 1),
    st.one_of(st.none(), timestamps),
)


def expected(batch: bytes, assignment: Assignment, max_timestamp: int) -> bytes:
    """The new header."""
    fields = list(HEADER.unpack(batch[:61]))
    last_offset = assignment.next_offset + fields[12] - 1
    fields[0] = signed64(last_offset - fields[6])
    fields[2] = assignment.leader_epoch
    wanted_type = 8 if assignment.append_time_ms is not None else 0
    if (fields[5] & 8, fields[8]) != (wanted_type, max_timestamp):
        known = fields[5] & 0b111_0111  # codec, transactional, control, horizon
        fields[5], fields[8] = known | wanted_type, max_timestamp
        fields[4] = crc32c.crc32c(HEADER.pack(*fields)[21:] + batch[61:])
    return HEADER.pack(*fields)


@given(batches(), timestamps, assignments)
def test_assignment(batch: bytes, largest_ms: int, assignment: Assignment) -> None:
    max_timestamp_ms = largest_ms if assignment.append_time_ms is None else assignment.append_time_ms
    surrounded = bytearray(b"\xff" * 5 + batch + b"\xff")
    header = assign_header(
        memoryview(surrounded),
        5,
        len(batch),
        next_offset=assignment.next_offset,
        leader_epoch=assignment.leader_epoch,
        is_append_time=assignment.append_time_ms is not None,
        max_timestamp_ms=max_timestamp_ms,
    )
    assert bytes(header) == expected(batch, assignment, max_timestamp_ms)
    assert surrounded == b"\xff" * 5 + batch + b"\xff"

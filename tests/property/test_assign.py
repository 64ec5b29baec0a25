"""Assignment on the leader, against the header taken apart and put together again."""

import struct
from dataclasses import dataclass

import crc32c
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.batches import with_crc
from tidelog.record import walk_headers
from tidelog.record.assign import assign_batches, assign_header
from tidelog.record.headers import FIELDS

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
    st.one_of(st.integers(0, 2**33), st.integers(0, 2**62)),
    st.integers(-1, 2**31 - 1),
    st.one_of(st.none(), timestamps),
)


def expected(batch: bytes, assignment: Assignment, max_timestamp: int) -> bytes:
    fields = list(HEADER.unpack(batch[:61]))
    last_offset = assignment.next_offset + fields[12] - 1
    fields[0] = last_offset - fields[6]
    fields[2] = assignment.leader_epoch
    wanted_type = 8 if assignment.append_time_ms is not None else 0
    if (fields[5] & 8, fields[8]) != (wanted_type, max_timestamp):
        known = fields[5] & 0b111_0111  # codec, transactional, control, horizon
        fields[5], fields[8] = known | wanted_type, max_timestamp
        fields[4] = crc32c.crc32c(HEADER.pack(*fields)[21:] + batch[61:])
    return HEADER.pack(*fields) + batch[61:]


@given(st.lists(st.tuples(batches(), timestamps), max_size=4), assignments)
def test_assignment(run: list[tuple[bytes, int]], assignment: Assignment) -> None:
    data = b"".join(batch for batch, _ in run)
    wanted = []
    next_offset = assignment.next_offset
    for batch, timestamp in run:
        max_timestamp = timestamp if assignment.append_time_ms is None else assignment.append_time_ms
        one = Assignment(next_offset, assignment.leader_epoch, assignment.append_time_ms)
        wanted.append(expected(batch, one, max_timestamp))
        header = assign_header(
            memoryview(b"\xff" * 5 + batch + b"\xff"),
            5,
            len(batch),
            next_offset=next_offset,
            leader_epoch=assignment.leader_epoch,
            is_append_time=assignment.append_time_ms is not None,
            max_timestamp_ms=max_timestamp,
        )
        assert bytes(header) == wanted[-1][:61]
        next_offset += struct.unpack(">i", batch[57:61])[0]
    copy = bytearray(data)
    headers = walk_headers(copy)
    after = assign_batches(
        memoryview(copy),
        headers,
        next_offset=assignment.next_offset,
        leader_epoch=assignment.leader_epoch,
        append_time_ms=assignment.append_time_ms,
        max_timestamps=np.array([timestamp for _, timestamp in run], np.int64),
    )
    assert bytes(copy) == b"".join(wanted)
    assert after == next_offset
    fresh = walk_headers(copy)
    for name in FIELDS:
        assert getattr(headers, name).tolist() == getattr(fresh, name).tolist(), name

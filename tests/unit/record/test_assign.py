"""What a leader writes into the headers of the batches it appends."""

import base64
import json
import struct
from pathlib import Path

import pytest

from tests.support.batches import TIME, batch_of_payload, patched
from tests.support.golden import GOLDEN
from tidelog.record import Compression, RecordBatch, encode_batches, read_batches, verify_checksums, walk_headers
from tidelog.record.assign import assign_header
from tidelog.record.survey import Scratch, survey_one
from tidelog.record.views import byte_view

NEXT = 2**40 + 5
ROWS = [(b"k", b"v", (), TIME), (b"k", b"v", (), TIME + 7)]
PLAIN = encode_batches(ROWS)
MARKED = encode_batches(ROWS, producer_id=2**34, producer_epoch=3, base_sequence=8, is_transactional=True, compression=Compression.LZ4)
STAMPED = encode_batches(ROWS, append_time_ms=TIME + 99)
RUN = PLAIN + MARKED + STAMPED


def assigned(
    data: bytes, *, times: list[int] | None = None, append_time_ms: int | None = None, epoch: int = 7, next_offset: int = NEXT
) -> bytes:
    """The batches with their new headers, each assigned to where it lies between the others."""
    given = bytearray(data)
    headers = walk_headers(given)
    stored = b""
    for index in range(len(headers)):
        position, size = int(headers.position[index]), int(headers.size_bytes[index])
        header = assign_header(
            byte_view(given),
            position,
            size,
            next_offset=next_offset,
            leader_epoch=epoch,
            is_append_time=append_time_ms is not None,
            max_timestamp_ms=append_time_ms if append_time_ms is not None else (times or [])[index],
        )
        assert len(header) == 61
        stored += bytes(header) + data[position + 61 : position + size]
        next_offset += int(headers.count[index])
    assert given == data
    return stored


def test_offset_and_epoch_leave_the_rest_alone() -> None:
    data = assigned(RUN, times=[TIME + 7, TIME + 7, TIME + 99], epoch=2**31 - 1)
    first, second, third = read_batches(data)
    assert [batch.base_offset for batch in (first, second, third)] == [NEXT, NEXT + 2, NEXT + 4]
    assert [batch.partition_leader_epoch for batch in (first, second, third)] == [2**31 - 1] * 3
    # Offset and epoch are not part of the CRC; the third lost its timestamp type.
    assert data[16 : len(PLAIN)] == PLAIN[16:]
    assert data[len(PLAIN) + 16 : len(PLAIN + MARKED)] == MARKED[16:]
    assert data[-len(STAMPED) + 61 :] == STAMPED[61:]
    assert (third.attributes, third.max_timestamp_ms) == (0, TIME + 99)
    verify_checksums(data, walk_headers(data))


def test_a_wrong_max_timestamp_is_put_right() -> None:
    data = assigned(RUN, times=[TIME + 8, TIME + 6, -1])
    verify_checksums(data, walk_headers(data))
    assert [batch.max_timestamp_ms for batch in read_batches(data)] == [TIME + 8, TIME + 6, -1]
    assert [batch.attributes for batch in read_batches(data)] == [0, 0x13, 0]
    assert [[record.timestamp_ms for record in batch] for batch in read_batches(data)] == [[TIME, TIME + 7]] * 3


def test_append_time() -> None:
    data = assigned(RUN, append_time_ms=TIME + 99)
    verify_checksums(data, walk_headers(data))
    assert [batch.attributes for batch in read_batches(data)] == [8, 0x1B, 8]
    assert [[record.timestamp_ms for record in batch] for batch in read_batches(data)] == [[TIME + 99] * 2] * 3
    assert data[-len(STAMPED) + 16 :] == STAMPED[16:]


def test_the_epoch_may_be_none() -> None:
    assert [batch.partition_leader_epoch for batch in read_batches(assigned(PLAIN, times=[TIME + 7], epoch=-1))] == [-1]


@pytest.mark.parametrize(("bits", "kept"), [(0x0080, 0), (0x7F00, 0), (-1, 0x77), (0x0078, 0x70), (0x7F, 0x77), (-0x8000, 0)])
def test_bits_that_mean_nothing_go_when_the_attributes_are_written(bits: int, kept: int) -> None:
    strange = patched(PLAIN, 21, struct.pack(">h", bits))
    ((_, _, _, _, _, after, *_),) = struct.iter_unpack(">qiibIhiqqqhii", assigned(strange, times=[TIME + 5])[:61])
    assert after == kept
    if not bits & 8:
        unchanged = assigned(strange, times=[TIME + 7])
        assert unchanged[16:] == strange[16:]


def test_a_last_offset_delta_that_says_more_than_the_count() -> None:
    # Kafka gives the last record the offset that the count calls for, and the base follows from the delta.
    gappy = patched(PLAIN, 23, struct.pack(">i", 4))
    (batch,) = read_batches(assigned(gappy, times=[TIME + 7]))
    assert (batch.base_offset, batch.last_offset) == (NEXT + 1 - 4, NEXT + 1)


def test_an_empty_batch_takes_no_offset() -> None:
    data = assigned(batch_of_payload(b"", count=0) + PLAIN, times=[5, TIME + 7])
    first, second = read_batches(data)
    assert (first.last_offset, second.base_offset) == (NEXT - 1, NEXT)
    verify_checksums(data, walk_headers(data))


@pytest.mark.parametrize(
    ("last_offset_delta", "base_offset"), [(1, 2**63 - 1), (2**31 - 1, 2**63 - 2**31 + 1), (-(2**31), -(2**63) + 2**31)]
)
def test_offsets_wrap_around_as_they_do_in_java(last_offset_delta: int, base_offset: int) -> None:
    # Two records from 2^63-1 on: the last offset is one more than 64 bits hold.
    batch = patched(PLAIN, 23, struct.pack(">i", last_offset_delta))
    assert assigned(batch, times=[TIME + 7], next_offset=2**63 - 1)[:8] == struct.pack(">q", base_offset)


def test_what_the_caller_must_not_do() -> None:
    for position, size in ((0, len(PLAIN) + 1), (-1, 61), (0, 60), (2**62, 61), (1, len(PLAIN)), (0, -5)):
        with pytest.raises(ValueError, match="in a buffer of"):
            assign_header(byte_view(PLAIN), position, size, next_offset=0, leader_epoch=0, is_append_time=True, max_timestamp_ms=5)


# What happens to a log besides appends does not change the headers of batches, but those that were cut off are no longer there. A log that
# was there before may have torn bytes in front of what is appended.
LEADER_CASES = [
    path.parent
    for path in sorted((GOLDEN / "partitions").glob("*/case.json"))
    if not (path.parent / "initial").exists() and json.loads(path.read_text())["config"].get("compression.type", "producer") == "producer"
]


@pytest.mark.parametrize("case", LEADER_CASES, ids=lambda case: case.name)
def test_golden_appends(case: Path) -> None:
    """What Kafka's leader made of the batches it was given."""
    description = json.loads((case / "case.json").read_text())
    is_append_time = description["config"].get("message.timestamp.type") == "LogAppendTime"
    stored: dict[int, bytes] = {}
    for log in (case / "closed").glob("*.log"):
        stored.update({batch.base_offset: batch.to_bytes() for batch in read_batches(log.read_bytes())})
    given: dict[int, bytes] = {}
    for step in description["steps"]:
        if step["op"] in ("truncate_to", "truncate_fully_and_start_at"):
            given.clear()  # offsets are given again, and what is left is told by other cases
        if step["op"] != "append" or "error" in step or step["result"]["first_offset"] < 0:
            continue
        if step["result"]["last_offset"] + 1 != step["log_end_offset"]:
            continue  # a duplicate: the answer names the batch that is there already
        data = base64.b64decode(step["batches"])
        batch = next(read_batches(data))
        if not isinstance(batch, RecordBatch):
            continue  # a message of an old format, which Kafka rewrites
        surveyed = survey_one(
            byte_view(data),
            0,
            batch.size_bytes,
            batch.attributes,
            batch.count,
            batch.base_timestamp_ms,
            0,
            2**62,
            Scratch(),
        )
        # In a batch that claims append time, every record has the batch's timestamp.
        max_timestamp = step["now_ms"] if is_append_time else batch.max_timestamp_ms if batch.attributes & 8 else surveyed[0]
        header = assign_header(
            byte_view(data),
            0,
            batch.size_bytes,
            next_offset=step["result"]["first_offset"],
            leader_epoch=step["leader_epoch"],
            is_append_time=is_append_time,
            max_timestamp_ms=max_timestamp,
        )
        given[step["result"]["first_offset"]] = bytes(header) + data[61 : batch.size_bytes]
    assert {offset: stored.get(offset) for offset in given} == given


def test_golden_appends_are_many() -> None:
    assert len(LEADER_CASES) > 50

"""The survey of records against a plain count over what the records were made from."""

import struct
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tests.support.batches import varint, with_crc
from tests.support.strategies import byte_strings, codecs, header_lists
from tidelog.record import Compression, walk_headers
from tidelog.record.compression import compress
from tidelog.record.survey import Scratch, survey_one


@dataclass(frozen=True, slots=True)
class SurveyedRecord:
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def encode(self) -> bytes:
        body = b"\x00" + varint(self.timestamp_delta) + varint(self.offset_delta)
        for data in (self.key, self.value):
            body += varint(-1) if data is None else varint(len(data)) + data
        body += varint(len(self.headers))
        for name, content in self.headers:
            encoded = name.encode("utf-8", "surrogatepass")
            body += varint(len(encoded)) + encoded + (varint(-1) if content is None else varint(len(content)) + content)
        return varint(len(body)) + body


@dataclass(frozen=True, slots=True)
class SurveyedBatch:
    base_timestamp: int
    attributes: int
    records: tuple[SurveyedRecord, ...]

    def encode(self) -> bytes:
        payload = bytes(compress(Compression(self.attributes & 7), b"".join(record.encode() for record in self.records)))
        header = struct.pack(
            ">qiibIhiqqqhii", 0, 49 + len(payload), -1, 2, 0, self.attributes, 9, self.base_timestamp, 5, -1, -1, -1, len(self.records)
        )
        return with_crc(header + payload)

    def expected(self, lowest_ms: int, highest_ms: int) -> tuple[int, int, int, int, bool]:
        times = [wrapped(self.base_timestamp + record.timestamp_delta) for record in self.records]
        return (
            max([-1, *times]),
            sum(record.key is None for record in self.records),
            sum(time != -1 and not lowest_ms <= time <= highest_ms for time in times),
            times.count(-1),
            [record.offset_delta for record in self.records] == list(range(len(self.records))),
        )


def wrapped(number: int) -> int:
    """As Java's 64-bit sums do."""
    return (number + 2**63) % 2**64 - 2**63


@st.composite
def batches(draw: st.DrawFn) -> SurveyedBatch:
    base = draw(st.one_of(st.just(1_700_000_000_000), st.integers(-1, 2**62), st.integers(-(2**63), 2**63 - 1)))
    deltas = st.one_of(st.integers(-3, 3), st.just(wrapped(-1 - base)), st.integers(-(2**40), 2**40), st.integers(-(2**63), 2**63 - 1))
    is_dense = draw(st.booleans())
    records = []
    for index in range(draw(st.integers(0, 8))):
        offset_delta = index if is_dense else draw(st.one_of(st.just(index), st.integers(0, 300), st.integers(-(2**31), 2**31 - 1)))
        records.append(SurveyedRecord(draw(deltas), offset_delta, draw(byte_strings), draw(byte_strings), draw(header_lists)))
    # Whatever the other bits say, the answers are the same.
    return SurveyedBatch(base, int(draw(codecs)) | draw(st.sampled_from((0, 8, 0x10, 0x38, 0x40))), tuple(records))


limits = st.one_of(st.integers(1_699_999_999_998, 1_700_000_000_002), st.integers(-(2**63), 2**63 - 1))
SCRATCH = Scratch()


@given(st.lists(batches(), max_size=4), limits, limits)
def test_survey(run: list[SurveyedBatch], lowest_ms: int, highest_ms: int) -> None:
    data = b"".join(batch.encode() for batch in run)
    headers = walk_headers(data)
    assert len(headers) == len(run)
    for index, batch in enumerate(run):
        position, size = int(headers.position[index]), int(headers.size_bytes[index])
        one = survey_one(
            memoryview(data), position, size, batch.attributes, len(batch.records), batch.base_timestamp, lowest_ms, highest_ms, SCRATCH
        )
        assert one == batch.expected(lowest_ms, highest_ms)

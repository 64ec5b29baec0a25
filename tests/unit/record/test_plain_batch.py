"""Plain batches: which ones are, and what a leader makes of them, one at a time and in a run."""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from crc32c import crc32c

from tests.support.batches import TIME, batch_of_payload, message, patched, varint
from tidelog.config import LogConfig
from tidelog.log.leader import prepare, timestamp_range
from tidelog.record import Compression, encode_batches, read_batches
from tidelog.record.headers import FIELDS, Int64Array
from tidelog.record.kernel.plain_batch import assign_plain, assign_plain_run
from tidelog.record.survey import Scratch
from tidelog.record.views import Buffer, view

NEXT = 2**40 + 5
EPOCH = 7
UNSET = -77
SCRATCH = Scratch()


class Rules(NamedTuple):
    """What a leader asks of batches, in the order in which the kernel takes it."""

    max_bytes: int
    lowest_ms: int
    highest_ms: int
    needs_keys: bool


def rules_of(config: LogConfig) -> Rules:
    return Rules(config.max_message_bytes, *timestamp_range(config, TIME), config.is_compacted)


def append_time_of(config: LogConfig) -> int:
    return TIME if config.is_append_time else -1


def assign_alone(batch: Buffer, config: LogConfig, next_offset: int = NEXT) -> tuple[bytes, int, int] | None:
    """Header, record count and largest timestamp, or None."""
    plain = assign_plain(crc32c, batch, *rules_of(config), next_offset, EPOCH, append_time_of(config), SCRATCH.fault)
    if plain is None:
        return None
    header, count, max_timestamp_ms = plain
    return bytes(header), count, max_timestamp_ms


def assign_run(batches: Sequence[Buffer], config: LogConfig, *, first: int = 0) -> tuple[int, list[bytes], Int64Array]:
    """Where the run stopped, the bytes to write and the header fields, a row each."""
    parts: list[Any] = []
    fields = np.full((len(FIELDS), len(batches)), UNSET, np.int64)
    done = assign_plain_run(
        crc32c,
        list(batches),
        first,
        *rules_of(config),
        NEXT,
        EPOCH,
        append_time_of(config),
        parts,
        view(fields.reshape(-1)),
        SCRATCH.fault,
    )
    return done, [bytes(part) for part in parts], fields


def expected_run(batches: Sequence[Buffer], config: LogConfig, *, first: int = 0) -> tuple[int, list[bytes], Int64Array]:
    """The same from batches taken one by one, each of which the leader's long way has to store alike. A producer's are not for a run."""
    parts: list[bytes] = []
    fields = np.full((len(FIELDS), len(batches)), UNSET, np.int64)
    next_offset = NEXT
    for index in range(first, len(batches)):
        plain = assign_alone(batches[index], config, next_offset)
        has_producer_id = len(batches[index]) > 43 and bytes(batches[index])[43] < 0x80
        if plain is None or has_producer_id:
            return index, parts, fields
        header, count, max_timestamp_ms = plain
        data = bytes(batches[index])
        stored, *facts = prepare(
            memoryview(data), config, next_offset=next_offset, leader_epoch=EPOCH, now_ms=TIME, is_client=True, scratch=SCRATCH
        )
        assert [header, data[61:]] == [bytes(part) for part in stored]
        assert [len(data), next_offset, next_offset + count - 1, max_timestamp_ms] == facts
        parts += [header, data[61:]]
        fields[[FIELDS.index(name) for name in ("size_bytes", "base_offset", "last_offset", "max_timestamp_ms")], index] = facts
        next_offset += count
    return len(batches), parts, fields


def check_run(batches: Sequence[Buffer], config: LogConfig, *, first: int = 0) -> int:
    """Assign in a run and one by one, which have to agree; give back where the run stopped."""
    before = [bytes(batch) for batch in batches]
    stopped, parts, fields = assign_run(batches, config, first=first)
    expected_stop, expected_parts, expected_fields = expected_run(batches, config, first=first)
    assert (stopped, parts) == (expected_stop, expected_parts)
    assert fields.tolist() == expected_fields.tolist()
    assert [bytes(batch) for batch in batches] == before
    return stopped


LOOSE = LogConfig()
ROWS = [(b"k", b"v", (), TIME), (b"k", None, (("h", b"x"),), TIME + 7), (b"", b"v" * 200, (), TIME - 5)]
PLAIN = encode_batches(ROWS)
UNTIMED = encode_batches([(b"k", b"v", (), -1)])
MARKED = encode_batches(ROWS[:2], producer_id=2**34, producer_epoch=3, base_sequence=8, is_transactional=True)
SHORT = encode_batches(ROWS[:2])
MISDATED = patched(PLAIN, 35, struct.pack(">q", TIME + 8))
KEYLESS = encode_batches([(None, b"v", (), TIME)])
RECORD = varint(10) + b"\x00" + varint(0) + varint(0) + varint(1) + b"k" + varint(3) + b"val" + varint(0)


def with_offset_deltas(*deltas: int) -> bytes:
    return batch_of_payload(b"".join(RECORD[:3] + varint(delta) + RECORD[4:] for delta in deltas), count=len(deltas))


NOT_PLAIN = {
    **{f"{codec} compressed": encode_batches(ROWS, compression=codec) for codec in Compression if codec is not Compression.NONE},
    "unknown codec": patched(PLAIN, 22, b"\x07"),
    "append time": encode_batches(ROWS, append_time_ms=TIME),
    "control": patched(PLAIN, 22, b"\x20"),
    "wrong CRC": PLAIN[:-1] + bytes([PLAIN[-1] ^ 1]),
    "wrong CRC field": PLAIN[:17] + bytes([PLAIN[17] ^ 0x80]) + PLAIN[18:],
    "base offset": encode_batches(ROWS, base_offset=1),
    "negative base offset": struct.pack(">q", -(2**63)) + PLAIN[8:],
    "magic 1": PLAIN[:16] + b"\x01" + PLAIN[17:],
    "legacy": message(0, b"k", bytes(80)),
    "count too small": patched(patched(PLAIN, 57, struct.pack(">i", 2)), 23, struct.pack(">i", 1)),
    "count too large": patched(patched(PLAIN, 57, struct.pack(">i", 4)), 23, struct.pack(">i", 3)),
    "largest count": patched(patched(PLAIN, 57, struct.pack(">i", 2**31 - 1)), 23, struct.pack(">i", 2**31 - 2)),
    "negative count": patched(patched(PLAIN, 57, struct.pack(">i", -2)), 23, struct.pack(">i", -3)),
    "no records": patched(batch_of_payload(b"", count=0), 23, struct.pack(">i", -1)),
    "last offset delta": patched(PLAIN, 23, struct.pack(">i", 3)),
    "gap in offset deltas": with_offset_deltas(0, 2),
    "offset deltas from 1": with_offset_deltas(1, 2),
    "offset delta twice": with_offset_deltas(0, 0),
    "record beyond the end": batch_of_payload(varint(100) + bytes(6), count=1),
    "producer without a sequence": patched(MARKED, 53, struct.pack(">i", -1)),
    "cut off": PLAIN[:-1],
    "size field": PLAIN[:8] + struct.pack(">i", len(PLAIN) - 13) + PLAIN[12:],
    "cut off in the header": PLAIN[:60],
    "bytes behind": PLAIN + b"\x00",
    "empty": b"",
}


@pytest.mark.parametrize("batch", [PLAIN, UNTIMED, SHORT, MISDATED, KEYLESS, with_offset_deltas(0, 1, 2)])
@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_plain_batches(make: type[Buffer], batch: bytes) -> None:
    assert check_run([make(batch)], LOOSE) == 1
    assert check_run([make(batch)], LogConfig(message_timestamp_type="LogAppendTime")) == 1


def test_what_is_assigned() -> None:
    batch = bytearray(MISDATED)
    plain = assign_alone(batch, LOOSE)
    assert plain is not None
    header, count, max_timestamp_ms = plain
    assert (count, max_timestamp_ms) == (3, TIME + 7)
    (stored,) = read_batches(header + MISDATED[61:])
    assert (stored.base_offset, stored.last_offset, stored.partition_leader_epoch) == (NEXT, NEXT + 2, EPOCH)
    # The largest timestamp was wrong, so that it is another header under another CRC: that of PLAIN.
    assert (header + MISDATED[61:])[16:] == PLAIN[16:]
    assert batch == MISDATED


def test_append_time() -> None:
    plain = assign_alone(PLAIN, LogConfig(message_timestamp_type="LogAppendTime"))
    assert plain is not None
    assert plain[1:] == (3, TIME)
    (stored,) = read_batches(plain[0] + PLAIN[61:])
    assert [record.timestamp_ms for record in stored] == [TIME] * 3


@pytest.mark.parametrize("name", NOT_PLAIN)
@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_not_plain(make: type[Buffer], name: str) -> None:
    batch = make(NOT_PLAIN[name])
    assert assign_alone(batch, LOOSE) is None
    assert check_run([PLAIN, batch, PLAIN], LOOSE) == 1
    assert check_run([batch, PLAIN], LOOSE) == 0
    assert check_run([batch, PLAIN, SHORT], LOOSE, first=1) == 3


@pytest.mark.parametrize(
    ("batch", "settings"),
    [
        (KEYLESS, {"cleanup_policy": ("compact",)}),
        (PLAIN, {"max_message_bytes": len(PLAIN) - 1}),
        (PLAIN, {"message_timestamp_after_max_ms": 6}),
        (PLAIN, {"message_timestamp_before_max_ms": 4}),
    ],
    ids=["keyless", "too large", "too late", "too early"],
)
def test_what_the_log_does_not_take_is_not_plain(batch: bytes, settings: dict[str, Any]) -> None:
    assert assign_alone(batch, LOOSE) is not None
    config = LogConfig(**settings)
    assert assign_alone(batch, config) is None
    assert check_run([UNTIMED, batch, UNTIMED], config) == 1


def test_limits_are_inclusive() -> None:
    config = LogConfig(
        cleanup_policy=("compact",), max_message_bytes=len(PLAIN), message_timestamp_after_max_ms=7, message_timestamp_before_max_ms=5
    )
    assert check_run([PLAIN, UNTIMED, PLAIN], config) == 3


@pytest.mark.parametrize("first", range(5))
def test_a_run_of_all_kinds_of_buffers(first: int) -> None:
    surrounded = memoryview(b"\xff" * 3 + PLAIN + b"\xff")
    assert check_run([PLAIN, bytearray(SHORT), surrounded[3:-1], memoryview(bytearray(MISDATED))], LOOSE, first=first) == 4


def test_the_rows_of_the_fields() -> None:
    stopped, parts, fields = assign_run([PLAIN, SHORT, NOT_PLAIN["control"], PLAIN], LOOSE)
    assert stopped == 2
    assert [len(part) for part in parts] == [61, len(PLAIN) - 61, 61, len(SHORT) - 61]
    written = {row: values for row, values in enumerate(fields.tolist()) if values != [UNSET] * 4}
    assert written == {
        1: [len(PLAIN), len(SHORT), UNSET, UNSET],
        4: [NEXT, NEXT + 3, UNSET, UNSET],
        5: [NEXT + 2, NEXT + 4, UNSET, UNSET],
        7: [TIME + 7, TIME + 7, UNSET, UNSET],
    }


def test_parts_are_added_and_payloads_are_not_copied() -> None:
    batch = bytearray(PLAIN)
    parts: list[Any] = [b"before"]
    fields = view(np.zeros(len(FIELDS), np.int64))
    assert assign_plain_run(crc32c, [batch], 0, *rules_of(LOOSE), NEXT, EPOCH, -1, parts, fields, SCRATCH.fault) == 1
    batch[-1] ^= 1
    before, header, payload = parts
    assert (before, len(header), bytes(payload)) == (b"before", 61, bytes(batch[61:]))


def test_an_empty_run_and_one_at_its_end() -> None:
    assert check_run([], LOOSE) == 0
    assert check_run([PLAIN], LOOSE, first=1) == 1


@pytest.mark.parametrize(("first", "room"), [(-1, 28), (-(2**62), 28), (0, 27), (0, 0), (1, 27), (2, 27)])
def test_what_the_caller_must_not_do(first: int, room: int) -> None:
    parts: list[Any] = []
    fields = np.full(room, UNSET, np.int64)
    with pytest.raises(ValueError, match="no room for the headers of 2 batches"):
        assign_plain_run(crc32c, [PLAIN, PLAIN], first, *rules_of(LOOSE), NEXT, EPOCH, -1, parts, view(fields), SCRATCH.fault)
    assert parts == []
    assert (fields == UNSET).all()


def test_a_run_stops_at_a_producer() -> None:
    assert assign_alone(MARKED, LOOSE, NEXT) is not None
    assert check_run([PLAIN, MARKED, PLAIN], LOOSE) == 1

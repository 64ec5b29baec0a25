"""verify and the batches: what is wrong with one, or between two, is found, and nothing behind it is hidden."""

import dataclasses
import json
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import batch_of_payload, message, patched
from tests.support.golden_partitions import golden_cases
from tests.support.logs import TIME, a_batch
from tests.support.verified import codes, notes, write_epochs, write_segment
from tidelog.errors import LogNotFoundError
from tidelog.inspection import Finding, verify
from tidelog.inspection.finding import MOST_ALIKE, limited
from tidelog.record import ControlType, transaction_marker

ODD = {
    "leader-epochs": {"epoch-mismatch", "epoch-falls"},  # a leader with a lower epoch than before, which no broker has
    "follower-refused": {"batch-count", "epoch-falls", "epoch-mismatch", "records-unreadable"},  # a leader that sends nonsense
    "opened-after-crash": {"index-not-trimmed"},  # opened as if it had been closed in order, which it was not
    "opened-torn": {"framing-lost", "offsets-fall", "epoch-mismatch", "index-position", "time-index-offset"},  # the same, appended to
    "opened-torn-full": {"torn-tail", "epoch-mismatch", "index-position", "time-index-offset"},  # the same
    "refused-timestamps-default": {"timestamp-1970"},
}
ODD_RECORDS = {
    "refused-records": {"record-offsets"},  # deltas that Kafka does not look at
    "append-time-flag-cleared": {"record-timestamps"},
}


def log_of(directory: Path, *batches: bytes, base_offset: int = 0, tail: bytes = b"") -> Path:
    write_segment(directory, base_offset, list(batches), tail=tail)
    write_epochs(directory, (0, base_offset))
    return directory


def at(base_offset: int, count: int = 1, **settings: Any) -> bytes:
    return a_batch(count, base_offset=base_offset, partition_leader_epoch=0, **settings)


THREE = (at(0, 2), at(2), at(3, 3))


@pytest.mark.parametrize("folder", golden_cases("partitions"), ids=lambda folder: folder.name)
def test_kafka_s_logs_are_in_order(folder: Path) -> None:
    assert set(codes(folder / "closed")) == ODD.get(folder.name, set()) - {"records-unreadable"}
    if folder.name not in ODD:
        assert set(codes(folder / "closed", level="records")) == ODD_RECORDS.get(folder.name, set())


@pytest.mark.parametrize("level", ["headers", "everything", "records"])
def test_a_log_in_order(tmp_path: Path, level: str) -> None:
    assert list(verify(log_of(tmp_path, *THREE), level=level)) == []  # type: ignore[arg-type]


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError):
        list(verify(tmp_path / "none"))
    with pytest.raises(ValueError, match="a level is one of headers, everything, records"):
        verify(tmp_path, level="all")  # type: ignore[arg-type]


def test_a_finding_tells_everything(tmp_path: Path) -> None:
    rotten = bytearray(THREE[1])
    rotten[-1] ^= 1
    (finding,) = verify(log_of(tmp_path, THREE[0], bytes(rotten), THREE[2]))
    assert (finding.severity, finding.code, finding.position, finding.offset) == ("error", "batch-crc", len(THREE[0]), 2)
    assert finding.path == f"{tmp_path}/00000000000000000000.log"
    assert pickle.loads(pickle.dumps(finding)) == finding
    told = json.loads(json.dumps(finding.to_json()))
    assert told["type"] == "finding"
    assert told["mend"] == "salvage"
    assert set(told) == {"type", *(field.name for field in dataclasses.fields(Finding))}
    assert "at byte" in str(finding)


def test_rot_in_many_batches_hides_nothing(tmp_path: Path) -> None:
    batches = [bytearray(at(offset)) for offset in range(9)]
    for number in (1, 2, 5, 8):
        batches[number][-1] ^= 0x10
    found = list(verify(log_of(tmp_path, *map(bytes, batches))))
    assert [finding.code for finding in found] == ["batch-crc"] * 4
    assert [finding.offset for finding in found] == [1, 2, 5, 8]
    assert codes(tmp_path, level="headers") == []


HEADER_FAULTS = {
    "codec": (21, b"\x00\x07", "batch-codec", "error"),
    "last offset below": (23, b"\xff\xff\xff\xfe", "batch-offsets", "error"),
    "count too large for its offsets": (57, struct.pack(">i", 9), "batch-count", "error"),
    "negative count": (57, struct.pack(">i", -5), "batch-count", "error"),
    "no count": (57, struct.pack(">i", 0), "batch-count", "error"),
    "producer without an epoch": (43, struct.pack(">q", 7), "producer-fields", "warning"),
    "producer below -1": (43, struct.pack(">q", -7), "producer-fields", "warning"),
    "epoch without a producer": (51, struct.pack(">h", 3), "producer-fields", "warning"),
    "sequence without a producer": (53, struct.pack(">i", 3), "producer-fields", "warning"),
    "transactional without a producer": (21, b"\x00\x10", "producer-fields", "warning"),
    "max timestamp before the first": (35, struct.pack(">q", TIME - 1), "timestamp-order", "warning"),
    "timestamp below -1": (35, struct.pack(">q", -2), "timestamp-negative", "warning"),
    "timestamp of 1970": (27, struct.pack(">qq", 86_400_000, 86_400_000), "timestamp-1970", "warning"),
    "timestamp of the future": (35, struct.pack(">q", TIME + 86_400_001), "timestamp-future", "warning"),
    "undefined attribute bits": (21, b"\x01\x00", "attribute-bits", "note"),
}


@pytest.mark.parametrize("fault", HEADER_FAULTS)
def test_header_fields(tmp_path: Path, fault: str) -> None:
    position, data, code, severity = HEADER_FAULTS[fault]
    bad = patched(at(2), position, data)
    found = [finding for finding in verify(log_of(tmp_path, THREE[0], bad, THREE[2]), now_ms=TIME) if "index" not in finding.code]
    assert (found[0].code, found[0].severity, found[0].position) == (code, severity, len(THREE[0]))
    assert len({finding.code for finding in found}) == 1


def test_a_timestamp_a_day_ahead_is_none_of_the_future(tmp_path: Path) -> None:
    assert codes(log_of(tmp_path, a_batch(timestamp_ms=TIME + 86_400_000)), now_ms=TIME) == []
    assert codes(tmp_path, now_ms=TIME - 1) == ["timestamp-future"]


def test_offsets_that_fall_or_repeat(tmp_path: Path) -> None:
    assert "offsets-fall" in codes(log_of(tmp_path / "a", at(0, 2), at(1), at(2)))
    assert "offsets-fall" in codes(log_of(tmp_path / "b", at(0), at(0)))
    assert codes(log_of(tmp_path / "c", at(0), at(7), at(20))) == []  # compaction leaves gaps


def test_a_name_that_lies(tmp_path: Path) -> None:
    write_segment(tmp_path, 10, [at(3), at(11)])
    assert "offset-below-base" in codes(tmp_path)


def test_an_offset_too_far_from_the_base(tmp_path: Path) -> None:
    write_segment(tmp_path / "a", 0, [at(0), at(2**31 - 1)])
    assert codes(tmp_path / "a") == ["epochs-missing"]
    write_segment(tmp_path / "b", 0, [at(0), at(2**31)])
    assert "offset-overflow" in codes(tmp_path / "b")
    write_segment(tmp_path / "c", 2**63 - 5, [at(2**63 - 3)])
    assert codes(tmp_path / "c") == ["epochs-missing"]
    write_segment(tmp_path / "d", 2**63 - 5, [at(2**63 - 3, 3), at(2**63 - 1)])
    assert "offsets-fall" in codes(tmp_path / "d")


def test_segments_that_overlap(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, [at(0, 3), at(3, 3)])
    write_segment(tmp_path, 5, [at(5)])
    write_epochs(tmp_path, (0, 0))
    (finding, *_) = [finding for finding in verify(tmp_path) if finding.severity == "error"]
    assert (finding.code, finding.position) == ("segment-overlap", len(at(0, 3)))


@pytest.mark.parametrize(
    ("tail", "code", "severity"),
    [
        (at(6, 5)[:-1], "torn-tail", "warning"),
        (at(6)[:12], "torn-tail", "warning"),
        (bytes(5000), "zero-tail", "warning"),
        (bytes(7), "zero-tail", "warning"),
        (b"\x00" * 11 + b"\x05" * 100, "garbage-tail", "error"),
    ],
)
def test_tails(tmp_path: Path, tail: bytes, code: str, severity: str) -> None:
    found = list(verify(log_of(tmp_path, *THREE, tail=tail)))
    assert [(finding.code, finding.severity, finding.position) for finding in found] == [(code, severity, sum(map(len, THREE)))]
    assert found[0].mend == "recovery on open"
    write_segment(tmp_path, 50, [at(50)])
    found = [finding for finding in verify(tmp_path) if finding.severity == "error"]
    assert [finding.code for finding in found] == [code]  # with a segment behind it, no crash explains it


@pytest.mark.parametrize("garbage", [b"\xff" * 40, bytes(40), b"\x00" * 8 + b"\x7f\xff\xff\xff" + b"\x02" * 90])
def test_a_sound_batch_behind_garbage(tmp_path: Path, garbage: bytes) -> None:
    found = [finding for finding in verify(log_of(tmp_path, THREE[0], garbage + THREE[1], THREE[2])) if finding.severity == "error"]
    assert [(finding.code, finding.position) for finding in found] == [("framing-lost", len(THREE[0]))]
    assert found[0].found == f"bytes up to {len(THREE[0]) + len(garbage)}"


@pytest.mark.parametrize("length", [0, 13, 48, 60, 200, 2**31 - 1, -1])
def test_a_size_that_lies_hides_no_other_batch(tmp_path: Path, length: int) -> None:
    lying = THREE[1][:8] + struct.pack(">i", length) + THREE[1][12:]
    rotten = bytearray(at(6))
    rotten[-1] ^= 1
    found = list(verify(log_of(tmp_path, THREE[0], lying, THREE[2], bytes(rotten))))
    errors = [(finding.code, finding.position) for finding in found if finding.severity == "error"]
    assert errors == [("framing-lost", len(THREE[0])), ("batch-crc", sum(map(len, THREE)))]


def test_a_size_that_swallows_the_next_batch(tmp_path: Path) -> None:
    length = len(THREE[1]) + len(THREE[2]) - 12
    lying = THREE[1][:8] + struct.pack(">i", length) + THREE[1][12:]
    found = list(verify(log_of(tmp_path, THREE[0], lying, THREE[2], at(6))))
    assert ("framing-lost", len(THREE[0])) in [(finding.code, finding.position) for finding in found]
    assert not [finding for finding in found if finding.code == "batch-crc"]


@pytest.mark.parametrize("magic", [3, 9, 255])
def test_a_magic_that_the_crc_contradicts(tmp_path: Path, magic: int) -> None:
    odd = THREE[1][:16] + bytes([magic]) + THREE[1][17:]
    (finding,) = verify(log_of(tmp_path, THREE[0], odd, THREE[2]))
    assert (finding.code, finding.position, finding.offset) == ("batch-magic", len(THREE[0]), 2)


def test_a_batch_larger_than_what_is_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.inspection.segment_walk.READ_BYTES", 256)
    monkeypatch.setattr("tidelog.inspection.segment_walk.LARGEST_IN_MEMORY", 2048)
    batches = [at(0), at(1, value=b"v" * 1000), at(2, value=b"w" * 5000), at(3), at(4, value=b"x" * 5000)]
    assert codes(log_of(tmp_path, *batches)) == []
    assert notes(tmp_path) == []
    rotten = bytearray(batches[2])
    rotten[-9] ^= 1
    batches[2] = bytes(rotten)
    (finding,) = verify(log_of(tmp_path, *batches))
    assert (finding.code, finding.offset) == ("batch-crc", 2)
    assert [finding.code for finding in verify(tmp_path, level="records") if finding.severity == "note"] == ["records-skipped"] * 2


@pytest.mark.parametrize("size", [20, 9000])
def test_headers_alone(tmp_path: Path, size: int) -> None:
    batches = [at(offset, value=b"v" * size) for offset in range(200)]
    assert list(verify(log_of(tmp_path, *batches), level="headers")) == []
    batches[150] = patched(at(150, value=b"v" * size), 57, struct.pack(">i", 2))
    (finding,) = verify(log_of(tmp_path, *batches), level="headers")
    assert (finding.code, finding.offset) == ("batch-count", 150)
    odd = bytearray(batches[160])
    odd[16] = 9
    batches[160] = bytes(odd)
    assert codes(log_of(tmp_path, *batches), level="headers") == ["batch-count", "batch-magic"]
    batches[170] = bytes(100)
    assert codes(log_of(tmp_path, *batches), level="headers")[:3] == ["batch-count", "batch-magic", "framing-lost"]


RECORDS = {
    "records that do not parse": (batch_of_payload(b"\x10\x00\x00\x00\x01\x01\x7f\x00\x00", count=1), "records-unreadable"),
    "bytes left": (batch_of_payload(b"\x0c\x00\x00\x00\x01\x01\x00" * 2, count=1), "records-unreadable"),
    "not gzip": (batch_of_payload(b"no gzip at all", count=1, attributes=1), "records-unreadable"),
    "an offset outside": (batch_of_payload(b"\x0c\x00\x00\x0e\x01\x01\x00", count=1), "record-offsets"),
    "another largest timestamp": (batch_of_payload(b"\x0c\x00\x08\x00\x01\x01\x00", count=1), "record-timestamps"),
}


@pytest.mark.parametrize("case", RECORDS)
def test_records(tmp_path: Path, case: str) -> None:
    batch, code = RECORDS[case]
    assert codes(log_of(tmp_path, batch)) == []
    assert codes(tmp_path, level="records") == [code]


def test_old_messages(tmp_path: Path) -> None:
    good = [message(0, b"k", b"v", magic=0), message(1, b"k", b"v"), message(2, b"k", b"w")]
    (tmp_path / "00000000000000000000.log").write_bytes(b"".join(good))
    (tmp_path / "00000000000000000000.index").write_bytes(b"")
    (tmp_path / "00000000000000000000.timeindex").write_bytes(struct.pack(">qi", TIME, 1))
    assert codes(tmp_path, level="records") == []
    rotten = bytearray(good[1])
    rotten[-1] ^= 1
    (tmp_path / "00000000000000000000.log").write_bytes(good[0] + bytes(rotten) + good[2])
    assert "batch-crc" in codes(tmp_path)


def test_epochs_that_fall(tmp_path: Path) -> None:
    def with_epoch(offset: int, epoch: int) -> bytes:
        return a_batch(base_offset=offset, partition_leader_epoch=epoch)

    write_segment(tmp_path, 0, [with_epoch(0, 1), with_epoch(1, 1)])
    write_segment(tmp_path, 2, [with_epoch(2, 3), with_epoch(3, 3)])
    write_epochs(tmp_path, (1, 0), (3, 2))
    assert codes(tmp_path) == []
    write_segment(tmp_path, 2, [with_epoch(2, 3), with_epoch(3, 2)])
    assert codes(tmp_path) == ["epoch-falls", "epoch-mismatch"]
    write_segment(tmp_path, 2, [with_epoch(2, 0), with_epoch(3, 0)])
    assert codes(tmp_path) == ["epoch-falls", "epoch-mismatch"]
    write_segment(tmp_path, 2, [with_epoch(2, 3), patched(with_epoch(3, 0), 12, struct.pack(">i", -9))])
    assert codes(tmp_path) == ["epoch-negative"]


def test_sequences_that_do_not_go_on(tmp_path: Path) -> None:
    def of(offset: int, sequence: int, *, epoch: int = 0, **more: Any) -> bytes:
        settings: dict[str, Any] = {"producer_id": 7, "producer_epoch": epoch, "base_sequence": sequence, **more}
        return at(offset, **settings)

    assert codes(log_of(tmp_path, of(0, 2**31 - 1), of(1, 0), of(2, 1), of(3, 0, epoch=1))) == []
    assert codes(log_of(tmp_path, of(0, 5), of(1, 7))) == ["producer-sequence"]
    assert codes(log_of(tmp_path, of(0, 5, epoch=1), of(1, 0, epoch=0))) == ["producer-epoch"]
    assert codes(log_of(tmp_path, of(0, 5), of(3, 7))) == []  # the batch between them was compacted away
    transactional = of(1, 7, is_transactional=True)
    assert codes(log_of(tmp_path, of(0, 5), transactional)) == ["producer-sequence"]


def test_sequences_around_lost_bytes(tmp_path: Path) -> None:
    def of(offset: int) -> bytes:
        return at(offset, producer_id=7, producer_epoch=0, base_sequence=offset)

    found = codes(log_of(tmp_path, of(0), b"\xff" * 70, of(2), of(3)))
    assert "framing-lost" in found
    assert "producer-sequence" not in found


def test_a_control_batch_that_says_nothing(tmp_path: Path) -> None:
    marker = transaction_marker(ControlType.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=1, timestamp_ms=TIME, base_offset=1)
    assert codes(log_of(tmp_path, at(0), marker)) == []
    assert codes(log_of(tmp_path, at(0), patched(marker, 53, struct.pack(">i", 4)))) == ["control-batch"]
    assert codes(log_of(tmp_path, at(0), patched(marker, 65, b"\x01"))) == ["control-record"]


def test_many_findings_alike_are_counted(tmp_path: Path) -> None:
    rotten = []
    for offset in range(100):
        batch = bytearray(at(offset))
        batch[-1] ^= 1
        rotten.append(bytes(batch))
    found = list(verify(log_of(tmp_path, *rotten)))
    assert len(found) == MOST_ALIKE + 1
    assert found[-1].what.startswith("80 more like these")
    assert list(limited([])) == []


def old(offset: int, value: bytes = b"value", magic: int = 1) -> bytes:
    return message(offset, b"key", value, magic=magic)


def about_log(directory: Path, *content: bytes, level: str = "everything", base_offset: int = 0) -> list[Finding]:
    """What verify finds in a `.log` that has nothing beside it."""
    directory.mkdir(exist_ok=True)
    path = directory / f"{base_offset:020d}.log"
    path.write_bytes(b"".join(content))
    return [finding for finding in verify(directory, level=level) if finding.path == str(path)]  # type: ignore[arg-type]


def codes_of(findings: list[Finding]) -> list[str]:
    return [finding.code for finding in findings]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("level", ["headers", "everything"])
def test_old_messages_behind_damage_are_found(tmp_path: Path, magic: int, level: str) -> None:
    """What lies behind lost framing is told by the CRC-32 of a message, as by that of a batch."""
    messages = [old(offset, b"v" * (7 * offset), magic) for offset in range(5)]
    content = bytearray(b"".join(messages))
    start = len(messages[0])
    content[start + 8 : start + 12] = struct.pack(">i", 3)  # a size that cannot be
    (lost,) = about_log(tmp_path, bytes(content), level=level)
    assert lost.code == "framing-lost"
    assert (lost.position, lost.found) == (start, f"bytes up to {start + len(messages[1])}")


@pytest.mark.parametrize("magic", [0, 1])
def test_the_last_old_message_behind_damage_is_found(tmp_path: Path, magic: int) -> None:
    """It is shorter than a header of today, and ends with the file."""
    first, last = old(0, magic=magic), message(1, None, b"", magic=magic)
    assert len(last) < 61
    content = first + b"rubbish that is no message" + last
    assert codes_of(about_log(tmp_path, content)) == ["framing-lost"]


def test_a_v2_batch_behind_damaged_messages_is_found(tmp_path: Path) -> None:
    content = old(0) + bytes([255] * 30) + at(1)
    (lost,) = about_log(tmp_path, content)
    assert lost.code == "framing-lost"
    assert lost.found == f"bytes up to {len(old(0)) + 30}"


def test_old_messages_in_values_are_not_taken_for_the_log_s(tmp_path: Path) -> None:
    """A batch of today whose framing is lost, with an old message as a value: old ones never follow new ones."""
    inside = batch_of_payload(b"", count=0, base_offset=1) + old(7)
    content = at(0) + b"\xff" * 20 + inside[61:] + at(9)
    (lost,) = about_log(tmp_path, content)
    assert lost.code == "framing-lost"
    assert lost.found == f"bytes up to {len(content) - len(at(9))}"


def test_a_bad_wrapper_with_whole_messages_inside_keeps_its_place(tmp_path: Path) -> None:
    """Bytes that do not compress lie in a compressed wrapper as they are, old messages with their CRC among them."""
    wrapper = bytearray(message(3, None, b"junk" + old(2) + b"junk", magic=1, attributes=2))
    wrapper[-1] ^= 1
    assert codes_of(about_log(tmp_path, old(0), bytes(wrapper), old(4))) == ["batch-crc"]


def test_an_old_message_too_large_to_be_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.inspection.segment_walk.READ_BYTES", 256)
    monkeypatch.setattr("tidelog.inspection.segment_walk.LARGEST_IN_MEMORY", 1024)
    content = [old(0), old(1, bytes(3000)), old(2)]
    assert about_log(tmp_path, *content) == []
    damaged = bytearray(content[1])
    damaged[-1] ^= 1
    assert codes_of(about_log(tmp_path, content[0], bytes(damaged), content[2])) == ["batch-crc"]


TOP = (1 << 63) - 1


@pytest.mark.parametrize("level", ["headers", "everything", "records"])
@pytest.mark.parametrize(("first", "delta"), [(TOP, 1), (TOP - 1, 5), (TOP, (1 << 31) - 1), (TOP - 7, 1 << 20)])
def test_offsets_that_overflow(tmp_path: Path, first: int, delta: int, level: str) -> None:
    batch = patched(at(TOP - 9), 0, struct.pack(">q", first))
    batch = patched(batch, 23, struct.pack(">i", delta))
    found = about_log(tmp_path, batch, level=level, base_offset=TOP - 10)
    assert [finding.code for finding in found if finding.severity == "error"] == ["batch-offsets"]


@pytest.mark.parametrize("level", ["headers", "everything", "records"])
def test_the_last_offset_of_all_leaves_none_for_what_follows(tmp_path: Path, level: str) -> None:
    assert about_log(tmp_path, at(TOP - 3, 3), level=level, base_offset=TOP - 5) == []
    assert codes_of(about_log(tmp_path, at(TOP - 2, 3), level=level, base_offset=TOP - 5)) == ["offset-overflow"]

"""`append_record` is `append` of a batch of one record: the same bytes, the same answers, the same refusals."""

from pathlib import Path
from typing import Any

import pytest

from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.errors import InvalidTimestampError, MessageTooLargeError, RefusedBatchError, StorageError, TidelogError
from tidelog.log.log import Log
from tidelog.record import NewBatch
from tidelog.record.kernel.header_list import encode_headers
from tidelog.record.kernel.single_batch import NO_HEADERS

NOW = 1_700_000_000_000
RECORDS = [
    (b"k", b"v", NO_HEADERS, NOW),
    (None, b"", NO_HEADERS, NOW + 1),
    (b"", None, NO_HEADERS, NOW - 86_400_000),
    (b"key" * 40, b"value" * 900, encode_headers((("name", b"x"), ("name", None)), 0), NOW - 5),
]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"flush.messages": 1 << 60},
    {"flush.messages": 3},
    {"flush.messages": 1 << 60, "message.timestamp.type": "LogAppendTime"},
    {"flush.messages": 1 << 60, "compression.type": "zstd"},
    {"flush.messages": 1 << 60, "compression.type": "uncompressed"},
    {"flush.messages": 1 << 60, "internal.segment.bytes": 5000, "index.interval.bytes": 100},
]


def _open(directory: Path, settings: dict[str, Any], **options: Any) -> Log:
    directory.parent.mkdir(parents=True, exist_ok=True)
    return Log.open(directory, mode="a", config=settings, clock=lambda: NOW, **options)


def _batch(key: bytes | None, value: bytes | None, headers: bytes, timestamp_ms: int) -> bytes:
    pairs = (("name", b"x"), ("name", None)) if headers != NO_HEADERS else ()
    return NewBatch([(key, value, pairs, timestamp_ms)]).encode()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_same_files_as_batch_by_batch(tmp_path: Path, settings: dict[str, Any]) -> None:
    with _open(tmp_path / "a" / "t-0", settings) as one, _open(tmp_path / "b" / "t-0", settings) as other:
        for record in RECORDS * 3:
            assert one.append_record(*record) == other.append(_batch(*record))
        one.append(_batch(*RECORDS[0]), leader_epoch=7)
        other.append(_batch(*RECORDS[0]), leader_epoch=7)
        assert one.append_record(*RECORDS[1]) == other.append(_batch(*RECORDS[1]))  # from here on with that epoch
    files = sorted(path.name for path in (tmp_path / "a" / "t-0").iterdir() if path.suffix in (".log", ".index", ".timeindex"))
    assert len(files) >= 3
    for name in [*files, "leader-epoch-checkpoint"]:
        assert (tmp_path / "a" / "t-0" / name).read_bytes() == (tmp_path / "b" / "t-0" / name).read_bytes(), name


@pytest.mark.parametrize("flush", [1, 1 << 60])
@pytest.mark.parametrize(
    ("settings", "record", "error"),
    [
        ({"max.message.bytes": 200}, (b"k", bytes(200), NO_HEADERS, NOW), MessageTooLargeError),
        ({"cleanup.policy": "compact"}, (None, b"v", NO_HEADERS, NOW), RefusedBatchError),
        ({}, (b"k", b"v", NO_HEADERS, NOW + 3_600_001), InvalidTimestampError),
        ({"message.timestamp.before.max.ms": 10}, (b"k", b"v", NO_HEADERS, NOW - 11), InvalidTimestampError),
    ],
)
def test_what_an_append_refuses(
    tmp_path: Path, flush: int, settings: dict[str, Any], record: tuple[Any, ...], error: type[TidelogError]
) -> None:
    with _open(tmp_path / "t-0", {**settings, "flush.messages": flush}) as log:
        with pytest.raises(error) as found:
            log.append_record(*record)
        with pytest.raises(error) as expected:
            log.append(_batch(*record))
        assert str(found.value) == str(expected.value)
        assert log.log_end_offset == 0
        assert log.append_record(b"k", b"v", NO_HEADERS, NOW).first_offset == 0


def test_a_write_that_fails_is_taken_back(tmp_path: Path) -> None:
    class Full(Disk):
        is_full = False

        def write_some(self, fd: int, parts: Any, position: int) -> int:
            if self.is_full:
                raise OSError(28, "No space left on device")
            return super().write_some(fd, parts, position)

    disk = Full()
    with _open(tmp_path / "t-0", {"flush.messages": 1 << 60}, pool=FilePool(disk)) as log:
        log.append_record(b"k", b"first", NO_HEADERS, NOW)
        disk.is_full = True
        with pytest.raises(StorageError):
            log.append_record(b"k", b"lost", NO_HEADERS, NOW)
        disk.is_full = False
        assert log.append_record(b"k", b"second", NO_HEADERS, NOW).first_offset == 1
        assert [record.value for record in log.read()] == [b"first", b"second"]

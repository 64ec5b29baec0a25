from pathlib import Path

import pytest

from tests.unit.disk.failing_disk import REPLACE, FailingDisk
from tidelog.disk.clean_shutdown import format_marker, marker_exists, parse_broker_epoch, read_marker, remove_marker, write_marker
from tidelog.disk.disk import OS


def test_the_exact_bytes() -> None:
    assert format_marker() == b'{"version":0,"brokerEpoch":-1}'
    assert format_marker(12) == b'{"version":0,"brokerEpoch":12}'


@pytest.mark.parametrize(
    ("content", "epoch"),
    [
        (b'{"version":0,"brokerEpoch":-1}', -1),
        (b'{ "brokerEpoch" : 77, "version": 1, "more": [] }\n', 77),
        (b"", None),
        (b"{}", None),
        (b'{"brokerEpoch":null}', None),
        (b'{"brokerEpoch":true}', None),
        (b'{"brokerEpoch":"7"}', None),
        (b"[7]", None),
        (b"7", None),
        (b"{", None),
        (b"\xff", None),
    ],
)
def test_broker_epoch(content: bytes, epoch: int | None) -> None:
    assert parse_broker_epoch(content) == epoch


def test_write_and_remove(tmp_path: Path) -> None:
    directory, marker = str(tmp_path), tmp_path / ".kafka_cleanshutdown"
    assert not marker_exists(OS, directory)
    assert read_marker(OS, directory) is None
    disk = FailingDisk()
    write_marker(disk, directory)
    assert disk.calls == REPLACE
    assert marker_exists(OS, directory)
    assert marker.read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    write_marker(OS, directory, b"")
    assert marker_exists(OS, directory)
    assert read_marker(OS, directory) == b""
    disk = FailingDisk()
    remove_marker(disk, directory)
    assert disk.calls == ["remove", "sync_directory"]
    assert not marker_exists(OS, directory)
    assert list(tmp_path.iterdir()) == []


def test_the_removal_by_one_who_died_is_made_durable(tmp_path: Path) -> None:
    disk = FailingDisk()
    remove_marker(disk, str(tmp_path))
    assert disk.calls == ["remove", "sync_directory"]

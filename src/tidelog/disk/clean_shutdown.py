"""`.kafka_cleanshutdown`: all logs of a log directory were flushed and closed, so opening them needs no recovery.

    {"version":0,"brokerEpoch":-1}

That it exists is what counts; older releases left it empty. It is removed, durably, before any log is opened for writing: found after a
crash it would vouch for logs that it knows nothing of.
"""

import contextlib
import json

from tidelog.disk.disk import Disk
from tidelog.disk.names import CLEAN_SHUTDOWN

UNKNOWN_BROKER_EPOCH = -1


def format_marker(broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> bytes:
    """The file."""
    return b'{"version":0,"brokerEpoch":%d}' % broker_epoch


def parse_broker_epoch(content: bytes) -> int | None:
    """The epoch of the broker that wrote it, or None where it does not say."""
    try:
        marker = json.loads(content)
    except ValueError:
        return None
    epoch = marker.get("brokerEpoch") if isinstance(marker, dict) else None
    return epoch if type(epoch) is int else None


def marker_exists(disk: Disk, directory: str) -> bool:
    """Whether the logs of a directory were closed in order."""
    return disk.exists(f"{directory}/{CLEAN_SHUTDOWN}")


def read_marker(disk: Disk, directory: str) -> bytes | None:
    """What the marker says; None if there is none."""
    try:
        return disk.read_file(f"{directory}/{CLEAN_SHUTDOWN}")
    except FileNotFoundError:
        return None


def write_marker(disk: Disk, directory: str, content: bytes | None = None) -> None:
    """Vouch for the logs of a directory, durably; what is vouched for must be durable already."""
    disk.replace_file(directory, CLEAN_SHUTDOWN, format_marker() if content is None else content)


def remove_marker(disk: Disk, directory: str) -> None:
    """Take it away, durably. Durably also if it is gone already: who removed it may have died before that."""
    with contextlib.suppress(FileNotFoundError):
        disk.remove(f"{directory}/{CLEAN_SHUTDOWN}")
    disk.sync_directory(directory)

"""What we read, held against what Kafka's consumer read."""

import re
import shutil
from pathlib import Path
from typing import Any

from interop.broker.clients import Consumed, Read
from tests.support.logs import QuietDisk
from tidelog.disk.file_pool import FilePool
from tidelog.inspection import Finding, verify
from tidelog.log.load_report import LoadReport
from tidelog.log.log_reading import Isolation, LogReading

POOL = FilePool(QuietDisk())
"""For logs in memory: nobody waits for a disk."""

ISOLATIONS: dict[Isolation, str] = {"committed": "read_committed", "high_watermark": "read_uncommitted"}
"""Ours, and a consumer's."""

ABOUT_KAFKA = {"epoch-start", "leftover-deleted", "empty-segments", "stray-snapshot", "own-file", "kept-aside"}
"""Notes about what is as it should be: a broker moves the start of a log, removes files later, leaves empty segments behind
compaction; it and we write a snapshot when a log is closed, which stays for a while; and there are files of ours."""

_GAP = re.compile(r"^Non-consecutive offsets in |^  \d+ is followed by \d+$")
_EMPTY = re.compile(r"^Found timestamp mismatch in :|^  Index timestamp: \d+, log timestamp: -1$")
"""What Kafka's dump tool says of logs that were compacted: it takes an empty batch for one with the timestamp -1."""


def read_all(log: LogReading, isolation: Isolation) -> list[Read]:
    """What we read, in the form of what a consumer read. A leader epoch is in the header of the batch."""
    epochs = {record.offset: batch.partition_leader_epoch for batch in log.batches(isolation=isolation) for record in batch}
    return [
        Read(
            record.offset, record.timestamp_ms, str(record.timestamp_type), epochs[record.offset], record.key, record.value, record.headers
        )
        for record in log.read(isolation=isolation)
    ]


def assert_same(log: LogReading, isolation: Isolation, consumed: Consumed) -> None:
    """The log holds what the consumer saw, and finds its timestamps where Kafka does."""
    end = log.last_stable_offset if isolation == "committed" else log.high_watermark
    assert (log.log_start_offset, end) == (consumed.start, consumed.end)
    assert read_all(log, isolation) == consumed.records
    for timestamp_ms, offset, found_ms in consumed.times:
        found = log.offset_for_time(timestamp_ms, isolation=isolation)
        assert (found and found.offset, found and found.timestamp_ms) == (offset, found_ms), timestamp_ms


def times_within(consumed: Consumed) -> list[tuple[int, int | None, int | None]]:
    """What was found by time, whoever has removed the segments below the start: while they are there, Kafka looks in them first.

    There it finds nothing for a time before all records.
    """
    return [time for time in consumed.times if time[0] != 0 or consumed.start == 0]


def assert_nothing_mended(report: LoadReport) -> None:
    """Opening found the log in order, and at most removed files that were waiting for that."""
    assert (report.recovered_segments, report.rebuilt_indexes, report.cuts) == ([], [], []), report
    assert all(".deleted" in action or "rebuilt-" in action for action in report.actions), report


def complaints(directory: Path) -> list[Finding]:
    """What verify has to say that is not as it should be, notes included."""
    return [finding for finding in verify(directory, level="records") if finding.code not in ABOUT_KAFKA]


def dump_complaints(dumped: dict[str, Any], *, is_compacted: bool) -> list[str]:
    """What Kafka's dump tool complains about (`Judge.dump`), in any of its three ways."""
    found = []
    for way in ("deep_iteration", "verify_index_only", "index_sanity_check"):
        found += [f"{way}: {dumped[way]['error']}"] if "error" in dumped[way] else []
        said = dumped[way]["err"].splitlines()
        found += [f"{way}: {line}" for line in said if not (is_compacted and (_GAP.search(line) or _EMPTY.search(line)))]
    return found + [line for line in dumped["deep_iteration"]["out"].splitlines() if "isvalid: false" in line]


def a_copy(partition: Path, target: Path) -> Path:
    """The partition in a log directory of its own, with the checkpoints and the marker of the one it comes from."""
    target.mkdir(parents=True)
    for path in partition.parent.iterdir():
        if path.is_file():
            shutil.copy(path, target)
    return Path(shutil.copytree(partition, target / partition.name))

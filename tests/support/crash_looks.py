"""What those see in a crash image who own nothing, before its owner has opened it: a reader, verify, salvage.

    a reader    what it sees at the log's end is what the owner may find; what it shows without being asked for more is a part of what the
                owner does find, since it cannot be taken back; of that, committed is what the markers in it say
    verify      has something to say, or nothing, but never raises
    salvage     keeps what recovery keeps, and has nothing that was never attempted

None of them changes a byte. Where flushing was weakened, the high watermark follows the end of the log: then a reader may be shown what the
crash takes, or an error.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.batches import TIME
from tests.support.crash_model import Recovered, Stored, stored_batches
from tests.support.crash_producers import committed_offsets
from tests.support.readers import ReadOnlyDisk, open_reader
from tidelog.config import LogConfig
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.errors import TidelogError
from tidelog.inspection import verify
from tidelog.inspection.salvage import salvage
from tidelog.log.log import Log
from tidelog.log.log_reading import Isolation, LogReading
from tidelog.log.read_only import ReadOnlyLog

_FILES = FilePool(ReadOnlyDisk(), 8)


@dataclass(frozen=True, slots=True)
class Looks:
    """What was seen. None of what was not looked for."""

    at_end: Recovered | None = None
    shown: Recovered | None = None
    salvaged: Recovered | None = None

    def own_faults(self, found: Recovered) -> list[str]:
        """What does not fit to what the owner has found afterwards."""
        faults = []
        if self.shown is not None:
            taken_back = [batch for batch in self.shown.batches if batch.last_offset >= found.start and batch not in found.batches]
            if taken_back:
                faults.append(f"a reader was shown {taken_back}, which are gone when the log is opened")
        if self.salvaged is not None:
            missing = [batch for batch in found.batches if batch not in self.salvaged.batches]
            if missing:
                faults.append(f"salvage lost {missing}, which recovery keeps")
        return faults


def look_at(directory: str, settings: Mapping[str, object], target: Path | None) -> Looks:
    """A reader and verify; and, if there is a `target`, salvage to it."""
    if not os.path.isdir(directory):  # noqa: PTH112 - thousands of images a minute
        return Looks()
    for _ in verify(directory, level="records", now_ms=TIME, disk=_FILES.disk):
        pass
    salvaged = None if target is None else _salvaged(directory, target, settings)
    is_durable = LogConfig.of(dict(settings)).is_durable
    try:
        with open_reader(Path(directory), disk=_FILES.disk) as log:
            for _ in log.read():
                pass  # a fetch gives bytes as they are; this checks them
            shown = _shown(log, is_durable=is_durable)
            return Looks(_at_end(log, shown), shown, salvaged) if is_durable else Looks(salvaged=salvaged)
    except TidelogError:
        if is_durable:
            raise
        return Looks(salvaged=salvaged)


def _shown(log: ReadOnlyLog, *, is_durable: bool) -> Recovered:
    start, bound = log.log_start_offset, log.high_watermark
    shown = batches_of(log, "high_watermark")
    assert all(batch.last_offset < bound for batch in shown), f"shown are {shown}, up to offset {bound}"
    if start == 0 and any(batch.producer_id >= 0 for batch in shown):
        wanted, stable = committed_offsets(shown, bound)
        if not is_durable and shown[0].base_offset > start:
            # A snapshot may tell of a transaction whose records were lost. It counts as open until an owner has opened the log.
            stable = min(stable, log.last_stable_offset)
            wanted = [offset for offset in wanted if offset < stable]
        assert log.last_stable_offset == stable, f"the last stable offset of a reader is {log.last_stable_offset}, not {stable}"
        found = [record.offset for record in log.read(isolation="committed")]
        assert found == wanted, f"committed are {wanted}, a reader sees {found}"
    return Recovered(start, bound, shown, None)


def _at_end(log: ReadOnlyLog, shown: Recovered) -> Recovered | None:
    """None if there is an error: behind what was flushed a crash may leave the later of two writes, and not the earlier."""
    try:
        for _ in log.read(isolation="log_end"):
            pass
    except TidelogError:
        return None
    batches = batches_of(log, "log_end")
    assert shown.batches == batches[: len(shown.batches)], f"shown are {shown.batches} of {batches}"
    # A log that was cut inside of a batch goes on where it was told, which a reader knows and recovery forgets.
    end = max(batches[-1].last_offset + 1, log.segments[-1].base_offset) if batches else log.log_end_offset
    return Recovered(log.log_start_offset, end, batches, None)


def batches_of(log: LogReading, isolation: Isolation) -> tuple[Stored, ...]:
    """All that can be fetched."""
    found: list[Stored] = []
    offset = log.log_start_offset
    while data := log.fetch(offset, 1 << 20, isolation=isolation).data:
        found += [batch for batch in stored_batches(data) if batch.last_offset >= offset]
        offset = found[-1].last_offset + 1
        if offset >= log.log_end_offset:
            break
    return tuple(found)


class _SourceIsLeftAlone(Disk):
    """The real one without waiting; below a directory nothing can be changed."""

    def __init__(self, source: str) -> None:
        self._source = source

    def open(self, path: str, *, write: bool = False) -> int:
        assert not write or not path.startswith(self._source)
        return super().open(path, write=write)

    def create(self, path: str, *, exclusive: bool = True) -> int:
        assert not path.startswith(self._source)
        return super().create(path, exclusive=exclusive)

    def rename(self, source: str, target: str) -> None:
        assert not source.startswith(self._source)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        assert not path.startswith(self._source)
        super().remove(path)

    def sync(self, fd: int) -> None:
        self.size(fd)

    def sync_directory(self, path: str) -> None:
        pass


def _salvaged(directory: str, target: Path, settings: Mapping[str, object]) -> Recovered | None:
    if not any(name.endswith((".log", ".log.swap")) for name in os.listdir(directory)):  # noqa: PTH208
        return None  # no log yet
    disk = _SourceIsLeftAlone(f"{directory}/")
    report = salvage(directory, target, disk=disk)
    with Log.open(target, config=dict(settings), pool=FilePool(disk), clock=lambda: TIME) as log:
        assert not log.load_report.cuts, log.load_report
        found = Recovered(log.log_start_offset, log.log_end_offset, batches_of(log, "log_end"), log.leader_epochs)
    errors = [finding for finding in verify(target, now_ms=TIME) if finding.severity == "error"]
    assert not errors, errors
    assert report.batch_count == len(found.batches), f"{report}, found {found}"
    return found

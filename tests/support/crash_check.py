"""Open every crash image of a recorded workload, and look for anything that is wrong with it."""

import shutil
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.support.batches import TIME
from tests.support.crash_images import DEFAULT, Bounds, Image, crash_images, materialise
from tests.support.crash_looks import Looks, batches_of, look_at
from tests.support.crash_model import Recovered, Stored, stored_batches
from tests.support.crash_producers import check_committed, check_duplicates, check_next
from tests.support.crash_session import PARTITION, make_batch, placed
from tests.support.recording_disk import Note, Recording, describe
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.log.log import Log

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_EXTRA_NUMBER = 99_999


class _UnsyncedDisk(Disk):
    """The real one; the images are in memory, and what happens after they were opened is not cut off."""

    def sync(self, fd: int) -> None:
        self.size(fd)

    def sync_directory(self, path: str) -> None:
        pass


class AnyModel(Protocol):
    """What knows what may be in a log."""

    def follow(self, label: str, op: object) -> None: ...

    def faults_of(self, found: Recovered) -> list[str]: ...

    def was_attempted(self, batch: Stored) -> bool: ...


class CrashViolationError(AssertionError):
    """A log that is not as promised after a crash."""

    def __init__(self, message: str, image: Image) -> None:
        super().__init__(message)
        self.image = image


@dataclass(slots=True)
class Tally:
    """How much was looked at."""

    images: int = 0
    opened: int = 0
    """Different ones."""
    read: int = 0
    """Of these, by a reader and by verify too."""
    salvaged: int = 0


@dataclass(frozen=True, slots=True)
class Opened:
    """What was found in an image: by its owner, and before that by those who own nothing."""

    found: Recovered
    looks: Looks

    def faults_by(self, model: AnyModel) -> list[str]:
        """What is wrong with it at one moment of a workload."""
        faults = model.faults_of(self.found)
        if self.looks.at_end is not None:
            faults += [f"a reader: {fault}" for fault in model.faults_of(self.looks.at_end)]
        if self.looks.salvaged is not None:
            invented = [batch for batch in self.looks.salvaged.batches if not model.was_attempted(batch)]
            faults += [f"salvage has {batch}, which was never appended" for batch in invented]
        return faults + self.looks.own_faults(self.found)


def check_recording(
    recording: Recording,
    model: AnyModel,
    settings: Mapping[str, object],
    scratch: Path,
    *,
    bounds: Bounds,
    tally: Tally | None = None,
    first_cut: int = 0,
    opened: dict[str, Opened] | None = None,
) -> Tally:
    """Every image of every cut point. Raises `CrashViolationError` for the first that is wrong; its directory stays in `scratch`.

    `opened` are images that were opened before, with the same settings; more are added.
    """
    tally = tally or Tally()
    opened = {} if opened is None else opened
    followed = 0
    for image in crash_images(recording, cuts=range(first_cut, len(recording.events) + 1), bounds=bounds):
        for event in recording.events[followed : image.cut]:
            if isinstance(event, Note):
                model.follow(event.label, event.payload)
        followed = image.cut
        tally.images += 1
        try:
            known = opened.get(image.digest)
            if known is None:
                known = opened[image.digest] = look_and_open(image, settings, scratch, bounds)
                tally.opened += 1
                tally.read += image.is_sampled(bounds.read_every)
                tally.salvaged += known.looks.salvaged is not None
            faults = known.faults_by(model)
        except CrashViolationError:
            raise
        except Exception as error:
            faults = [f"{type(error).__name__}: {error}"]
        if faults:
            raise CrashViolationError(_story(recording, image, faults), image)
    return tally


def _story(recording: Recording, image: Image, faults: list[str]) -> str:
    last = [describe(event) for event in recording.events[max(0, image.cut - 25) : image.cut]]
    return "\n  ".join([f"cut after {image.cut} of {len(recording.events)} events: {image.label}", *faults, "what happened last:", *last])


@contextmanager
def opened_log(directory: str, settings: Mapping[str, object], disk: Disk) -> Iterator[Log]:
    """Open a log, and let go of it whatever happens."""
    log = Log.open(directory, config=dict(settings), pool=FilePool(disk), clock=lambda: TIME)
    try:
        yield log
    finally:
        log.close()


def open_image(image: Image, settings: Mapping[str, object], scratch: Path) -> Recovered:
    """Open it, look at everything, append a record, close it, open it again."""
    return look_and_open(image, settings, scratch, DEFAULT).found


def look_and_open(image: Image, settings: Mapping[str, object], scratch: Path, bounds: Bounds) -> Opened:
    """The same, but that those look first who own nothing, at one in a few images."""
    root = scratch / "image"
    shutil.rmtree(root, ignore_errors=True)
    materialise(image, root)
    looks = Looks()
    if image.is_sampled(bounds.read_every):
        target = root / "salvaged" / PARTITION if image.is_sampled(bounds.salvage_every) else None
        looks = look_at(f"{root}/{PARTITION}", settings, target)
        shutil.rmtree(root / "salvaged", ignore_errors=True)
    found = check_directory(root, settings)
    shutil.rmtree(root)
    return Opened(found, looks)


def check_directory(root: Path, settings: Mapping[str, object], *, disk: Disk | None = None) -> Recovered:
    """Open the log in `root` after a crash; what it held, if it can be gone on with."""
    disk = disk or _UnsyncedDisk()
    directory = f"{root}/{PARTITION}"
    with opened_log(directory, settings, disk) as log:
        found = recovered(log)
        assert log.high_watermark == log.log_end_offset, "readers do not see all"
        check_indexes(log)
        is_strict = log.config.is_durable and any(batch.producer_id >= 0 for batch in found.batches)
        if is_strict:
            _check_producers(log, found)
        extra = make_batch(_EXTRA_NUMBER)
        epoch = log.leader_epochs[-1][0] if log.leader_epochs else 0
        info = log.append(extra)
        assert info.first_offset == found.end, f"the next offset is {info.first_offset}, the end was {found.end}"
        wanted = (*found.batches, *stored_batches(placed(extra, found.end, epoch)))
    with opened_log(directory, settings, disk) as log:
        assert log.load_report.was_clean
        assert not log.load_report.has_changed, log.load_report
        again = recovered(log)
        assert (again.start, again.end) == (found.start, found.end + 1), (again, found)
        assert again.batches == wanted, f"after closing and opening: {again.batches}, expected {wanted}"
        check_indexes(log)
        for batch in again.batches:
            offset = max(batch.base_offset, again.start)
            first = stored_batches(log.fetch(offset, 1).data)[0]
            assert first == batch, f"offset {offset} leads to {first}, not to {batch}"
        if is_strict:
            _check_producers(log, again)
            check_next(log, again.batches)
    return found


def _check_producers(log: Log, found: Recovered) -> None:
    """A log whose first records are gone may know of transactions that began with them."""
    if found.start == 0:
        check_committed(log, found.batches)
    check_duplicates(log, found.batches)


def recovered(log: Log) -> Recovered:
    """What can be read from a log."""
    return Recovered(log.log_start_offset, log.log_end_offset, batches_of(log, "log_end"), log.leader_epochs)


def check_indexes(log: Log) -> None:
    """Every entry points at a batch that it may point at; both indexes go up.

    A segment below the start is nobody's any more: if its deletion was cut off before it was ever synced, anything may be in it.
    """
    for segment in log.segments[max(0, sum(segment.base_offset <= log.log_start_offset for segment in log.segments) - 1) :]:
        content = Path(segment.file.path).read_bytes()[: segment.size_bytes]
        last_offsets: dict[int, int] = {}
        newest: dict[int, int] = {}
        position, maximum = 0, -1
        for batch in stored_batches(content):
            maximum = max(maximum, int.from_bytes(batch.tail[18:26], "big", signed=True))
            last_offsets[position] = batch.last_offset
            newest[batch.last_offset] = maximum
            position += 17 + len(batch.tail)
        entries = list(_OFFSET_ENTRY.iter_unpack(segment.index.entry_bytes()))
        for relative, at in entries:
            assert last_offsets.get(at) == segment.base_offset + relative, (
                f"{segment}: entry {relative, at} points at {last_offsets.get(at)}"
            )
        assert entries == sorted(set(entries)), f"{segment}: offset index {entries}"
        times = list(_TIME_ENTRY.iter_unpack(segment.time_index.entry_bytes()))
        for timestamp_ms, relative in times:
            assert newest.get(segment.base_offset + relative) == timestamp_ms, f"{segment}: time entry {timestamp_ms, relative}, {newest}"
        columns: list[Any] = [[entry[column] for entry in times] for column in (0, 1)]
        assert columns[0] == sorted(set(columns[0])), f"{segment}: time index {times}"
        assert columns[1] == sorted(columns[1]), f"{segment}: time index {times}"

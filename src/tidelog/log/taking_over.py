"""A file of ready batches becomes the active segment: its headers are assigned in place, and no record is copied.

What was staged in bulk would otherwise be read, written and removed once more. The batches become what they would have become by being
appended; only where the segment begins and ends was decided by whoever made the file.

    check, assign and stamp       batch by batch, in memory: a file that is refused stays as it is
    write the headers, sync       nobody sees the file yet
    roll                          unless the active segment is empty
    rename, sync the directory    over the `.log` of the empty segment; copied into it where the system renames nothing
    end, index, producers         as for any append

The sync comes before the rename: a crash must not leave batches as they were staged, which are sound, and part of no transaction. The
directory is synced before the end moves, and again when something fails behind the rename: whatever is appended and acknowledged later
lies in the file that has the name, and a power cut must not give the name back to the other one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from tidelog.disk.disk import Buffer
from tidelog.disk.file_pool import OpenFile
from tidelog.errors import CorruptBatchError, TidelogError
from tidelog.log.append_info import AppendInfo
from tidelog.log.leader_run import PreparedRun, prepare_run, split
from tidelog.log.producer_stamp import ProducerStamp, check_unstamped, stamp_run
from tidelog.log.producer_state import Effect, Entries
from tidelog.log.roll import RollReason, SegmentAge, roll_reason
from tidelog.log.segment import Segment
from tidelog.log.storage_errors import storage_error
from tidelog.log.time_index import ENTRY as TIME_ENTRY
from tidelog.log.writing import Writing
from tidelog.record.headers import BatchHeaders, walk_headers
from tidelog.record.layout import HEADER_SIZE

PIECE_BYTES = 4 << 20
"""Of the file in memory at a time, or one batch, if that is larger."""


@dataclass(slots=True)
class _Assigned:
    """A file whose batches have got their offsets and their producer, on paper."""

    runs: list[BatchHeaders] = field(default_factory=list)
    headers: list[tuple[int, Buffer]] = field(default_factory=list)
    """What is to be written, and where."""
    effects: list[Effect] = field(default_factory=list)
    append_time_ms: int = -1

    @property
    def info(self) -> AppendInfo:
        first, last, newest_ms = self.runs[0].base_offset[0], self.runs[-1].last_offset[-1], self.newest_ms
        return AppendInfo(int(first), int(last), newest_ms, self.append_time_ms, sum(map(_bytes_of, self.runs)))

    @property
    def newest_ms(self) -> int:
        return max(int(run.max_timestamp_ms.max()) for run in self.runs)


class TakingOver(Writing):
    """Take over whole files, on top of appending as the leader."""

    def append_file(self, path: str, leader_epoch: int | None, stamp: ProducerStamp) -> AppendInfo | None:
        """See `Log.append_file`."""
        with self._lock:
            self._check_writable()
            disk, active = self.pool.disk, self.view.active
            try:
                if not disk.can_rename_into(path, self.directory):
                    return None
                opened = self.pool.open_for_writing(path)
                size_bytes = disk.size(opened.fd)
                if size_bytes > self._limits.segment_bytes or disk.count_of_names(opened.fd) > 1:
                    return None  # too much to be looked at, or not ours alone
                disk.keep_rights(path, active.file.path)
                if not disk.has_rights_of(path, active.file.path):
                    return None
            except PermissionError:
                return None
            except OSError as error:
                raise storage_error(error, path, "opening a file of batches failed") from error
            epoch = self._epoch(leader_epoch)
            try:
                assigned = self._assign_file(opened, path, size_bytes, epoch, stamp)
            except OSError as error:
                raise storage_error(error, path, "reading a file of batches failed") from error
            if assigned is None or self._why_not(assigned) is not None:
                return None
            try:
                for position, header in assigned.headers:
                    disk.write(opened.fd, [header], position)
                disk.sync(opened.fd)
                self._settle()
                if active.size_bytes:
                    active = self._roll(assigned.info.first_offset, self.clock(), RollReason.ASKED)
            except OSError as error:
                raise storage_error(error, path, "the append failed before anything was written") from error
            self._take_over(active, path, opened, assigned, epoch)
            return assigned.info

    def _take_over(self, active: Segment, path: str, opened: OpenFile, assigned: _Assigned, epoch: int) -> None:
        effects = assigned.effects
        before, end = self.epochs.entries, active.end
        sync_names = partial(self._guard_sync, partial(self.pool.disk.sync_directory, self.directory))
        try:
            self.epochs.assign(epoch, assigned.info.first_offset)
            self._announce(active, effects)
            active.take_over(path, opened, assigned.runs, sync_names)
            self._apply(effects)
        except BaseException as error:
            try:
                if active.is_unsettled:
                    active.reopen()
                    if self.failure is None:
                        sync_names()  # whichever has the name keeps it: what is appended from here on goes into that one
            except BaseException as second:
                self.fail(second)
                if isinstance(second, OSError):
                    raise self._failed() from second
                raise
            self._roll_back(active, end, before, effects, error)

    def _assign_file(self, opened: OpenFile, path: str, size_bytes: int, epoch: int, stamp: ProducerStamp) -> _Assigned | None:
        """Check every batch, and work out what its header is to be; None if one cannot stay as it is."""
        assigned, pending = _Assigned(), Entries()
        next_offset, now_ms = self.view.active.end[0], self.clock()
        for position, batches in self._pieces(opened, path, size_bytes):
            check_unstamped(batches)
            run, stop = prepare_run(
                batches,
                self.config,
                next_offset=next_offset,
                leader_epoch=epoch,
                now_ms=now_ms,
                scratch=self._scratch,
                producers=self.producers,
            )
            if stop is not None:
                assert isinstance(stop, Exception), "a batch without a producer is nobody's duplicate"
                # By how long they are in the file: those before it may have been built anew.
                raise _placed(stop, path, position + sum(map(len, batches[: len(run)])))
            if any(len(header) != HEADER_SIZE for header in run.parts[::2]):
                return None  # in another codec than the topic's
            stamp_run(run, stamp, self.producers, pending)
            stamp = stamp.after(run.last_offset + 1 - next_offset)
            _note(assigned, run, position)
            next_offset = run.last_offset + 1
        return assigned if assigned.runs else None

    def _pieces(self, opened: OpenFile, path: str, size_bytes: int) -> Iterator[tuple[int, list[Buffer]]]:
        """The batches of a file, with the position of the first of each list; good until the next is asked for."""
        disk = self.pool.disk
        position, memory = 0, bytearray(min(size_bytes, PIECE_BYTES))
        while position < size_bytes:
            piece = memoryview(memory)[: min(len(memory), size_bytes - position)]
            piece = piece[: disk.read_into(opened.fd, piece, position)]
            is_last = position + len(piece) >= size_bytes or len(piece) < min(len(memory), size_bytes - position)
            try:
                end = walk_headers(piece).end_position
            except TidelogError as error:
                raise _placed(error, path, position)  # noqa: B904 - the same error
            whole = len(piece) if is_last else end
            if not whole and is_last:
                raise CorruptBatchError("the file has become shorter", path=path, position=position, expected=f"{size_bytes} bytes")
            if not whole:
                memory = bytearray(min(size_bytes - position, 2 * len(memory)))
                continue
            yield position, split(piece[:whole])
            position += whole

    def _why_not(self, assigned: _Assigned) -> RollReason | None:
        """Why the log would have begun another segment somewhere in the file, if it would have."""
        info, first = assigned.info, assigned.runs[0]
        config = self.config
        entries = info.size_bytes // max(config.index_interval_bytes, HEADER_SIZE) + 2
        full_index = RollReason.OFFSET_INDEX_FULL if entries > config.segment_index_bytes // TIME_ENTRY.size else None
        active = self.view.active
        base_offset = info.first_offset if active.size_bytes else active.base_offset  # of one that was cut it may lie further back
        age = SegmentAge(base_offset, int(first.max_timestamp_ms[0]), self.clock(), config.segment_jitter_ms)
        first_bytes = int(first.size_bytes[0])
        rest_bytes = info.size_bytes - first_bytes
        return roll_reason(self._limits, age, first_bytes, full_index, rest_bytes, info.last_offset, assigned.newest_ms, self.clock())


def _placed(error: TidelogError, path: str, position: int) -> TidelogError:
    """The same error, about the file: of what begins at `position` it knows the rest of the way."""
    error.path, error.position = path, position + (error.position or 0)
    return error


def _note(assigned: _Assigned, run: PreparedRun, position: int) -> None:
    headers = run.headers
    assigned.runs.append(headers)
    assigned.headers += zip((headers.position + position).tolist(), run.parts[::2], strict=True)
    assigned.effects += run.effects
    assigned.append_time_ms = run.append_time_ms


def _bytes_of(headers: BatchHeaders) -> int:
    return headers.end_position - int(headers.position[0])

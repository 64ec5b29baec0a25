"""Append to a log, and roll it: as the leader, who assigns offsets, or as a follower, who takes them as they come."""

from collections.abc import Sequence
from functools import partial
from itertools import repeat

from crc32c import crc32c

from tidelog.disk.disk import Buffer
from tidelog.disk.names import SEGMENT_KINDS, segment_file
from tidelog.errors import RecordListTooLargeError, RefusedBatchError, TidelogError
from tidelog.log.append_info import AppendInfo
from tidelog.log.follower import check_batches, check_range, epoch_starts, first_offset, roll_base
from tidelog.log.leader import Prepared, prepare, timestamp_range
from tidelog.log.leader_run import check_run, joined
from tidelog.log.log_state import LogState
from tidelog.log.roll import RollReason, roll_reason
from tidelog.log.segment import Segment
from tidelog.log.segment_files import create_segment
from tidelog.log.storage_errors import storage_error
from tidelog.log.view import Bound, View
from tidelog.record.assign import assign_batches
from tidelog.record.headers import BatchHeaders
from tidelog.record.kernel.plain_batch import assign_plain
from tidelog.record.layout import HEADER_SIZE


class Writing(LogState):
    """Append and roll, on top of what a log is and how it is flushed."""

    # Append

    def append(self, batch: memoryview, leader_epoch: int | None, origin: str) -> AppendInfo:
        """See `Log.append`."""
        config = self.config
        with self._lock:
            self._check_writable()
            now_ms = self.clock()
            epoch = self._epoch(leader_epoch)
            next_offset = self.view.segments[-1].end[0]
            plain = None
            if origin == "client" and self._takes_plain:
                lowest_ms, highest_ms = timestamp_range(config, now_ms)
                append_time_ms = now_ms if config.is_append_time else -1
                plain = assign_plain(
                    crc32c,
                    batch,
                    config.max_message_bytes,
                    lowest_ms,
                    highest_ms,
                    config.is_compacted,
                    next_offset,
                    epoch,
                    append_time_ms,
                    self._scratch.fault,
                )
            if plain is None:
                prepared = self._prepare(batch, epoch, next_offset, now_ms, origin)
            else:
                header, count, newest_ms = plain
                prepared = (header, batch[HEADER_SIZE:]), len(batch), next_offset, next_offset + count - 1, newest_ms
            parts, size_bytes, first, last, newest_ms = prepared
            active = self._make_room(size_bytes, first, last, newest_ms, now_ms)
            epochs = self.epochs
            before, end = epochs.entries, active.end
            try:
                epochs.assign(epoch, first)
                active.append(parts, size_bytes, last, newest_ms)
            except BaseException as error:
                self._roll_back(active, end, before, error)
        if self._waits_for_disk:
            self._acknowledge(last + 1)
        return AppendInfo._make((first, last, newest_ms, now_ms if config.is_append_time else -1, size_bytes))

    def _prepare(self, batch: memoryview, epoch: int, next_offset: int, now_ms: int, origin: str) -> Prepared:
        """What is not plain, or wrong."""
        if origin not in ("client", "coordinator"):
            raise ValueError(f"origin is 'client' or 'coordinator', not {origin!r}")
        return prepare(
            batch,
            self.config,
            next_offset=next_offset,
            leader_epoch=epoch,
            now_ms=now_ms,
            is_client=origin == "client",
            scratch=self._scratch,
        )

    def append_run(self, batches: Sequence[Buffer] | Buffer, leader_epoch: int | None) -> list[AppendInfo]:
        """See `Log.append_run`."""
        together = joined(batches)
        if together is not None and len(together[1]):
            buffer, headers = together
            with self._lock:
                self._check_writable()
                infos = self._append_run(memoryview(buffer), headers, self._epoch(leader_epoch), self.clock())
            if infos is not None:
                self._acknowledge(infos[-1].last_offset + 1)
                return infos
        return self._append_each(_items(batches, together), leader_epoch)

    def _append_run(self, buffer: memoryview, headers: BatchHeaders, epoch: int, now_ms: int) -> list[AppendInfo] | None:
        """All in one write, if there is nothing to refuse and nothing to roll for; otherwise None, and nothing has happened."""
        max_timestamps = check_run(buffer, headers, self.config, now_ms, self._scratch)
        active = self.view.active
        next_offset = active.end[0]
        if max_timestamps is None or not self._fits(active, headers, next_offset, int(max_timestamps.max()), now_ms):
            return None
        append_time_ms = now_ms if self.config.is_append_time else None
        assign_batches(
            buffer,
            headers,
            next_offset=next_offset,
            leader_epoch=epoch,
            append_time_ms=append_time_ms,
            max_timestamps=max_timestamps,
        )
        before, end = self.epochs.entries, active.end
        try:
            self.epochs.assign(epoch, next_offset)
            active.append_batches(buffer, headers)
        except BaseException as error:
            self._roll_back(active, end, before, error)
        stamp = -1 if append_time_ms is None else append_time_ms
        firsts, lasts, newest = headers.base_offset.tolist(), headers.last_offset.tolist(), max_timestamps.tolist()
        return list(map(AppendInfo._make, zip(firsts, lasts, newest, repeat(stamp), headers.size_bytes.tolist(), strict=False)))

    def _fits(self, active: Segment, headers: BatchHeaders, next_offset: int, max_timestamp_ms: int, now_ms: int) -> bool:
        """Whether none of the batches would roll the segment."""
        count = len(headers)
        last_offset = next_offset + int(headers.count.sum()) - 1
        total = headers.end_position - int(headers.position[0])
        free = min(active.index.slots - active.index.entries, active.time_index.slots - 1 - active.time_index.entries)
        if active.size_bytes == 0 or free < count:
            return False
        return self._roll_reason(active, total, last_offset, max_timestamp_ms, now_ms) is None

    def _append_each(self, batches: Sequence[memoryview], leader_epoch: int | None) -> list[AppendInfo]:
        infos: list[AppendInfo] = []
        for batch in batches:
            try:
                infos.append(self.append(batch, leader_epoch, "client"))
            except TidelogError as error:
                error.appended = tuple(infos)  # type: ignore[attr-defined]
                raise
        return infos

    def append_as_follower(self, batches: memoryview, leader_epoch: int | None) -> AppendInfo | None:
        """See `Log.append_as_follower`."""
        with self._lock:
            self._check_writable()
            self._stop_following()
            end_offset = self.view.active.end[0]
            headers = check_batches(batches, end_offset, leader_epoch)
            if len(headers) == 0:
                return None
            check_range(headers, end_offset, self.view.active.base_offset)
            if headers.end_position > self._limits.segment_bytes:
                raise self._too_large(headers.end_position)
            done = 0
            while done < len(headers):
                # One segment takes a call, unless an index is too small for an entry a batch.
                done += self._append_some_as_follower(batches, headers[done:])
            last, newest = int(headers.last_offset[-1]), int(headers.max_timestamp_ms.max())
        self._acknowledge(last + 1)
        return AppendInfo(first_offset(headers), last, newest, -1, headers.end_position)

    def _append_some_as_follower(self, batches: memoryview, headers: BatchHeaders) -> int:
        """Append the first of these batches, as many as the indexes of a segment have room for: how many."""
        end_offset = self.view.active.end[0]
        room = headers[: self._index_room(self.view.active, len(headers))]
        data = batches[int(room.position[0]) : room.end_position]
        newest = int(room.max_timestamp_ms.max())
        active = self._make_room(len(data), roll_base(room, end_offset), int(room.last_offset[-1]), newest, self.clock())
        fitting = self._index_room(active, len(headers))
        if fitting < len(room):
            room = room[:fitting]
            data = batches[int(room.position[0]) : room.end_position]
        before, end = self.epochs.entries, active.end
        try:
            self.epochs.assign_many(epoch_starts(room))
            active.append_batches(data, room)
        except BaseException as error:
            self._roll_back(active, end, before, error)
        return len(room)

    @staticmethod
    def _index_room(segment: Segment, wanted: int) -> int:
        """How many of the batches may all get entries in the indexes; at least one, which a full index is rolled for."""
        free = min(segment.index.slots - segment.index.entries, segment.time_index.slots - 1 - segment.time_index.entries)
        return max(1, min(wanted, free))

    def _epoch(self, leader_epoch: int | None) -> int:
        """The epoch to append with: the newest known, 0 in a new log; a given one must not be lower."""
        latest = self.epochs.latest_epoch
        if leader_epoch is None:
            return 0 if latest is None else latest
        if latest is not None and leader_epoch < latest:
            raise RefusedBatchError("a leader epoch below the newest", expected=f"{latest} or more", found=leader_epoch)
        return leader_epoch

    # Roll

    def _make_room(self, size_bytes: int, first_offset: int, last_offset: int, max_timestamp_ms: int, now_ms: int) -> Segment:
        """The segment that takes these batches, rolled for them if need be."""
        if size_bytes > self._limits.segment_bytes:
            raise self._too_large(size_bytes)
        active = self.view.segments[-1]
        try:
            if active.is_unsettled:
                self._settle()
            reason = self._roll_reason(active, size_bytes, last_offset, max_timestamp_ms, now_ms)
            return active if reason is None else self._roll(max(first_offset, active.end[0]), now_ms, reason)
        except OSError as error:
            raise storage_error(error, self.directory, "the append failed before anything was written") from error

    def _too_large(self, size_bytes: int) -> RecordListTooLargeError:
        limit = self._limits.segment_bytes
        return RecordListTooLargeError(
            "one call has more than a segment can hold", expected=f"at most {limit} bytes (segment.bytes)", found=size_bytes
        )

    def _roll_reason(self, active: Segment, size_bytes: int, last_offset: int, max_timestamp_ms: int, now_ms: int) -> RollReason | None:
        return roll_reason(self._limits, active.age, active.end[1], active.full_index(), size_bytes, last_offset, max_timestamp_ms, now_ms)

    def _roll(self, base_offset: int, now_ms: int, reason: RollReason) -> Segment:
        """Begin a new segment.

        The old one is finished and, if the log is durable, synced before the new file exists, and the directory before anything in it is
        acknowledged. A crash in between leaves the old segment alone, or an empty one behind it. If a step fails, the old segment stays
        active: its indexes are trimmed, hence full, so that the next append rolls again.
        """
        old = self.view.active
        if base_offset == old.base_offset and old.size_bytes == 0:
            self._activate(old, base_offset)
            self.recovery_point = max(self.recovery_point, base_offset)
            return old
        old.finish()
        if self.config.is_durable:
            self._guard_sync(old.sync)
        segment = None
        try:
            segment = create_segment(self.pool, self.directory, base_offset)
            self._activate(segment, base_offset)
            self._guard_sync(partial(self.pool.disk.sync_directory, self.directory))
            self.view = View.of((*self.view.segments, segment))
        except BaseException:  # an interrupt too: the files of a segment that nobody uses must not stay
            self._discard(segment, base_offset)
            raise
        old.close_writers()
        if self.config.is_durable:
            # Those who wait for batches of the old segment are let go, so readers must see them.
            self.commit.advance(base_offset, partial(self._show, Bound(base_offset, old.base_offset, old.size_bytes)))
            self.recovery_point = max(self.recovery_point, base_offset)
            self.home.checkpoint_recovery_point(self.partition, self.recovery_point)
        else:
            self.flush_in_background(base_offset)
        return segment

    def _discard(self, segment: Segment | None, base_offset: int) -> None:
        """Take back a segment that could not be begun. If its files stay, they would be taken for the end of the log: then it fails."""
        if segment is not None:
            segment.forget()
        try:
            for kind in SEGMENT_KINDS:
                path = f"{self.directory}/{segment_file(base_offset, kind)}"
                if self.pool.disk.exists(path):
                    self.pool.disk.remove(path)
            self.pool.disk.sync_directory(self.directory)  # it must not come back either
        except BaseException as error:
            self.fail(error)
            raise

    def roll(self) -> Segment:
        """See `Log.roll`."""
        with self._lock:
            self._check_writable()
            try:
                self._settle()
                return self._roll(self.view.active.end[0], self.clock(), RollReason.ASKED)
            except OSError as error:
                raise storage_error(error, self.directory, "rolling failed") from error


def _items(batches: Sequence[Buffer] | Buffer, together: tuple[bytearray, BatchHeaders] | None) -> list[memoryview]:
    """The batches one by one."""
    if not isinstance(batches, (bytes, bytearray, memoryview)):
        return [memoryview(batch) for batch in batches]
    whole = memoryview(batches)
    if together is None:
        return [whole]
    headers = together[1]
    return [whole[start : start + size] for start, size in zip(headers.position.tolist(), headers.size_bytes.tolist(), strict=True)]

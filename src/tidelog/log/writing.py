"""Append to a log as the leader, who assigns offsets."""

from collections.abc import Sequence
from operator import index
from typing import Any, Literal

from crc32c import crc32c

from tidelog.disk.checkpoints import MAX_INT32
from tidelog.disk.disk import Buffer
from tidelog.errors import RefusedBatchError, StorageError, TidelogError
from tidelog.log.append_info import AppendInfo
from tidelog.log.append_queue import AppendQueue, AppendRequest
from tidelog.log.follower_writing import FollowerWriting
from tidelog.log.leader import Prepared, prepare, timestamp_range
from tidelog.log.leader_run import PreparedRun, prepare_run, split
from tidelog.log.producer_checks import check_producer, has_producer_id, next_of_producer
from tidelog.log.producer_stamp import ProducerStamp, check_unstamped, stamp_run
from tidelog.log.producer_state import Effect
from tidelog.log.segment import Segment
from tidelog.record.kernel.plain_batch import assign_plain
from tidelog.record.kernel.single_batch import encode_single
from tidelog.record.layout import HEADER_SIZE

Origin = Literal["client", "coordinator"]


class Writing(FollowerWriting):
    """Append as the leader, on top of the follower's append."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.queue = AppendQueue(self._append_group, self._acknowledge)

    def disown(self) -> None:
        """See `LogState.disown`."""
        super().disown()
        self.queue = AppendQueue(self._append_group, self._acknowledge)

    def append(self, batch: memoryview, leader_epoch: int | None, origin: Origin, *, wait: bool = True) -> AppendInfo:
        """See `Log.append`."""
        if wait and self.config.is_durable:
            return self.queue.append(AppendRequest(batch, leader_epoch, origin))
        with self._lock:
            info = self._append_one(batch, leader_epoch, origin, None)
        if wait and self._waits_for_disk:
            self._acknowledge(info[1] + 1)
        return info

    def append_record(self, key: bytes | None, value: bytes | None, headers: bytes, timestamp_ms: int) -> AppendInfo:
        """See `Log.append_record`. What is made here need not be checked as what a client sends."""
        config = self.config
        if not config.is_durable and self._takes_plain and not config.is_append_time:
            with self._lock:
                info = self._append_record(key, value, headers, timestamp_ms)
            if info is not None:
                if self._waits_for_disk:
                    self._acknowledge(info[1] + 1)
                return info
        return self.append(memoryview(encode_single(crc32c, key, value, headers, timestamp_ms, 0, -1)), None, "client")

    def _append_record(self, key: bytes | None, value: bytes | None, headers: bytes, timestamp_ms: int) -> AppendInfo | None:
        """Append one record, with the lock held; None if it has to be refused, which the long way has the words for."""
        self._check_writable()
        config = self.config
        now_ms = self.clock()
        lowest_ms, highest_ms = timestamp_range(config, now_ms)
        epoch = self._epoch(None)
        offset = self.view.segments[-1].end[0]
        batch = encode_single(crc32c, key, value, headers, timestamp_ms, offset, epoch)
        size_bytes = len(batch)
        if size_bytes > config.max_message_bytes or not lowest_ms <= timestamp_ms <= highest_ms or (key is None and config.is_compacted):
            return None
        active = self._make_room(size_bytes, offset, offset, timestamp_ms, now_ms)
        epochs = self.epochs
        before, end = epochs.entries, active.end
        try:
            epochs.assign(epoch, offset)
            active.append((batch,), size_bytes, offset, timestamp_ms)
        except BaseException as error:
            self._roll_back(active, end, before, (), error)
        return tuple.__new__(AppendInfo, (offset, offset, timestamp_ms, -1, size_bytes))

    def _append_one(self, batch: memoryview, leader_epoch: int | None, origin: Origin, request: AppendRequest | None) -> AppendInfo:
        """Append one batch, with the lock held; who asked for it knows where it goes before it is written."""
        self._check_writable()
        config = self.config
        now_ms = self.clock()
        epoch = self._epoch(leader_epoch)
        next_offset = self.view.segments[-1].end[0]
        append_time_ms = now_ms if config.is_append_time else -1
        plain = None
        if origin == "client" and self._takes_plain:
            lowest_ms, highest_ms = timestamp_range(config, now_ms)
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
        effects: tuple[Effect, ...] = ()
        producer = None
        if has_producer_id(batch):
            producer = next_of_producer(self.producers.entries, batch, first, last, newest_ms)
            if producer is None:
                checked = check_producer(self.producers, batch, first, last, newest_ms, size_bytes, origin, {})
                if isinstance(checked, AppendInfo):
                    return checked
                if checked is not None:
                    effects = (checked,)
        info = tuple.__new__(AppendInfo, (first, last, newest_ms, append_time_ms, size_bytes))
        if request is not None:
            request.planned = info
        epochs = self.epochs
        before, end = epochs.entries, active.end
        try:
            epochs.assign(epoch, first)
            if effects:
                self._announce(active, effects)
            active.append(parts, size_bytes, last, newest_ms)
            if producer is not None:
                self.producers.entries[producer[0]] = producer
            elif effects:
                self._apply(effects)
        except BaseException as error:
            if producer is not None:
                effects = (Effect(producer, -1, None, last),)
            self._roll_back(active, end, before, effects, error)
        return info

    def _prepare(self, batch: memoryview, epoch: int, next_offset: int, now_ms: int, origin: Origin) -> Prepared:
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

    # Many at once

    def append_run(
        self, batches: Sequence[Buffer] | Buffer, leader_epoch: int | None, *, wait: bool = True, stamp: ProducerStamp | None = None
    ) -> list[AppendInfo]:
        """See `Log.append_run`."""
        items = split(batches)
        if stamp is not None:
            check_unstamped(items)
        infos: list[AppendInfo] = []
        end_offset = 0  # behind all that is answered for: the last answer may be a duplicate's
        refusal: TidelogError | None = None
        with self._lock:
            self._check_writable()
            epoch = self._epoch(leader_epoch)
            while len(infos) < len(items) and refusal is None:
                run, stop = self._prepare_run(items[len(infos) :] if infos else items, epoch)
                planned = run.infos()
                try:
                    if stamp is not None and len(run):
                        stamp_run(run, stamp, self.producers)
                    self._append_run(run, epoch)
                except TidelogError as error:
                    refusal = error
                    written_end = self.view.active.end[0]
                    planned = [info for info in planned if info.last_offset < written_end]
                if planned:
                    infos += planned
                    end_offset = planned[-1].last_offset + 1
                if refusal is None and stop is not None and stamp is not None:
                    assert isinstance(stop, TidelogError), "without a producer of its own nothing is a duplicate"
                    refusal = stop
                elif refusal is None and stop is not None:
                    # By itself, as it would have been appended: a duplicate, or a producer's fault, is seen after the roll.
                    try:
                        infos.append(self._append_one(memoryview(items[len(infos)]), leader_epoch, "client", None))
                        end_offset = max(end_offset, infos[-1].last_offset + 1)
                    except TidelogError as error:
                        refusal = error
        if infos and wait:
            self._acknowledge(end_offset)
        if refusal is not None:
            refusal.appended = tuple(infos)  # type: ignore[attr-defined]
            raise refusal
        return infos

    def _prepare_run(self, batches: list[Buffer], epoch: int) -> tuple[PreparedRun, TidelogError | AppendInfo | None]:
        return prepare_run(
            batches,
            self.config,
            next_offset=self.view.active.end[0],
            leader_epoch=epoch,
            now_ms=self.clock(),
            scratch=self._scratch,
            producers=self.producers,
        )

    def _append_run(self, run: PreparedRun, epoch: int) -> None:
        """In one write, but for batches that may roll the segment: these are written one by one."""
        done = 0
        while done < len(run):
            rest = run[done:] if done else run
            active, count = self._room_for(rest)
            if count < len(rest):
                rest = rest[:count]
            before, end = self.epochs.entries, active.end
            try:
                self.epochs.assign(epoch, rest.first_offset)
                if rest.effects:
                    self._announce(active, rest.effects)
                active.append_batches(rest.parts, rest.headers)
                if rest.effects:
                    self._apply(rest.effects)
            except BaseException as error:
                self._roll_back(active, end, before, rest.effects, error)
            done += count

    def _room_for(self, run: PreparedRun) -> tuple[Segment, int]:
        """The segment to append to, and how many of the batches go into it: all, or the first, which it may have to be rolled for."""
        active = self.view.active
        now_ms = self.clock()
        if active.size_bytes > 0 and not active.is_unsettled and self._index_room(active, len(run)) == len(run):
            newest_ms = run.max_timestamp_ms
            if self._roll_reason(active, run.size_bytes, run.last_offset, newest_ms, now_ms) is None:
                return active, len(run)
        first = run[:1]
        return self._make_room(first.size_bytes, first.first_offset, first.last_offset, first.max_timestamp_ms, now_ms), 1

    def _append_group(self, group: list[AppendRequest]) -> None:
        """Append for several threads. Each request is answered, unless there is an interrupt: then those that are in the log are."""
        with self._lock:
            try:
                if len(group) > 1:
                    self._append_together(group)
                for request in group:
                    if not request.is_answered:
                        self._append_alone(request)
            except BaseException:  # an interrupt too: those who wait must learn whether their batches are in the log
                self._find_out(group)
                raise

    def _append_together(self, group: list[AppendRequest]) -> None:
        """In one write, as many from the first on as have nothing special about them."""
        leader_epoch = group[0].leader_epoch
        if any(request.origin != "client" or request.leader_epoch != leader_epoch or request.planned for request in group):
            return
        try:
            self._check_writable()
            epoch = self._epoch(leader_epoch)
            run, _ = self._prepare_run([request.batch for request in group], epoch)
            infos = run.infos()
            for request, info in zip(group, infos, strict=False):
                request.planned = info
            self._append_run(run, epoch)
        except TidelogError:
            self._find_out(group)  # each of the others learns by itself what is wrong
            return
        for request, info in zip(group, infos, strict=False):
            request.info = info

    def _append_alone(self, request: AppendRequest) -> None:
        try:
            if request.planned is not None:
                raise StorageError("the thread that appended for this one was interrupted: it is not known whether the batch is in the log")
            request.info = self._append_one(request.batch, request.leader_epoch, request.origin, request)
        except (TidelogError, ValueError, TypeError) as error:
            request.error = error

    def _find_out(self, group: list[AppendRequest]) -> None:
        """After an error or an interrupt: which of the batches are in the log."""
        end_offset = self.view.active.end[0]
        for request in group:
            if request.planned is not None and not request.is_answered:
                if request.planned.last_offset < end_offset:
                    request.info = request.planned
                request.planned = None

    def _epoch(self, leader_epoch: int | None) -> int:
        """The epoch to append with: the newest known, 0 in a new log; a given one must not be lower."""
        latest = self.epochs.latest_epoch
        if leader_epoch is None:
            return 0 if latest is None else latest
        leader_epoch = index(leader_epoch)  # what is no number would be written down all the same
        if latest is not None and leader_epoch < latest:
            raise RefusedBatchError("a leader epoch below the newest", expected=f"{latest} or more", found=leader_epoch)
        if leader_epoch > MAX_INT32:  # a batch could not hold it, and nobody could read the checkpoint
            raise RefusedBatchError("a leader epoch that cannot be", expected=f"at most {MAX_INT32}", found=leader_epoch)
        return leader_epoch

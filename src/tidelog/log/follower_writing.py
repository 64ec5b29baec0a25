"""Append to a log as a follower, who takes offsets as they come."""

from tidelog.log.append_info import AppendInfo
from tidelog.log.follower import check_batches, check_range, epoch_starts, first_offset, roll_base
from tidelog.log.producer_replay import producer_batches
from tidelog.log.producer_state import Effect, Entries
from tidelog.log.rolling import Rolling
from tidelog.log.segment import Segment
from tidelog.record.headers import BatchHeaders


class FollowerWriting(Rolling):
    """Append as a follower, on top of rolling."""

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
            effects = self._check_producers(batches, headers)  # before a roll: a refused call leaves the log where it was
            done = 0
            while done < len(headers):
                # One segment takes a call, unless an index is too small for an entry a batch.
                done += self._append_some_as_follower(batches, headers[done:], effects)
            last, newest = int(headers.last_offset[-1]), int(headers.max_timestamp_ms.max())
        self._acknowledge(last + 1)
        return AppendInfo(first_offset(headers), last, newest, -1, headers.end_position)

    def _append_some_as_follower(self, batches: memoryview, headers: BatchHeaders, of_call: list[Effect]) -> int:
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
        first, last = int(room.base_offset[0]), int(room.last_offset[-1])
        effects = [effect for effect in of_call if first <= effect.last_offset <= last]
        before, end = self.epochs.entries, active.end
        try:
            self.epochs.assign_many(epoch_starts(room))
            if effects:
                self._announce(active, effects)
            active.append_batches([data], room)
            if effects:
                self._apply(effects)
        except BaseException as error:
            self._roll_back(active, end, before, effects, error)
        return len(room)

    def _check_producers(self, batches: memoryview, headers: BatchHeaders) -> list[Effect]:
        """What a follower's batches change; epochs and sequences were checked by the leader."""
        effects: list[Effect] = []
        pending: Entries = {}
        for batch in producer_batches(batches, headers):
            effect = self.producers.check(batch, "replication", pending)
            pending[batch.producer_id] = effect.entry
            effects.append(effect)
        return effects

    @staticmethod
    def _index_room(segment: Segment, wanted: int) -> int:
        """How many of the batches may all get entries in the indexes; at least one, which a full index is rolled for."""
        free = min(segment.index.slots - segment.index.entries, segment.time_index.slots - 1 - segment.time_index.entries)
        return max(1, min(wanted, free))

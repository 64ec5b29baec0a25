"""Many batches at once as a leader: each is checked and assigned to as by itself, then all are written together.

Batches in which there is nothing to explain or to rebuild go through the kernel in a row; the others, one by one, through `leader`.
"""

from collections.abc import Sequence
from itertools import repeat

import numpy as np
from crc32c import crc32c

from tidelog.config import LogConfig
from tidelog.disk.disk import Buffer
from tidelog.errors import TidelogError
from tidelog.log.append_info import AppendInfo
from tidelog.log.leader import prepare, timestamp_range
from tidelog.log.producer_checks import check_producer, has_producer_id
from tidelog.log.producer_state import Effect, Entries, ProducerState
from tidelog.record.headers import FIELDS, BatchHeaders, walk_headers
from tidelog.record.kernel.plain_batch import assign_plain_run
from tidelog.record.survey import Scratch
from tidelog.record.views import byte_view, view


class PreparedRun:
    """Batches as they will be stored, with the offsets they will have."""

    __slots__ = ("append_time_ms", "effects", "headers", "parts")

    def __init__(self, parts: list[Buffer], headers: BatchHeaders, append_time_ms: int, effects: list[Effect]) -> None:
        self.parts = parts
        """The bytes, two parts a batch."""
        self.headers = headers
        """Of these only positions, sizes, offsets and largest timestamps are known."""
        self.append_time_ms = append_time_ms
        self.effects = effects
        """What they change about their producers, those that have one."""

    def __len__(self) -> int:
        return len(self.headers)

    def __getitem__(self, batches: slice) -> "PreparedRun":
        first, last, _ = batches.indices(len(self))
        part = PreparedRun(self.parts[2 * first : 2 * last], self.headers[first:last], self.append_time_ms, [])
        if self.effects and len(part):
            lowest, highest = part.first_offset, part.last_offset
            part.effects = [effect for effect in self.effects if lowest <= effect.last_offset <= highest]
        return part

    @property
    def first_offset(self) -> int:
        """Of the first batch."""
        headers = self.headers
        return int(headers.flat[4 * headers.capacity + headers.first])

    @property
    def last_offset(self) -> int:
        """Of the last batch."""
        headers = self.headers
        return int(headers.flat[5 * headers.capacity + headers.first + len(headers) - 1])

    @property
    def size_bytes(self) -> int:
        """Of all batches."""
        return self.headers.end_position - int(self.headers.flat[self.headers.first])

    @property
    def max_timestamp_ms(self) -> int:
        """The largest of all."""
        return int(self.headers.max_timestamp_ms.max())

    def infos(self) -> list[AppendInfo]:
        """What each append answers."""
        headers = self.headers
        rows = zip(
            headers.base_offset.tolist(),
            headers.last_offset.tolist(),
            headers.max_timestamp_ms.tolist(),
            repeat(self.append_time_ms),
            headers.size_bytes.tolist(),
            strict=False,
        )
        return list(map(tuple.__new__, repeat(AppendInfo), rows))


def split(batches: Sequence[Buffer] | Buffer) -> list[Buffer]:
    """The batches one by one, from a list, or from a buffer in which they lie one behind the other."""
    if not isinstance(batches, (bytes, bytearray, memoryview)):
        return [batch if type(batch) is bytes else byte_view(batch) for batch in batches]
    whole = byte_view(batches)
    if not len(whole):
        return []
    try:
        headers = walk_headers(whole)
    except TidelogError:
        return [whole]  # there is something to say about it
    items: list[Buffer] = [
        whole[start : start + size] for start, size in zip(headers.position.tolist(), headers.size_bytes.tolist(), strict=True)
    ]
    return [*items, whole[headers.end_position :]] if headers.end_position < len(whole) else items


def prepare_run(
    batches: list[Buffer],
    config: LogConfig,
    *,
    next_offset: int,
    leader_epoch: int,
    now_ms: int,
    scratch: Scratch,
    producers: ProducerState,
) -> tuple[PreparedRun, TidelogError | AppendInfo | None]:
    """A client's batches up to the first that is not appended: why it must not be, or the answer to a duplicate."""
    lowest_ms, highest_ms = timestamp_range(config, now_ms)
    append_time_ms = now_ms if config.is_append_time else -1
    takes_plain = config.compression_type in ("producer", "uncompressed")
    capacity = len(batches)
    flat = np.empty(len(FIELDS) * capacity, np.int64)
    parts: list[Buffer] = []
    effects: list[Effect] = []
    pending: Entries = {}
    stop: TidelogError | AppendInfo | None = None
    done = 0
    while done < capacity:
        if takes_plain:
            done = assign_plain_run(
                crc32c,
                batches,
                done,
                config.max_message_bytes,
                lowest_ms,
                highest_ms,
                config.is_compacted,
                next_offset,
                leader_epoch,
                append_time_ms,
                parts,
                view(flat),
                scratch.fault,
            )
            if done == capacity:
                break
            next_offset = int(flat[5 * capacity + done - 1]) + 1 if done else next_offset
        batch = memoryview(batches[done])
        try:
            own_parts, size_bytes, first, last, newest_ms = prepare(
                batch, config, next_offset=next_offset, leader_epoch=leader_epoch, now_ms=now_ms, is_client=True, scratch=scratch
            )
            if has_producer_id(batch):
                checked = check_producer(producers, batch, first, last, newest_ms, size_bytes, "client", pending)
                if isinstance(checked, AppendInfo):
                    stop = checked
                    break
                if checked is not None:
                    effects.append(checked)
                    pending[checked.entry.producer_id] = checked.entry
        except TidelogError as error:
            stop = error
            break
        parts += own_parts if len(own_parts) == 2 else (own_parts[0], b"")
        flat[capacity + done], flat[4 * capacity + done], flat[5 * capacity + done], flat[7 * capacity + done] = (
            size_bytes,
            first,
            last,
            newest_ms,
        )
        next_offset = last + 1
        done += 1
    sizes = flat[capacity : capacity + done]
    ends = sizes.cumsum()
    flat[:done] = ends - sizes
    return PreparedRun(parts, BatchHeaders(flat, capacity, 0, done, int(ends[-1]) if done else 0), append_time_ms, effects), stop

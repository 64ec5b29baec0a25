"""A log that this process only reads, while another owns it, or nobody does.

    with open_read_only("/data/emails-0") as log:
        for record in log.read(follow=True):
            …

Nothing is created, renamed, cut or removed, and no lock is taken, so any number of readers may run beside a writer of ours, or a broker.
They see up to a bound that cannot be taken back any more: what the owner has flushed and published, or the high watermark that a broker has
checkpointed. `isolation="log_end"` asks for what lies behind it. What is known is as of the last `refresh`; a fetch at the end makes one.
"""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tidelog.config import LogConfig
from tidelog.disk.file_pool import SHARED, FilePool
from tidelog.disk.names import parse_partition
from tidelog.errors import CorruptBatchError, LogNotFoundError
from tidelog.log.fetched import Fetched
from tidelog.log.log_reading import Isolation, LogReading
from tidelog.log.producers import ProducerEntry
from tidelog.log.read_only_segment import ReadOnlySegment
from tidelog.log.read_only_state import ReadOnlyState
from tidelog.log.time_lookup import MAX_TIMESTAMP, OffsetAndTimestamp
from tidelog.log.view import View
from tidelog.plurals import counted

T = TypeVar("T")
DEFAULT_MAX_BATCH_BYTES = 256 << 20
"""Of a directory that nobody vouches for, no larger batch is read into memory at once."""


def open_read_only(
    directory: str | os.PathLike[str],
    *,
    config: LogConfig | dict[str, Any] | None = None,
    pool: FilePool = SHARED,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> "ReadOnlyLog":
    """Open a partition directory for reading. The settings change nothing but are checked, as they are where a log is written."""
    settings = LogConfig.of(config)
    resolved = Path(directory).resolve()
    partition = parse_partition(resolved.name)
    if partition is None:
        raise LogNotFoundError(
            "not the name of a partition directory", path=str(resolved), expected="topic-partition, as in emails-0", found=resolved.name
        )
    if not pool.disk.exists(str(resolved)):
        raise LogNotFoundError("no such directory", path=str(resolved), hint='mode "a" makes one')
    state = ReadOnlyState(pool, str(resolved), str(resolved.parent), partition)
    state.look()
    return ReadOnlyLog(state, settings, max_batch_bytes)


class ReadOnlyLog(LogReading):
    """A partition log to read. A context manager; may be shared between threads."""

    _state: ReadOnlyState

    def __init__(self, state: ReadOnlyState, config: LogConfig, max_batch_bytes: int) -> None:
        self._state = state
        self.partition = state.partition
        self.config = config
        self.max_batch_bytes = max_batch_bytes
        """The largest batch that is read."""
        self._is_abandoned = False

    def refresh(self) -> None:
        """Look what has changed: new batches, new segments, a new start. Cheap where nothing has."""
        self._state.look()

    def fetch(
        self,
        offset: int,
        max_bytes: int,
        *,
        isolation: Isolation = "high_watermark",
        min_one: bool = True,
        max_batch_bytes: int | None = None,
    ) -> Fetched:
        """See `LogReading.fetch`. At the end of what is known it looks for more first."""
        state = self._state
        if not state.is_closed and offset >= (self.log_end_offset if isolation == "log_end" else self.high_watermark):
            state.look()
        limit = self.max_batch_bytes if max_batch_bytes is None else max_batch_bytes
        try:
            fetched = super().fetch(offset, max_bytes, isolation=isolation, min_one=min_one, max_batch_bytes=limit)
        except CorruptBatchError:
            state.look(again=True)  # it may have been cut under us, and have gone on differently
            fetched = super().fetch(offset, max_bytes, isolation=isolation, min_one=min_one, max_batch_bytes=limit)
        if fetched.data:
            if fetched.segment_base_offset > offset:
                self._check_gap(offset, fetched.segment_base_offset)
        elif max_bytes > 0 and offset < (fetched.log_end_offset if isolation == "log_end" else fetched.high_watermark):
            self._check_gap(offset, fetched.log_end_offset)
        return fetched

    def _retried(self, ask: Callable[[], T]) -> T:
        """Ask again when a segment was renamed or removed before it was opened, as its owner may do at any time."""
        tries = 0
        while True:
            try:
                return ask()
            except OSError as error:
                tries += 1
                self._look_again(self._state.view, error, tries)

    def _check_gap(self, offset: int, next_base: int) -> None:
        """Nothing was found in a segment, and the next one was taken: compaction leaves such gaps. A batch that is cut off is none."""
        self._retried(lambda: self._check_segments(self._state.view, offset, next_base))

    @staticmethod
    def _check_segments(view: View, offset: int, next_base: int) -> None:
        for segment in view.segments[max(0, view.floor(offset)) : max(0, view.floor(next_base))]:
            assert isinstance(segment, ReadOnlySegment)
            end = segment.sound_bytes
            if end < segment.size_bytes:
                raise CorruptBatchError(
                    "a batch is cut off, and segments follow",
                    path=segment.file.path,
                    position=end,
                    expected=f"a whole batch with offset {offset} or a later one",
                    found=f"{segment.size_bytes - end} bytes",
                    hint='nothing was changed; "verify" says more, "salvage" keeps what is sound',
                )

    def offset_for_time(self, timestamp_ms: int, *, isolation: Isolation = "high_watermark") -> OffsetAndTimestamp | None:
        """See `LogReading.offset_for_time`. It looks what has changed first."""
        self.refresh()
        if not self._state.has_files and (timestamp_ms >= 0 or timestamp_ms == MAX_TIMESTAMP):
            return None
        return super().offset_for_time(timestamp_ms, isolation=isolation)

    @property
    def open_transactions(self) -> tuple[ProducerEntry, ...]:
        """The producers that have a transaction open, as far as readers see, by where it begins. It looks what has changed first."""
        self.refresh()
        return self._retried(self._state.open_transactions)

    def is_outdated(self, fetched: Fetched) -> bool:
        """See `LogReading.is_outdated`. It looks what has changed first."""
        self._state.look(again=True)
        return super().is_outdated(fetched)

    def close(self) -> None:
        """Let go of the files."""
        self._state.close()

    def abandon(self) -> None:
        """Close it when nobody reads it any more: its store was dropped, and has said so."""
        self._is_abandoned = True

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._state.is_closed

    def __enter__(self) -> "ReadOnlyLog":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        state = getattr(self, "_state", None)
        if state is not None and not state.is_closed:
            if self._is_abandoned:
                self.close()
                return
            warnings.warn(f"{self!r} was dropped without being closed", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        return (
            f"ReadOnlyLog({self.partition}, offsets {self.log_start_offset} to {self.log_end_offset}, "
            f"visible up to {self.high_watermark}, {counted(len(self.segments), 'segment')})"
        )

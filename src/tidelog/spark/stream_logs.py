"""The logs of a stream, kept open from one micro-batch to the next, and looked at again for each."""

import time
from dataclasses import dataclass
from pathlib import Path

from tidelog.disk.names import TopicPartition
from tidelog.errors import LogNotFoundError, UnknownTopicError
from tidelog.log.read_only import ReadOnlyLog
from tidelog.spark.catalog import SourcePartition, find_partitions, resolve_directories
from tidelog.spark.offset_bounds import latest_offset
from tidelog.spark.read_options import ReadOptions
from tidelog.spark.stream_changes import Visible

_PATIENCE_S = 1.0
"""How long a look goes on that falls between two partitions of a topic that is being made or deleted."""
_PAUSE_S = 0.02
_SETTLED_NS = 1_000_000_000
"""A directory that was changed a shorter time ago may change again without showing it."""


@dataclass(frozen=True, slots=True)
class LivePartition:
    """A partition as of the last look."""

    source: SourcePartition
    log: ReadOnlyLog
    visible: Visible


class StreamLogs:
    """The partitions that the options choose. For one thread."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._logs: dict[tuple[str, str | None], ReadOnlyLog] = {}
        self._sources: tuple[SourcePartition, ...] = ()
        self._listed: tuple[int, ...] | None = None
        """When the directories were last changed, as of the listing that gave the sources."""

    def look(self) -> dict[TopicPartition, LivePartition]:
        """The partitions as they are now. Where one comes or goes while it is looked at, or some of a topic are missing, it looks again."""
        last = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return self._look()
            except (LogNotFoundError, UnknownTopicError):
                self._listed = None
                if time.monotonic() > last:
                    raise
                time.sleep(_PAUSE_S)

    def _look(self) -> dict[TopicPartition, LivePartition]:
        self._list()
        wanted = {(source.directory, source.topic_id) for source in self._sources}
        for key in [key for key in self._logs if key not in wanted]:
            self._logs.pop(key).close()
        found = {}
        for source in self._sources:
            key = source.directory, source.topic_id
            if key in self._logs:
                self._logs[key].refresh()
            else:
                self._logs[key] = source.open()
            log = self._logs[key]
            end = latest_offset(log, self._options.isolation)
            visible = Visible(source.topic_id, log.log_start_offset, max(end, log.log_start_offset), source.directory)
            found[TopicPartition(source.topic, source.partition)] = LivePartition(source, log, visible)
        return found

    def _list(self) -> None:
        """Which partitions there are. Whoever makes or removes one changes the directory above; of replicas another may lead by now."""
        paths = resolve_directories(self._options.paths)
        changed = tuple(Path(path).stat().st_mtime_ns if Path(path).exists() else 0 for path in paths)
        is_settled = len(paths) == 1 and changed == self._listed
        if not is_settled:
            now_ns = time.time_ns()
            self._sources = find_partitions(self._options)
            self._listed = changed if now_ns - max(changed) > _SETTLED_NS else None

    def close(self) -> None:
        """Let go of all files."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()

"""What the directories that a store only reads have from a broker about topics: its metadata log, looked at again when it is asked for.

Directories without one are most, and a log that cannot be read is told but takes nothing away: partitions are there without it.
"""

import threading
from collections.abc import Mapping, Sequence

from tidelog.disk.disk import Disk
from tidelog.errors import TidelogError
from tidelog.store.cluster_metadata import DescribedTopic, MetadataLog, metadata_directory


class BrokerTopics:
    """The topics that a broker knows. May be shared between threads."""

    def __init__(self, disk: Disk, paths: Sequence[str]) -> None:
        self._disk = disk
        self._paths = paths
        self._log: tuple[str, MetadataLog] | None = None
        self._lock = threading.Lock()

    def look(self) -> tuple[Mapping[str, DescribedTopic], str]:
        """The topics by name as they are now, and why there are none if the log cannot be read, or nothing."""
        with self._lock:
            try:
                directory = metadata_directory(self._disk, self._paths)
                if directory is None:
                    self._log = None
                    return {}, ""
                if self._log is None or self._log[0] != directory:
                    self._log = directory, MetadataLog(self._disk, directory)
                return self._look_twice(self._log[1]), ""
            except TidelogError as error:
                return {}, str(error)

    def _look_twice(self, log: MetadataLog) -> Mapping[str, DescribedTopic]:
        """A broker that removes old segments, or makes a new one, may do so while it is looked at."""
        try:
            return log.topics()
        except TidelogError:
            return log.topics()

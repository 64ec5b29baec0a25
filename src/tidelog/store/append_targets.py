"""Where the records of a topic go: its partitioner, and its logs at hand."""

from collections.abc import Callable

from tidelog.log.log import Log
from tidelog.store.partitioner import Partitioner


class AppendTargets:
    """Looked up once, since it is asked for every record. Stale when a log in it is closed: the topic was deleted, or the store closed."""

    __slots__ = ("_find_log", "logs", "partitioner")

    def __init__(self, partitioner: Partitioner, find_log: Callable[[int], Log]) -> None:
        self.partitioner = partitioner
        self._find_log = find_log
        self.logs: dict[int, Log] = {}

    def log(self, partition: int) -> Log:
        """The log of a partition; one that the topic does not have raises."""
        log = self.logs.get(partition)
        if log is None or log.is_closed:
            log = self.logs[partition] = self._find_log(partition)
        return log

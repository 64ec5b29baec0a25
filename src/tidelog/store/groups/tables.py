"""The tables of positions that a store has read so far, by partition of `__consumer_offsets`."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tidelog.log.log_reading import LogReading
from tidelog.store.groups.positions_table import PositionsTable

_STRIPES = 64


class PositionTables:
    """Kept by a store. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[int, PositionsTable] = {}
        self._writing = tuple(threading.Lock() for _ in range(_STRIPES))

    @contextmanager
    def current(self, logs: Mapping[int, LogReading]) -> Iterator[list[PositionsTable]]:
        """The tables of some partitions as they are now. Nobody changes them until the block ends."""
        with self._lock:
            found = []
            for number, log in logs.items():
                table = self._tables.get(number)
                if table is None or table.log is not log:  # the topic was deleted and made again
                    table = self._tables[number] = PositionsTable(log)
                table.refresh()
                found.append(table)
            yield found

    def writing(self, group: str) -> threading.Lock:
        """Held by whoever writes positions of a group, so that nobody takes back what was committed just now."""
        return self._writing[hash(group) % _STRIPES]

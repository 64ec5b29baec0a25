"""Keep what all cleaners read and write together below so many bytes a second, by Kafka's rule.

What passes is summed up. Every 300 ms the sum is compared with what was allowed; if it is more, everybody who comes waits until it is not.
The clock and the sleep are passed in. Who waits is asked now and then whether it should go on: a slow cleaner stops at once when told to.
"""

import threading
import time
from collections.abc import Callable

CHECK_INTERVAL_S = 0.3
_LONGEST_SLEEP_S = 0.1


def _nothing() -> None:
    pass


class Throttler:
    """One for all cleaner threads of a store."""

    def __init__(
        self,
        bytes_per_s: float,
        *,
        check_interval_s: float = CHECK_INTERVAL_S,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.bytes_per_s = bytes_per_s
        self.total_bytes = 0
        """What has passed since the store was opened."""
        self.waited_s = 0.0
        """How long that was held up."""
        self._check_interval_s = check_interval_s
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._period_start_s = clock()
        self._passed_bytes = 0
        self._resume_s = self._period_start_s

    def throttle(self, size_bytes: int, check: Callable[[], None] = _nothing) -> None:
        """So much was read or written: returns when more may be. `check` raises to end the wait."""
        with self._lock:
            self.total_bytes += size_bytes
            self._passed_bytes += size_bytes
            self._look(self._clock())
            resume_s = self._resume_s
        while (left_s := resume_s - self._clock()) > 0:
            check()
            self._sleep(min(left_s, _LONGEST_SLEEP_S))

    def _look(self, now_s: float) -> None:
        elapsed_s = now_s - self._period_start_s  # negative while somebody waits: what passes then counts for the next period
        if elapsed_s <= self._check_interval_s or not self._passed_bytes:
            return
        wait_s = self._passed_bytes / self.bytes_per_s - elapsed_s
        if wait_s > 0:
            self.waited_s += wait_s
            self._resume_s = now_s + wait_s
        self._period_start_s = max(now_s, self._resume_s)
        self._passed_bytes = 0

"""The cleaner of a store: which log is compacted next, and the threads that do it.

A turn takes the filthiest log of all that are eligible, and makes one pass over it. When there is none, every compacted log gets its
retention, and the thread pauses for `log.cleaner.backoff.ms`; while there always is one, retention has its turn as often. A log that cannot
be cleaned is marked with the cause and tried again later; the others have their turn meanwhile. Without threads (`background=False`) the
scheduler's task takes turns until nothing is eligible.
"""

import logging
import os
import threading
from typing import NamedTuple

from tidelog.compaction.choice import CleaningChoice, choose
from tidelog.compaction.plan import cleanable_log
from tidelog.compaction.results import removed_by
from tidelog.disk.names import TopicPartition
from tidelog.errors import CleaningAbortedError
from tidelog.log.log import Log
from tidelog.store.cleaning_passes import Passes
from tidelog.store.retaining import Retention, partitions_of
from tidelog.store.state import StoreState

_LOOK_UP_S = 1.0
"""A thread waits no longer than that at a time: the clock may be moved."""
_log = logging.getLogger("tidelog")


class Candidate(NamedTuple):
    """A compacted log, and whether it would be cleaned now."""

    log: Log
    choice: CleaningChoice
    delay_ms: int
    """By how much its oldest dirty record is older than `max.compaction.lag.ms` allows."""


class Cleaner:
    """Cleans the logs of a store. May be used from any thread; in a forked child it does nothing."""

    def __init__(self, state: StoreState, passes: Passes, retention: Retention) -> None:
        self._state = state
        self._passes = passes
        self._retention = retention
        self._threads: list[threading.Thread] = []
        self._wake = threading.Event()
        self._is_stopping = False
        self._pid = os.getpid()
        self.last_run_ms = state.clock()
        """When logs were last looked at for one to clean; at first when the store was opened."""
        self.max_dirty_ratio = 0.0
        """Of the logs that were looked at then."""
        self.max_compaction_delay_ms = 0
        self._retained_ms = self.last_run_ms

    # By threads

    def start(self) -> None:
        """Clean by threads from now on."""
        config = self._state.config
        if not config.log_cleaner_enable:
            return
        for number in range(config.log_cleaner_threads):
            thread = threading.Thread(target=self._run, name=f"tidelog-cleaner-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Abort what runs, whoever asked for it, and clean nothing more; returns when nothing does any more."""
        self._is_stopping = True
        if self._pid != os.getpid():
            return  # its threads and locks are the parent's
        self._wake.set()
        self._state.cleanings.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def abandon(self) -> None:
        """Clean nothing more, and wait for nothing: its store was dropped."""
        self._is_stopping = True
        if self._pid == os.getpid():
            self._state.cleanings.is_closed = True
            self._wake.set()

    @property
    def threads(self) -> int:
        """How many threads were started."""
        return len(self._threads)

    @property
    def dead_threads(self) -> int:
        """Threads that have ended although nobody stopped them."""
        if self._is_stopping or self._pid != os.getpid():
            return 0
        return sum(not thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while not self._is_stopping:
            did = False
            try:
                did = self._clean_filthiest()
                if not did or self._state.clock() - self._retained_ms >= self._state.config.log_cleaner_backoff_ms:
                    self._retain()
            except BaseException:  # not even what no pass should raise ends it in silence
                _log.exception("the cleaner goes on after an error")
            if not did:
                self._pause()

    def _pause(self) -> None:
        clock, backoff_ms = self._state.clock, self._state.config.log_cleaner_backoff_ms
        began_ms = clock()
        while not self._is_stopping:
            left_ms = began_ms + backoff_ms - clock()
            self._wake.wait(max(0.001, min(left_ms / 1000, _LOOK_UP_S)))
            if not 0 < left_ms <= backoff_ms:  # over, or the clock was put back
                return

    # By whoever asks

    def run_due(self) -> None:
        """Take turns until nothing is eligible, in this thread; nothing if the cleaner has threads of its own, or is switched off."""
        config = self._state.config
        if self._threads or not config.log_cleaner_enable or config.log_cleaner_threads == 0:
            return
        while self._clean_filthiest():
            pass
        self._retain()

    def turn(self) -> bool:
        """Clean the filthiest log, and let retention look after all that are compacted: whether a log was cleaned."""
        did = self._clean_filthiest()
        self._retain()
        return did

    def _retain(self) -> None:
        """Retention of compacted logs. What fails is told by the task of that name too, which tries again."""
        if not self._is_stopping:
            self._retained_ms = self._state.clock()
            for failure in self._retention.run_compacted().failures:
                _log.warning("retention of %s failed: %s", failure.partition, failure.error)

    def _clean_filthiest(self) -> bool:
        self._state.check()
        now_ms = self._state.clock()
        candidates = self.candidates(now_ms)
        self.last_run_ms = now_ms
        self.max_dirty_ratio = max((candidate.choice.dirty_ratio for candidate in candidates), default=0.0)
        self.max_compaction_delay_ms = max((candidate.delay_ms for candidate in candidates), default=0)
        eligible = [candidate for candidate in candidates if candidate.choice.is_eligible]
        for candidate in sorted(eligible, key=lambda candidate: -candidate.choice.dirty_ratio):
            if self._is_stopping:
                return False
            if self._clean(candidate.log):
                return True
        return False

    def candidates(self, now_ms: int) -> list[Candidate]:
        """The logs that are compacted, and that nobody cleans or keeps from being cleaned."""
        state, found = self._state, []
        for partition, left_alone in partitions_of(state, None):
            log = state.logs.get(partition)
            if left_alone is not None or log is None or log.is_closed or not log.config.is_compacted:
                continue
            mark = state.uncleanable.get(partition)
            if state.cleanings.state(partition) is not None or (mark is not None and not mark.may_try(now_ms, log.log_start_offset)):
                continue
            try:
                found.append(self._look_at(log, now_ms))
            except Exception as error:
                self._mark(partition, log, error)
        return found

    def _look_at(self, log: Log, now_ms: int) -> Candidate:
        """Whether a log would be cleaned. A checkpoint that lies outside of it is put right."""
        offset = self._state.cleaner_offset(log.partition)
        if offset is not None and not log.log_start_offset <= offset <= log.log_end_offset:
            _log.info("%s was cleaned up to %d, which is outside of it: from its start again", log.partition, offset)
            offset = log.log_start_offset
            self._state.checkpoint_cleaner(log.partition, offset)
        facts = cleanable_log(log, log.config, offset, log.segments)
        choice = choose(facts, log.config, now_ms)
        dirty_ms = [
            segment.first_timestamp_ms
            for segment in facts.segments
            if not segment.is_active and segment.end_offset > choice.first_dirty_offset and (segment.first_timestamp_ms or 0) > 0
        ]
        oldest_ms = min((ms for ms in dirty_ms if ms is not None), default=now_ms)
        return Candidate(log, choice, max(0, now_ms - log.config.max_compaction_lag_ms - oldest_ms))

    def _clean(self, log: Log) -> bool:
        """Make a pass over a log, if nobody else has begun one: whether it went well."""
        cleanings, partition = self._state.cleanings, log.partition
        if not cleanings.try_begin(partition):
            return False
        try:
            if self._state.logs.get(partition) is not log or log.is_closed:
                return False  # its topic was deleted, and there may be another of that name: its files are not this log's
            plan = self._passes.plan(log, self._state.clock())
            if not plan.choice.is_eligible or plan.is_empty:
                return False  # somebody has cleaned it since it was chosen, or it is set otherwise
            cleaned = self._passes.run(log, plan, plan.now_ms)
        except CleaningAbortedError as error:
            _log.info("%s", error)
            return False
        except Exception as error:
            self._mark(partition, log, error)
            return False
        finally:
            cleanings.done(partition)
        self._state.uncleanable.clear(partition)
        stats = cleaned.stats
        _log.info(
            "compacted %s up to offset %d: %d of %d records went, %d of %d bytes",
            partition,
            cleaned.next_dirty_offset,
            removed_by(stats),
            stats.messages_read,
            stats.bytes_read - stats.bytes_written,
            stats.bytes_read,
        )
        return True

    def _mark(self, partition: TopicPartition, log: Log, error: Exception) -> None:
        if log.is_closed:
            return  # its topic was deleted meanwhile, or somebody has closed it
        self._state.uncleanable.mark(partition, error, self._state.clock(), self._state.config.log_cleaner_backoff_ms)

"""Looking after a store: retention, compaction, flush, checkpoints, what they would do, and what there is to measure."""

from collections.abc import Iterable, Mapping

from tidelog.compaction.results import CompactResult
from tidelog.retention import AnyPolicy
from tidelog.store.cleaner import Cleaner
from tidelog.store.cleaning_passes import Passes, floor_of
from tidelog.store.compacting import compact
from tidelog.store.explain import Explanation, explain
from tidelog.store.metrics import Rates, StoreMetrics, measure
from tidelog.store.retaining import Retention, RetentionResult
from tidelog.store.scheduler import Scheduler
from tidelog.store.state import StoreState
from tidelog.store.tasks import raise_first, tasks_of
from tidelog.store.topic_deletion import remove_due
from tidelog.store.transactions.coordinator import Coordinator
from tidelog.store.transactions.expiring import tasks_of_transactions
from tidelog.store.what_if import CountBy, WhatIf, what_if


class StoreCare:
    """The part of a store that looks after its logs."""

    _state: StoreState
    _retention: Retention
    _rates: Rates
    _passes: Passes
    _cleaner: Cleaner
    _transactions: Coordinator
    scheduler: Scheduler
    """What is done by the clock. Its thread runs unless the store was opened with `background=False`."""

    def _take_care(self, policies: Iterable[AnyPolicy]) -> None:
        """Get ready to look after the store; nothing is done before the scheduler is started, or asked."""
        self._retention = Retention(self._state, policies)
        self._rates = Rates(self._state)
        floor_bytes = floor_of(self._state.config.tidelog_cleaner_free_space_floor_bytes, self._retention.of_store)
        self._passes = Passes(self._state, floor_bytes)
        self._cleaner = Cleaner(self._state, self._passes, self._retention)
        self._transactions = Coordinator(self._state)
        tasks = tasks_of(self._state, self._retention, self._rates.tick, self._cleaner.run_due)
        self.scheduler = Scheduler([*tasks, *tasks_of_transactions(self._transactions)], self._state.clock)

    def flush(self) -> None:
        """Make everything durable, indexes too. What goes wrong with one log is raised when all had their turn."""
        self._state.check()
        errors: list[Exception] = []
        for log in list(self._state.logs.values()):
            try:
                log.flush()
            except Exception as error:
                if not log.is_closed:  # closing has flushed it; its topic may have been deleted meanwhile
                    errors.append(error)
        raise_first(errors)

    def retain(self, topic: str | None = None) -> RetentionResult:
        """Delete what need not be kept any more, now: of one topic, or of all. What went, by rule, and what could not be done.

        Policies for the whole store are asked only when it is about the whole store.
        """
        self._state.check()
        return self._retention.run(topic)

    def remove_deleted(self) -> int:
        """Remove the files of deleted segments now, whatever `file.delete.delay.ms` says: how many segments.

        For who closes the store soon, and is not there when it is time. Of deleted topics those go whose time has come.
        """
        self._state.check()
        remove_due(self._state)
        return sum(log.remove_deleted(at_once=True) for log in list(self._state.logs.values()) if not log.is_closed)

    def compact(
        self, topic: str | None = None, *, roll: bool = False, dry_run: bool = False, drop_null_keys: bool = False
    ) -> CompactResult:
        """Compact now, whatever the dirty ratio: one topic, or all whose `cleanup.policy` has `compact`. What went, or why nothing did.

        Never past what may not be cleaned: the active segment, open transactions, `min.compaction.lag.ms`. With `roll` the active segment
        is ended first, so that its records take part. A pass under way is waited for. A partition that has records without key is reported
        and left as it is, unless `drop_null_keys` says that they may go. `dry_run` writes nothing: the result says what would go.
        """
        self._state.check()
        return compact(self._state, self._passes, topic, roll=roll, dry_run=dry_run, drop_null_keys=drop_null_keys)

    def clean_once(self) -> bool:
        """One turn of the cleaner in this thread, as its threads take them: the filthiest log that is eligible, if there is one.

        Whether one was cleaned. Then every compacted log gets its retention.
        """
        self._state.check()
        return self._cleaner.turn()

    def explain(self, topic: str | None = None, now_ms: int | None = None) -> Explanation:
        """Why each segment is still here, what will remove it and when, and whether its log would be compacted. Changes nothing.

        `now_ms` asks about another time, with what is there now. Policies for the whole store are asked only when it is about all.
        """
        state = self._state
        state.check()
        next_check_ms = next(report.next_ms for report in self.scheduler.reports() if report.name == "retention")
        return explain(state, topic, state.clock() if now_ms is None else now_ms, self._retention, next_check_ms)

    def what_if(
        self, topic: str, configs: Iterable[Mapping[str, object]], *, now_ms: int | None = None, count_by: CountBy = "offsets"
    ) -> WhatIf:
        """What retention would delete now if the topic were set otherwise: one row for each of `configs`. Changes nothing.

        Each of them is laid over the topic's settings; `tidelog.store.grid` makes every combination of some values. Policies for the
        whole store are not asked.
        """
        state = self._state
        state.check()
        return what_if(state, topic, configs, state.clock() if now_ms is None else now_ms, self._retention.of_logs, count_by)

    def metrics(self) -> StoreMetrics:
        """What Kafka exposes for its logs, and how the tasks of the store are doing, as of now."""
        self._state.check()
        return measure(self._state, self.scheduler, self._rates, self._cleaner, self._passes)

"""Looking after a store: retention, flush, checkpoints, what they would do, and what there is to measure."""

from collections.abc import Iterable, Mapping

from tidelog.retention import AnyPolicy
from tidelog.store.explain import Explanation, explain
from tidelog.store.metrics import Rates, StoreMetrics, measure
from tidelog.store.retaining import Retention, RetentionResult
from tidelog.store.scheduler import Scheduler
from tidelog.store.state import StoreState
from tidelog.store.tasks import tasks_of
from tidelog.store.what_if import CountBy, WhatIf, what_if


class StoreCare:
    """The part of a store that looks after its logs."""

    _state: StoreState
    _retention: Retention
    _rates: Rates
    scheduler: Scheduler
    """What is done by the clock. Its thread runs unless the store was opened with `background=False`."""

    def _take_care(self, policies: Iterable[AnyPolicy]) -> None:
        """Get ready to look after the store; nothing is done before the scheduler is started, or asked."""
        self._retention = Retention(self._state, policies)
        self._rates = Rates(self._state)
        self.scheduler = Scheduler(tasks_of(self._state, self._retention, self._rates.tick), self._state.clock)

    def flush(self) -> None:
        """Make everything durable, indexes too."""
        self._state.check()
        for log in list(self._state.logs.values()):
            log.flush()

    def retain(self, topic: str | None = None) -> RetentionResult:
        """Delete what need not be kept any more, now: of one topic, or of all. What went, by rule, and what could not be done.

        Policies for the whole store are asked only when it is about the whole store.
        """
        self._state.check()
        return self._retention.run(topic)

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
        return measure(self._state, self.scheduler, self._rates)

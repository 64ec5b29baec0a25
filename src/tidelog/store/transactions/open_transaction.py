"""A transaction from its beginning to its end, and the order in which it becomes durable.

    Ongoing, with every partition, before the first batch in that partition          not waited for
    batches of data                                                                  synced together, before the decision
    Prepare commit: the decision                                                     synced
    COMMIT markers                                                                   synced together
    Complete commit                                                                  not waited for

What a crash leaves before the decision is aborted by the next opening, and what it leaves behind the decision is finished (`finishing`). So
does whoever uses the id next if a call was interrupted: nothing here is ever half done for good.
"""

from tidelog.errors import LogClosedError, TidelogError, TransactionError, UnknownTopicError
from tidelog.log.log import Log
from tidelog.schema.transaction_state import TransactionStatus
from tidelog.store.transactions.finishing import settle_id
from tidelog.store.transactions.ready_batches import ReadyBatches
from tidelog.store.write_batch import Outcome


class OpenTransaction(ReadyBatches):
    """The inside of a `Transaction`. It knows nothing of that object, so that one that was dropped can be told from one in use."""

    def commit(self) -> None:
        """Make it durable, and visible. When this returns, readers of committed records see all of it."""
        with self.lock:
            try:
                self.check_open()
            except TransactionError:
                if self.failure is not None and not self.is_ending:
                    self.abort()
                raise
            self.is_ending = True
            try:
                self.write(self._take())
                self._make_durable()
                if self.log is not None:
                    self.coordinator.syncing.wait(self.log, self.write_state(TransactionStatus.PREPARE_COMMIT))
                    self.is_decided = True
            except Exception as error:
                if not self._settle_after(error):
                    raise
                return
            is_committed = settle_id(self.coordinator, self.owner)
            assert is_committed, "decided is decided"

    def _make_durable(self) -> None:
        failures = self.coordinator.syncing.sync([(written.log, written.end_offset) for written in self.written.values()])
        for log, error in failures:
            if not self._is_deleted(log, error):
                raise error
        for partition, written in self.written.items():
            if partition.topic in self.coordinator.state.file.topics:
                self.check_producer(self.coordinator.state.log(partition), written)

    def _is_deleted(self, log: Log, error: TidelogError) -> bool:
        return isinstance(error, (LogClosedError, UnknownTopicError)) and log.partition.topic not in self.coordinator.state.file.topics

    def _settle_after(self, error: Exception) -> bool:
        """After an error on the way to the decision: whether it is committed all the same. The state in the log tells."""
        try:
            return settle_id(self.coordinator, self.owner, aborted=TransactionError(f"the transaction was aborted: {error}"))
        except TidelogError as second:
            if not self.is_in_doubt and self.coordinator.is_undecided(self):
                raise error from second  # nothing was decided, and nothing will be but to abort it
            in_doubt = TransactionError(
                f"whether the transaction is committed is not known: {error}",
                path=self.owner.name,
                hint="close the store and open it again: that decides it",
            )
            self.tell(in_doubt)
            raise in_doubt from error

    def abort(self) -> None:
        """End it so that nothing of it is ever seen."""
        with self.lock:
            if self._over is not None or self.is_ending:
                self.check_open()
            self.stop(TransactionError("the transaction was aborted", path=self.owner.name))
            settle_id(self.coordinator, self.owner)

    def stop(self, error: TidelogError) -> None:
        """Take nothing more, and forget what was not written; with the lock held. Who uses it, or waits for a record, is told why."""
        if not self.is_ending:
            self.is_ending = self.is_stopped = True
            self._over = error
            self._take()

    def tell(self, error: TidelogError | None) -> None:
        """What has become of it, to all who wait for a record; None if it is committed."""
        self.is_ending = True
        self._take()
        batches, self._batches = self._batches, []
        if self._over is None:
            self._over = TransactionError("the transaction is committed" if error is None else error.what, path=self.owner.name)
        for batch in batches:
            if error is not None:
                batch.outcomes = [Outcome(0, -1, -1, self._over)]
            batch.finish()

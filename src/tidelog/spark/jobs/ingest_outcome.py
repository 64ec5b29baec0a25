"""What became of an ingest: where its records are, whether it was a repetition, and what to do if nobody knows.

The sink of the data source commits in a process that Spark starts, and Spark hands on nothing of what that says. So the ledger of the store
is asked, which has an entry for each commit under a transactional id. Without an id nobody knows a run again: if it fails late, it may be
there all the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.disk.names import TopicPartition
from tidelog.errors import LogNotFoundError, TidelogError, UnknownTopicError
from tidelog.store.read_only_store import ReadOnlyStore
from tidelog.store.transactions.ledger import LEDGER, LedgerEntry, find_in_ledger

_NOTHING_CHANGED = "nothing was changed; running it again is safe"
_LOOK_FIRST = "it may have been committed: look before you run it again, or give it a transactional_id, by which a repetition is known"
_ONLY_ONCE = "running it again with the same transactional_id is safe: what it has committed is not appended twice"


@dataclass(frozen=True, slots=True)
class AppendedRange:
    """What an ingest has appended to a partition: offsets from one up to, not including, another; ends of transactions take some."""

    partition: TopicPartition
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of the rows; of a dry run, what they would become."""

    directory: str
    topic: str | None
    """None: each row says it."""
    dry_run: bool
    columns: tuple[tuple[str, str], ...]
    """Of the records, with their types in Spark."""
    records: int
    """Rows that were written; None of a dry run are."""
    ranges: tuple[AppendedRange, ...]
    """Where they are. Spark does not hand on what its sink has done: from there it is how far the partitions of the topics have grown
    meanwhile, and what others have appended at the same time is among it."""
    stages: tuple[tuple[str, int], ...]
    """What executors did, and in how many tasks."""
    was_there_already: bool
    """Whether an earlier run with the same transactional id had appended the rows, and this one did nothing."""

    def __str__(self) -> str:
        into = f"{self.directory}, topic {self.topic}" if self.topic is not None else f"{self.directory}, topics by column"
        shown = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        if self.dry_run:
            return f"would be appended to {into}: {shown}; {self.stages[0][1]} tasks"
        if self.was_there_already:
            return f"{into}: {self.records} records were there already"
        lines = [f"{one.partition}: offsets {one.start_offset} to {one.end_offset}" for one in self.ranges]
        return "\n".join([f"{into}: {self.records} records{f' ({shown})' if shown else ''}", *lines])


def may_be_there(error: TidelogError, transactional_id: str | None) -> TidelogError:
    """The error of a run that has failed after it began to write. Other jobs change nothing by then; this one may have committed."""
    if error.hint is not None and _NOTHING_CHANGED in error.hint:
        hint = _ONLY_ONCE if transactional_id is not None else _LOOK_FIRST
        error.hint = error.hint.replace(_NOTHING_CHANGED, hint)
    return error


def ledger_entry(directory: str, transactional_id: str | None) -> LedgerEntry | None:
    """The last commit under an id, as the store's ledger has it; None without an id, or if there was none."""
    if transactional_id is None:
        return None
    try:
        with ReadOnlyStore.open(directory) as store:
            return find_in_ledger(store.log(*LEDGER), f"batch/{transactional_id}")
    except (LogNotFoundError, UnknownTopicError):
        return None


def is_repetition(before: LedgerEntry | None, after: LedgerEntry | None, started_ms: int) -> bool:
    """Whether a run under an id has appended nothing, by what the ledger had before it and after it.

    A commit that was decided, and cut off behind that, shows only afterwards: then its time does.
    """
    return after is not None and (after == before or 0 <= after.committed_ms < started_ms)


def grown_since(before: Mapping[TopicPartition, int], directory: str, topic: str | None = None) -> tuple[AppendedRange, ...]:
    """What was appended to a topic, or to all, since the partitions ended there."""
    after = {one: end for one, end in ends_of(directory).items() if topic is None or one.topic == topic}
    return tuple(AppendedRange(one, before.get(one, 0), end) for one, end in sorted(after.items()) if end > before.get(one, 0))


def ends_of(directory: str) -> dict[TopicPartition, int]:
    """Where each partition ends, as readers see it; nothing where there is no store yet."""
    try:
        with ReadOnlyStore.open(directory) as store:
            topics = store.topics(internal=False)
            return {
                TopicPartition(topic.name, number): topic.log(number).high_watermark
                for topic in topics
                for number in store.found_topic(topic.name).homes
            }
    except LogNotFoundError:
        return {}

"""What became of an ingest: where its records are, whether it was a repetition, and what to do if nobody knows.

The sink of the data source commits in a process that Spark starts, and Spark hands on nothing of what that says. So it is told to leave a
report. Without a transactional id nobody knows a run again: if it fails late, it may be there all the same.
"""

from dataclasses import dataclass

from tidelog.disk.names import TopicPartition
from tidelog.errors import JobFailedError, TidelogError
from tidelog.plurals import counted
from tidelog.spark.jobs.task_errors import with_hint

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
    """Where they are."""
    stages: tuple[tuple[str, int], ...]
    """What executors did, and in how many tasks; -1 where Spark does not tell before it has begun."""
    was_there_already: bool
    """Whether an earlier run with the same transactional id had appended the rows, and this one did nothing."""

    def __str__(self) -> str:
        into = f"{self.directory}, topic {self.topic}" if self.topic is not None else f"{self.directory}, topics by column"
        shown = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        if self.dry_run:
            tasks = f"; {self.stages[0][1]} tasks" if self.stages[0][1] >= 0 else ""  # Spark does not always say how many
            return f"would be appended to {into}: {shown}{tasks}"
        if self.was_there_already:
            return f"{into}: {counted(self.records, 'record')} {'was' if self.records == 1 else 'were'} there already"
        lines = [f"{one.partition}: offsets {one.start_offset} to {one.end_offset}" for one in self.ranges]
        return "\n".join([f"{into}: {counted(self.records, 'record')}{f' ({shown})' if shown else ''}", *lines])


def may_be_there(error: TidelogError, transactional_id: str | None) -> TidelogError:
    """The error of a run that has failed after it began to write. Other jobs change nothing by then; this one may have committed."""
    return with_hint(error, _ONLY_ONCE if transactional_id is not None else _LOOK_FIRST)


def no_report(described: str, transactional_id: str | None) -> JobFailedError:
    """The error of a run of which nobody knows what it did: the commit has left no report, as on a disk that was full by then."""
    hint = _ONLY_ONCE if transactional_id is not None else _LOOK_FIRST
    return JobFailedError(f"{described}: it went through, but what it did could not be written down", hint=hint)

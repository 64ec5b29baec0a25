"""The ledger of sinks: which commits of a pipeline are done. It alone decides whether one that comes again is a repetition.

A compacted topic of one partition, `__tidelog_commits`, made when it is first used. The last record of every transaction that commits a
batch of a pipeline:

    key     "stream/<query id>", or "batch/<transactional id>"
    value   {"version": 1, "batch_id": 41, "records": 1000, "committed_ms": 1700000000000, "origin": "<the query's id in Spark>"}

It is there exactly if the records are, by the transaction. Compaction keeps the last of each key, and nothing else ever removes one: unlike
what logs know of producers, which is forgotten a day after a producer's last record, by the time of the record.
"""

import json
from dataclasses import dataclass

from tidelog.disk.names import TopicPartition
from tidelog.errors import MalformedRecordError, TransactionError
from tidelog.log.log_reading import LogReading
from tidelog.store.internal_logs import existing_log, internal_log
from tidelog.store.internal_topics import COMMITS
from tidelog.store.state import StoreState
from tidelog.store.transactions.open_transaction import OpenTransaction

LEDGER = TopicPartition(COMMITS.name, 0)
VERSION = 1


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The last commit of a pipeline."""

    name: str
    batch_id: int
    records: int = 0
    committed_ms: int = -1
    origin: str | None = None
    """Where the batch ids are counted: the id that Spark has for the query, kept in its checkpoint."""

    def format(self) -> tuple[bytes, bytes]:
        """Key and value."""
        value = {"version": VERSION, "batch_id": self.batch_id, "records": self.records, "committed_ms": self.committed_ms}
        if self.origin is not None:
            value["origin"] = self.origin  # type: ignore[assignment]
        return self.name.encode(), json.dumps(value).encode()

    @classmethod
    def parse(cls, key: bytes, value: bytes, path: str) -> "LedgerEntry":
        """What a record says. One that cannot be read is an error: it must not be taken for none."""
        try:
            found = json.loads(value)
            if found["version"] != VERSION or type(found["batch_id"]) is not int:
                raise ValueError(f"version {found['version']!r}")
            return cls(key.decode(), found["batch_id"], found["records"], found["committed_ms"], found.get("origin"))
        except (ValueError, KeyError, TypeError) as error:
            raise MalformedRecordError(
                f"the ledger's record of {key!r} cannot be read: {error}", path=path, hint="was it written by a later release?"
            ) from error


def find_in_ledger(log: LogReading, name: str) -> LedgerEntry | None:
    """The last commit of a pipeline, None if there is none; of a log that somebody owns, or that is only read."""
    key, found = name.encode(), None
    for record in log.read(isolation="committed", when_overtaken="skip"):
        if record.key == key:
            found = record.value
    return None if found is None else LedgerEntry.parse(key, found, log.directory)


def last_commit(state: StoreState, name: str) -> LedgerEntry | None:
    """The same in a store that is owned. What is decided has to be visible by then."""
    log = existing_log(state, COMMITS, name)
    if log is None:
        return None
    if log.open_transactions:
        raise TransactionError(
            "a commit before this one could not be brought to its end: whether it is done cannot be told",
            path=log.directory,
            hint="open the store again when what is in the way is gone",
        )
    return find_in_ledger(log, name)


def note_commit(state: StoreState, transaction: OpenTransaction, entry: LedgerEntry) -> None:
    """Make a commit part of its transaction, as the last that it writes."""
    transaction.add_positions(internal_log(state, COMMITS, entry.name), [entry.format()])

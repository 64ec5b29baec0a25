"""Every exception of the project.

    TidelogError
    ├── CorruptError (ValueError)            bytes that are not what they should be
    │   ├── CorruptBatchError                a batch: its size, its header
    │   │   ├── ChecksumError                its CRC does not match
    │   │   ├── InvalidRecordError           its records do not parse, or are not as many as declared
    │   │   └── DecompressionError           its payload is not what its codec promises
    │   ├── CorruptFileError                 a checkpoint or metadata file that does not parse
    │   ├── MalformedRecordError             a record of an internal topic that is not in Kafka's schema
    │   └── DamagedLogError                  damage that no crash explains; opening changes nothing
    ├── UnsupportedError (ValueError)        well formed perhaps, but nothing that Kafka 4.x defines
    │   ├── UnsupportedMagicError            a record format other than 0, 1, 2
    │   └── UnsupportedCodecError            a codec id, name or combination that does not exist
    ├── PayloadTooLargeError (ValueError)    decompressing would pass the limit that the caller set
    ├── InvalidBatchError (ValueError)       the caller asked for a batch that must not be written
    ├── InvalidRecordTypeError (TypeError)   a key, value, header or timestamp that is not what a record is made of
    ├── InvalidConfigError (ValueError)      a setting that does not exist, or a value it cannot have
    ├── InvalidTopicError (ValueError)       a name that no topic can have, or a number of partitions
    ├── UnknownTopicError (LookupError)      a topic, or a partition of it, that the store does not have
    ├── TopicExistsError (ValueError)        a topic that is there already
    ├── NotAStoreError (ValueError)          a directory that Tidelog did not make, and was not told to adopt
    ├── ForkedError (RuntimeError)           a store that the parent of this process has opened
    ├── RefusedBatchError (ValueError)       a batch that a log does not take, by Kafka's rules for appends
    │   ├── InvalidTimestampError            a record too old, too far in the future, or stamped by the wrong side
    │   ├── MessageTooLargeError             a batch above max.message.bytes
    │   ├── RecordListTooLargeError          one call with more than a segment can hold
    │   ├── UnexpectedOffsetError            a follower's batch out of order, or below the end of the log
    │   ├── OutOfOrderSequenceError          a producer's batch that does not follow its last one
    │   ├── InvalidProducerEpochError        a producer that was fenced by a newer epoch
    │   ├── InvalidTxnStateError             a batch outside of the transaction that its producer has open
    │   └── CoordinatorFencedError           a transaction marker from a coordinator that was replaced
    ├── ProducerFencedError (RuntimeError)   a transaction whose id somebody else has taken since
    ├── TransactionError (RuntimeError)      a transaction that is over, or cannot do what it is asked for
    │   └── UnfinishedTransactionError       decided and durable, but not all of its markers could be written yet
    ├── InvalidGroupError (ValueError)       a group, its topics, or a position of it, that cannot be
    ├── GroupInUseError (RuntimeError)       a group that has a live member already
    ├── NoOffsetForPartitionError (LookupError)  no position of a group, and no rule where to begin
    ├── ReadOnlyStoreError (OSError)         something to be written through a store that was opened to be read
    ├── BatchTooLargeError (ValueError)      a batch to be read that is larger than the caller allows
    ├── OffsetOutOfRangeError (LookupError)  an offset that the log does not have, not any more or not yet
    ├── DataLossError (LookupError)          records that a query was to read, and that are not there any more
    ├── UnknownPastError (LookupError)       a state, or a history, of which compaction or retention has taken records away
    ├── StorageError (OSError)               the operating system refused; nothing acknowledged is lost
    │   ├── DiskFullError                    no space, or no quota, left
    │   └── LogFailedError                   after a failed fsync or roll-back a log takes no more writes
    ├── StagingError (OSError)               a staging directory, or a file in it, that is not what it should be
    ├── JobFailedError (RuntimeError)        a job on Spark that could not be finished; what it would have changed is as it was
    ├── CleaningAbortedError (RuntimeError)  a compaction that was told to stop; nothing of its last step was changed
    ├── NullKeysError (ValueError)           records without key in a log that is to be compacted; nothing was changed
    ├── LogClosedError (ValueError)          a log, or a store, that was closed
    ├── InconsistentTopicIdError (ValueError)  a partition of another topic with the same name
    ├── RepairError (ValueError)             a repair that cannot be done as asked, or not any more
    ├── MissingPackageError (ImportError)    an optional package that is not installed
    ├── LogNotFoundError (FileNotFoundError) no such directory, or nothing of Kafka's in it
    └── LockedError (BlockingIOError)        another process, or another opener, owns the directory

Errors carry their facts as attributes (what is wrong, path, position, expected, found), build their own text, and can be pickled, since
bulk work crosses processes.
"""

from typing import Any, Final

NO_DIRECTORY: Final = "give the directory that holds the directories of partitions, or that of one partition; is its disk mounted?"
"""What to do where none was found."""


class TidelogError(Exception):
    """The root. `what` says what is wrong; facts that do not apply are None."""

    def __init__(
        self,
        what: str,
        *,
        position: int | None = None,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
        path: str | None = None,
    ) -> None:
        self.what = what
        self.path = path
        """The file or directory it is about."""
        self.position = position
        """Byte position in the file, or in the buffer that was read."""
        self.expected = expected
        self.found = found
        self.hint = hint
        """What to do about it."""
        super().__init__(what)

    def __str__(self) -> str:
        text = self.what if self.path is None else f"{self.path}: {self.what}"
        if self.position is not None:
            text += f" at byte {self.position}"
        if self.expected is not None:
            text += f": expected {self.expected}, found {self.found}"
        if self.hint is not None:
            text += f" ({self.hint})"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.__dict__.copy())


def _rebuild(cls: type[TidelogError], facts: dict[str, Any]) -> TidelogError:
    error = cls.__new__(cls, facts["what"])
    error.args = (facts["what"],)
    error.__dict__.update(facts)
    return error


class CorruptError(TidelogError, ValueError):
    """Bytes that are not what they should be."""


class CorruptBatchError(CorruptError):
    """A batch whose size or header cannot be."""


class ChecksumError(CorruptBatchError):
    """A batch whose CRC does not match its bytes."""


class InvalidRecordError(CorruptBatchError):
    """A batch whose records do not parse, or are not as many as it declares."""


class DecompressionError(CorruptBatchError):
    """A compressed payload that is not what its codec promises."""


class CorruptFileError(CorruptError):
    """A checkpoint or metadata file that does not parse."""


class MalformedRecordError(CorruptError):
    """A key or value in one of Kafka's internal topics that is not what its version promises."""


class UnsupportedError(TidelogError, ValueError):
    """Something that Kafka 4.x does not define."""


class UnsupportedMagicError(UnsupportedError):
    """A record format other than 0, 1 and 2."""


class UnsupportedCodecError(UnsupportedError):
    """A codec that does not exist, or not in this record format."""


class PayloadTooLargeError(TidelogError, ValueError):
    """Decompressing would pass the caller's limit."""

    def __init__(self, *, max_bytes: int, found: object = "more") -> None:
        super().__init__(
            "a compressed payload expands past the limit",
            expected=f"at most {max_bytes} bytes",
            found=found,
            hint="raise max_decompressed_bytes if this data is trusted",
        )


class InvalidBatchError(TidelogError, ValueError):
    """A batch that must not be written: a setting, a timestamp or a size out of range."""


class InvalidRecordTypeError(TidelogError, TypeError):
    """A key, value, header, timestamp or partition of a type that no record has: text above all, which is the caller's to encode."""


class InvalidConfigError(TidelogError, ValueError):
    """A setting that does not exist, or a value that it cannot have."""


class InvalidTopicError(TidelogError, ValueError):
    """A name that no topic can have, or a number of partitions that it cannot have."""


class UnknownTopicError(TidelogError, LookupError):
    """A topic, or a partition of it, that the store does not have."""


class TopicExistsError(TidelogError, ValueError):
    """A topic that is there already."""


class NotAStoreError(TidelogError, ValueError):
    """A directory that Tidelog did not make, and was not told to adopt: a broker's, a backup, any folder with something in it."""


class ForkedError(TidelogError, RuntimeError):
    """A store, or a log, that was opened before this process was forked. It belongs to the parent; nothing was changed."""


class RefusedBatchError(TidelogError, ValueError):
    """A batch that a log does not take; nothing was written. `record_errors` names the records by their index where it is about some."""

    kafka_error = "INVALID_RECORD"
    """What a broker would answer."""

    def __init__(self, what: str, *, record_errors: tuple[tuple[int, str], ...] = (), kafka_error: str | None = None, **facts: Any) -> None:
        super().__init__(what, **facts)
        self.record_errors = record_errors
        if kafka_error is not None:
            self.kafka_error = kafka_error

    def __str__(self) -> str:
        text = super().__str__()
        if self.record_errors:
            index, message = self.record_errors[0]
            others = len(self.record_errors) - 1
            text += f": record {index} of the batch: {message}" + (f", and {others} more" if others else "")
        return text


class InvalidTimestampError(RefusedBatchError):
    """A record too old or too far in the future, or a batch stamped by the wrong side."""

    kafka_error = "INVALID_TIMESTAMP"


class MessageTooLargeError(RefusedBatchError):
    """A batch larger than `max.message.bytes`."""

    kafka_error = "MESSAGE_TOO_LARGE"


class RecordListTooLargeError(RefusedBatchError):
    """One call with more bytes than a segment may have."""

    kafka_error = "RECORD_LIST_TOO_LARGE"


class UnexpectedOffsetError(RefusedBatchError):
    """A follower's batch whose offsets go back, or lie below the end of the log."""

    kafka_error = "UNKNOWN_SERVER_ERROR"


class OutOfOrderSequenceError(RefusedBatchError):
    """A batch whose sequence numbers do not go on where its producer's last batch ended."""

    kafka_error = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class InvalidProducerEpochError(RefusedBatchError):
    """A producer that goes on with an epoch that a newer one has fenced."""

    kafka_error = "INVALID_PRODUCER_EPOCH"


class InvalidTxnStateError(RefusedBatchError):
    """A batch that is not transactional from a producer whose transaction is open."""

    kafka_error = "INVALID_TXN_STATE"


class CoordinatorFencedError(RefusedBatchError):
    """A transaction marker from a coordinator older than the one that wrote the last."""

    kafka_error = "TRANSACTION_COORDINATOR_FENCED"


class ProducerFencedError(TidelogError, RuntimeError):
    """A transaction whose transactional id was taken by somebody else since: nothing more can be done with it."""


class TransactionError(TidelogError, RuntimeError):
    """A transaction that is over, or that cannot do what it is asked for."""


class UnfinishedTransactionError(TransactionError):
    """A transaction is decided, and that is durable, but not all of its markers could be written yet. They will be."""


class InvalidGroupError(TidelogError, ValueError):
    """A name that no group can have, topics or partitions that are none, or a position that cannot be committed."""


class GroupInUseError(TidelogError, RuntimeError):
    """A group has a live member in this process already."""


class NoOffsetForPartitionError(TidelogError, LookupError):
    """A group has no position in a partition, and `auto.offset.reset` is none."""


class ReadOnlyStoreError(TidelogError, OSError):
    """Something was to be written through a store that was opened to be read."""


class BatchTooLargeError(TidelogError, ValueError):
    """A batch to be read that is larger than the caller allows."""


class OffsetOutOfRangeError(TidelogError, LookupError):
    """An offset that the log does not have. The valid range is from `log_start_offset` up to and including `log_end_offset`."""

    def __init__(self, *, offset: int, log_start_offset: int, log_end_offset: int, path: str | None = None) -> None:
        super().__init__(
            "offset out of range",
            expected=f"{log_start_offset} to {log_end_offset}",
            found=offset,
            hint="EARLIEST starts at the beginning, LATEST waits for what comes next",
            path=path,
        )
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class DataLossError(TidelogError, LookupError):
    """Records that a query was to read, and that are not there any more: expired, trimmed, cut off, or deleted with their topic."""


class UnknownPastError(TidelogError, LookupError):
    """A state as of a point, or a history, of which the log has not everything any more: its cleaner, or retention, took records away.

    `first_offset` is the first offset as of which it can be told, `first_timestamp_ms` the first time; None where that did not come along.
    """

    first_offset: int | None = None
    first_timestamp_ms: int | None = None

    def __init__(self, what: str, *, first_offset: int | None = None, first_timestamp_ms: int | None = None, **facts: Any) -> None:
        super().__init__(what, **facts)
        self.first_offset = first_offset
        self.first_timestamp_ms = first_timestamp_ms


class StorageError(TidelogError, OSError):
    """The operating system refused. The log is as it was before the call."""

    errno: int | None = None


class DiskFullError(StorageError):
    """No space, or no quota, left. The log goes on when there is room again, or the hint says what else is to be done."""


class LogFailedError(StorageError):
    """A log that takes no more writes, because an fsync or a roll-back failed; reading goes on. Open it again to recover."""


class StagingError(TidelogError, OSError):
    """A staging directory that is not the driver's, or was given up, or a staged file that is not what its task has written."""


class JobFailedError(TidelogError, RuntimeError):
    """A job on Spark that could not be finished: a worker died, or something went wrong in a task that is no error of ours."""


class CleaningAbortedError(TidelogError, RuntimeError):
    """A compaction that was told to stop: its log is to be truncated or deleted, its settings were changed, or its store is closed."""


class NullKeysError(TidelogError, ValueError):
    """Records without key in a log that is to be compacted, which would drop them. Nothing was changed."""

    def __init__(self, partition: object, *, offsets: tuple[int, ...], count: int, path: str | None = None) -> None:
        shown = f"{', '.join(map(str, offsets[:10]))}{' …' if count > 10 else ''}"
        super().__init__(
            f"{partition} has {count} record{'' if count == 1 else 's'} without key, at offset {shown}",
            path=path,
            hint="drop_null_keys=True drops them, as Kafka does",
        )
        self.partition = partition
        self.offsets = offsets
        """Where they are, the first 100."""
        self.count = count


class LogClosedError(TidelogError, ValueError):
    """A log, or a store, that was closed."""


class InconsistentTopicIdError(TidelogError, ValueError):
    """A partition directory that belongs to another topic with the same name."""


class RepairError(TidelogError, ValueError):
    """A repair that cannot be done as asked: a place that is not between two batches, a directory that has changed since the plan."""


class MissingPackageError(TidelogError, ImportError):
    """A package that this call needs, and that Tidelog does without otherwise, is not installed."""


class LogNotFoundError(TidelogError, FileNotFoundError):
    """No such directory, or nothing of Kafka's in it."""


class LockedError(TidelogError, BlockingIOError):
    """Another process, or another opener in this one, owns the directory."""


class DamagedLogError(CorruptError):
    """Damage that no crash explains: opening stops before it changes anything. `findings` lists what was found."""

    def __init__(self, what: str, *, findings: tuple[Any, ...] = (), **facts: Any) -> None:
        super().__init__(what, **facts)
        self.findings = findings

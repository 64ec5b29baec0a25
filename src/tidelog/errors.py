"""Every exception of the project.

    TidelogError
    ├── CorruptError (ValueError)            bytes that are not what they should be
    │   ├── CorruptBatchError                a batch: its size, its header
    │   │   ├── ChecksumError                its CRC does not match
    │   │   ├── InvalidRecordError           its records do not parse, or are not as many as declared
    │   │   └── DecompressionError           its payload is not what its codec promises
    │   ├── CorruptFileError                 a checkpoint or metadata file that does not parse
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
    ├── BatchTooLargeError (ValueError)      a batch to be read that is larger than the caller allows
    ├── OffsetOutOfRangeError (LookupError)  an offset that the log does not have, not any more or not yet
    ├── StorageError (OSError)               the operating system refused; nothing acknowledged is lost
    │   ├── DiskFullError                    no space, or no quota, left
    │   └── LogFailedError                   after a failed fsync or roll-back a log takes no more writes
    ├── LogClosedError (ValueError)          a log, or a store, that was closed
    ├── InconsistentTopicIdError (ValueError)  a partition of another topic with the same name
    ├── RepairError (ValueError)             a repair that cannot be done as asked, or not any more
    ├── MissingPackageError (ImportError)    an optional package that is not installed
    ├── LogNotFoundError (FileNotFoundError) no such directory, or nothing of Kafka's in it
    └── LockedError (BlockingIOError)        another process, or another opener, owns the directory

Errors carry their facts as attributes (what is wrong, path, position, expected, found), build their own text, and can be pickled, since
bulk work crosses processes.
"""

from typing import Any


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


class StorageError(TidelogError, OSError):
    """The operating system refused. The log is as it was before the call."""

    errno: int | None = None


class DiskFullError(StorageError):
    """No space, or no quota, left. The log goes on when there is room again."""


class LogFailedError(StorageError):
    """A log that takes no more writes, because an fsync or a roll-back failed; reading goes on. Open it again to recover."""


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

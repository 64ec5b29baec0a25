"""Every exception of the project.

    TidelogError
    ├── CorruptError (ValueError)            bytes that are not what they should be
    │   └── CorruptBatchError                a batch: its size, its header
    │       ├── ChecksumError                its CRC does not match
    │       ├── InvalidRecordError           its records do not parse, or are not as many as declared
    │       └── DecompressionError           its payload is not what its codec promises
    ├── UnsupportedError (ValueError)        well formed perhaps, but nothing that Kafka 4.x defines
    │   ├── UnsupportedMagicError            a record format other than 0, 1, 2
    │   └── UnsupportedCodecError            a codec id, name or combination that does not exist
    ├── PayloadTooLargeError (ValueError)    decompressing would pass the limit that the caller set
    └── InvalidBatchError (ValueError)       the caller asked for a batch that must not be written

Errors carry their facts as attributes (what is wrong, position, expected, found), build their own text, and can be pickled, since bulk
work crosses processes.
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
    ) -> None:
        self.what = what
        self.position = position
        """Byte position in the buffer that was read."""
        self.expected = expected
        self.found = found
        self.hint = hint
        """What to do about it."""
        super().__init__(what)

    def __str__(self) -> str:
        text = self.what
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

"""Which keys are meant: exact ones, those that a pattern fits, or those of which a function says so. Small, and pickled to whoever reads.

Exact keys are compared for many records at once. A pattern or a function is asked record by record, which takes its time.
"""

import pickle
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Union

import numpy as np
from numpy.typing import NDArray

from tidelog.errors import InvalidRecordTypeError

Keys = Union[bytes, Iterable[bytes], "re.Pattern[bytes]", Callable[[bytes], bool]]
"""What a caller may give."""
_GATHERED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class KeyMatch:
    """Made by `of`. Records without a key never match."""

    exact: frozenset[bytes] = frozenset()
    pattern: "re.Pattern[bytes] | None" = None
    """It has to be found somewhere in the key."""
    predicate: Callable[[bytes], bool] | None = None

    @classmethod
    def of(cls, keys: Keys) -> "KeyMatch":
        """What a caller means; `InvalidRecordTypeError` for text, and for a function that cannot travel."""
        if isinstance(keys, re.Pattern):
            if not isinstance(keys.pattern, bytes):
                raise InvalidRecordTypeError("a pattern for keys that is text", expected='bytes, as in re.compile(b"…")', found=repr(keys))
            return cls(pattern=keys)
        if callable(keys):
            try:
                pickle.dumps(keys)
            except Exception as error:
                raise InvalidRecordTypeError(
                    "a function for keys that cannot be pickled", expected="one that is found in a module by its name", found=repr(keys)
                ) from error
            return cls(predicate=keys)
        if isinstance(keys, str):
            raise InvalidRecordTypeError("a key that is text", expected="bytes", found=repr(keys), hint="encode it as its producer did")
        return cls(exact=frozenset(map(_checked, [keys] if isinstance(keys, (bytes, bytearray, memoryview)) else keys)))

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"keys that fit {self.pattern.pattern!r}"
        if self.predicate is not None:
            return f"keys that {getattr(self.predicate, '__name__', 'a function')} says yes to"
        return f"{len(self.exact)} {'key' if len(self.exact) == 1 else 'keys'}"


def _checked(key: object) -> bytes:
    if not isinstance(key, (bytes, bytearray, memoryview)):
        raise InvalidRecordTypeError("a key that is not bytes", expected="bytes", found=repr(key), hint="encode it as its producer did")
    return bytes(key)


class KeyMatcher:
    """Says of many records at a time which keys match."""

    def __init__(self, match: KeyMatch) -> None:
        self._match = match
        by_length: dict[int, list[bytes]] = {}
        for key in match.exact:
            by_length.setdefault(len(key), []).append(key)
        self._firsts: Mapping[int, NDArray[np.uint8]] = {
            length: np.unique([key[0] for key in keys]).astype(np.uint8) for length, keys in by_length.items() if length
        }
        # A byte behind each that is not zero: numpy takes zeros at the end of a text for nothing.
        self._wanted = {length: np.array([key + b"\1" for key in keys], f"S{length + 1}") for length, keys in by_length.items()}

    def flags(self, source: memoryview, starts: NDArray[np.int32], lengths: NDArray[np.int32]) -> NDArray[np.bool_]:
        """For keys that are slices of a buffer, whether each matches; a length of -1 is a null."""
        match = self._match
        found = np.zeros(len(lengths), np.bool_)
        if match.pattern is not None or match.predicate is not None:
            for row in np.flatnonzero(lengths >= 0).tolist():
                start = int(starts[row])
                key = bytes(source[start : start + int(lengths[row])])
                found[row] = bool(match.predicate(key)) if match.predicate is not None else _fits(match.pattern, key)
            return found
        data = np.frombuffer(source, np.uint8)
        for length, wanted in self._wanted.items():
            rows = np.flatnonzero(lengths == length)
            if length and len(rows):
                rows = rows[np.isin(data[starts[rows]], self._firsts[length])]
            step = max(1, _GATHERED_BYTES // (length + 1))
            for first in range(0, len(rows), step):
                part = rows[first : first + step]
                keys = np.ones((len(part), length + 1), np.uint8)
                keys[:, :length] = data[starts[part].astype(np.int64)[:, None] + np.arange(length)]
                found[part] = np.isin(keys.view(f"S{length + 1}").ravel(), wanted)
        return found


def _fits(pattern: "re.Pattern[bytes] | None", key: bytes) -> bool:
    assert pattern is not None
    return pattern.search(key) is not None

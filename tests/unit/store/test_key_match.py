"""Which keys match, for many records at a time: as comparing them one by one."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import InvalidRecordTypeError
from tidelog.store.key_match import KeyMatch, KeyMatcher

KEYS = st.binary(max_size=3) | st.sampled_from([b"", b"\0", b"\0\0", b"a", b"a\0", b"ab", b"\1", b"key-1", b"key-10"])


def flags(match: KeyMatch, keys: list[bytes | None]) -> list[bool]:
    """What the matcher says of keys that lie in one buffer, with something between them."""
    source, starts, lengths = bytearray(b"?"), [], []
    for key in keys:
        starts.append(len(source))
        lengths.append(-1 if key is None else len(key))
        source += (key or b"") + b"!"
    return list(KeyMatcher(match).flags(memoryview(source), np.array(starts, np.int32), np.array(lengths, np.int32)))


@given(st.lists(KEYS | st.none(), max_size=20), st.sets(KEYS, max_size=5))
def test_exact_keys(keys: list[bytes | None], wanted: set[bytes]) -> None:
    assert flags(KeyMatch.of(wanted), keys) == [key in wanted for key in keys]


@given(st.lists(KEYS | st.none(), max_size=20))
def test_patterns_and_functions(keys: list[bytes | None]) -> None:
    assert flags(KeyMatch.of(re.compile(b"a|1$")), keys) == [key is not None and re.search(b"a|1$", key) is not None for key in keys]
    assert flags(KeyMatch.of(bytes.isalpha), keys) == [key is not None and key.isalpha() for key in keys]


def test_many_long_keys_are_compared_piece_by_piece() -> None:
    keys: list[bytes | None] = [b"%d" % (number % 7) * 40_000 for number in range(100)]
    assert flags(KeyMatch.of(b"3" * 40_000), keys) == [number % 7 == 3 for number in range(100)]


@pytest.mark.parametrize(
    "keys", ["text", ["text"], [b"bytes", None], re.compile("text"), lambda _: True], ids=["text", "list", "none", "pattern", "function"]
)
def test_what_is_no_key_is_refused(keys: object) -> None:
    with pytest.raises(InvalidRecordTypeError):
        KeyMatch.of(keys)  # type: ignore[arg-type]


def test_it_says_what_it_is() -> None:
    assert str(KeyMatch.of(b"one")) == "1 key"
    assert str(KeyMatch.of([b"one", b"two"])) == "2 keys"
    assert "b'x'" in str(KeyMatch.of(re.compile(b"x")))
    assert "isalpha" in str(KeyMatch.of(bytes.isalpha))

"""What a user may write as the value of a Spark option, as Python values; and what is said when it is none.

Options come as text, under names in any case. Whatever is wrong with one is told on the driver, in one line that names the option as it
is spelled, what it takes and what was found.
"""

import base64
import binascii
import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from tidelog.errors import InvalidConfigError, TidelogError

MAX_TASKS = 100_000
"""More would keep Spark busy for hours with nothing else."""
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?\Z", re.IGNORECASE)
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_DURATION = re.compile(r"(\d+)\s*([a-z]*)\Z", re.IGNORECASE)
_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")
_MOST_SHOWN = 60


class ToldInOneLine:
    """An error of ours goes up without the frames below: Spark prints each of them before the one line that says it all."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, TidelogError):
            raise error.with_traceback(None) from None


def refuse(name: str, expected: str, found: object, hint: str | None = None) -> InvalidConfigError:
    """What to raise for a value that an option cannot have."""
    text = str(found).replace("\n", " ")
    shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
    return InvalidConfigError(f"option {name}", expected=expected, found=repr(shown), hint=hint)


def check_names(given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse the first name that is none of those known, and say which one was meant."""
    spelled = {name.lower(): name for name in known}
    for name in given:
        if name.lower() in spelled:
            continue
        near = difflib.get_close_matches(name.lower(), spelled, n=2, cutoff=0.7)
        meant = " or ".join(spelled[found] for found in near)
        raise InvalidConfigError(f"unknown option {name}", hint=f"did you mean {meant}?" if meant else f"there are: {', '.join(known)}")


class OptionValues:
    """The options that were given, asked for one by one under the names that they are documented with."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str) -> str | None:
        """As it was written, without spaces around it; None if it was not given."""
        value = self._given.get(name.lower())
        return None if value is None else str(value).strip()

    def integer(self, name: str, *, minimum: int = 1, maximum: int | None = None) -> int | None:
        """A whole number."""
        text = self.text(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise refuse(name, f"a whole number of {minimum} or more", text)
        if maximum is not None and value > maximum:
            raise refuse(name, f"at most {maximum}", text)
        return value

    def size(self, name: str) -> int | None:
        """Bytes: 1048576, 512k, 64m, 1g."""
        text = self.text(name)
        if text is None:
            return None
        match = _SIZE.match(text)
        value = int(match[1]) << _SHIFTS[match[2].lower()] if match else 0
        if value < 1:
            raise refuse(name, "a number of bytes, as in 1048576, 512k or 64m", text)
        return value

    def duration_ms(self, name: str) -> int | None:
        """A time span as Spark writes it: 500ms, 30s, 15m, 1h; without a unit milliseconds."""
        text = self.text(name)
        if text is None:
            return None
        match = _DURATION.match(text)
        if match is None or match[2].lower() not in _UNITS_MS:
            raise refuse(name, "a time span, as in 500ms, 30s or 15m", text)
        return int(match[1]) * _UNITS_MS[match[2].lower()]

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in _TRUE + _FALSE:
            raise refuse(name, "true or false", text)
        return text.lower() in _TRUE

    def one_of(self, name: str, choices: Mapping[str, str], default: str) -> str:
        """One of several words, each with what it stands for."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in choices:
            raise refuse(name, f"one of {', '.join(choices)}", text)
        return choices[text.lower()]

    def words(self, name: str) -> tuple[str, ...] | None:
        """Words between commas; at least one."""
        text = self.text(name)
        if text is None:
            return None
        found = tuple(word.strip() for word in text.split(",") if word.strip())
        if not found:
            raise refuse(name, "names, with commas between them", text)
        return found

    def timestamp_ms(self, name: str) -> int | None:
        """Milliseconds since 1970, as in Spark's Kafka source, or an ISO time; one without a zone is UTC."""
        text = self.text(name)
        return None if text is None else parse_time_ms(name, text)

    def partition_numbers(self, name: str, what: str) -> dict[tuple[str, int], int] | None:
        """A number for each partition of topics: {"emails": {"0": 23, "1": -2}}."""
        text = self.text(name)
        if text is None:
            return None
        expected = f'JSON with {what} of each partition, as in {{"emails": {{"0": 23}}}}'
        numbers = {}
        for topic, partitions in _json_object(name, text, expected).items():
            if not isinstance(partitions, dict):
                raise refuse(name, expected, text)
            for partition, number in partitions.items():
                if not partition.isdecimal() or isinstance(number, bool) or not isinstance(number, int):
                    raise refuse(name, expected, f"{topic}: {json.dumps({partition: number})}")
                numbers[topic, int(partition)] = number
        return numbers

    def partitions(self, name: str) -> tuple[tuple[str, int], ...] | None:
        """Partitions of topics: {"emails": [0, 1]}."""
        text = self.text(name)
        if text is None:
            return None
        expected = 'JSON with the partitions of each topic, as in {"emails": [0, 1]}'
        found: set[tuple[str, int]] = set()
        for topic, partitions in _json_object(name, text, expected).items():
            numbers: list[Any] = partitions if isinstance(partitions, list) else [None]
            if any(isinstance(number, bool) or not isinstance(number, int) or number < 0 for number in numbers):
                raise refuse(name, expected, f"{topic}: {json.dumps(partitions)}")
            found.update((topic, number) for number in numbers)
        if not found:
            raise refuse(name, expected, text)
        return tuple(sorted(found))

    def keys(self, name: str) -> frozenset[bytes] | None:
        """Keys of records: text between commas, or a JSON list in which {"base64": "…"} stands for bytes that are no text."""
        text = self.text(name)
        if text is None:
            return None
        if not text.startswith("["):
            return frozenset(word.encode() for word in self.words(name) or ())
        expected = 'keys, as in a,b or ["a", {"base64": "AAE="}]'
        try:
            listed = json.loads(text)
        except ValueError:
            raise refuse(name, expected, text) from None
        if not isinstance(listed, list) or not listed:
            raise refuse(name, expected, text)
        return frozenset(_key(name, item, expected) for item in listed)


def parse_time_ms(name: str, text: str) -> int:
    """The time that an option names, in milliseconds since 1970."""
    if text.removeprefix("-").isdecimal():
        value = int(text)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise refuse(name, "milliseconds since 1970, or a time as in 2026-03-01T12:00:00Z", text) from None
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        # Up, so that what is found is not before the time; a float would lose digits.
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        value = -((-(since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds)) // 1000)
    if value < 0:
        raise refuse(name, "a time from 1970 on", text)
    return value


def _json_object(name: str, text: str, expected: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise refuse(name, expected, text)
    return found


def _key(name: str, item: object, expected: str) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, dict) and list(item) == ["base64"] and isinstance(item["base64"], str):
        try:
            return base64.b64decode(item["base64"], validate=True)
        except binascii.Error:
            pass
    raise refuse(name, expected, json.dumps(item))

"""Records as they come from stdin: a line each, plain or as JSON. A line that is none raises, and says which it is and why."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidelog.errors import InvalidConfigError

Headers = tuple[tuple[str, bytes | None], ...]

_MAX_TIMESTAMP_MS = 2**63 - 1


class InputRecord(NamedTuple):
    """A record to be appended. What is None is left to the topic: its partitioner, its clock."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class LineForm:
    """How plain lines are read."""

    key_separator: bytes | None = None
    """What stands between key and value; without it a line is a value."""
    is_empty_null: bool = False
    """An empty key or value is null."""
    headers: Headers = ()
    """Of every record."""


def read_lines(lines: Iterable[bytes], form: LineForm) -> Iterator[InputRecord]:
    """Plain lines; each loses its newline, and nothing else."""
    for number, line in enumerate(lines, 1):
        key: bytes | None = None
        value: bytes | None = line.removesuffix(b"\n")
        if form.key_separator is not None:
            assert value is not None
            key, separator, value = value.partition(form.key_separator)
            if not separator:
                raise _wrong(number, f"no key separator {form.key_separator.decode(errors='backslashreplace')!r} in it")
        if form.is_empty_null:
            key, value = key or None, value or None
        yield InputRecord(key, value, form.headers)


def read_json(lines: Iterable[bytes], *, keeps_partition: bool) -> Iterator[InputRecord]:
    """What `cat --json` prints: the same bytes again, with time, headers and, if that is asked for, partition. Blank lines do not count."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _wrong(number, f"no JSON: {'nested too deep' if isinstance(error, RecursionError) else error}") from error
        if not isinstance(found, dict) or found.get("type", "record") != "record":
            raise _wrong(number, "no record: an object with key, value, headers, timestamp_ms")
        if "value" not in found:
            raise _wrong(number, "a record without value; null is a tombstone, and has to be said")
        if "kind" in found:
            raise _wrong(number, "a decoded record of an internal topic; cat --raw has its bytes")
        yield InputRecord(
            _bytes(found.get("key"), "key", number),
            _bytes(found["value"], "value", number),
            _headers(found.get("headers") or (), number),
            _timestamp(found.get("timestamp_ms"), number),
            _number(found.get("partition"), "partition", number) if keeps_partition else None,
        )


def _bytes(value: Any, what: str, number: int) -> bytes | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, dict) and list(value) == ["base64"]:
            return base64.b64decode(value["base64"], validate=True)
    except (UnicodeEncodeError, binascii.Error, TypeError, ValueError) as error:
        raise _wrong(number, f"{what}: {error}") from error
    raise _wrong(number, f'{what} is {_shown(value)}, not a string, {{"base64": "…"}} or null')


def _headers(found: Any, number: int) -> Headers:
    if isinstance(found, dict):
        found = list(found.items())
    if not isinstance(found, list | tuple):
        raise _wrong(number, "headers are no list of [name, value]")
    headers = []
    for pair in found:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise _wrong(number, "headers are no list of [name, value]")
        headers.append((pair[0], _bytes(pair[1], f"header {pair[0]!r}", number)))
    return tuple(headers)


def _number(value: Any, what: str, number: int) -> int | None:
    if value is None or (type(value) is int and value == -1):
        return None  # as Kafka writes that there is none
    if type(value) is not int:
        raise _wrong(number, f"{what} is no whole number: {_shown(value)}")
    return value


def _timestamp(value: Any, number: int) -> int | None:
    """Refused here and not by the log, which knows no lines."""
    timestamp_ms = _number(value, "timestamp_ms", number)
    if timestamp_ms is not None and not 0 <= timestamp_ms <= _MAX_TIMESTAMP_MS:
        raise _wrong(number, f"timestamp_ms is not from 0 to {_MAX_TIMESTAMP_MS}: {_shown(value)}")
    return timestamp_ms


def _shown(value: Any) -> str:
    """What was found instead, the beginning of it."""
    try:
        return json.dumps(value)[:60]
    except RecursionError:  # what could be read need not be shallow enough to be written
        return "nested too deep"


def _wrong(number: int, why: str) -> InvalidConfigError:
    return InvalidConfigError(f"line {number}: {why}")

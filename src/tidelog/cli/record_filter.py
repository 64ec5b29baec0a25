"""Which records are wanted, by key, header and value. What is compared are bytes: text that is typed is taken as UTF-8."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.cli.options import HOW_TO_MATCH, typed_bytes
from tidelog.errors import InvalidConfigError

if TYPE_CHECKING:
    from tidelog.record.kernel.record import Record

Condition = Callable[["Record"], bool]


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """A record has to meet all of these; those that are None do not count."""

    key: str | None = None
    """The whole key."""
    key_regex: str | None = None
    """Found somewhere in the key."""
    value: str | None = None
    """Somewhere in the value."""
    value_regex: str | None = None
    headers: Sequence[str] = ()
    """`name`, or `name=value`, each."""

    def condition(self) -> Condition | None:
        """Whether a record is wanted; None if all are."""
        conditions: list[Condition] = []
        if self.key is not None:
            key = typed_bytes(self.key)
            conditions.append(lambda record: record.key == key)
        if self.key_regex is not None:
            in_key = _pattern(self.key_regex)
            conditions.append(lambda record: record.key is not None and in_key.search(record.key) is not None)
        if self.value is not None:
            text = typed_bytes(self.value)
            conditions.append(lambda record: record.value is not None and text in record.value)
        if self.value_regex is not None:
            in_value = _pattern(self.value_regex)
            conditions.append(lambda record: record.value is not None and in_value.search(record.value) is not None)
        conditions += map(_header, self.headers)
        if not conditions:
            return None
        return conditions[0] if len(conditions) == 1 else lambda record: all(condition(record) for condition in conditions)


def _header(text: str) -> Condition:
    name, equals, value = text.partition("=")
    if not name:
        raise InvalidConfigError(f"not a header: {text!r}", hint="name, or name=value")
    if not equals:
        return lambda record: any(found == name for found, _ in record.headers)
    wanted = (name, typed_bytes(value))
    return lambda record: wanted in record.headers


def _pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(typed_bytes(text))
    except re.error as error:
        raise InvalidConfigError(f"not a regular expression: {text!r}: {error}", hint=HOW_TO_MATCH) from error

"""One setting: its names, the values it takes, and how they are read and printed.

Text is read as Kafka reads it: control characters and spaces around it are cut off, whole numbers are plain decimal digits that fit 32 or
64 bits, booleans are true or false in any case, lists are separated by commas, and names are exact. Values that are not text are taken if
their type leaves no doubt: a number is no boolean, a boolean no number, and None is nothing at all.
"""

import operator
import re
import sys
from dataclasses import dataclass
from typing import Protocol, SupportsIndex

from tidelog.errors import InvalidConfigError

INT_MAX = 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
DOUBLE_MAX = sys.float_info.max

_BLANKS = "".join(map(chr, range(ord(" ") + 1)))  # what Java trims; other kinds of space are not blank to it
_COMMA = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
_WHOLE = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")
_BOOLEANS = {"true": True, "false": False}

Value = int | float | str | tuple[str, ...]
"""What a setting holds once it is read; a boolean is an int to the type checker."""


class Kind(Protocol):
    """The values that a setting takes. Its text, `str(kind)`, completes the sentence "expected …"."""

    @property
    def type_name(self) -> str:
        """Kafka's name of the type: int, long, double, boolean, string or list."""

    def parse(self, value: object) -> Value:
        """The value in its own type; ValueError if it is none of this kind."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A topic-level setting."""

    name: str
    """Kafka's dotted name."""
    field: str
    """The attribute of `LogConfig`."""
    kind: Kind
    default: Value | None
    kafka_default: Value | None
    """Differs from `default` where Tidelog is the more careful one."""
    broker_names: tuple[str, ...]
    """What the setting is called for a whole broker; the first of them that is set wins. Some count hours or minutes, as they say."""
    meaning: str

    def parse(self, value: object) -> Value:
        """The value in its own type, checked; it may be written as text."""
        try:
            return self.kind.parse(value)
        except (ValueError, OverflowError):
            hint = "leave it out for the default" if value is None else None
            raise InvalidConfigError(f"bad value of {self.name}", expected=str(self.kind), found=repr(value), hint=hint) from None


def to_text(value: Value) -> str:
    """The value as Kafka writes it (doubles below 0.001 as Python does), which `Setting.parse` reads again."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).replace("e+", "E")


@dataclass(frozen=True, slots=True)
class Whole:
    """An int or long in a range, or one value `besides` it."""

    type_name: str
    lowest: int
    highest: int
    besides: int | None = None

    def parse(self, value: object) -> int:
        """From plain digits, or anything that counts as a whole number."""
        if isinstance(value, str):
            text = _trim(value)
            if not _WHOLE.fullmatch(text):
                raise ValueError
            number = int(text)
        elif isinstance(value, SupportsIndex) and not isinstance(value, bool):
            number = operator.index(value)
        else:
            raise ValueError
        if not self.lowest <= number <= self.highest and number != self.besides:
            raise ValueError
        return number

    def __str__(self) -> str:
        besides = "" if self.besides is None else f", or {self.besides}"
        return f"a whole number from {self.lowest} to {self.highest}{besides}"


def int_from(lowest: int) -> Whole:
    """At least this, in 32 bits."""
    return Whole("int", lowest, INT_MAX)


def long_from(lowest: int) -> Whole:
    """At least this, in 64 bits."""
    return Whole("long", lowest, LONG_MAX)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A double from 0 to 1."""

    type_name: str = "double"

    def parse(self, value: object) -> float:
        """From a decimal number, with Java's suffix if there is one. NaN, which Kafka lets through, is refused: it compares with none."""
        number = _decimal(value)
        if not 0 <= number <= 1:
            raise ValueError
        return number

    def __str__(self) -> str:
        return "a number from 0 to 1"


@dataclass(frozen=True, slots=True)
class Rate:
    """A double above 0."""

    type_name: str = "double"

    def parse(self, value: object) -> float:
        """From a decimal number. Kafka takes any, and does nothing sensible with what is not above 0."""
        number = _decimal(value)
        if not 0 < number <= DOUBLE_MAX:
            raise ValueError
        return number

    def __str__(self) -> str:
        return "a number above 0"


@dataclass(frozen=True, slots=True)
class Switch:
    """True or false."""

    type_name: str = "boolean"

    def parse(self, value: object) -> bool:
        """From a boolean, or its name in any case."""
        if isinstance(value, str):
            value = _BOOLEANS.get(_trim(value).lower())
        if not isinstance(value, bool):
            raise ValueError
        return value

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some names."""

    names: tuple[str, ...]
    type_name: str = "string"

    def parse(self, value: object) -> str:
        """From the name."""
        if isinstance(value, str) and (name := _trim(value)) in self.names:
            return name
        raise ValueError

    def __str__(self) -> str:
        return f"one of {', '.join(self.names)}"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Any of some names, each at most once, or none; the order given is kept."""

    names: tuple[str, ...]
    type_name: str = "list"

    def parse(self, value: object) -> tuple[str, ...]:
        """From a list, or text with commas."""
        if isinstance(value, str):
            text = _trim(value)
            names = tuple(_COMMA.split(text)) if text else ()
        elif isinstance(value, list | tuple):
            names = tuple(value)
        else:
            raise ValueError
        if any(name not in self.names for name in names) or len(set(names)) < len(names):
            raise ValueError
        return names

    def __str__(self) -> str:
        return f"any of {', '.join(self.names)}, each at most once"


def _decimal(value: object) -> float:
    if isinstance(value, str):
        text = _trim(value)
        if not _DECIMAL.fullmatch(text):
            raise ValueError
        return float(text.rstrip("fFdD"))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ValueError


def _trim(text: str) -> str:
    return text.strip(_BLANKS)

r"""kcat's format strings: `-f 'Topic %t [%p] at offset %o: key %k: %s\n'`.

    %s %S %R    value; its length, -1 of null; its length as four bytes, big endian
    %k %K       key; its length
    %T          timestamp in epoch milliseconds
    %h          headers, as name=value,name=value
    %t %p %o    topic, partition, offset
    %%          a percent sign
    \n \r \t    newline, return, tab
    \xNN \NNN   a byte: hexadecimal; octal with a zero before it, as \036, decimal without, as \30
    \c          any other character stands for itself

Key and value are printed as they are, byte by byte; of null nothing is printed, or `NULL` if that is asked for.
"""

import re
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidelog.cli.options import typed_bytes
from tidelog.errors import InvalidConfigError

if TYPE_CHECKING:
    from tidelog.record.kernel.record import Record

_PART = re.compile(rb"%(.?)|\\(x(?:0[xX])?[0-9a-fA-F]+|0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*|[^%]?)", re.DOTALL)
"""A percent sign behind a backslash begins a token all the same: kcat looks for these first."""
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"": b"\\"}
_LENGTH = struct.Struct(">i")

Part = bytes | Callable[["Record"], bytes]


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(record: "Record") -> bytes:
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers)


class RecordFormat:
    """A format string, read once. Calling it with a record gives what to print."""

    def __init__(self, text: str, *, null: bytes = b"", show: Callable[[bytes, str], bytes] | None = None) -> None:
        self._null = null
        self._show = show
        """How key and value are shown if not as they are; told which of the two it is."""
        self.parts: Sequence[Part] = self._parse(text)

    def __call__(self, record: "Record") -> bytes:
        """What to print of a record."""
        return b"".join([part if part.__class__ is bytes else part(record) for part in self.parts])  # type: ignore[operator]

    def _parse(self, text: str) -> list[Part]:
        parts: list[Part] = []
        data, at = typed_bytes(text), 0
        for match in _PART.finditer(data):
            parts.append(data[at : match.start()])
            parts.append(self._token(match[1], text) if match[1] is not None else _escape(match[2]))
            at = match.end()
        parts.append(data[at:])
        return [part for part in parts if part != b""]

    def _token(self, letter: bytes, text: str) -> Part:
        tokens: dict[bytes, Part] = {
            b"s": lambda record: self._bytes(record.value, "value"),
            b"S": lambda record: b"%d" % _length(record.value),
            b"R": lambda record: _LENGTH.pack(_length(record.value)),
            b"k": lambda record: self._bytes(record.key, "key"),
            b"K": lambda record: b"%d" % _length(record.key),
            b"T": lambda record: b"%d" % record.timestamp_ms,
            b"h": _headers,
            b"t": lambda record: (record.topic or "").encode(),
            b"p": lambda record: b"%d" % record.partition,
            b"o": lambda record: b"%d" % record.offset,
            b"%": b"%",
        }
        if letter not in tokens:
            raise InvalidConfigError(
                f"no such token in a format: %{letter.decode(errors='replace')}",
                hint="%s %S %R %k %K %T %h %t %p %o %%, as in kcat",
            )
        return tokens[letter]

    def _bytes(self, data: bytes | None, what: str) -> bytes:
        if data is None:
            return self._null
        return data if self._show is None else self._show(data, what)


def _escape(found: bytes) -> bytes:
    """What stands behind a backslash, as kcat takes it: numbers by C's `strtoul`, of which the lowest byte counts."""
    if found in _ESCAPES:
        return _ESCAPES[found]
    if found == b"x":
        raise InvalidConfigError(r"no number behind \x in a format", hint=r"\x41 is A; \\x a backslash and an x")
    if found[:1] == b"x":
        number = int(found[1:], 16)
    elif found[:2].lower() == b"0x":
        number = int(found, 16)
    elif found.isdigit():
        number = int(found, 8 if found.startswith(b"0") else 10)
    else:
        return found
    return bytes([min(number, _LARGEST) & 0xFF])


_LARGEST = (1 << 64) - 1

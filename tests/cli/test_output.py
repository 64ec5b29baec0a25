"""How values are printed."""

import json
from uuid import UUID

import pytest

from tidelog.cli.amounts import format_time
from tidelog.cli.output import bytes_to_json, print_error, to_json, to_text
from tidelog.errors import CorruptFileError, DiskFullError, LockedError, LogNotFoundError, UnknownTopicError, UnsupportedMagicError


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (-1, "-1"),
        (-(1 << 63), str(-(1 << 63))),
        ((1 << 63) - 1, str((1 << 63) - 1)),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000"),
    ],
)
def test_times(timestamp_ms: int, text: str) -> None:
    assert format_time(timestamp_ms) == text


def test_bytes() -> None:
    assert bytes_to_json("größe\x00".encode()) == "größe\x00"
    assert bytes_to_json(b"") == ""
    assert bytes_to_json(b"\xff\xfe") == {"base64": "//4="}
    assert bytes_to_json(b"\xed\xa0\x80") == {"base64": "7aCA"}  # half of a surrogate pair is no UTF-8


def test_values() -> None:
    value = {"id": UUID(int=1), 3: [b"\xff", None, True, 2.5], "t": ("a", b"b")}
    shown = {"id": "AAAAAAAAAAAAAAAAAAAAAQ", "3": [{"base64": "/w=="}, None, True, 2.5], "t": ["a", "b"]}
    assert to_json(value) == shown
    assert json.loads(to_text(value)) == shown
    assert [to_text(one) for one in (None, True, 5, b"\xff\n", "a\x1b\u202e\ud800", UUID(int=1))] == [
        "null", "true", "5", "\\xff\\n", "a\\x1b\\u202e\\ud800", "AAAAAAAAAAAAAAAAAAAAAQ",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (UnknownTopicError("no topic 'x'", path="/d", hint="there are: a (b)"), 2, ["error: /d: no topic 'x'", "hint: there are: a (b)"]),
        (LogNotFoundError("no such\ndirectory", path="/d"), 2, ["error: /d: no such\\ndirectory"]),
        (CorruptFileError("broken", path="/d", position=3), 3, ["error: /d: broken at byte 3"]),
        (LockedError("locked"), 3, ["error: locked"]),
        (DiskFullError("full"), 3, ["error: full"]),
        (PermissionError(13, "Permission denied", "/d"), 3, ["error: /d: permission denied"]),
        (UnsupportedMagicError("a format", position=16), 3, ["error: a format at byte 16"]),
        (ValueError("isolation is …"), 2, ["error: isolation is …"]),
        (KeyError("x"), 3, ["error: KeyError: 'x'", "hint: a fault of the program; --debug shows where"]),
    ],
)
def test_errors(error: Exception, code: int, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert print_error(error) == code
    assert capsys.readouterr().err.splitlines() == lines

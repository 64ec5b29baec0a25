"""How values are printed."""

import contextlib
import io
import json
import math
import os
import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from tests.cli.commands import COMMAND
from tests.support.small_stores import open_store
from tidelog.cli import main
from tidelog.cli.amounts import format_time
from tidelog.cli.output import print_error, to_json, to_text
from tidelog.cli.tables import print_heading
from tidelog.errors import CorruptFileError, DiskFullError, LockedError, LogNotFoundError, UnknownTopicError, UnsupportedMagicError
from tidelog.schema.json_values import bytes_to_json


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
        (LogNotFoundError("no such\ndirectory", path="/d"), 2, ["error: /d: no such\\ndirectory", "hint: tidelog topics list --help"]),
        (
            CorruptFileError("broken", path="/d", position=3),
            3,
            ["error: /d: broken at byte 3", "hint: tidelog verify says all that is wrong; repair and salvage keep what is sound"],
        ),
        (LockedError("locked"), 3, ["error: locked", "hint: close it there, or wait until it is closed"]),
        (DiskFullError("full"), 3, ["error: full", "hint: make room, and do it again"]),
        (
            PermissionError(13, "Permission denied", "/d"),
            3,
            ["error: /d: permission denied", "hint: be a user who may do that, or have its rights changed"],
        ),
        (OSError("odd"), 3, ["error: odd", "hint: --debug shows where in the program it was met"]),
        (
            UnsupportedMagicError("a format", position=16),
            3,
            ["error: a format at byte 16", "hint: a later release of Tidelog may know it; tidelog dump shows what can be read"],
        ),
        (ValueError("isolation is …"), 2, ["error: isolation is …", "hint: tidelog topics list --help"]),
        (KeyError("x"), 3, ["error: KeyError: 'x'", "hint: a fault of the program; --debug shows where"]),
    ],
)
def test_errors(error: Exception, code: int, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Two lines, always: whose error does not say what to do gets a hint by its kind."""
    assert print_error(error, ["--quiet", "topics", "list", "/d"]) == code
    assert capsys.readouterr().err.splitlines() == lines


@pytest.mark.parametrize(("value", "shown"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity"), (1.5, 1.5)])
def test_numbers_that_json_has_not(value: float, shown: object) -> None:
    """Avro and JSON's own large exponents have them."""
    assert to_json({"a": [value]}) == {"a": [shown]}
    assert json.loads(to_text([value]), parse_constant=pytest.fail) == [shown]


@pytest.mark.parametrize(
    "arguments", [("cat", "{store}", "t"), ("cat", "{store}", "t", "-f", "%s"), ("ls", "{store}"), ("--help",), ("--show-completion",)]
)
@pytest.mark.parametrize("size", [10, 100_000])
def test_a_full_disk_behind_stdout(arguments: tuple[str, ...], size: int, tmp_path: Path) -> None:
    with open_store(tmp_path) as made:
        made.create_topic("t").append(b"x" * size)
    assert_tells_it(arguments, tmp_path, ["error: no space left on device", "hint: make room, and do it again"])


@pytest.mark.leaves
def test_an_error_before_anything_could_be_printed(tmp_path: Path) -> None:
    """What was to be printed until then is still waiting when the program ends."""
    with open_store(tmp_path) as made:
        topic = made.create_topic("t")
        for _ in range(2):
            topic.append(b"x")
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-1] + b"y")
    assert_tells_it(("cat", "{store}", "t"), tmp_path, [])


def assert_tells_it(arguments: tuple[str, ...], tmp_path: Path, lines: list[str]) -> None:
    command = [str(COMMAND), *(argument.format(store=tmp_path) for argument in arguments)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60, env={**os.environ, "PYTHONUNBUFFERED": ""}
        )
    assert done.returncode == 3, done.stderr
    assert "Exception ignored" not in done.stderr
    assert not lines or done.stderr.splitlines() == lines


@pytest.mark.leaves
def test_no_color_turns_colours_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with open_store(tmp_path) as made:
        made.create_topic("t").append(b"x")
    (tmp_path / "t-0" / f"{0:020}.snapshot").write_bytes(b"odd")
    shown = {}
    for no_color in ("", "1"):
        monkeypatch.setenv("NO_COLOR", no_color)
        out = Terminal()
        with contextlib.redirect_stdout(out):
            main.run(["verify", str(tmp_path)])
            print_heading("t")
        shown[no_color] = out.getvalue()
    assert "\x1b[1mt\x1b[0m" in shown[""]
    assert "\x1b[33mwarning\x1b[0m" in shown[""] or "\x1b[31merror\x1b[0m" in shown[""]
    assert "\x1b" not in shown["1"]

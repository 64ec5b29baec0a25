"""How commands print: objects as lines of JSON or as lines of text, messages, and errors in two lines; and what a command ends with.

Bytes are a string where they are UTF-8, otherwise `{"base64": …}`, in JSON; in text what a terminal could take amiss is escaped.
"""

import json
import os
import re
import sys
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any, Final
from uuid import UUID

from tidelog.cli.hints import hint_for
from tidelog.errors import (
    InvalidConfigError,
    InvalidTopicError,
    LogNotFoundError,
    OffsetOutOfRangeError,
    TidelogError,
    UnknownTopicError,
)
from tidelog.schema.json_values import bytes_to_json, float_to_json

DONE: Final = 0
FOUND: Final = 1
"""Done, and something was found: of `verify` and `explain` only."""
WRONG_USE: Final = 2
FAILED: Final = 3
INTERRUPTED: Final = 130
"""By Ctrl-C: what shells say of it."""

_WRONG_USE_ERRORS = (InvalidConfigError, InvalidTopicError, LogNotFoundError, OffsetOutOfRangeError, UnknownTopicError)
"""What is asked for is not there. Everything else is a fault of what is there."""
_OPTIONS = {
    r"\A(?:option )?(format|columns|compression|partition_by|bytes_as):": r"--\1:",
    r"\Aoption topicConfig: ": "",
    r"\Astart=(\d+) is an offset": r"--from \1 is an offset",
    r"\Aend=(\d+) is an offset": r"--to \1 is an offset",
    r"\Aas_of=(\d+) is an offset": r"--as-of \1 is an offset",
    r"(?:start|end|as_of)={partition: offset}.* or a time": "a time means something in all of them, as 2h for two hours ago",
    r"\buntil names ": "--until-offset names ",
    r"allow_incomplete=True": "--allow-incomplete",
    r"tidelog\.config\.SETTINGS lists them all": "tidelog config get lists them all",
    r"tidelog\.config\.STORE_SETTINGS lists the store's own": "tidelog config get lists those of a topic",
    r"EARLIEST starts at the beginning, LATEST waits for what comes next": "earliest is the beginning, latest the end",
    r"--partition_by": "--partition-by",
    r"--bytes_as": "--bytes-as",
    r"cut_at=\((\d+), (\d+)\)": r"--cut-at \1:\2",
    r"drop_null_keys=True": "--drop-null-keys",
    r"exist_ok=True": "--exist-ok",
    r"\broll=True": "--roll",
    r"remove_kept_aside=True": "--remove-kept-aside",
}


drawn: list[Any] = []
"""The progress whose line is on the terminal now, if there is one: it goes away before anything else is printed."""


def clear_drawn() -> None:
    """Take away the line that is on the terminal."""
    for shown in list(drawn):
        shown.clear()


def print_json(found: Any) -> None:
    """One line."""
    if drawn:
        clear_drawn()
    sys.stdout.write(json.dumps(to_json(found), ensure_ascii=False, separators=(", ", ": ")) + "\n")


def print_line(text: str) -> None:
    """One line of text."""
    if drawn:
        clear_drawn()
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """A message that is no result. Names from a disk may be in it: nothing in them changes a terminal."""
    if drawn:
        clear_drawn()
    sys.stderr.write("\n".join(map(plain, text.split("\n"))) + "\n")


def progress(text: str) -> None:
    """A message that `-q` silences."""
    if not _shared["quiet"]:
        note(text)


def silence(quiet: bool) -> None:
    """Whether progress is told."""
    _shared["quiet"] = quiet


def show_traces(is_wanted: bool) -> None:
    """Whether `--debug` was given: somebody looks for the cause of an error."""
    _shared["debug"] = is_wanted


def is_debugging() -> bool:
    """Whether nothing that could help is to be hidden."""
    return _shared["debug"]


def is_quiet() -> bool:
    """Whether nothing but results and errors is to be said."""
    return _shared["quiet"]


def has_colours() -> bool:
    """Whether results may be coloured: on a terminal, unless `NO_COLOR` says no."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


_shared = {"quiet": False, "debug": False}


def to_json(value: Any) -> Any:
    """A value that JSON can have."""
    if isinstance(value, dict):
        return {str(name): to_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, bytes):
        return bytes_to_json(value)
    if isinstance(value, float):
        return float_to_json(value)
    if isinstance(value, UUID):
        from tidelog.disk.partition_metadata import format_topic_id

        return format_topic_id(value)  # the spelling of Kafka
    return value


def json_text(data: bytes | None) -> str:
    """The same as JSON has it, quoted and escaped: for lines that are put together by hand because there are millions of them."""
    if data is None:
        return "null"
    try:
        return encode_basestring(data.decode())
    except UnicodeDecodeError:
        return json.dumps(bytes_to_json(data))


def escaped_texts(items: Sequence[bytes | None]) -> list[str] | None:
    """Many at once as JSON has them, but for the quotation marks. None if one is null, is not UTF-8, or has what keeps them apart."""
    try:
        text = _APART.encode().join(items).decode()  # type: ignore[arg-type]
    except (TypeError, UnicodeDecodeError):
        return None
    return encode_basestring(text)[1:-1].split(_APART) if text.count(_APART) == len(items) - 1 else None


_APART = "\x7f"
"""Which JSON does not escape, and texts hardly have."""


def bytes_to_text(data: bytes) -> str:
    """Bytes for people: one line, nothing that changes a terminal."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else plain(text)


def to_text(value: Any) -> str:
    """A value for people: never more than one line, and nothing that changes a terminal."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return bytes_to_text(value)
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list | tuple):
        return plain(json.dumps(to_json(value), ensure_ascii=False))
    return str(to_json(value))


def plain(text: str) -> str:
    """Text with everything escaped that does not print."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in text)


def print_error(error: BaseException, arguments: Sequence[str] = ()) -> int:
    """Two lines on stderr, what is wrong and what to do about it: with which exit code to end. `arguments` are those of the command."""
    text = in_options(str(error).removesuffix(f" ({getattr(error, 'hint', None)})"))
    is_wrong_use = isinstance(error, _WRONG_USE_ERRORS) or type(error) in (TypeError, ValueError)
    if isinstance(error, OSError) and not isinstance(error, TidelogError) and error.strerror:
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        text = f"{where}{error.strerror[:1].lower()}{error.strerror[1:]}"
    if not is_wrong_use and not isinstance(error, TidelogError | OSError):
        text = f"{type(error).__name__}: {text}"
    note(f"error: {plain(text)}")
    note(f"hint: {plain(in_options(hint_for(error, arguments, is_wrong_use=is_wrong_use)))}")
    return WRONG_USE if is_wrong_use else FAILED


def in_options(text: str) -> str:
    """What the library says to who calls it, in the words of the command line."""
    for said, option in _OPTIONS.items():
        text = re.sub(said, option, text)
    return text


def flush_or_give_up() -> bool:
    """Print what is still to be printed: whether that could be done. A full disk behind stdout takes nothing, and is not asked again."""
    try:
        sys.stdout.flush()
    except OSError:
        close_quietly()
        return False
    return True


def close_quietly() -> None:
    """Nobody reads any more: what is still to be printed goes nowhere, instead of raising when the interpreter ends."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):
        return  # no file of the system: a test's
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)

"""Records on stdout: as lines of text, as JSON that `produce` reads back, or in the form of a format string."""

import io
import json
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO

from tidelog.cli.amounts import format_time
from tidelog.cli.output import bytes_to_text, json_text, plain, print_json, print_line, to_json, to_text

if TYPE_CHECKING:
    from tidelog.inspection.record_object import Object
    from tidelog.record.kernel.record import Record
    from tidelog.schema.value_decoders import Decoder

_TYPES: dict[int, str] = {-1: '"NoTimestampType"', 0: '"CreateTime"', 1: '"LogAppendTime"'}

_YEAR_10000_MS = 253_402_300_800_000

Print = Callable[["Record"], object]


def printer(
    *,
    as_json: bool,
    form: str | None,
    null: bytes,
    raw: bool,
    key_decoder: "Decoder | None",
    value_decoder: "Decoder | None",
    at_once: bool = False,
) -> Print:
    """What prints a record. `at_once`: who follows a topic wants to see each as it comes."""
    if at_once and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    decoders = {"key": key_decoder, "value": value_decoder}
    has_decoders = key_decoder is not None or value_decoder is not None
    if form is not None:
        from tidelog.cli.record_format import RecordFormat

        shown, write_bytes = RecordFormat(form, null=null, show=_shower(decoders) if has_decoders else None), bytes_writer()
        return lambda record: write_bytes(shown(record))
    from tidelog.schema.decoders import DECODED_TOPICS

    write, line_of = sys.stdout.write, json_line if as_json else plain_line

    def show(record: "Record") -> None:
        if not has_decoders and (raw or record.topic not in DECODED_TOPICS):
            write(line_of(record))
        elif as_json:
            print_json(decoded_object(record, decoders, raw=raw))
        else:
            print_line(text_line(decoded_object(record, decoders, raw=raw)))

    return show


def bytes_writer() -> Callable[[bytes], object]:
    """What writes bytes to stdout as they are. From now on nothing else is to be written there."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper):
        return lambda data: stream.write(data.decode("utf-8", "backslashreplace"))
    stream.flush()
    buffer: BinaryIO = stream.buffer
    if not stream.line_buffering:
        return buffer.write

    def write_at_once(data: bytes) -> None:
        buffer.write(data)
        buffer.flush()

    return write_at_once


def json_line(record: "Record") -> str:
    """The line of a record whose bytes are not decoded: the same as by way of `record_object`, in a fifth of the time."""
    headers = "[]"
    if record.headers:
        headers = "[" + ", ".join(f"[{json_text(name.encode())}, {json_text(value)}]" for name, value in record.headers) + "]"
    home = "" if record.topic is None else f'"topic": {_quoted(record.topic)}, "partition": {record.partition}, '
    return (
        f'{{"type": "record", {home}"offset": {record.offset}, "timestamp_ms": {record.timestamp_ms}, '
        f'"timestamp_type": {_TYPES[record.timestamp_type]}, "key": {json_text(record.key)}, "value": {json_text(record.value)}, '
        f'"headers": {headers}, "sequence": {record.sequence}}}\n'
    )


def plain_line(record: "Record") -> str:
    """The same for a line of text."""
    key, value = record.key, record.value
    headers = f"\t{to_text(record.headers)}" if record.headers else ""
    return (
        f"{record.partition}\t{record.offset}\t{_time(record.timestamp_ms)}\t{'null' if key is None else bytes_to_text(key)}\t"
        f"{'null' if value is None else bytes_to_text(value)}{headers}\n"
    )


@lru_cache(maxsize=64)
def _quoted(topic: str) -> str:
    """The name of a directory says what the topic is, and that may be anything."""
    return json.dumps(topic, ensure_ascii=False)


@lru_cache(maxsize=4096)
def _second(second: int) -> str:
    return format_time(1000 * second)[:-4]


def _time(timestamp_ms: int) -> str:
    """A time, as `format_time` shows it; most records share their second with the one before."""
    if not 0 <= timestamp_ms < _YEAR_10000_MS:
        return str(timestamp_ms)
    return f"{_second(timestamp_ms // 1000)}{timestamp_ms % 1000:03}Z"


def decoded_object(record: "Record", decoders: "dict[str, Decoder | None]", *, raw: bool) -> "Object":
    """A record as an object, with what the decoders make of key and value; what they cannot read stays bytes, and a note says why."""
    from tidelog.inspection.record_object import record_object

    found = record_object(record, raw=raw or any(decoders.values()))
    notes: list[str] = []
    for part, decoder in decoders.items():
        data = found[part]
        if decoder is None or data is None:
            continue
        try:
            found[part] = decoder(data)
        except ValueError as error:
            notes.append(f"{part}: {error}")
    if notes:
        found["notes"] = [*found.get("notes", ()), *notes]
    return found


def text_line(found: "Object") -> str:
    """Partition, offset, time, key and value, with tabs between them; then headers if there are some."""
    shown = [str(found.get("partition", -1)), str(found["offset"]), format_time(found["timestamp_ms"])]
    if "kind" in found:
        shown.append(str(found["kind"]))
    shown += [to_text(found["key"]), to_text(found["value"])]
    if found["headers"]:
        shown.append(to_text(found["headers"]))
    return "\t".join(shown + [f"({plain(one)})" for one in found.get("notes", ())])


def _shower(decoders: "dict[str, Decoder | None]") -> Callable[[bytes, str], bytes]:
    def show(data: bytes, part: str) -> bytes:
        decoder = decoders[part]
        if decoder is None:
            return data
        try:
            return _text(decoder(data)).encode()
        except ValueError:
            return data

    return show


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_text(to_json(value))

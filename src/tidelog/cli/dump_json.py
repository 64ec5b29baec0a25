"""What lies in files as lines of JSON: the objects of `tidelog.inspection.dump`, put together by hand where there are millions of them."""

import json
from typing import TYPE_CHECKING

from tidelog.cli.dump_text import CODECS, FIELDS, is_decoded
from tidelog.cli.line_matrix import interleave, texts
from tidelog.cli.output import escaped_texts, json_text, to_json

if TYPE_CHECKING:
    from tidelog.cli.dump_files import Segment
    from tidelog.cli.line_matrix import Part
    from tidelog.cli.record_runs import RecordRun
    from tidelog.cli.sound_segment import RecordSource, SoundPiece
    from tidelog.inspection.dump import DumpedFile
    from tidelog.inspection.finding import Finding
    from tidelog.inspection.record_object import Object
    from tidelog.inspection.walk_parts import Piece


class JsonLines:
    """Renders everything. A line of a v2 batch or of a plain record is formatted, any other made from its object."""

    def __init__(self, *, raw: bool) -> None:
        self._raw = raw
        self._path = ""
        self._end = "}\n"

    def begin(self, file: "DumpedFile | Segment") -> str:
        """The beginning of a file."""
        self._path = file.shown_path
        self._end = f', "path": {json.dumps(self._path, ensure_ascii=False)}}}\n'
        return self._line({"type": "segment", "base_offset": file.log_start}) if file.entries is None else ""

    def nothing(self, file: "DumpedFile | Segment") -> str:
        """A file with no entries."""
        return ""

    def entry(self, found: "Object") -> str:
        """An entry of a small file."""
        return self._line(found)

    def finding(self, finding: "Finding") -> str:
        """Damage."""
        return self._line(dict(finding.to_json()))

    def _line(self, found: "Object") -> str:
        return json.dumps(to_json(found | {"path": self._path}), ensure_ascii=False) + "\n"

    def piece(self, piece: "Piece | SoundPiece") -> list[str]:
        """A line for each batch."""
        headers, bad, end = piece.headers, set(piece.bad.tolist()), self._end
        lines = []
        for row, fields in enumerate(zip(*(getattr(headers, name).tolist() for name in FIELDS), strict=True)):
            position, size, magic, bits, base, last, base_ms, max_ms, producer, epoch, sequence, leader, count, crc = fields
            if magic < 2:
                lines.append(self._old_batch(piece, row, is_valid=row not in bad))
                continue
            lines.append(
                f'{{"type": "batch", "base_offset": {base}, "last_offset": {last}, "count": {count}, "base_sequence": {sequence}, '
                f'"last_sequence": {sequence if sequence < 0 else (sequence + last - base) & 0x7FFFFFFF}, "producer_id": {producer}, '
                f'"producer_epoch": {epoch}, "partition_leader_epoch": {leader}, "is_transactional": {_WORDS[bits & 0x10 > 0]}, '
                f'"is_control": {_WORDS[bits & 0x20 > 0]}, "delete_horizon_ms": {base_ms if bits & 0x40 else "null"}, '
                f'"position": {position + piece.shift}, "timestamp_type": "{"LogAppendTime" if bits & 8 else "CreateTime"}", '
                f'"max_timestamp_ms": {max_ms}, "size_bytes": {size}, "magic": {magic}, "compression": "{CODECS[bits & 7]}", '
                f'"crc": {crc & 0xFFFFFFFF}, "is_valid": {_WORDS[row not in bad]}{end}'
            )
        return lines

    def _old_batch(self, piece: "Piece | SoundPiece", row: int, *, is_valid: bool) -> str:
        from tidelog.inspection.record_object import batch_object

        position = int(piece.headers.position[row]) + piece.shift
        return self._line(batch_object(piece.headers, row, position, is_valid=is_valid))

    def takes_runs(self, segment: "RecordSource") -> bool:
        """Whether records need not be looked into one by one, as those of internal topics are."""
        return self._raw or not is_decoded(segment.topic)

    def run(self, segment: "RecordSource", run: "RecordRun") -> str:
        """A line for each record of a run, with marks."""
        numbers: list[Part] = [run.marks(), self._begin_record(segment), run.offsets, ', "timestamp_ms": ', run.timestamps_ms]
        count = len(run.offsets)
        headers: str | list[str] = [_headers(headers) for headers in run.headers()] if run.has_headers else ""
        quote, keys = _quoted(run.keys())
        quote_value, values = _quoted(run.values())
        columns: list[str | list[str]] = [
            texts(numbers, count),
            f', "timestamp_type": "{run.timestamp_type}", "key": {quote}',
            keys,
            f'{quote}, "value": {quote_value}',
            values,
            f'{quote_value}, "headers": [',
            headers,
            '], "sequence": ',
            texts([run.sequences], count),
            self._end,
        ]
        return interleave(columns, count)

    def _begin_record(self, segment: "RecordSource") -> str:
        if segment.topic is None:
            return '{"type": "record", "offset": '
        return f'{{"type": "record", "topic": {json.dumps(segment.topic, ensure_ascii=False)}, "partition": {segment.partition}, "offset": '

    def records(self, segment: "RecordSource", piece: "Piece | SoundPiece", row: int) -> str:
        """A line for each record of a batch."""
        magic, bits = int(piece.headers.magic[row]), int(piece.headers.attributes[row])
        if (magic == 2 and bits & 0x20) or not self.takes_runs(segment):
            return "".join(map(self._line, segment.record_objects(piece, row, raw=self._raw)))
        stamp = "NoTimestampType" if magic == 0 else "LogAppendTime" if bits & 8 else "CreateTime"
        begin, text = self._begin_record(segment), json_text
        lines = [
            f'{begin}{record.offset}, "timestamp_ms": {record.timestamp_ms}, "timestamp_type": "{stamp}", "key": {text(record.key)}, '
            f'"value": {text(record.value)}, "headers": [{_headers(record.headers)}], "sequence": {record.sequence}{self._end}'
            for record in segment.records(piece, row)
        ]
        return "".join(lines)


_WORDS = ("false", "true")


def _quoted(items: list[bytes | None]) -> tuple[str, list[str]]:
    """Texts, and what stands around each: nothing where they have their own quotation marks, or are no texts."""
    escaped = escaped_texts(items)
    return ('"', escaped) if escaped is not None else ("", [json_text(item) for item in items])


def _headers(headers: tuple[tuple[str, bytes | None], ...]) -> str:
    return ", ".join([f"[{json_text(name.encode())}, {json_text(value)}]" for name, value in headers])

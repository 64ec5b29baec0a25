"""What lies in files as lines of text, in the form that Kafka's own dump tool has made known.

Lines of batches and records are put together a piece at a time: there are millions of them. Where the tool prints bytes as they are, what a
terminal could take amiss is escaped here. For files that the tool does not read the form is ours: `name: value` as well.
"""

from typing import TYPE_CHECKING, Any

from tidelog.cli.line_matrix import interleave, join_lines, texts
from tidelog.cli.output import bytes_to_text, plain, to_text

if TYPE_CHECKING:
    from tidelog.cli.dump_files import Segment
    from tidelog.cli.line_matrix import Part
    from tidelog.cli.record_runs import RecordRun
    from tidelog.cli.sound_segment import RecordSource, SoundPiece
    from tidelog.inspection.dump import DumpedFile
    from tidelog.inspection.finding import Finding
    from tidelog.inspection.record_object import Object
    from tidelog.inspection.walk_parts import Piece

CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "unknown-5", "unknown-6", "unknown-7")
_NAMES = {
    "timestamp_ms": "timestamp",
    "last_timestamp_ms": "lastTimestamp",
    "size_bytes": "size",
}
_QUIET = ("type", "path")
_ENDS = {"current_txn_first_offset"}
"""Of which the tool says that there is none by another word than -1."""


class TextLines:
    """Renders everything. `payloads`: key and value of each record are shown, not only their sizes."""

    def __init__(self, *, payloads: bool, raw: bool) -> None:
        self._payloads = payloads
        self._raw = raw

    def begin(self, file: "DumpedFile | Segment") -> str:
        """The beginning of a file."""
        text = f"Dumping {plain(file.shown_path)}\n"
        if file.entries is None:
            is_bootstrap = file.has_offset_of == 0 and file.path.endswith("bootstrap.checkpoint")
            text += "KRaft bootstrap snapshot\n" if is_bootstrap else f"Log starting offset: {file.log_start}\n"
        return text

    def nothing(self, file: "DumpedFile | Segment") -> str:
        """A file with no entries."""
        return f"{plain(file.shown_path)} is empty.\n" if file.path.endswith((".index", ".timeindex")) else ""

    def entry(self, found: "Object") -> str:
        """An entry of a small file."""
        if found["type"] == "finding":
            return finding_line(found)
        if found["type"] == "producer":
            # The tool says of the last batch when it was, and nothing of a batch that is not there.
            batch = ("first_sequence", "last_sequence", "last_offset", "offset_delta")
            is_there = found["last_offset"] >= 0
            found = {name: value for name, value in found.items() if is_there or name not in batch}
            found |= {"timestamp_ms": found["last_timestamp_ms"]} if is_there else {}
        shown = ((_NAMES.get(name) or camel(name), name, value) for name, value in found.items() if name not in _QUIET)
        return " ".join(f"{title}: {_value(name, value)}" for title, name, value in shown) + "\n"

    def finding(self, finding: "Finding") -> str:
        """Damage."""
        return finding_line(finding.to_json())

    def piece(self, piece: "Piece | SoundPiece") -> list[str]:
        """A line for each batch."""
        headers, bad = piece.headers, set(piece.bad.tolist())
        lines = []
        for row, fields in enumerate(zip(*(getattr(headers, name).tolist() for name in FIELDS), strict=True)):
            position, size, magic, bits, base, last, base_ms, max_ms, producer, epoch, sequence, leader, count, crc = fields
            stamp = "NoTimestampType" if magic == 0 else "LogAppendTime" if bits & 8 else "CreateTime"
            tail = (
                f"position: {position + piece.shift} {stamp}: {max_ms} size: {size} magic: {magic} "
                f"compresscodec: {CODECS[bits & 7]} crc: {crc & 0xFFFFFFFF} isvalid: {'false' if row in bad else 'true'}\n"
            )
            if magic < 2:
                lines.append(f"offset: {last} {tail}")
                continue
            last_sequence = sequence if sequence < 0 else (sequence + last - base) & 0x7FFFFFFF
            horizon = f"OptionalLong[{base_ms}]" if bits & 0x40 else "OptionalLong.empty"
            lines.append(
                f"baseOffset: {base} lastOffset: {last} count: {count} baseSequence: {sequence} lastSequence: {last_sequence} "
                f"producerId: {producer} producerEpoch: {epoch} partitionLeaderEpoch: {leader} "
                f"isTransactional: {'true' if bits & 0x10 else 'false'} isControl: {'true' if bits & 0x20 else 'false'} "
                f"deleteHorizonMs: {horizon} {tail}"
            )
        return lines

    def takes_runs(self, segment: "RecordSource") -> bool:
        """Whether records need not be looked into one by one, as those of internal topics are."""
        return not self._payloads or self._raw or not is_decoded(segment.topic)

    def run(self, segment: "RecordSource", run: "RecordRun") -> str:
        """A line for each record of a run, with marks."""
        parts: list[Part] = [
            run.marks(), "| offset: ", run.offsets, f" {run.timestamp_type}: ", run.timestamps_ms, " keySize: ", run.key_sizes,
            " valueSize: ", run.value_sizes, " sequence: ", run.sequences, " headerKeys: [",
        ]  # fmt: skip
        if not run.has_headers and not self._payloads:
            return join_lines([*parts, "]\n"], len(run.offsets))
        names: str | list[str] = ""
        if run.has_headers:
            names = [",".join([plain(name) for name, _ in headers]) for headers in run.headers()]
        payloads: str | list[str] = list(map(_payload, run.keys(), run.values())) if self._payloads else ""
        return interleave([texts(parts, len(run.offsets)), names, "]", payloads, "\n"], len(run.offsets))

    def records(self, segment: "RecordSource", piece: "Piece | SoundPiece", row: int) -> str:
        """A line for each record of a batch."""
        headers = piece.headers
        magic, bits = int(headers.magic[row]), int(headers.attributes[row])
        is_control = magic == 2 and bits & 0x20
        if is_control or not self.takes_runs(segment):
            return "".join(map(self._slow_line, segment.record_objects(piece, row, raw=self._raw)))
        stamp = "NoTimestampType" if magic == 0 else "LogAppendTime" if bits & 8 else "CreateTime"
        lines: list[str] = []
        add, payloads = lines.append, self._payloads
        end = ""
        if magic < 2 and bits & 7 == 0:
            end = f" isValid: true crc: {int(headers.crc[row]) & 0xFFFFFFFF}}}"  # the brace is the tool's own
        for record in segment.records(piece, row):
            key, value = record.key, record.value
            line = (
                f"| offset: {record.offset} {stamp}: {record.timestamp_ms} keySize: {-1 if key is None else len(key)} "
                f"valueSize: {-1 if value is None else len(value)}"
            )
            if magic == 2:
                names = record.headers and ",".join([plain(name) for name, _ in record.headers])
                line += f" sequence: {record.sequence} headerKeys: [{names or ''}]"
            line += end
            if payloads:
                line += _payload(key, value)
            add(line)
        return "\n".join(lines) + "\n" if lines else ""

    def _slow_line(self, found: "Object") -> str:
        if found["type"] == "finding":
            return finding_line(found)
        key, value = found["key"], found["value"]
        line = f"| offset: {found['offset']} {found['timestamp_type']}: {found['timestamp_ms']}"
        if isinstance(key, bytes | None) and isinstance(value, bytes | None):
            line += f" keySize: {-1 if key is None else len(key)} valueSize: {-1 if value is None else len(value)}"
        line += f" sequence: {found['sequence']} headerKeys: [{','.join(plain(name) for name, _ in found['headers'])}]"
        if "control_type" in found:
            kind = found["control_type"]
            if found.get("coordinator_epoch") is not None:
                return f"{line} endTxnMarker: {kind} coordinatorEpoch: {found['coordinator_epoch']}\n"
            return f"{line} controlType: {kind} value: {to_text(value)}\n"
        for name, part in (("key", key), ("kind", found.get("kind")), ("payload", value)):
            line += "" if part is None else f" {name}: {to_text(part)}"
        return line + "".join(f" ({plain(one)})" for one in found.get("notes", ())) + "\n"


FIELDS = (
    "position", "size_bytes", "magic", "attributes", "base_offset", "last_offset", "base_timestamp_ms", "max_timestamp_ms", "producer_id",
    "producer_epoch", "base_sequence", "partition_leader_epoch", "count", "crc",
)  # fmt: skip


def finding_line(found: "Object") -> str:
    """Damage, and where."""
    place = "" if found["position"] is None else f" at byte {found['position']}"
    return f"{found['severity']}{place}: {plain(found['what'])} [{found['code']}]\n"


def camel(name: str) -> str:
    """`producer_id` as `producerId`."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _value(name: str, value: Any) -> str:
    if name in _ENDS:
        return "OptionalLong.empty" if value is None or value < 0 else f"OptionalLong[{value}]"
    return to_text(value)


def _payload(key: bytes | None, value: bytes | None) -> str:
    text = "" if key is None else f" key: {bytes_to_text(key)}"
    return text if value is None else f"{text} payload: {bytes_to_text(value)}"


def is_decoded(topic: str | None) -> bool:
    """Whether the records of a topic mean something by Kafka's own schemas. Those are loaded for nobody else."""
    if topic is None or not topic.startswith("__"):
        return False
    from tidelog.schema.decoders import DECODED_TOPICS

    return topic in DECODED_TOPICS

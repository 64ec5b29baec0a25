"""Golden partition directories: calls that a real UnifiedLog answered, and the files it wrote. Replayed here, call by call."""

import base64
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.golden import GOLDEN
from tidelog.errors import (
    ChecksumError,
    CorruptBatchError,
    CorruptFileError,
    DecompressionError,
    InvalidRecordError,
    OffsetOutOfRangeError,
    RefusedBatchError,
    TidelogError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from tidelog.log.log import Log
from tidelog.log.producer_snapshot import parse_snapshot
from tidelog.log.producers import ProducerEntry
from tidelog.retention import delete_old_segments

STATE = ("log_start_offset", "log_end_offset", "recovery_point", "segment_bases", "sizes")


def golden_cases(family: str) -> list[Path]:
    """The folders of a family, `partitions` or `recovery`."""
    return sorted(path.parent for path in (GOLDEN / family).glob("*/case.json"))


def load_case(folder: Path) -> dict[str, Any]:
    """What Kafka did and answered."""
    case: dict[str, Any] = json.loads((folder / "case.json").read_text())
    return case


@dataclass
class Replay:
    """A log that goes through the steps of a case; differences are collected, not raised."""

    folder: Path
    work: Path
    now_ms: int = 1_700_000_000_000  # when every golden log was opened
    differences: list[str] = field(default_factory=list)
    compare_bytes: bool = True
    """False where the bytes depend on codec libraries."""

    def __post_init__(self) -> None:
        self.case = load_case(self.folder)
        self.directory = self.work / "tide-0"
        initial = self.folder / "initial"
        if initial.exists():
            shutil.copytree(initial, self.directory)
        self.log = self._open(last_shutdown_clean=True, recovery_point=0, log_start_offset=0)
        self.log.high_watermark = 0  # as in a broker, it is set from outside

    def _open(self, **found: Any) -> Log:
        return Log.open(self.directory, config=self.case["config"], clock=lambda: self.now_ms, recovery="kafka", **found)

    def run(self, stop: int | None = None) -> list[str]:
        """All steps, or the first `stop`."""
        for number, step in enumerate(self.case["steps"][:stop]):
            self.now_ms = step["now_ms"]
            op = step["op"]
            label = f"step {number} {op} {step.get('offset', step.get('timestamp_ms', ''))}"
            try:
                answer = getattr(self, f"_{op}")(step)
            except TidelogError as error:
                self._expect_error(label, step, error)
            except ValueError as error:
                if step.get("error", {}).get("class") != "IllegalArgumentException":
                    self.differences.append(f"{label}: {error!r}")
            else:
                if "error" in step:
                    self.differences.append(f"{label}: Kafka refuses with {step['error']}, we answered {answer}")
                elif answer is not None:
                    self._compare(label, step["result"], answer)
            if "segment_bases" in step:
                self._compare_state(label, step)
        return self.differences

    def _expect_error(self, label: str, step: dict[str, Any], error: TidelogError) -> None:
        if "error" not in step and step["result"].get("last_offset") == -1:
            return  # Kafka takes nothing in silence, we say why
        if "error" not in step:
            self.differences.append(f"{label}: Kafka answered {step['result']}, we raised {type(error).__name__}: {error}")
        elif kafka_error(error) != step["error"]["kafka_error"]:
            self.differences.append(f"{label}: Kafka {step['error']}, ours {type(error).__name__} ({kafka_error(error)}): {error}")
        elif isinstance(error, RefusedBatchError) and step["error"].get("record_errors"):
            expected = [index for index, _ in step["error"]["record_errors"]]
            if [index for index, _ in error.record_errors] != expected:
                self.differences.append(f"{label}: records {expected}, ours {error.record_errors}")

    def _compare(self, label: str, expected: Any, answer: dict[str, Any]) -> None:
        for name, value in answer.items():
            wanted = (expected or {}).get(name)
            if value != wanted:
                self.differences.append(f"{label}: {name} is {wanted} in Kafka, {value} here")

    def _compare_state(self, label: str, step: dict[str, Any]) -> None:
        log = self.log
        for flush in log._state._pending:  # what a roll leaves to the background Kafka's mock scheduler has done at once
            flush.result()
        state = {
            "log_start_offset": log.log_start_offset,
            "log_end_offset": log.log_end_offset,
            "recovery_point": log.recovery_point,
            "high_watermark": log.high_watermark,
            "segment_bases": [segment.base_offset for segment in log.segments],
            "sizes": [segment.size_bytes for segment in log.segments],
        }
        if "last_stable_offset" in step and not step.get("is_stable_offset_old"):
            state["last_stable_offset"] = self._last_stable_offset(step["last_stable_offset"])
        if not self.compare_bytes:
            state.pop("sizes")
        if self.case["config"].get("flush.messages"):
            # Kafka moves its recovery point whenever it flushes; here that is the flushed end.
            state["recovery_point"] = log.flushed_end
        self._compare(label, step, state)

    def _last_stable_offset(self, expected: int) -> int:
        """Where an open transaction began below the start of the log, Kafka counts from the batch that holds the start or comes behind."""
        log = self.log
        stable = log.last_stable_offset
        if stable != expected and stable == log.log_start_offset:
            first = next(iter(log.fetch(stable, 1, isolation="log_end").batches), None)
            return min(log.high_watermark, log.log_end_offset if first is None else first.base_offset)
        return stable

    def _append(self, step: dict[str, Any]) -> dict[str, Any]:
        info = self.log.append(base64.b64decode(step["batches"]), leader_epoch=step["leader_epoch"], origin=step["origin"])
        return {name: getattr(info, name) for name in ("first_offset", "last_offset", "max_timestamp_ms", "log_append_time_ms")}

    def _append_as_follower(self, step: dict[str, Any]) -> dict[str, Any]:
        info = self.log.append_as_follower(base64.b64decode(step["batches"]), leader_epoch=step["leader_epoch"])
        if info is None:
            return {"last_offset": -1}
        return {name: getattr(info, name) for name in ("first_offset", "last_offset", "max_timestamp_ms", "log_append_time_ms")}

    def _roll(self, step: dict[str, Any]) -> dict[str, Any]:
        return {"base_offset": self.log.roll().base_offset}

    def _flush(self, step: dict[str, Any]) -> None:
        self.log.flush()

    def _truncate_to(self, step: dict[str, Any]) -> dict[str, Any]:
        return {"truncated": self.log.truncate_to(step["offset"])}

    def _truncate_fully_and_start_at(self, step: dict[str, Any]) -> None:
        self.log.truncate_fully_and_start_at(step["offset"])

    def _update_high_watermark(self, step: dict[str, Any]) -> dict[str, Any]:
        self.log.high_watermark = step["offset"]
        return {"high_watermark": self.log.high_watermark}

    def _increment_log_start_offset(self, step: dict[str, Any]) -> dict[str, Any]:
        before = self.log.log_start_offset
        return {"changed": self.log.delete_records_before(step["offset"]) != before}

    def _delete_old_segments(self, step: dict[str, Any]) -> dict[str, Any]:
        return {"deleted": sum(deleted.segments for deleted in delete_old_segments(self.log, self.now_ms))}

    def _reopen(self, step: dict[str, Any]) -> None:
        watermark = self.log.high_watermark
        self.log.close()
        self.log = self._open(
            last_shutdown_clean=step.get("is_clean", True),
            recovery_point=step["recovery_point_checkpoint"],
            log_start_offset=step["log_start_offset_checkpoint"],
        )
        self.log.high_watermark = step.get("high_watermark", watermark)

    def _read(self, step: dict[str, Any]) -> dict[str, Any] | None:
        isolation = {"txn_committed": "committed"}.get(step["isolation"], step["isolation"])
        fetched = self.log.fetch(step["offset"], step["max_bytes"], isolation=isolation, min_one=step["min_one"])
        answer: dict[str, Any] = {"size": len(fetched.data), "first_entry_incomplete": fetched.is_first_incomplete}
        if fetched.data:
            answer["sha256"] = hashlib.sha256(fetched.data).hexdigest()
        if fetched.data or step["isolation"] == "log_end":
            answer |= {"position": fetched.position, "segment_base_offset": fetched.segment_base_offset}
        if not self.compare_bytes:
            for name in ("size", "sha256", "position"):
                answer.pop(name, None)
        if isolation == "committed" and (fetched.aborted_transactions or "aborted_transactions" in step.get("result", ())):
            answer["aborted_transactions"] = [[txn.producer_id, txn.first_offset] for txn in fetched.aborted_transactions]
        return answer

    def _offset_for_time(self, step: dict[str, Any]) -> dict[str, Any]:
        found = self.log.offset_for_time(step["timestamp_ms"], isolation="log_end")
        expected = step.get("result")
        if found is None:
            return {} if expected is None else {"offset": None}
        return {"offset": found.offset, "timestamp_ms": found.timestamp_ms}

    def _offset_for_epoch(self, step: dict[str, Any]) -> dict[str, Any]:
        found = self.log.end_offset_for_epoch(step["epoch"])
        return ({} if step["result"] is None else {"epoch": None}) if found is None else {"epoch": found[0], "offset": found[1]}


def kafka_error(error: TidelogError) -> str:
    """What a broker would call it."""
    if isinstance(error, RefusedBatchError):
        return error.kafka_error
    if isinstance(error, OffsetOutOfRangeError):
        return "OFFSET_OUT_OF_RANGE"
    if isinstance(error, (ChecksumError, UnsupportedMagicError)):
        return "CORRUPT_MESSAGE"
    if isinstance(error, (UnsupportedCodecError, DecompressionError)):
        return "UNKNOWN_SERVER_ERROR"
    if isinstance(error, InvalidRecordError):
        return "INVALID_RECORD"
    if isinstance(error, CorruptBatchError):
        return "CORRUPT_MESSAGE"
    return type(error).__name__


def compared_files(folder: Path) -> Iterator[Path]:
    """The files that are compared: segments and their indexes, snapshots and leader epochs."""
    for path in sorted(folder.iterdir()):
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot") or path.name == "leader-epoch-checkpoint":
            yield path


def file_differences(expected: Path, found: Path, *, used_prefix: bool = False) -> list[str]:
    """How two partition directories differ. `used_prefix`: indexes are compared up to the zeros behind them."""
    differences = []
    names = {path.name for path in compared_files(expected)} | {path.name for path in compared_files(found)}
    for name in sorted(names):
        ours, theirs = found / name, expected / name
        if not ours.exists() or not theirs.exists():
            content = (ours if ours.exists() else theirs).read_bytes()
            if any(content) or theirs.suffix in (".txnindex", ".snapshot"):
                differences.append(f"{name} is only {'here' if ours.exists() else 'in Kafka'} ({len(content)} bytes)")
            continue
        a, b = ours.read_bytes(), theirs.read_bytes()
        if used_prefix and ours.suffix in (".index", ".timeindex"):
            # Behind the entries in use, Kafka leaves those that a truncation dropped; we leave zeros.
            a = a.rstrip(b"\0")
            b = b[: len(a)]
        if name == "leader-epoch-checkpoint" and a.split() == b.split():
            continue
        if theirs.suffix == ".snapshot" and producers_in(a) == producers_in(b):
            continue
        if a != b:
            differences.append(f"{name}: {len(b)} bytes in Kafka, {len(a)} here, first difference at {_first_difference(a, b)}")
    return differences


def producers_in(snapshot: bytes) -> list[ProducerEntry] | bytes:
    """What a snapshot says, in an order; the bytes themselves if it says nothing.

    Where Kafka recovers a control batch that its cleaner has emptied, it remembers a producer of which it knows nothing, not even an epoch.
    """
    try:
        return sorted(entry for entry in parse_snapshot(snapshot, "a snapshot") if entry.epoch >= 0)
    except CorruptFileError:
        return snapshot


def _first_difference(a: bytes, b: bytes) -> int:
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))

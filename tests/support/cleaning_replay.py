"""Logs that Kafka's cleaner cleaned, cleaned again by ours: what was chosen, what was counted, and every file after every round.

Of plain logs all bytes have to be equal. Where batches are compressed, and so differ in size, what is compared is what they say: headers,
records, and the entries of indexes by their offsets.
"""

import base64
import os
import re
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from tests.support.golden_partitions import Replay, compared_files, file_differences
from tests.support.logs import TIME
from tidelog.compaction import cleaning, offset_map, output, plain_rewriting, segment_chunks
from tidelog.compaction.choice import choose
from tidelog.compaction.cleaning import CleanedLog, clean_log
from tidelog.compaction.offset_map import OffsetMap
from tidelog.compaction.plan import CleaningPlan, cleanable_log, plan_cleaning
from tidelog.compaction.survivor_bits import SurvivorBits
from tidelog.record import LegacyBatch, RecordBatch, plain_records, read_batches, walk_headers

LARGE_BUFFER_BYTES = 4096

_STATS = (
    "bytes_read",
    "bytes_written",
    "messages_read",
    "messages_written",
    "map_bytes_read",
    "map_messages_read",
    "invalid_messages_read",
)
_CODEC_BITS = 7


@dataclass
class CleaningReplay(Replay):
    """A log that is cleaned too. After every round its files are compared with Kafka's."""

    buffer_bytes: int | None = None
    """Of our buffers; those of Kafka's if not given."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.checkpoint: int | None = None
        self.rounds = 0
        headers = [walk_headers(base64.b64decode(step["batches"])) for step in self.case["steps"] if "batches" in step]
        self.compare_bytes = not any((each.attributes & _CODEC_BITS).any() for each in headers)
        self.has_legacy = any((each.magic < 2).any() for each in headers)

    def run_to_the_end(self) -> list[str]:
        """All steps, and what is left, of a log whose bytes are not Kafka's."""
        if any(step["op"] == "reopen" and "error" in step for step in self.case["steps"]):
            self.log.close()
            return []
        try:
            self.run()
        finally:
            self.log.close()  # not the one that was there before the steps
        return [*self.differences, *meaning_differences(self.folder / "closed", self.directory)]

    # Steps

    def _append_as_follower(self, step: dict[str, Any]) -> dict[str, Any]:
        answer = super()._append_as_follower(step)
        if (step.get("result") or {}).get("first_offset") == -1:
            answer.pop("first_offset", None)  # where formats of old come first, Kafka does not say
        return answer

    def _clean(self, step: dict[str, Any]) -> dict[str, Any]:
        plan = self._plan(step)
        answer = self._facts(plan)
        if plan.cleanable_bytes > 0:
            with buffers_of(self.buffer_bytes or step["io_buffer_bytes"]):
                cleaned = self._cleaned(plan, step)
            self.checkpoint = cleaned.next_dirty_offset
            answer["next_dirty_offset"] = cleaned.next_dirty_offset
            stats = {name: getattr(cleaned.stats, name) for name in (*_STATS, "buffer_utilization")}
            if cleaned.next_dirty_offset < plan.bound or self.has_legacy:
                # Of the buffer in which its map became full Kafka counts nothing; and a segment of old formats we read from its beginning.
                stats.pop("map_bytes_read")
            if self.has_legacy:
                stats.pop("map_messages_read")
            answer |= {name: value for name, value in stats.items() if self.compare_bytes or "bytes" not in name}
        answer["mtimes_ms"] = self._modification_times()
        label = f"files of round {self.rounds}"
        self.differences += [f"{label}, {found}" for found in self._file_differences()]
        self.rounds += 1
        return answer

    def _cleaned(self, plan: CleaningPlan, step: dict[str, Any]) -> CleanedLog:
        return clean_log(self.log, plan, OffsetMap(step["memory_bytes"], step["load_factor"]), self.now_ms, drop_null_keys=True)

    def _choose(self, step: dict[str, Any]) -> dict[str, Any]:
        checkpoint = step.get("checkpoint", self.checkpoint)
        log = cleanable_log(self.log, self.log.config, checkpoint, self.log.segments)
        choice = choose(log, self.log.config, self.now_ms)
        return self._facts(self._plan(step)) | {"is_eligible": choice.is_eligible}

    def _touch(self, step: dict[str, Any]) -> None:
        for place, segment in enumerate(self.log.segments[:-1]):
            time_ns = (step["mtime_ms"] + place * step["step_ms"]) * 1_000_000
            os.utime(segment.path_of(".log"), ns=(time_ns, time_ns))

    def _plan(self, step: dict[str, Any]) -> CleaningPlan:
        return plan_cleaning(self.log, self.log.config, step.get("checkpoint", self.checkpoint), self.now_ms)

    def _facts(self, plan: CleaningPlan) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "first_dirty_offset": plan.first_dirty_offset,
            "first_uncleanable_offset": plan.first_uncleanable_offset,
            "bound": plan.bound,
        }
        if self.compare_bytes:
            facts |= {"clean_bytes": plan.clean_bytes, "cleanable_bytes": plan.cleanable_bytes}
        return facts

    def _modification_times(self) -> list[int | None]:
        """Of the segments, where a step has set them, or they come from one of which it did; others depend on when this runs."""
        found = [Path(segment.path_of(".log")).stat().st_mtime_ns // 1_000_000 for segment in self.log.segments]
        return [time_ms if time_ms < TIME else None for time_ms in found]

    def _file_differences(self) -> Iterator[str]:
        kafka = self.folder / f"clean-{self.rounds}"
        if not kafka.exists():
            return
        leftovers = [path.name for path in self.directory.iterdir() if path.suffix in (".cleaned", ".swap")]
        if leftovers:
            yield f"left over: {leftovers}"
        if not self.compare_bytes:
            active = str(self.log.segments[-1].base_offset).zfill(20)
            unflushed = re.compile(f"{active}.(time)?index: ")  # its last entries may be in memory
            yield from (found for found in meaning_differences(kafka, self.directory) if not unflushed.match(found))
            return
        yield from file_differences(kafka, self.directory, used_prefix=True)
        for segment in self.log.segments[:-1]:
            for kind in (".index", ".timeindex"):
                name = Path(segment.path_of(kind)).name
                sizes = [(folder / name).stat().st_size if (folder / name).exists() else 0 for folder in (kafka, self.directory)]
                if sizes[0] != sizes[1]:
                    yield f"{name} has {sizes[0]} bytes in Kafka, {sizes[1]} here"


@contextmanager
def buffers_of(size_bytes: int) -> Iterator[None]:
    """Our cleaner with buffers of this size, so that a log of a few kilobytes comes to all their edges. Large ones are left as they are."""
    if size_bytes >= LARGE_BUFFER_BYTES:
        yield
        return
    few = size_bytes // 100 + 1
    with ExitStack() as patched:
        for module, name, value in (
            (cleaning, "ChunkReader", partial(segment_chunks.ChunkReader, size_bytes)),
            (segment_chunks, "_CHUNK_BATCHES", few),
            (output, "WRITE_BYTES", size_bytes),
            (output, "_FIRST_BYTES", 2 * size_bytes),
            (output, "_POSITIONS", 2 * few),
            (offset_map, "_BLOCK_KEYS", few),
            (plain_rewriting, "_SCRATCH_RECORDS", few),
            (plain_rewriting, "SurvivorBits", partial(SurvivorBits, window_offsets=8 * few)),
            (plain_records, "_FIRST_RECORDS", few),
        ):
            patched.enter_context(mock.patch.object(module, name, value))
        yield


def meaning_differences(expected: Path, found: Path) -> Iterator[str]:
    """How two directories differ in what their files say, whatever the bytes are."""
    ours, theirs = ({path.name: path for path in compared_files(folder)} for folder in (found, expected))
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours or name not in theirs:
            path = ours.get(name) or theirs[name]
            if any(path.read_bytes()) or path.suffix in (".txnindex", ".snapshot"):
                yield f"{name} is only {'here' if name in ours else 'in Kafka'}"
            continue
        say = _SAYS.get(ours[name].suffix)
        if say is None:
            continue
        a, b = say(ours[name].read_bytes()), say(theirs[name].read_bytes())
        for at, (here, there) in enumerate(zip(a, b, strict=False)):
            if here != there:
                yield f"{name}: entry {at} is {there} in Kafka, {here} here"
                break
        else:
            if len(a) != len(b):
                yield f"{name}: {len(b)} entries in Kafka, {len(a)} here"


def _batches(data: bytes) -> list[Any]:
    said = []
    for batch in read_batches(data):
        said.append((_header(batch), [(r.offset, r.timestamp_ms, r.key, r.value, tuple(r.headers)) for r in batch.records()]))
    return said


def _header(batch: RecordBatch | LegacyBatch) -> object:
    """All fields but length and checksum, which follow from the compressed bytes."""
    if isinstance(batch, LegacyBatch):
        return batch.to_bytes()  # as it was: the cleaner leaves none
    fields = list(batch.header())
    return fields[:1] + fields[2:4] + fields[5:]


def _offsets(data: bytes) -> list[Any]:
    """Of an offset index; positions follow from sizes."""
    return [relative for relative, position in struct.iter_unpack(">ii", data) if position]


def _times(data: bytes) -> list[Any]:
    return [entry for entry in struct.iter_unpack(">qi", data) if entry[0]]


def _transactions(data: bytes) -> list[Any]:
    return [data[at : at + 34].hex() for at in range(0, len(data), 34)]


_SAYS = {".log": _batches, ".index": _offsets, ".timeindex": _times, ".txnindex": _transactions}

"""The input of the log benchmarks: half a gibibyte of S, one batch behind the other as in a segment, offsets and timestamps going up.

Made once from S, whose batches are repeated with later offsets and times, into bench/data/log-s.log. The directories that are opened,
read and recovered are written from it by Kafka itself, and copied: each side has its own, but for the `.log` files, which nobody changes.

Reproduce: `.venv/bin/python -m bench --only 2-fetch`
"""

import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import crc32c

from bench.data import FOLDER, Inputs
from bench.log_jvm import LogJvm
from tidelog.record import walk_headers

BATCHES = 33_000
PARTITION = "tide-0"
SCRATCH = FOLDER / "scratch"
_BASE_OFFSET = struct.Struct(">q")
_EPOCH_POSITION, _CRC_POSITION, _CRC_START, _TIMES_POSITION = 12, 17, 21, 27
_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_TIMES = struct.Struct(">qq")
_SHARED_SUFFIX = ".log"


def log_path(inputs: Inputs) -> Path:
    """The input file."""
    path = FOLDER / "log-s.log"
    if not path.exists():
        partial = path.with_suffix(".partial")
        FOLDER.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            for batch in _batches(inputs.memory("s")):
                file.write(batch)
            os.fsync(file.fileno())
        partial.rename(path)
    return path


def _batches(source: bytes) -> Iterator[bytearray]:
    headers = walk_headers(source)
    spans = list(zip(headers.position.tolist(), headers.size_bytes.tolist(), headers.count.tolist(), strict=True))
    next_offset = shift_ms = 0
    span_ms = int(headers.max_timestamp_ms[-1] - headers.base_timestamp_ms[0]) + 1
    for index in range(BATCHES):
        if index and index % len(spans) == 0:
            shift_ms += span_ms
        start, size, count = spans[index % len(spans)]
        batch = bytearray(source[start : start + size])
        _BASE_OFFSET.pack_into(batch, 0, next_offset)
        _EPOCH.pack_into(batch, _EPOCH_POSITION, 0)
        base_ms, max_ms = _TIMES.unpack_from(batch, _TIMES_POSITION)
        _TIMES.pack_into(batch, _TIMES_POSITION, base_ms + shift_ms, max_ms + shift_ms)
        _CRC.pack_into(batch, _CRC_POSITION, crc32c.crc32c(memoryview(batch)[_CRC_START:]))
        next_offset += count
        yield batch


def follower_calls(path: Path, batches: int, run: int) -> list[memoryview]:
    """The first batches as they are, so many a call."""
    data = memoryview(path.read_bytes())
    headers = walk_headers(data)
    ends = [0, *(headers.position + headers.size_bytes).tolist()]
    return [data[ends[first] : ends[min(first + run, batches)]] for first in range(0, batches, run)]


def leader_batches(path: Path, batches: int) -> list[bytes]:
    """The first batches as a client sends them: base offset 0."""
    return [bytes(8) + bytes(batch[8:]) for batch in follower_calls(path, batches, 1)]


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """A folder on the disk that is measured, empty, and gone afterwards."""
    folder = SCRATCH / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def two_logs(name: str, inputs: Inputs, *, batches: int, settings: dict[str, str]) -> Iterator[tuple[Path, Path]]:
    """A log that Kafka wrote and closed, twice: for us and for Kafka. Made once; all of it is on disk, and in the page cache.

    Whoever uses them leaves them closed. While they are used the folder has another name: if that is found, they were not.
    """
    at_rest, in_use = FOLDER / name, FOLDER / f"{name}.in-use"
    shutil.rmtree(in_use, ignore_errors=True)
    ours, peer = in_use / "ours" / PARTITION, in_use / "kafka" / PARTITION
    if at_rest.exists():
        at_rest.rename(in_use)
    else:
        with LogJvm("make", folder=peer, input=log_path(inputs), batches=batches, settings=settings) as jvm:
            jvm.check()
        ours.mkdir(parents=True)
        for source in peer.iterdir():
            if source.suffix == _SHARED_SUFFIX:
                os.link(source, ours / source.name)
            else:
                shutil.copyfile(source, ours / source.name)
        os.sync()
    for segment in ours.glob(f"*{_SHARED_SUFFIX}"):
        segment.read_bytes()
    yield ours, peer
    in_use.rename(at_rest)

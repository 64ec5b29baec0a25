"""The input of the compaction benchmarks: partition directories with half a gibibyte to be cleaned, and keys for the offset map.

    clean-s-100k  clean-s-4m    records of 16-byte keys and 100-byte values in 16 KiB batches, uncompressed
    clean-l-100k                the same with values of 1 KiB

Keys are drawn evenly from so many. One segment of half a gibibyte is closed, the active one behind it holds a record. They are written
once, by us, and nobody changes them: a pass cleans a copy, in which the large `.log` files are hard links, since a closed segment is never
written to. Everything is in the page cache.

Reproduce: `.venv/bin/python -m bench --only 6-compact-s-100k`
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.data import BATCH_BYTES, FOLDER, KEY_BYTES
from bench.log_data import PARTITION
from tidelog.log.log import Log
from tidelog.record import BatchEncoder, BatchSettings, encode_batches

LOG_BYTES = 512 << 20
SETTINGS = {"cleanup.policy": "compact", "file.delete.delay.ms": "0"}
NO_FLUSH = {"flush.messages": str((1 << 63) - 1)}
BASE_TIMESTAMP_MS = 1_700_000_000_000
_LINKED_BYTES = 1 << 20
_CALL_RECORDS = 8192
_VALUES = 4096


def source(name: str, *, keys: int, value_bytes: int) -> Path:
    """The directory of that name."""
    folder = FOLDER / name / PARTITION
    if not folder.exists():
        partial = FOLDER / f"{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        with Log.open(partial / PARTITION, config={**SETTINGS, **NO_FLUSH}) as log:
            for batches in keyed_batches(keys, value_bytes):
                log.append_as_follower(batches)
                if log.size_bytes >= LOG_BYTES:
                    break
            log.roll()
            log.append_as_follower(
                encode_batches(
                    [(b"the active segment", b"is not cleaned", (), BASE_TIMESTAMP_MS)],
                    base_offset=log.log_end_offset,
                    partition_leader_epoch=0,
                )
            )
        (partial / PARTITION).parent.rename(FOLDER / name)
        os.sync()
    for path in folder.glob("*.log"):
        path.read_bytes()
    return folder


def fresh_copy(of: Path, target: Path) -> Path:
    """A directory to clean, and nothing else beside it."""
    shutil.rmtree(target.parent, ignore_errors=True)
    target.mkdir(parents=True)
    for path in of.iterdir():
        if path.suffix == ".log" and path.stat().st_size > _LINKED_BYTES:
            os.link(path, target / path.name)
        else:
            shutil.copyfile(path, target / path.name)
    return target


def two_columns_of_keys(count: int) -> tuple[Path, Path]:
    """Two files with so many keys each, one behind the other, all different."""
    paths = FOLDER / f"keys-{count}", FOLDER / f"other-keys-{count}"
    for number, path in enumerate(paths):
        if not path.exists():
            order = np.random.default_rng(number).permutation(count) + number * count
            partial = path.with_suffix(".partial")
            partial.write_bytes(_keys(order).tobytes())
            partial.rename(path)
    return paths


def keyed_batches(keys: int, value_bytes: int, seed: int = 0) -> Iterator[memoryview]:
    """Batches without end, their keys drawn evenly from so many; another seed gives others."""
    source = np.random.default_rng(keys + value_bytes + seed)
    text = source.bytes(_VALUES + value_bytes)
    encoder = BatchEncoder(BatchSettings(batch_bytes=BATCH_BYTES, partition_leader_epoch=0))
    written = 0
    while True:
        key = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(KEY_BYTES), _CALL_RECORDS, [None, pa.py_buffer(_keys(source.integers(0, keys, _CALL_RECORDS)))]
        ).cast(pa.binary())
        value = pa.array([text[at : at + value_bytes] for at in source.integers(0, _VALUES, _CALL_RECORDS).tolist()], pa.binary())
        times = pa.array(np.arange(written, written + _CALL_RECORDS) // 100 + BASE_TIMESTAMP_MS)
        yield encoder.encode_arrow(pa.table({"key": key, "value": value, "timestamp_ms": times}))
        written += _CALL_RECORDS


def _keys(numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.bytes_]]:
    """A user's name of 16 bytes for each number."""
    return np.char.add(b"user-", np.char.zfill(numbers.astype("S11"), KEY_BYTES - 5)).astype(f"S{KEY_BYTES}")

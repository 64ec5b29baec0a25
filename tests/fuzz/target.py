"""Feed one buffer to everything that reads batches.

Whatever the bytes are, only two outcomes are allowed: success, or a `TidelogError`. Where two ways of reading both succeed they must agree,
and what is rewritten must read back. Anything else raises out of `feed` and is a finding.

    python -m tests.fuzz.target FILE                       feed a file that a run has kept
    python -m tests.fuzz.target --seed 1 --index 234       feed one input of a run again
"""

import argparse
import random
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.support.mutations import mutated_buffer
from tests.support.retained import retain
from tidelog.errors import TidelogError
from tidelog.record import (
    COLUMNS,
    LegacyBatch,
    Record,
    RecordBatch,
    checksums_match,
    count_records,
    iter_arrow,
    parse_control_record,
    read_batches,
    retain_records,
    verify_checksums,
    walk_headers,
)
from tidelog.record.views import view

MAX_DECOMPRESSED_BYTES = 1 << 20
COLUMN_CHOICES: tuple[tuple[str, ...], ...] = (
    ("offset",),
    ("key",),
    ("value", "timestamp_ms"),
    ("headers",),
    ("key", "value"),
    ("sequence", "is_control"),
)
VIEW_FIELDS = (
    "position",
    "size_bytes",
    "magic",
    "attributes",
    "base_offset",
    "last_offset",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "partition_leader_epoch",
    "count",
    "crc",
)
VIEW_PROPERTIES = ("next_offset", "last_sequence", "compression", "timestamp_type", "is_transactional", "is_control", "delete_horizon_ms")

STAGES = ("views", "retain", "compact", "count", "columns", "checked columns", "some columns")
# How often each is chosen when only one is; the last is none of them. Columns cost four times what the rest does.
WEIGHTS = (10, 12, 6, 5, 10, 7, 8, 42)

Batch = RecordBatch | LegacyBatch


class DisagreementError(AssertionError):
    """Two ways of reading the same bytes gave different answers."""


def exact_view(data: bytes) -> memoryview:
    """The bytes in memory of exactly their size: behind bytes objects lies a spare byte, which would hide a read past the end."""
    return view(np.frombuffer(data, np.uint8).copy())


def feed(data: bytes, *, every_stage: bool = True) -> bool:
    """Read the buffer in every way: True if its records could be read (whatever its CRCs say).

    With `every_stage` false: read its objects, and at most one of the other ways, chosen by its bytes. That is many times faster.
    """
    buffer = exact_view(data)
    rng = random.Random(zlib.crc32(data))
    stages = STAGES if every_stage else rng.choices((*STAGES, "none"), WEIGHTS)
    batches: list[Batch] | None = _attempt(lambda: list(read_batches(buffer)))
    records = [_attempt(_records, batch) for batch in batches or ()]
    is_read = batches is not None and all(found is not None for found in records)
    if "views" in stages:
        _check_views(buffer, batches, records)
    if batches is None:
        if every_stage or "columns" in stages:
            _same("columns are read", _arrow(buffer, rng.choice(COLUMN_CHOICES), check_crcs=False) is not None, False)
        return False
    if "retain" in stages:
        for batch, found in zip(batches, records, strict=True):
            if found is not None:
                _check_control(batch, found)
                _check_retain(batch, found, rng)
    if "compact" in stages:
        for batch, found in zip(batches, records, strict=True):
            if isinstance(batch, RecordBatch) and not batch.attributes & 7:
                _check_compact(batch, found, rng)
    if "count" in stages:
        count = _attempt(count_records, buffer)
        if is_read:
            _same("count_records", count, sum(len(found) for found in records))
    if "columns" in stages:
        _check_columns(buffer, records, is_read=is_read)
    if "checked columns" in stages:
        checked = _arrow(buffer, ("offset", "key"), check_crcs=True)
        has_wrapper = any(isinstance(batch, LegacyBatch) and batch.attributes & 7 for batch in batches)
        if not has_wrapper:  # messages inside wrappers have CRCs of their own
            is_valid = bool(checksums_match(buffer, walk_headers(buffer)).all())
            _same("columns with CRCs are read", checked is not None, is_read and is_valid)
    if "some columns" in stages:
        columns = rng.choice(COLUMN_CHOICES)
        some = _arrow(buffer, columns, check_crcs=False, chunk_bytes=rng.choice((1, 100, 1 << 20)))
        _same("some columns are read", some is not None, is_read)
    return is_read


def _attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result, or None where the bytes were refused. The error must know how to tell what it found."""
    try:
        return function(*arguments)
    except TidelogError as error:
        str(error)
        return None


def _refuses(function: Callable[..., Any], *arguments: Any) -> bool:
    try:
        function(*arguments)
    except TidelogError:
        return True
    return False


def _records(batch: Batch) -> list[Record]:
    return list(batch.records(max_decompressed_bytes=MAX_DECOMPRESSED_BYTES))


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise DisagreementError(f"{what}: {found!r}, and the other way {expected!r}")


def _check_views(buffer: memoryview, batches: list[Batch] | None, records: list[list[Record] | None]) -> None:
    """Header arrays and CRCs against the views."""
    headers = _attempt(walk_headers, buffer)
    _same("walk_headers and read_batches refuse", headers is None, batches is None)
    if batches is None:
        return
    valid = checksums_match(buffer, headers)
    _same("verify_checksums refuses", _refuses(verify_checksums, buffer, headers), not bool(valid.all()))
    for index, batch in enumerate(batches):
        _check_view(batch, headers, index, bool(valid[index]), records[index])


def _check_view(batch: Batch, headers: Any, index: int, is_valid: bool, records: list[Record] | None) -> None:
    """A view and the header arrays say the same of a batch."""
    is_wrapper = isinstance(batch, LegacyBatch) and batch.attributes & 7
    for field in VIEW_FIELDS:
        if field == "base_timestamp_ms" and isinstance(batch, LegacyBatch):
            continue
        if is_wrapper and field in ("base_offset", "count"):
            # Only inside is it known; opening it again costs most of the time, so the records at hand stand for it.
            continue
        _same(field, getattr(batch, field), int(getattr(headers, field)[index]))
    for name in VIEW_PROPERTIES:
        _attempt(getattr, batch, name)
    _same("is_valid", batch.is_valid, is_valid)
    _same("ensure_valid refuses", _refuses(batch.ensure_valid), not is_valid)
    _same("size of the copy", len(batch.to_bytes()), batch.size_bytes)
    repr(batch)
    if is_wrapper and records is not None and len(records) < 100:
        _same("count of a wrapper", batch.count, len(records))
        _same("base offset of a wrapper", batch.base_offset, records[0].offset)


def _check_control(batch: Batch, records: list[Record]) -> None:
    for record in records[:3]:
        if batch.is_control or record.offset & 7 == 0:
            _attempt(parse_control_record, record)


def _check_columns(buffer: memoryview, records: list[list[Record] | None], *, is_read: bool) -> None:
    """All columns against the objects."""
    table = _arrow(buffer, COLUMNS, check_crcs=False)
    _same("columns are read", table is not None, is_read)
    if table is None:
        return
    expected = [record for found in records for record in found or ()]
    _same("rows", table.num_rows, len(expected))
    columns = [table.column(name).to_pylist() for name in COLUMNS[:7]]
    for row, record in zip(zip(*columns, strict=True), expected, strict=True):
        headers = [{"key": name, "value": value} for name, value in record.headers]
        of_object = (record.offset, record.timestamp_ms, int(record.timestamp_type), record.key, record.value, headers, record.sequence)
        _same("row", row, of_object)


def _arrow(buffer: memoryview, columns: tuple[str, ...], *, check_crcs: bool, chunk_bytes: int = 1 << 20) -> "pa.Table | None":
    def read() -> "pa.Table":
        batches = iter_arrow(buffer, columns, check_crcs=check_crcs, chunk_bytes=chunk_bytes, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)
        found = list(batches)
        for batch in found:
            batch.validate(full=True)
        return pa.Table.from_batches(found) if found else pa.table({name: [] for name in columns})

    return _attempt(read)


def _check_retain(batch: Batch, records: list[Record], rng: random.Random) -> None:
    """Keep some records: what comes out reads back as just those."""
    keep = [rng.random() < 0.6 for _ in records]
    horizon = rng.choice((None, 0, 1_700_000_000_000, 2**62))
    rewritten: bytes | None = _attempt(
        lambda: retain_records(
            batch, keep, delete_horizon_ms=horizon, keep_empty=rng.random() < 0.5, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES
        )
    )
    if rewritten is None:
        if isinstance(batch, RecordBatch):
            raise DisagreementError("records were read, but not retained")
        return
    out = exact_view(rewritten)
    headers = walk_headers(out)
    _same("rewritten batches", len(headers), 1 if rewritten else 0)
    is_verbatim = all(keep) and rewritten == batch.to_bytes()
    _same("CRC of the rewritten batch", bool(checksums_match(out, headers).all()) or is_verbatim, True)
    _same("bytes of the rewritten batch", headers.end_position, len(rewritten))
    found = [record for copy in read_batches(out) for record in _records(copy)]
    kept = [record for record, is_kept in zip(records, keep, strict=True) if is_kept]
    _same("kept records", [_facts(record) for record in found], [_facts(record) for record in kept])


def _check_compact(batch: RecordBatch, records: list[Record] | None, rng: random.Random) -> None:
    """The inner loop of compaction over a plain batch: what `retain_records` gives, by flags and by bits."""
    buffer = exact_view(batch.to_bytes())
    horizon = rng.choice((0, 1_700_000_000_000, 2**62))
    keep = [rng.random() < 0.6 for _ in records or ()]
    keep_empty = rng.random() < 0.5
    by_flags = _attempt(lambda: retain(buffer, keep=keep, keep_empty=[keep_empty], new_horizon=horizon))
    first = batch.base_offset
    end = min(first + rng.choice((0, 1, 8, 100)), 2**63 - 1)
    survivors = [offset for offset in range(first, end) if rng.random() < 0.6]
    latest_offset, counts_all = rng.choice((max(end - 1, -(2**63)), 2**62)), rng.random() < 0.5
    _attempt(
        lambda: retain(
            buffer,
            survivors=survivors,
            first=first,
            end=end,
            latest_offset=latest_offset,
            counts_all=counts_all,
            keep_empty=[keep_empty],
            new_horizon=horizon,
        )
    )
    if records is None:
        _same("compaction refuses what cannot be read", by_flags is None or by_flags[1]["DONE"] == 0, True)
        return
    stays = [record for record, is_kept in zip(records, keep, strict=True) if is_kept]
    stamped = horizon if any(record.value is None for record in stays) else None
    expected = retain_records(batch, keep, delete_horizon_ms=stamped, keep_empty=keep_empty)
    _same("what compaction keeps", by_flags is not None and by_flags[0], expected)


def _facts(record: Record) -> tuple[Any, ...]:
    return record.offset, record.timestamp_ms, record.key, record.value, record.headers


def main() -> int:
    """Feed one input."""
    parser = argparse.ArgumentParser(description="feed one buffer to everything that reads batches")
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--index", type=int, default=0)
    arguments = parser.parse_args()
    data = arguments.file.read_bytes() if arguments.file else mutated_buffer(arguments.seed, arguments.index)
    sys.stdout.write(f"{len(data)} bytes: {data.hex()}\n")
    sys.stdout.write("read\n" if feed(data) else "refused\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

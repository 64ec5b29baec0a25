"""Everything the kernel answers to a set of samples, so that two processes can compare: pickled samples in, pickled answers out."""

import pickle
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tests.support.retained import exact, retain
from tests.support.strategies import Model
from tidelog.compaction.offset_map import OffsetMap
from tidelog.errors import TidelogError
from tidelog.record import (
    COLUMNS,
    BatchEncoder,
    checksums_match,
    iter_arrow,
    kernel_mode,
    murmur2,
    read_batches,
    retain_records,
    siphash128,
    walk_headers,
)
from tidelog.record.headers import FIELDS

Answers = list[tuple[str, Any]]


def answers_to_model(model: Model) -> Answers:
    """Encode, decode in every way, retain, hash."""
    encoded = model.encode()
    table = pa.table(
        {
            "key": pa.array([record.key for record in model.records], pa.binary()),
            "value": pa.array([record.value for record in model.records], pa.binary()),
            "timestamp_ms": pa.array([record.timestamp_ms for record in model.records], pa.int64()),
        }
    )
    keys = [record.key for record in model.records]
    return [
        ("rows", encoded),
        ("columns", bytes(BatchEncoder(model.settings, base_offset=model.base_offset).encode_arrow(table))),
        ("siphash128", siphash128(keys, bytes(range(16))).tobytes()),
        ("murmur2", murmur2(keys).tobytes()),
        ("offset map", offset_map_of(keys)),
        *answers_to_buffer(encoded),
        *[
            (f"retained {index}", retain_records(batch, [number % 2 == 0 for number in range(batch.count)], delete_horizon_ms=horizon))
            for index, batch in enumerate(read_batches(encoded))
            for horizon in (None, 5)
        ],
    ]


def offset_map_of(keys: list[bytes | None]) -> Any:
    """Put the keys into a small map under a given secret, and ask it for them."""
    data = b"".join(key or b"" for key in keys)
    lengths = [-1 if key is None else len(key) for key in keys]
    starts = [sum(max(0, length) for length in lengths[:index]) for index in range(len(lengths))]
    offset_map = OffsetMap(24 * 7, secret=bytes(range(16)))
    taken = offset_map.put(data, starts, lengths, range(1 << 33, (1 << 33) + len(keys)))
    survivors = offset_map.survivors(1 << 33, (1 << 33) + len(keys)).tobytes()
    return taken, offset_map.entries, offset_map.get(data, starts, lengths).tolist(), survivors


def answers_to_buffer(buffer: bytes) -> Answers:
    """Decode in every way; bad bytes have their error as the answer, word for word."""

    def headers() -> Any:
        found = walk_headers(buffer)
        return [getattr(found, field).tolist() for field in FIELDS], found.end_position, checksums_match(buffer, found).tolist()

    def records() -> Any:
        return [[record.__reduce__()[1] for record in batch] for batch in read_batches(buffer)]

    def columns() -> Any:
        return [batch.to_pydict() for batch in iter_arrow(buffer, COLUMNS, check_crcs=False)]

    def compacted() -> Any:
        plain = [batch for batch in read_batches(buffer) if batch.magic == 2 and batch.attributes & 7 == 0]
        answers = []
        for batch in plain:
            first = batch.base_offset
            end = min(first + 40, (1 << 63) - 1)
            survivors = range(first, end, 3)
            source = exact(batch.to_bytes())
            answers.append(retain(source, survivors=survivors, first=first, end=end, latest_offset=end - 1, keep_empty=[True]))
            answers.append(retain(source, keep=[number % 3 > 0 for number in range(max(0, min(1000, batch.count)))], new_horizon=1 << 40))
        return answers

    return [(function.__name__, _answer(function)) for function in (headers, records, columns, compacted)]


def _answer(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except TidelogError as error:
        return type(error).__name__, str(error)


def all_answers(samples: tuple[list[Model], list[bytes]]) -> list[Answers]:
    """The answers to all samples, in their order."""
    models, buffers = samples
    return [answers_to_model(model) for model in models] + [answers_to_buffer(buffer) for buffer in buffers]


if __name__ == "__main__":
    given = pickle.load(sys.stdin.buffer)
    pickle.dump((kernel_mode(), all_answers(given)), sys.stdout.buffer)

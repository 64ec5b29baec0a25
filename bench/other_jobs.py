"""Promises about headers, checksums, building batches, and the import.

Builders get 8192 records a call, which makes about a mebibyte; the other side builds batch after batch in a small buffer, too.

Reproduce: `.venv/bin/python -m bench --only build`
"""

import subprocess
import sys
from functools import partial
from importlib.metadata import version

import crc32c
import pyarrow as pa

from bench import aiokafka_peer, passes
from bench.data import BASE_TIMESTAMP_MS, BATCH_BYTES, Inputs
from bench.jobs import Job, require_equal
from bench.jvm import around
from bench.timing import Measurement, Pace, in_turn
from tidelog.record import BatchEncoder, to_arrow, walk_headers
from tidelog.record.headers import checksums

CALL_RECORDS = 8192
_CRC_SKIPS = 21  # bytes of a batch before the attributes, where its CRC starts


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("1-walk-headers-16k-aiokafka", ">= 3", "batches/s", partial(_walk, "s")),
        Job("1-walk-headers-200b-aiokafka", ">= 3", "batches/s", partial(_walk, "tiny")),
        Job("1-crc-batches-crc32c", ">= 0.9", "bytes/s", _checksums),
        Job("1-build-s-tuples-aiokafka", ">= 4", "records/s", _build_tuples),
        Job("1-import", "<= 1", "ms", _import),
        Job("1-build-s-arrow-jvm", ">= 1.5", "records/s", _build_arrow, needs_jvm=True),
    ]


def _walk(name: str, inputs: Inputs, pace: Pace) -> Measurement:
    data = inputs.memory(name)
    headers = walk_headers(data)
    fields = (headers.base_offset, headers.max_timestamp_ms, headers.crc)
    require_equal("sums of header fields", (len(headers), *(int(field.sum()) for field in fields)), aiokafka_peer.header_sums(data))

    def peer() -> int:
        aiokafka_peer.walk(data)
        return len(headers)

    return in_turn(lambda: len(walk_headers(data)), peer, pace, aiokafka_peer.VERSION)


def _checksums(inputs: Inputs, pace: Pace) -> Measurement:
    data = inputs.memory("s")
    headers = walk_headers(data)
    view = memoryview(data)
    spans = [
        view[start + _CRC_SKIPS : start + size] for start, size in zip(headers.position.tolist(), headers.size_bytes.tolist(), strict=True)
    ]
    checked_bytes = sum(map(len, spans))
    require_equal("checksums", checksums(data, headers).tolist(), list(map(crc32c.crc32c, spans)))

    def ours() -> int:
        checksums(data, headers)
        return checked_bytes

    def peer() -> int:
        list(map(crc32c.crc32c, spans))
        return checked_bytes

    return in_turn(ours, peer, pace, f"crc32c {version('crc32c')}")


def _build_tuples(inputs: Inputs, pace: Pace) -> Measurement:
    table = to_arrow(inputs.memory("s"), ("key", "value"))
    rows = list(zip(table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True))
    calls = [rows[first : first + CALL_RECORDS] for first in range(0, len(rows), CALL_RECORDS)]
    encoder = BatchEncoder()
    built = b"".join(bytes(encoder.encode(call, timestamp_ms=BASE_TIMESTAMP_MS)) for call in calls)
    built_by_peer = b"".join(aiokafka_peer.build(rows, BASE_TIMESTAMP_MS, BATCH_BYTES))
    require_equal("records and bytes", passes.volume(built, check_crcs=True), passes.volume(built_by_peer, check_crcs=True))

    def ours() -> int:
        for call in calls:
            encoder.encode(call, timestamp_ms=BASE_TIMESTAMP_MS)
        return len(rows)

    def peer() -> int:
        aiokafka_peer.build(rows, BASE_TIMESTAMP_MS, BATCH_BYTES)
        return len(rows)

    return in_turn(ours, peer, pace, aiokafka_peer.VERSION)


def _build_arrow(inputs: Inputs, pace: Pace) -> Measurement:
    data = inputs.memory("s")
    table = to_arrow(data, ("timestamp_ms", "key", "value")).combine_chunks()
    records: int = table.num_rows
    calls = [pa.Table.from_batches([batch]) for batch in table.to_batches(max_chunksize=CALL_RECORDS)]
    encoder = BatchEncoder()
    built = b"".join(bytes(encoder.encode_arrow(call)) for call in calls)
    require_equal("records and bytes", passes.volume(built, check_crcs=True), passes.volume(data))

    def ours() -> int:
        for call in calls:
            encoder.encode_arrow(call)
        return records

    # Batches end where a builder sees no room for another record, which is not byte for byte the same rule: records are compared.
    return around(ours, "build", inputs.path("s"), pace, records=records, size_bytes=None)


def _import(inputs: Inputs, pace: Pace) -> Measurement:
    """Milliseconds of `import tidelog` in interpreters of their own, against the 150 that are promised."""
    code = "import time; start = time.perf_counter(); import tidelog; print(1000 * (time.perf_counter() - start))"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) for _ in range(pace.samples)
    ]
    return Measurement(times, [150.0], "150 ms")

"""What Tidelog can do so far, shown on real bytes. `make demo` runs it and leaves demo/summary.json.

1. Records become batches, in every codec Kafka has, and come back as objects and as Arrow columns.
2. Segments that a real Kafka wrote are read, checked and counted.
3. A batch is compacted by hand: two records go, the offsets stay.
4. A flipped bit is found, and the error says where.
5. A partition on disk is written, killed in the middle of it, recovered, and read by time.
6. A store: topics, a batching writer, the latest value of each key, and why each segment is still there.
"""

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tidelog
from tidelog import Log, TidelogError, __version__, kernel_mode
from tidelog.record import (
    BatchEncoder,
    BatchSettings,
    ColumnDecoder,
    Compression,
    RecordBatch,
    checksums_match,
    count_records,
    encode_batches,
    read_batches,
    retain_records,
    to_arrow,
    walk_headers,
)

ROOT = Path(__file__).parent
GOLDEN = ROOT.parent / "tests" / "golden"
RECORDS = 200_000


def main() -> None:
    print(f"Tidelog {__version__}, kernel {kernel_mode()}\n")
    summary: dict[str, object] = {"version": __version__, "kernel": kernel_mode()}
    summary["round_trip"] = round_trip()
    summary["kafka_segments"] = kafka_segments()
    summary["compaction"] = compact_one_batch()
    summary["damage"] = find_damage()
    summary["partition"] = partition_on_disk()
    summary["store"] = store_with_topics()
    (ROOT / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    print("\nfigures are in demo/summary.json")


def round_trip() -> list[dict[str, object]]:
    print(f"1. {RECORDS:,} records to batches of 16 KiB and back, as Arrow columns")
    rows = [
        (b"user-%07d" % (i % 5000), b'{"user": %d, "email": "user-%d@example.com", "visits": %d}' % (i % 5000, i % 5000, i))
        for i in range(RECORDS)
    ]
    results: list[dict[str, object]] = []
    for codec in Compression:
        encoder, decoder = BatchEncoder(BatchSettings(compression=codec)), ColumnDecoder()
        write_s = read_s = math.inf
        for _ in range(3):  # the best of three: the first one also loads libraries and asks for memory
            started = time.perf_counter()
            data = encoder.encode(rows, timestamp_ms=1_700_000_000_000)
            encoded = time.perf_counter()
            count = sum(batch.num_rows for batch in decoder.decode(data))
            write_s, read_s = min(write_s, encoded - started), min(read_s, time.perf_counter() - encoded)
            assert count == RECORDS
        batches = len(walk_headers(data))
        results.append(
            {
                "codec": str(codec),
                "bytes": len(data),
                "batches": batches,
                "encoded_per_s": round(RECORDS / write_s),
                "decoded_per_s": round(RECORDS / read_s),
            }
        )
        print(
            f"   {codec!s:7} {len(data) / 1e6:6.1f} MB in {batches} batches"
            f"   written {RECORDS / write_s / 1e6:5.1f} M/s, read with CRC {RECORDS / read_s / 1e6:5.1f} M/s"
        )
    return results


def kafka_segments() -> dict[str, object]:
    print("\n2. segments that Kafka 4.2.0 wrote: transactions, after a round of its cleaner")
    files = sorted((GOLDEN / "segments" / "transactions-round-1").glob("*.log"))
    records = 0
    for path in files:
        data = path.read_bytes()
        headers = walk_headers(data)
        assert checksums_match(data, headers).all()
        records += count_records(data, headers)
        for batch in read_batches(data):
            kind = "marker" if batch.is_control else "transaction" if batch.is_transactional else "data"
            print(f"   {path.name}  offsets {batch.base_offset:3} to {batch.last_offset:3}  {batch.count} records  {kind}")
    return {"files": len(files), "records": records}


def compact_one_batch() -> dict[str, object]:
    print("\n3. keep the latest value of each key in a batch")
    data = encode_batches([(b"123", b"bill@old.example"), (b"456", b"ann@example.com"), (b"123", b"bill@gmail.com")], base_offset=100)
    (batch,) = read_batches(data)
    latest = {record.key: record.offset for record in batch}
    kept = retain_records(batch, [latest[record.key] == record.offset for record in batch])
    (rewritten,) = read_batches(kept)
    assert isinstance(rewritten, RecordBatch)
    for record in rewritten:
        print(f"   offset {record.offset}: {record.key!r} = {record.value!r}")
    print(f"   {len(data)} bytes became {len(kept)}; the batch still spans offsets {rewritten.base_offset} to {rewritten.last_offset}")
    return {"before": len(data), "after": len(kept), "offsets": [record.offset for record in rewritten]}


def find_damage() -> dict[str, object]:
    print("\n4. flip one bit")
    damaged = bytearray(encode_batches([(b"k", b"v" * 50)] * 5, batch_bytes=150))
    damaged[300] ^= 4
    try:
        to_arrow(bytes(damaged))
    except TidelogError as error:
        print(f"   {type(error).__name__}: {error}")
        return {"error": type(error).__name__, "position": error.position}
    raise AssertionError("the damage went unnoticed")


def partition_on_disk() -> dict[str, object]:
    print("\n5. a partition on disk, and a process that is killed while it appends")
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "emails-0"
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        acknowledged = -1
        started = time.perf_counter()
        for line in writer.stdout:
            acknowledged = int(line)
            if acknowledged >= 4999:
                writer.kill()
                break
        seconds = time.perf_counter() - started
        for line in writer.stdout:  # what it still said before it died
            acknowledged = int(line)
        writer.wait()
        writer.stdout.close()
        print(f"   killed when offset {acknowledged} was on disk ({acknowledged / seconds:,.0f} records/s, each batch synced)")
        with Log.open(directory, config={"internal.segment.bytes": 100_000}) as log:
            report = log.load_report
            print(f"   recovered {log.log_end_offset} records in {len(log.segments)} segments; checked {report.recovered_bytes:,} bytes")
            for cut in report.cuts:
                print(f"   cut off: {cut.size_bytes} bytes of segment {cut.base_offset} ({cut.reason}), kept in {cut.kept_in}")
            assert log.log_end_offset > acknowledged
            found = log.offset_for_time(log.max_timestamp.timestamp_ms if log.max_timestamp else 0)
            print(f"   the newest timestamp is first reached at offset {found.offset if found else None}")
            return {
                "acknowledged": acknowledged,
                "recovered": log.log_end_offset,
                "segments": len(log.segments),
                "cuts": len(report.cuts),
            }


def store_with_topics() -> dict[str, object]:
    print("\n6. a store with topics")
    with tempfile.TemporaryDirectory() as folder, tidelog.open(folder) as store:
        visits = store.create_topic("visits", partitions=4, config={"internal.segment.bytes": 2 << 20, "retention.bytes": 4 << 20})
        started = time.perf_counter()
        with visits.writer() as writer:
            for number in range(RECORDS):
                writer.append(b'{"visit": %d, "page": "/users/%d"}' % (number, number % 5000), key=b"user-%d" % (number % 5000))
        seconds = time.perf_counter() - started
        keys = len(visits.table())
        print(f"   {RECORDS:,} records through a writer, {RECORDS / seconds:,.0f}/s, all on disk; {keys:,} keys in its table")
        explained = str(store.explain("visits")).splitlines()
        print("\n".join(f"   {line}" for line in explained[:4]))
        went = store.retain("visits")
        print(f"   a round of retention: {went}")
        return {"records": RECORDS, "records_per_second": round(RECORDS / seconds), "keys": keys}


WRITER = """
import sys, time
import tidelog
log = tidelog.Log.open(sys.argv[1], config={"internal.segment.bytes": 100_000})
for number in range(1_000_000):
    now_ms = time.time_ns() // 1_000_000
    records = [(b"user-%d" % (number % 100), b"user-%d@example.com" % number)] * 5
    print(log.append(tidelog.NewBatch(records, timestamp_ms=now_ms).encode()).last_offset, flush=True)
"""


if __name__ == "__main__":
    main()

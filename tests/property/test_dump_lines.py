"""Lines of records that are made by the thousand say what the objects say, whatever the records are, and whatever lies between them."""

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.cli.commands import run
from tidelog.cli.output import bytes_to_text, plain, to_json
from tidelog.inspection.dump import dump
from tidelog.record import BatchEncoder, BatchSettings, Compression, ControlType, empty_batch, transaction_marker

BYTES = st.none() | st.binary(max_size=8) | st.sampled_from([b"", b"text", b"\x7f", b'q"\\\n', "héé".encode(), b"\xff", b"\0\x01\x03"])
HEADERS: st.SearchStrategy[list[tuple[str, bytes | None]]] = st.lists(st.tuples(st.text(max_size=4), BYTES), max_size=2) | st.just([])
RECORD = st.tuples(BYTES, BYTES, HEADERS, st.integers(-2, 2**41))
NO_HEADERS: list[tuple[str, bytes | None]] = []
PLAIN_RECORD = st.tuples(st.just(b"key"), st.sampled_from([b"value", b"another"]), st.just(NO_HEADERS), st.integers(10**12, 10**12 + 9))
BATCH = st.fixed_dictionaries(
    {
        "rows": st.lists(RECORD, min_size=1, max_size=4) | st.lists(PLAIN_RECORD, min_size=1, max_size=4),
        "compression": st.just(Compression.NONE) | st.sampled_from(list(Compression)),
        "append_time_ms": st.none() | st.none() | st.integers(0, 2**41),
        "base_sequence": st.sampled_from([-1, -1, 0, 7, 2**31 - 2]),
        "kind": st.sampled_from(["records"] * 4 + ["marker", "empty", "spoilt"]),
    }
)


def encoded(batches: list[dict[str, Any]]) -> bytes:
    """One behind the other."""
    data, offset = b"", 0
    for batch in batches:
        if batch["kind"] == "marker":
            marker = {"producer_id": 5, "producer_epoch": 1, "coordinator_epoch": 2, "timestamp_ms": 9}
            data += transaction_marker(ControlType.COMMIT, **marker, base_offset=offset)
        elif batch["kind"] == "empty":
            data += empty_batch(base_offset=offset, last_offset=offset + 3, partition_leader_epoch=1, attributes=0, max_timestamp_ms=7)
            offset += 3
        else:
            sequence = batch["base_sequence"]
            producer = {"producer_id": 4, "producer_epoch": 0, "base_sequence": sequence} if sequence >= 0 else {}
            settings = BatchSettings(compression=batch["compression"], append_time_ms=batch["append_time_ms"], **producer)
            new = bytearray(BatchEncoder(settings, base_offset=offset).encode(batch["rows"]))
            if batch["kind"] == "spoilt":
                new[17] ^= 1  # of its CRC: what it covers can be read
            data += new
            offset += len(batch["rows"]) - 1
        offset += 1
    return data


def text_line(found: dict[str, Any], *, payloads: bool) -> str:
    key, value = found["key"], found["value"]
    names = ",".join(plain(name) for name, _ in found["headers"])
    line = (
        f"| offset: {found['offset']} {found['timestamp_type']}: {found['timestamp_ms']} keySize: {-1 if key is None else len(key)} "
        f"valueSize: {-1 if value is None else len(value)} sequence: {found['sequence']} headerKeys: [{names}]"
    )
    if payloads:
        line += "" if key is None else f" key: {bytes_to_text(key)}"
        line += "" if value is None else f" payload: {bytes_to_text(value)}"
    return line


@given(st.lists(BATCH, min_size=1, max_size=6), st.sampled_from(["t-0", "no partition", "__consumer_offsets-1"]))
def test_lines_are_the_objects(batches: list[dict[str, Any]], home: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / home / f"{0:020}.log"
        path.parent.mkdir()
        path.write_bytes(encoded(batches))
        objects = list(dump(str(path), records=True))
        done = run("dump", path, "--records", "--json")
        assert done.stdout.split("\n") == [*(json.dumps(to_json(found), ensure_ascii=False) for found in objects), ""]
        records = [found for found in dump(str(path), records=True, raw=True) if found["type"] == "record" and "control_type" not in found]
        for option in ("--deep", "--records"):
            lines = run("dump", path, option, "--raw").stdout.splitlines()
            assert len(lines) == len(objects) + 1
            shown = [line for line in lines if line.startswith("|") and "endTxnMarker" not in line]
            assert shown == [text_line(found, payloads=option == "--records") for found in records]

"""Files of rows, of each format, with what is odd about it; and how they are ingested."""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

_CSV = """id,name,at
1,bill,2023-11-14T22:13:20Z
2,,2023-11-14T22:13:21Z
3,"a,b",2023-11-14 22:13:22
4,"",2023-11-14T22:13:23+01:00
5,é ö,2023-11-14
"""
_ROWS: list[dict[str, Any]] = [
    {"id": 7, "name": "anna", "at": 1_700_000_000_000, "ok": True, "weight": 1.5},
    {"id": 8, "name": None, "at": 1_700_000_000_001, "weight": 3},
    {"id": 9, "at": 1_700_000_000_002, "weight": 1e10, "more": None},
    {"id": 10, "name": 'q"uo\\te\n', "at": 1_700_000_000_003, "weight": 0.0001},
]
_MIXED: list[dict[str, Any]] = [
    {"id": 1, "value": 5},
    {"id": "two", "value": True},
    {"id": None, "value": "text"},
    {"id": 1.5, "value": 2e3},
]
_NESTED: list[dict[str, Any]] = [
    {"k": "a", "z": {"y": [1, 2.5], "x": None}, "m": [{"b": "x", "a": 1}, None, {"a": None}]},
    {"k": "b", "z": {"w": True}, "m": []},
]


_ASKED = {
    "words.csv": ["--key", "id", "--value", "name", "--timestamp", "at", "--partitions", "3"],
    "whole.csv": ["--key", "ID", "--partitions", "3"],
    "rows.json": ["--key", "weight", "--timestamp", "at", "--partitions", "3"],
    "mixed.json": ["--key", "id"],
    "nested.json": ["--key", "k", "--partitions", "3"],
    "rows.parquet": ["--timestamp", "at", "--partitions", "3"],
    "whole.parquet": ["--value", "*", "--partition", "number", "--partitions", "3"],
    "rows.orc": ["--key", "number", "--partitions", "3"],
    "lines.txt": [],
}
FILES = tuple(_ASKED)


def write_file(name: str, folder: Path) -> tuple[Path, list[str]]:
    """A file of this name, and the options to ingest it with. Rows without a key go to one partition: of several it would be any."""
    path = folder / name
    if name.endswith(".csv"):
        path.write_text(_CSV)
    elif name.endswith(".txt"):
        path.write_text("one\n\ntwo and more\nthree")
    elif name.endswith(".json"):
        rows = {"rows.json": _ROWS, "mixed.json": _MIXED, "nested.json": _NESTED}[name]
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    elif name.endswith(".orc"):
        orc.write_table(_table().select(["key", "value", "number"]), path)
    else:
        pq.write_table(_table(), path)
    return path, list(_ASKED[name])


def _table() -> pa.Table:
    header = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    return pa.table(
        {
            "key": pa.array([b"k1", b"\xff\x00", b"k3"], pa.binary()),
            "value": pa.array(["one", None, ""], pa.string()),
            "headers": pa.array([[{"key": "h", "value": b"x"}], [], None], header),
            "at": pa.array(
                [datetime(2023, 11, 14, 22, 13, 20, number * 1000, tzinfo=UTC) for number in range(3)], pa.timestamp("us", "UTC")
            ),
            "number": pa.array([0, 1, 2], pa.int32()),
            "day": pa.array([date(2023, 11, 14), None, date(1969, 12, 31)], pa.date32()),
            "weight": pa.array([0.5, 123456789.0, float("nan")], pa.float64()),
        }
    )

"""Load the golden files: bytes that a real Kafka wrote, and what Kafka itself reads from them."""

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent.parent / "golden"


@dataclass(frozen=True)
class GoldenLog:
    """Batches back to back, and Kafka's description of them."""

    name: str
    data: bytes
    batches: list[dict[str, Any]]


def golden_logs() -> list[GoldenLog]:
    """Every golden file of batches: hand-picked cases, and segments that a real partition log wrote."""
    logs = []
    for path in sorted((GOLDEN / "batches").glob("*.json")):
        logs.append(GoldenLog(path.stem, path.with_suffix(".log").read_bytes(), json.loads(path.read_text())["batches"]))
    for path in sorted((GOLDEN / "segments").glob("*.json")):
        for name, description in json.loads(path.read_text())["files"].items():
            logs.append(GoldenLog(f"{path.stem}/{name}", (path.with_suffix("") / name).read_bytes(), description["batches"]))
    return logs


def golden_retain_cases() -> list[Path]:
    """The descriptions of filtered copies."""
    return sorted((GOLDEN / "retain").glob("*.json"))


def is_same(described: Any, data: bytes | None) -> bool:
    """Whether `data` is what the JSON describes: text, base64, a digest of long bytes, or null."""
    if described is None or data is None:
        return described is None and data is None
    if isinstance(described, str):
        return described.encode() == data
    if "base64" in described:
        return base64.b64decode(described["base64"]) == data
    return bool(described["size"] == len(data) and described["sha256"] == hashlib.sha256(data).hexdigest())

"""Input files, made once into bench/data/ and read by all sides byte for byte.

    s-none s-lz4 s-zstd   400 000 records of 16-byte keys and 100-byte values in 16 KiB batches; written, and compressed, by Kafka itself
    l-none                46 000 records of 16-byte keys and 1 KiB values in 16 KiB batches; written by us
    tiny                  160 000 batches of one record, about 200 bytes each; written by us

S is events: JSON of 100 bytes under a user's name of 16, as many topics have it; lz4 makes it less than half, zstd a quarter. The others
are words, numbers and random keys. The bytes are the same on every machine.

Reproduce: `interop/run-java MakeLog bench/data/s-lz4.log lz4 400000`
"""

import random
from collections.abc import Iterator
from pathlib import Path

from bench.jvm import ROOT, run_java
from tidelog.record import BatchEncoder, BatchSettings

FOLDER = ROOT / "bench" / "data"
BATCH_BYTES = 16384
KEY_BYTES = 16
S_RECORDS = 400_000
L_RECORDS = 46_000
L_VALUE_BYTES = 1024
TINY_BATCHES = 160_000
TINY_VALUE_BYTES = 114
BASE_TIMESTAMP_MS = 1_700_000_000_000
_CALL_RECORDS = 4096
_WORDS = ("tide", "log", "segment", "offset", "harbour", "buoy", "current", "ebb")


class Inputs:
    """Paths and bytes of the input files, each made and read when it is first asked for."""

    def __init__(self) -> None:
        self._memory: dict[str, bytes] = {}

    def memory(self, name: str) -> bytes:
        """The bytes of `s`, `s-lz4`, `s-zstd`, `l` or `tiny`."""
        if name not in self._memory:
            self._memory[name] = self.path(name).read_bytes()
        return self._memory[name]

    def path(self, name: str) -> Path:
        """The file of that input."""
        if name == "l":
            return self._ours("l-none.log", L_RECORDS, L_VALUE_BYTES, batch_bytes=BATCH_BYTES)
        if name == "tiny":
            return self._ours("tiny.log", TINY_BATCHES, TINY_VALUE_BYTES, batch_bytes=1)
        return self.s_path(name.partition("-")[2] or "none")

    def s_path(self, codec: str) -> Path:
        """S in this codec, as Kafka wrote it."""
        path = FOLDER / f"s-{codec}.log"
        if not path.exists():
            partial = _partial(path)
            run_java("MakeLog", str(partial.relative_to(ROOT)), codec, str(S_RECORDS))
            partial.rename(path)
        return path

    def _ours(self, name: str, records: int, value_bytes: int, *, batch_bytes: int) -> Path:
        path = FOLDER / name
        if not path.exists():
            partial = _partial(path)
            encoder = BatchEncoder(BatchSettings(batch_bytes=batch_bytes))
            rows = _rows(records, value_bytes)
            with partial.open("wb") as file:
                while call := [row for row, _ in zip(rows, range(_CALL_RECORDS), strict=False)]:
                    file.write(encoder.encode(call))
            partial.rename(path)
        return path


def _rows(records: int, value_bytes: int) -> Iterator[tuple[bytes, bytes, tuple[()], int]]:
    source = random.Random(2)
    text = _text(source, 1 << 20)
    for index in range(records):
        start = source.randrange(len(text) - value_bytes)
        yield source.randbytes(KEY_BYTES), text[start : start + value_bytes], (), BASE_TIMESTAMP_MS + index


def _text(source: random.Random, size_bytes: int) -> bytes:
    words: list[str] = []
    length = 0
    while length < size_bytes:
        words.append(f"{source.choice(_WORDS)} {source.randrange(1_000_000)} ")
        length += len(words[-1])
    return "".join(words).encode()[:size_bytes]


def _partial(path: Path) -> Path:
    """Where a file is made before it gets its name, so that an interrupted run leaves nothing that looks complete."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return path.with_suffix(".partial")

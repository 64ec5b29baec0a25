"""The golden files can be made again: Kafka writes them into another folder, and they are the same, byte for byte.

Only where a codec library or JDK compresses otherwise may the bytes differ; then the records have to be the same.
"""

import json
from pathlib import Path
from typing import Any

from interop import golden_compaction
from interop.judge import Judge
from tests.support.golden import GOLDEN
from tidelog.errors import TidelogError
from tidelog.record import LegacyBatch, RecordBatch, read_batches

FAMILIES = ("batches", "compaction", "internal", "partitions", "recovery", "retain", "segments")
"""What is the same every time. The directory of a live broker, `broker`, is not."""
ABOUT_BYTES = {"crc", "position", "sha256", "size", "size_bytes", "sizes", "valid_bytes", "bytes_read", "bytes_written", "batches"}
"""What a document says about bytes, which another compression changes; `batches` in a step is what was handed in, compressed."""


def test_kafka_writes_the_golden_files_again(tmp_path: Path, judge: Judge) -> None:
    judge.write_golden(tmp_path)
    golden_compaction.write(tmp_path / "compaction", judge)
    assert files_in(tmp_path) == [path for path in files_in(GOLDEN) if path.parts[0] in FAMILIES]
    changed = sorted(differing(tmp_path))
    recompressed = {case_of(path) for path in changed if is_recompressed(GOLDEN / path, tmp_path / path)}
    assert [path for path in changed if case_of(path) not in recompressed] == []
    for path in changed:
        if path.suffix == ".json":
            old, new = (json.loads((folder / path).read_text()) for folder in (GOLDEN, tmp_path))
            assert without_bytes(old) == without_bytes(new), path
        elif path.suffix == ".log":
            assert records(GOLDEN / path) == records(tmp_path / path), path


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    name = Path("partitions/index-dense/closed/00000000000000000000.log")
    (tmp_path / name).parent.mkdir(parents=True)
    data = bytearray((GOLDEN / name).read_bytes())
    data[-1] ^= 1
    (tmp_path / name).write_bytes(data)
    assert list(differing(tmp_path)) == [name]
    assert not is_recompressed(GOLDEN / name, tmp_path / name)


def files_in(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def differing(folder: Path) -> list[Path]:
    """The files that are not the stored ones."""
    return [path for path in files_in(folder) if (folder / path).read_bytes() != (GOLDEN / path).read_bytes()]


def case_of(path: Path) -> str:
    """The family and the case: `batches/NAME` of `batches/NAME.log`, `partitions/NAME` of all files below it."""
    family, name = path.parts[:2]
    return f"{family}/{name if (GOLDEN / family / name).is_dir() else name.partition('.')[0]}"


def is_recompressed(old: Path, new: Path) -> bool:
    """Whether two files of batches have the same records, some of them compressed."""
    if ".log" not in old.suffixes:
        return False
    batches = batches_of(old)
    return any(str(batch.compression) != "none" for batch in batches) and records(old) == records(new)


def records(path: Path) -> list[Any]:
    return [list(batch) for batch in batches_of(path)]


def batches_of(path: Path) -> list[RecordBatch | LegacyBatch]:
    """The whole batches at the beginning of a file; some golden files are damaged on purpose."""
    batches = []
    try:
        for batch in read_batches(path.read_bytes()):
            list(batch)
            batches.append(batch)
    except TidelogError:
        pass
    return batches


def without_bytes(document: Any) -> Any:
    """A document without what depends on how well something was compressed."""
    if isinstance(document, dict):
        kept = {name: value for name, value in document.items() if name not in ABOUT_BYTES or (name == "batches" and "op" not in document)}
        return {name: without_bytes(value) for name, value in kept.items()}
    return [without_bytes(item) for item in document] if isinstance(document, list) else document

"""What workers prove ahead changes nothing about what verify finds."""

import random
from pathlib import Path

import pytest

from tests.support.job_topics import make_topic
from tidelog.disk.disk import OS
from tidelog.inspection.finding import Finding
from tidelog.inspection.partition_segments import segments_in
from tidelog.inspection.proofs import Proven, prove_piece
from tidelog.inspection.verify import Level, PartitionVerify, verify
from tidelog.log.segment_piece import cut_segments

NOW = 1_800_000_000_000


def proven_in(directory: Path, level: Level, piece_bytes: int) -> dict[int, Proven]:
    found: dict[int, Proven] = {}
    for piece in cut_segments(segments_in(str(directory)), piece_bytes):
        found[piece.base_offset] = (*found.get(piece.base_offset, ()), *prove_piece(piece, level))
    return found


def in_order(findings: list[Finding]) -> list[str]:
    return sorted(map(str, findings))


def with_proofs(directory: Path, level: Level, piece_bytes: int) -> list[str]:
    proven = proven_in(directory, level, piece_bytes)
    return in_order(list(PartitionVerify(str(directory), level=level, now_ms=NOW, disk=OS, proven=proven).run()))


@pytest.mark.parametrize("level", ["everything", "records"])
def test_same_findings_with_proofs_and_without(level: Level, tmp_path: Path) -> None:
    make_topic(tmp_path, batches=150)
    directory = tmp_path / "tide-0"
    assert with_proofs(directory, level, 3000) == in_order(list(verify(directory, level=level, now_ms=NOW)))
    proven = proven_in(directory, level, 3000)
    assert sum(end - start for own in proven.values() for start, end in own) == sum(p.stat().st_size for p in directory.glob("*.log"))
    chance = random.Random(5)
    logs = sorted(directory.glob("*.log"))
    seen = set()
    for _ in range(60):
        path = chance.choice(logs)
        before = path.read_bytes()
        data = bytearray(before)
        for _ in range(chance.choice([1, 1, 3])):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        path.write_bytes(data)
        expected = in_order(list(verify(directory, level=level, now_ms=NOW)))
        assert with_proofs(directory, level, chance.choice([1, 2000, 8000])) == expected
        seen |= {text.rpartition("[")[2].partition(";")[0] for text in expected}
        path.write_bytes(before)
    assert {"batch-crc", "framing-lost"} <= seen


def test_a_batch_that_is_damaged_is_not_proven(tmp_path: Path) -> None:
    make_topic(tmp_path, batches=20)
    directory = tmp_path / "tide-0"
    path = next(iter(sorted(directory.glob("*.log"))))
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    damaged = bytes(data)
    (stretches,) = (own for base, own in proven_in(directory, "everything", 1 << 30).items() if base == 0)
    assert stretches[0][0] > 70
    assert stretches[-1][1] == len(data)
    path.write_bytes(damaged[:70] + bytes([damaged[70] ^ 1]) + damaged[71:])

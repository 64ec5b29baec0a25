"""Random logs, random damage: what is intact is salvaged, nothing else is, and what is missing is said."""

import shutil
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tests.support.batches import message
from tests.support.logs import QuietDisk, numbered, open_log
from tidelog.disk.disk import Disk
from tidelog.inspection.salvage import salvage
from tidelog.inspection.salvage_report import SalvageReport
from tidelog.record import walk_headers


class Placed(NamedTuple):
    """A batch of the log as it was."""

    segment: int
    position: int
    first: int
    last: int
    data: bytes


@dataclass(frozen=True)
class Damage:
    kind: str
    segment: int
    where: float
    size: int


KINDS = ("flip", "zero", "delete", "insert", "missing", "cut")


def a_log(draw: st.DrawFn) -> list[list[bytes]]:
    """The batches of each segment, with offsets."""
    offset = draw(st.sampled_from((0, 7, 5_000_000_000)))
    segments = []
    for _ in range(draw(st.integers(1, 3))):
        batches = []
        for _ in range(draw(st.integers(1, 8))):
            count = draw(st.integers(1, 4))
            kind = draw(st.sampled_from(("plain", "plain", "plain", "gzip", "large", "legacy")))
            if kind == "legacy":
                batches.append(message(offset, b"k", str(offset).encode(), magic=draw(st.integers(0, 1))))
                count = 1
            else:
                settings: dict[str, Any] = {"compression": "gzip"} if kind == "gzip" else {}
                size = 3000 if kind == "large" else 8
                batches.append(numbered(offset, count, base_offset=offset, size=size, partition_leader_epoch=0, **settings))
            offset += count
        segments.append(batches)
    return segments


@st.composite
def logs(draw: st.DrawFn) -> list[list[bytes]]:
    return a_log(draw)


damages = st.lists(
    st.builds(
        Damage, st.sampled_from(KINDS), st.integers(0, 2), st.floats(0, 1, exclude_max=True), st.sampled_from((1, 1, 3, 17, 61, 80, 200))
    ),
    max_size=4,
)


def place(segments: list[list[bytes]]) -> list[Placed]:
    found = []
    for number, batches in enumerate(segments):
        position = 0
        for data in batches:
            headers = walk_headers(data)
            found.append(Placed(number, position, int(headers.base_offset[0]), int(headers.last_offset[0]), data))
            position += len(data)
    return found


def damaged(segments: list[list[bytes]], what: list[Damage]) -> tuple[list[bytes | None], list[list[int]]]:
    """The files afterwards, None where one is missing; and for every byte which one of the old file it is, -1 for a new or changed one."""
    files: list[bytearray | None] = [bytearray(b"".join(batches)) for batches in segments]
    origins = [list(range(sum(map(len, batches)))) for batches in segments]
    for damage in what:
        number = damage.segment % len(files)
        content, origin = files[number], origins[number]
        if content is None:
            continue
        at = int(damage.where * len(content))
        end = min(len(content), at + damage.size)
        if damage.kind == "flip" and content:
            content[at] ^= 1 << damage.size % 8
            origin[at] = -1
        elif damage.kind == "zero":
            for position in range(at, end):
                if content[position]:
                    content[position], origin[position] = 0, -1
        elif damage.kind == "delete":
            del content[at:end], origin[at:end]
        elif damage.kind == "insert":
            content[at:at] = b"\x02" * damage.size
            origin[at:at] = [-1] * damage.size
        elif damage.kind == "cut":
            del content[at:], origin[at:]
        elif damage.kind == "missing" and sum(file is not None for file in files) > 1:
            files[number] = None
    return [None if file is None else bytes(file) for file in files], origins


def intact(placed: list[Placed], files: list[bytes | None], origins: list[list[int]]) -> set[Placed]:
    """Batches of which every byte is there and none lies between."""
    found = set()
    for batch in placed:
        if files[batch.segment] is None:
            continue
        origin = origins[batch.segment]
        try:
            start = origin.index(batch.position)
        except ValueError:
            continue
        if origin[start : start + len(batch.data)] == list(range(batch.position, batch.position + len(batch.data))):
            found.add(batch)
    return found


def salvaged(directory: Path) -> list[bytes]:
    batches = []
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        headers = walk_headers(data)
        assert headers.end_position == len(data)
        for position, size in zip(headers.position.tolist(), headers.size_bytes.tolist(), strict=True):
            batches.append(data[position : position + size])
    return batches


def run(segments: list[list[bytes]], what: list[Damage], work: Path, disk: Disk | None = None) -> SalvageReport:
    placed = place(segments)
    files, origins = damaged(segments, what)
    source, target = work / "tide-0", work / "new" / "tide-0"
    source.mkdir()
    bases = [next(batch.first for batch in placed if batch.segment == number) for number in range(len(segments))]
    for base, content in zip(bases, files, strict=True):
        if content is not None:
            (source / f"{base:020d}.log").write_bytes(content)
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    report = salvage(source, target, disk=disk or QuietDisk())
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before

    found = salvaged(target)
    sound = intact(placed, files, origins)
    # Where the last byte of a batch was deleted and the next one begins with the same, the first of the two has it.
    previous = {behind: batch for batch, behind in pairwise(placed)}
    taken = {batch for batch in sound if batch in previous and previous[batch] not in sound and previous[batch].data in found}
    missing = [batch for batch in sound - taken if batch.data not in found]
    assert not missing, (missing, report)
    originals = {batch.data for batch in placed}
    bare = {batch.data[:8] + batch.data[12:] for batch in placed}
    for data in found:
        # What lies outside the CRC can be wrong and plausible at once: the offset of a last batch, an epoch.
        assert (
            data in originals
            or data[:8] + data[12:] in bare
            or data[17:] in {batch.data[17:] for batch in placed} - {batch.data[17:] for batch in sound}
        ), (data, report)
    there = {base: content for base, content in zip(bases, files, strict=True) if content is not None}
    check_lost(report, found, [*there])
    check_gaps(report, found, [*there.values()])
    with open_log(work / "new", {"max.message.bytes": 100_000}, disk=QuietDisk()) as log:
        assert log.log_end_offset == report.log_end_offset
        assert not log.load_report.cuts
        assert [record.offset for record in log.read()] == sorted(offsets_of(found))
    return report


def offsets_of(batches: list[bytes]) -> set[int]:
    present: set[int] = set()
    for data in batches:
        headers = walk_headers(data)
        present.update(range(int(headers.base_offset[0]), int(headers.last_offset[0]) + 1))
    return present


def check_lost(report: SalvageReport, found: list[bytes], bases: list[int]) -> None:
    """Between the first base offset and the end, every offset is there, lost, or in a gap, and none is two of them."""
    spans = sorted((min(offsets_of([data])), max(offsets_of([data]))) for data in found)
    expected = []
    next_offset = bases[0]
    for first, last in spans:
        if first > next_offset:
            expected.append((next_offset, first - 1))
        next_offset = last + 1
    if bases[-1] > next_offset:
        expected.append((next_offset, bases[-1] - 1))
    told = sorted((lost.first_offset, lost.last_offset) for lost in (*report.lost, *report.gaps) if lost.last_offset is not None)
    assert told == expected, report
    assert all(lost.first_offset == report.log_end_offset for lost in report.lost if lost.last_offset is None)


def check_gaps(report: SalvageReport, found: list[bytes], files: list[bytes]) -> None:
    """Lost is what bytes lie between that are no batches; a gap is where the next batch begins at the very byte at which one ended."""
    by_first = {min(offsets_of([data])): data for data in found}
    by_last = {max(offsets_of([data])): data for data in found}
    for ranges, is_gap in ((report.gaps, True), (report.lost, False)):
        for missing in ranges:
            before, behind = by_last.get(missing.first_offset - 1), by_first.get((missing.last_offset or -2) + 1)
            if before is not None and behind is not None:
                assert is_next(before, behind, files) == is_gap, (missing, report)
    if report.dropped_bytes == 0:
        assert report.lost == (), report


def is_next(before: bytes, behind: bytes, files: list[bytes]) -> bool:
    """Whether no byte lies between two batches, but for files that are empty. What lies outside of the CRC may have been restored."""
    number, end = next((number, at + len(before) - 21) for number, file in enumerate(files) if (at := file.find(before[21:])) >= 0)
    rest = [file for file in (files[number][end:], *files[number + 1 :]) if file]
    return bool(rest) and rest[0][21:].startswith(behind[21:])


@given(logs(), damages)
def test_what_is_intact_is_salvaged_and_what_is_missing_is_said(segments: list[list[bytes]], what: list[Damage]) -> None:
    work = Path(tempfile.mkdtemp())
    try:
        run(segments, what, work)
    finally:
        shutil.rmtree(work)


@given(logs())
def test_an_intact_log_is_copied_byte_for_byte(segments: list[list[bytes]]) -> None:
    work = Path(tempfile.mkdtemp())
    try:
        report = run(segments, [], work)
        assert report.is_complete
        for path in (work / "tide-0").iterdir():
            assert (work / "new" / "tide-0" / path.name).read_bytes() == path.read_bytes()
    finally:
        shutil.rmtree(work)

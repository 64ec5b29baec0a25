"""verify against a plain model: a list of batches, and bytes that were written over."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import TIME, a_batch
from tests.support.verified import write_epochs, write_segment
from tidelog.disk.disk import OS
from tidelog.inspection import verify
from tidelog.inspection.header_walk import HeaderWalk
from tidelog.inspection.segment_walk import SegmentWalk
from tidelog.inspection.walk_parts import Piece
from tidelog.log.log import Log

CODECS = st.sampled_from(["none", "none", "gzip", "lz4", "zstd", "snappy"])
SHAPES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3000), CODECS), min_size=1, max_size=12)


def batches_of(shapes: list[tuple[int, int, str]]) -> list[bytes]:
    batches, offset = [], 0
    for number, (count, size, compression) in enumerate(shapes):
        value = bytes((number + place * 7) & 0xFF for place in range(size))
        batches.append(
            a_batch(count, value=value, base_offset=offset, timestamp_ms=TIME + number, partition_leader_epoch=0, compression=compression)
        )
        offset += count
    return batches


def walked(walk: SegmentWalk) -> set[int]:
    """Where the batches start that the walk gives with a CRC that matches."""
    starts: set[int] = set()
    for part in walk:
        if isinstance(part, Piece):
            good = np.delete(part.headers.position, part.bad) + part.shift
            starts |= set(good.tolist())
    return starts


@given(SHAPES, st.data())
def test_damage_hides_no_batch_beside_it(shapes: list[tuple[int, int, str]], data: st.DataObject) -> None:
    batches = batches_of(shapes)
    content = bytearray(b"".join(batches))
    starts = [sum(map(len, batches[:number])) for number in range(len(batches))]
    # Near a header as often as not: that is where it hurts.
    near = st.sampled_from(starts).flatmap(lambda start: st.integers(start, min(start + 24, len(content) - 1)))
    position = data.draw(near | st.integers(0, len(content) - 1), label="position")
    written = data.draw(st.binary(min_size=1, max_size=300) | st.just(bytes(80)), label="written")[: len(content) - position]
    is_changed = content[position : position + len(written)] != written
    content[position : position + len(written)] = written
    touched = range(position, position + len(written))
    intact = {start for start, batch in zip(starts, batches, strict=True) if start + len(batch) <= touched.start or start >= touched.stop}
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        write_segment(directory, 0, batches)
        write_epochs(directory, (0, 0))
        (directory / "00000000000000000000.log").write_bytes(content)
        found = [finding for finding in verify(directory) if finding.severity != "note"]
        fd = OS.open_plain(f"{directory}/00000000000000000000.log")
        try:
            assert intact <= walked(SegmentWalk(OS, fd, len(content), 0, checks_crcs=True))
        finally:
            OS.close(fd)
    assert bool(found) == is_changed


@given(SHAPES, st.integers(0, 4000))
def test_a_log_cut_off_anywhere(shapes: list[tuple[int, int, str]], cut: int) -> None:
    batches = batches_of(shapes)
    content = b"".join(batches)
    ends = np.cumsum([len(batch) for batch in batches])
    kept = content[: max(0, len(content) - cut)]
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        write_segment(directory, 0, [batch for batch, end in zip(batches, ends, strict=True) if end <= len(kept)])
        (directory / "00000000000000000000.log").write_bytes(kept)
        found = [finding for finding in verify(directory) if finding.severity != "note" and finding.code != "epochs-missing"]
    is_whole = len(kept) in (0, *ends.tolist())
    assert [(finding.code in ("torn-tail", "zero-tail"), finding.severity) for finding in found] == (
        [] if is_whole else [(True, "warning")]
    )


@given(SHAPES)
def test_headers_alone_are_the_same_headers(shapes: list[tuple[int, int, str]]) -> None:
    content = b"".join(batches_of([(count, size * 10, codec) for count, size, codec in shapes]))
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        rows = []
        for walk_type in (SegmentWalk, HeaderWalk):
            pieces = [
                np.column_stack([part.headers.position + part.shift, *(getattr(part.headers, name) for name in COMPARED)]).copy()
                for part in walk_type(OS, file.fileno(), len(content), 0, checks_crcs=walk_type is SegmentWalk)
                if isinstance(part, Piece)
            ]
            rows.append(np.concatenate(pieces))
    assert (rows[0] == rows[1]).all()


COMPARED = ("size_bytes", "base_offset", "last_offset", "max_timestamp_ms", "producer_id", "partition_leader_epoch", "count", "crc")

APPENDED = st.lists(st.tuples(st.integers(1, 3), st.integers(-5, 5), st.booleans()), max_size=8)


@settings(max_examples=15)
@given(APPENDED)
def test_what_we_write_is_in_order(appended: list[tuple[int, int, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "tide-0"
        config = {"index.interval.bytes": "100", "internal.segment.bytes": "600", "flush.messages": str(2**63 - 1)}
        with Log.open(directory, config=config, clock=lambda: TIME) as log:
            for count, ms, rolls in appended:
                log.append(a_batch(count, timestamp_ms=TIME + ms))
                if rolls:
                    log.roll()
                assert [finding for finding in verify(directory, level="records") if finding.severity != "note"] == []
        assert [finding for finding in verify(directory, level="records") if finding.severity != "note"] == []

"""What `tidelog dump` does, whoever has understood its options: files are found, walked, and printed piece by piece.

It is here, apart from the command, because it loads no parser of options: see `tidelog.cli.plain_arguments`.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidelog.cli.dump_json import JsonLines
from tidelog.cli.dump_text import TextLines
from tidelog.cli.output import plain, progress
from tidelog.cli.plain_arguments import DumpOptions
from tidelog.cli.record_runs import stretches
from tidelog.cli.sound_segment import RecordSource, SoundPiece, SoundSegment
from tidelog.cli.sources import reading_disk, tell_what_is_odd
from tidelog.disk.disk import OS, Disk
from tidelog.disk.names import LOG, TopicPartition, parse_partition, parse_segment_file
from tidelog.errors import TidelogError

if TYPE_CHECKING:
    from tidelog.inspection.dump import DumpedFile
    from tidelog.inspection.walk_parts import Piece


def dump_files(paths: Iterable[Path], asked: DumpOptions) -> None:
    """Print what lies in files, and in those of directories."""
    lines: TextLines | JsonLines = JsonLines(raw=asked.raw) if asked.as_json else TextLines(payloads=asked.records, raw=asked.raw)
    files = [file for path in paths for file in _files(path)]
    job = _Job(lines, records=asked.records or asked.deep, skip_damage=asked.skip_damage)
    bytearray(_KEPT_BYTES)  # freed at once: see there
    with reading_disk("dump", asked.io_limit, total_bytes=_size(files), beside_results=True) as disk:
        for file in files:
            _dump(file, job, disk)


_KEPT_BYTES = 24 << 20
"""What the C library sees freed once, it does not give back to the system when as much is freed again: each piece has use for it."""


class _Job(NamedTuple):
    """How files are shown."""

    lines: TextLines | JsonLines
    records: bool
    skip_damage: bool


def _files(path: Path) -> "Iterator[DumpedFile | Segment]":
    """What a path stands for. A segment that is named by itself needs nothing but its name."""
    parsed = parse_segment_file(path.name)
    if parsed is not None and parsed.kind == LOG and path.is_file():
        yield Segment(str(path), parsed.base_offset, parse_partition(path.absolute().parent.name))
        return
    from tidelog.inspection.dump import dumped_files

    if path.is_dir():
        tell_what_is_odd(path, OS)
    yield from dumped_files(str(path))


class Segment(NamedTuple):
    """A `.log` file, by its name."""

    path: str
    base_offset: int
    partition: TopicPartition | None
    entries: None = None
    has_offset_of: None = None

    @property
    def shown_path(self) -> str:
        """As it is printed."""
        return self.path if self.path.isprintable() else plain(self.path)

    @property
    def log_start(self) -> int:
        """What its name says about its first offset."""
        return self.base_offset


def _size(files: "list[DumpedFile | Segment]") -> int:
    total = 0
    for file in files:
        try:
            total += Path(file.path).stat().st_size
        except OSError:
            continue  # gone, or not to be read: it will be told
    return total


def _dump(file: "DumpedFile | Segment", job: _Job, disk: Disk) -> None:
    write, lines = sys.stdout.write, job.lines
    try:
        write(lines.begin(file))
        if file.entries is None:
            _dump_segment(file, job, disk)
        else:
            write("".join(map(lines.entry, file.entries(disk, file.path, file.base_offset))) or lines.nothing(file))
    except FileNotFoundError:
        return  # its owner has removed it meanwhile
    except BrokenPipeError:
        raise
    except (TidelogError, OSError) as error:
        from tidelog.inspection.side_file_checks import unreadable

        write(lines.finding(unreadable(error, file.path)))


def _dump_segment(file: "DumpedFile | Segment", job: _Job, disk: Disk) -> None:
    sound = SoundSegment(disk, file.path, file.partition)
    for piece in sound.pieces():
        _write_piece(piece, sound, job)
    if sound.is_whole:
        return
    from tidelog.inspection.dump_segment import SegmentDump
    from tidelog.inspection.finding import Finding

    segment = SegmentDump(disk, file.path, file.base_offset, file.partition, skip_damage=job.skip_damage)
    for part in segment.parts(sound.position, sound.last_offset):
        if isinstance(part, Finding):
            sys.stdout.write(job.lines.finding(part))
        else:
            _write_piece(part, segment, job)
    if segment.stopped_at is not None:
        progress(f"{file.shown_path}: stopped at byte {segment.stopped_at}, where no batch follows; --skip-damage goes on behind it")


def _write_piece(piece: "Piece | SoundPiece", segment: RecordSource, job: _Job) -> None:
    write, lines = sys.stdout.write, job.lines
    batches, bad = lines.piece(piece), set(piece.bad.tolist())
    if not bad and not job.records:
        write("".join(batches))
        return
    if not job.records or not lines.takes_runs(segment):
        write("".join([_batch(batch, row, piece, segment, job, is_valid=row not in bad) for row, batch in enumerate(batches)]))
        return
    for first, last, run in stretches(piece):
        if run is None:
            shown = [_batch(batches[row], row, piece, segment, job, is_valid=row not in bad) for row in range(first, last)]
        else:
            shown = [text for pair in zip(batches[first:last], run.by_batch(lines.run(segment, run)), strict=True) for text in pair]
        write("".join(shown))


def _batch(batch: str, row: int, piece: "Piece | SoundPiece", segment: RecordSource, job: _Job, *, is_valid: bool) -> str:
    """The line of a batch, and those of its records, or why they are not shown."""
    if not is_valid or piece.view is None:
        trouble = segment.trouble(piece, row, is_valid=is_valid, records=job.records)
        return batch if trouble is None else batch + job.lines.finding(trouble)
    if not job.records:
        return batch
    try:
        return batch + job.lines.records(segment, piece, row)
    except TidelogError as error:
        return batch + job.lines.finding(segment.unreadable_records(piece, row, error))

"""`tidelog salvage`: copy what is sound of damaged logs into a new directory."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.output import note, plain, print_json, print_line
from tidelog.cli.sources import reading_disk, tell_what_is_odd
from tidelog.cli.targets import Target, partition_directories, refuse_inside, target_of
from tidelog.errors import NO_DIRECTORY, InvalidConfigError, LogNotFoundError, StorageError
from tidelog.plurals import counted

if TYPE_CHECKING:
    from tidelog.inspection.salvage_report import SalvageReport


def command(
    directory: options.Directory,
    topic: options.AnyTopic = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="NEW", help="A directory that is new, or empty.")] = None,
    as_json: options.Json = False,
    io_limit: options.IoLimit = None,
) -> None:
    """Copy what is sound of damaged logs into a new directory, with the same offsets, and say what is lost.

    At once: the source is only read, and may be a broker's own or lie on a disk that fails. Each partition gets a directory of its name in
    the new one; bad bytes are kept beside it in files of their own. Nothing is ever overwritten.
    """
    if output is None:
        raise InvalidConfigError("salvage to where?", hint="-o NEW names a directory that is not there yet")
    target = target_of(directory, topic)
    refuse_inside(target, output)
    sources = partition_directories(target)
    if not sources:
        raise LogNotFoundError("no partitions to salvage", path=str(directory), hint=NO_DIRECTORY)
    _check(sources, output)
    lost = 0
    made: list[Path] = []
    missing = [path for path in (output.absolute(), *output.absolute().parents) if not path.exists()]
    with reading_disk("salvage", io_limit, total_bytes=sum(map(_size, sources))) as disk:
        from tidelog.inspection.salvage import salvage

        tell_what_is_odd(target.root, disk)
        try:
            for source in sources:
                report = salvage(source, _new(target, source, output), disk=disk)
                made.append(_new(target, source, output))
                lost += 0 if report.is_complete else 1
                _print(report, as_json=as_json)
        except KeyboardInterrupt:
            _take_back(made, missing)
            raise
    if not as_json and len(sources) > 1:
        print_line(f"salvage: {len(sources)} partitions, {lost} with losses")


def _new(target: Target, source: str, output: Path) -> Path:
    """Where a partition goes: under its name, unless the new directory has that name itself."""
    name = Path(source).name
    return output if target.partition is not None and output.name == name else output / name


def _take_back(made: list[Path], missing: list[Path]) -> None:
    """Of an interrupted run nothing stays, so that it can be made again: what this one has made goes, and nothing else."""
    for path in made:
        shutil.rmtree(path)
    for path in missing:
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    if made:
        note(f"interrupted: {counted(len(made), 'partition')} that had been salvaged {'is' if len(made) == 1 else 'are'} gone again")


def _check(sources: list[str], output: Path) -> None:
    """Nothing is overwritten, and what is begun has room to be finished."""
    from tidelog.store.log_care import check_space

    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise StorageError("it is not empty", path=str(output), hint="salvage never overwrites: name a new directory")
    above = output.absolute()
    while not above.exists():
        above = above.parent
    check_space(str(above), sum(map(_size, sources)))


def _size(source: str) -> int:
    return sum(file.stat().st_size for file in Path(source).glob("*.log"))


def _print(report: "SalvageReport", *, as_json: bool) -> None:
    if as_json:
        facts: dict[str, Any] = report.to_json()
        print_json(facts | {"command": "salvage", "is_complete": report.is_complete})
        return
    for line in str(report).splitlines():
        print_line(plain(line))

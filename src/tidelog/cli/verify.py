"""`tidelog verify`: what is wrong with directories and files."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.on_spark import job, refuse_io_limit, shows_progress, spark_session
from tidelog.cli.output import FOUND, has_colours, plain, print_json, print_line
from tidelog.cli.progress import clear_drawn
from tidelog.cli.sources import partition_at, reading_disk
from tidelog.errors import NO_DIRECTORY, InvalidConfigError, LogNotFoundError

if TYPE_CHECKING:
    from tidelog.disk.disk import Disk
    from tidelog.inspection.finding import Finding
    from tidelog.inspection.verify import Level

_LEVELS = ("headers", "everything", "records")
_COLOURS = {"error": "\x1b[31m", "warning": "\x1b[33m", "note": "\x1b[2m"}
_OF_STORES = ("partition-missing", "partition-elsewhere")
_PLURALS = (("error", "errors"), ("warning", "warnings"), ("note", "notes"))


def _complete_level() -> list[str]:
    return list(_LEVELS)


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Data directories, directories of partitions, or files of a log.")],
    level: Annotated[
        str,
        typer.Option(
            "--level",
            "-l",
            autocompletion=_complete_level,
            help="headers: framing, offsets, indexes; everything: and every CRC; records: and every record.",
        ),
    ] = "everything",
    spark: options.Spark = None,
    as_json: options.Json = False,
    io_limit: options.IoLimit = None,
) -> None:
    """Say what is wrong with directories and files of a log, and what would mend it.

    Nothing is written and no lock is taken: the directory may be that of a broker that runs. The exit code is 1 for errors and warnings;
    notes are no trouble. Of a store that has several log directories give all: only together they tell whether a partition is missing.
    """
    depth = _level(level)
    if spark is not None:
        refuse_io_limit(io_limit)
        _end(_by_spark(paths, depth, spark), len(paths), as_json=as_json, level=level)
        return
    for path in paths:
        if not path.exists() and not path.is_symlink():
            raise LogNotFoundError("no such file or directory", path=str(path), hint=NO_DIRECTORY)
    total = None if depth == "headers" else sum(map(_size, paths))
    with reading_disk("verify", io_limit, total_bytes=total) as disk:
        _end(_findings(paths, depth, disk), len(paths), as_json=as_json, level=level)


def _level(text: str) -> "Level":
    for known in _LEVELS:
        if text == known:
            return known  # type: ignore[return-value]
    raise InvalidConfigError(f"no such level: {text!r}", hint=f"one of {', '.join(_LEVELS)}")


def _findings(paths: list[Path], level: "Level", disk: "Disk") -> "Iterator[Finding]":
    from tidelog.inspection.verify import verify, verify_files
    from tidelog.inspection.verify_log_directory import verify_log_directory

    whole = _whole_directories(paths)
    for path in paths:
        if not path.is_dir():
            yield from verify_files([path], level=level, disk=disk)
        elif _is_partition(path):
            yield from verify(path.resolve(), level=level, disk=disk)
        else:
            yield from verify_log_directory(path, level=level, disk=disk, beside=whole)


def _whole_directories(paths: list[Path]) -> list[Path]:
    return [path for path in paths if path.is_dir() and not _is_partition(path)]


def _told_once(findings: "Iterable[Finding]") -> "Iterator[Finding]":
    """What several log directories of one store have to say about it is the same."""
    told: set[Finding] = set()
    for finding in findings:
        if finding.code in _OF_STORES:
            if finding in told:
                continue
            told.add(finding)
        yield finding


def _is_partition(path: Path) -> bool:
    """Also one without a segment, as long as nothing in it could be a partition."""
    from tidelog.disk.names import parse_partition

    return partition_at(path) is not None or (
        parse_partition(path.resolve().name) is not None and not any(map(Path.is_dir, path.iterdir()))
    )


def _by_spark(paths: list[Path], level: "Level", master: str) -> "Iterator[Finding]":
    """Findings of whole directories; what is smaller needs no Spark."""
    for path in paths:
        if not path.is_dir() or _is_partition(path):
            raise InvalidConfigError(f"--spark is about whole data directories: {path}", hint="leave it out for partitions and files")
    with spark_session(master) as session:
        for path in paths:
            beside = [other.resolve() for other in paths]
            yield from job("verify")(session, path.resolve(), level=level, progress=shows_progress(), beside=beside).findings


def _end(findings: "Iterable[Finding]", paths: int, *, as_json: bool, level: str) -> None:
    """Print what is found, as it is found, then how much that was; end with exit code 1 if it is more than notes."""
    counts: Counter[str] = Counter()
    is_coloured = has_colours()
    for finding in _told_once(findings):
        counts[finding.severity] += 1
        clear_drawn()
        if as_json:
            print_json(finding.to_json())
        else:
            text = plain(str(finding))
            colour = _COLOURS[finding.severity] if is_coloured else ""
            print_line(f"{colour}{finding.severity}\x1b[0m{text.removeprefix(finding.severity)}" if colour else text)
    clear_drawn()
    is_sound = not counts["error"] and not counts["warning"]
    result = {"type": "result", "command": "verify", "level": level, "paths": paths, "is_sound": is_sound}
    result |= {several: counts[one] for one, several in _PLURALS}
    if as_json:
        print_json(result)
    else:
        print_line(f"verify: {_summary(result)}")
    if not is_sound:
        raise typer.Exit(FOUND)


def _summary(result: dict[str, Any]) -> str:
    told = [f"{result[several]} {one if result[several] == 1 else several}" for one, several in _PLURALS if result[several]]
    return ", ".join(told) if told else f"in order (level {result['level']})"


def _size(path: Path) -> int:
    try:
        if path.is_file():
            return path.stat().st_size
        return sum(found.stat().st_size for found in path.rglob("*.log") if found.is_file())
    except OSError:
        return 0  # gone, or not to be read: it will be told

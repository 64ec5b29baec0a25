"""`tidelog report`: one page about a directory."""

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli import options
from tidelog.cli.amounts import format_size
from tidelog.cli.output import print_json, print_line
from tidelog.cli.positions import resolve_time
from tidelog.cli.sources import open_store, partition_at, reading_disk
from tidelog.errors import InvalidConfigError
from tidelog.plurals import counted


def command(
    directory: options.Directory,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the page goes: a new file, outside of the directory.")
    ] = None,
    records: Annotated[
        bool, typer.Option("--records", "-r", help="Read every record: keys, tombstones, checksums. Otherwise headers only.")
    ] = False,
    config: options.Config = None,
    now: Annotated[str | None, typer.Option("--now", help="As if it were this time.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts of the page as one JSON object.")] = False,
    io_limit: options.IoLimit = None,
) -> None:
    """Write one HTML page: strata of segments, what goes when, throughput, distributions, findings.

    The page needs nothing else: no network, no script. It has the facts in it as JSON. Nothing is written to the directory.
    """
    if output is None and not as_json:
        raise InvalidConfigError("where should the page go?", hint="-o FILE writes it, --json prints its facts")
    only = partition_at(directory)
    root = directory if only is None else directory.resolve().parent
    if output is not None:
        _refuse(output, root)
    from tidelog.record.kernel.clock import wall_clock
    from tidelog.report import build_page, gather

    now_ms = wall_clock() if now is None else resolve_time(now, "now", wall_clock())
    total_bytes = 2 * _size(directory) if records else None  # figures, then verify
    given = options.settings(config)
    with (
        reading_disk("report", io_limit, total_bytes=total_bytes) as disk,
        open_store(root, disk, given, tells=only is None) as store,
    ):
        facts = gather(store, disk, only=only, records=records, now_ms=now_ms)
    if output is not None:
        _write(output, build_page(facts))
    if as_json:
        print_json(facts.to_json())
    elif output is not None:
        totals, found = facts.totals, facts.soundness
        what = f"{counted(totals.records, 'record')}, {counted(totals.segments, 'segment')}, {format_size(totals.size_bytes)}"
        counts = ", ".join((counted(found.errors, "error"), counted(found.warnings, "warning"), counted(found.notes, "note")))
        print_line(f"{output}: {what}; {counts}")


def _refuse(output: Path, root: Path) -> None:
    """Before anything is read: an output that is there already, that cannot be made, or that would lie in the data directory itself."""
    if output.is_symlink() or output.exists():
        raise InvalidConfigError("it is there already, and is not overwritten", path=str(output), hint="-o and another name")
    if not output.absolute().parent.is_dir():
        raise InvalidConfigError("no such directory", path=str(output.absolute().parent), hint="make it, or give -o another place")
    if output.resolve().is_relative_to(root.resolve()):
        hint = "a broker's directory holds nothing but its own"
        raise InvalidConfigError("the page would lie in the directory that it is about", path=str(output), hint=hint)


def _size(directory: Path) -> int:
    try:
        return sum(path.stat().st_size for path in directory.glob("**/*.log"))
    except OSError:
        return 0  # something is gone, or cannot be read: it will be told


def _write(output: Path, page: str) -> None:
    """All of it or nothing, and never over something else."""
    stream = output.open("x", encoding="utf-8", newline="\n")
    try:
        with stream:
            stream.write(page)
    except BaseException:  # an interrupt too: half a page must not stay
        output.unlink(missing_ok=True)
        raise

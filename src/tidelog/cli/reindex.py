"""`tidelog reindex`: build all indexes and producer snapshots anew."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from tidelog.cli import options
from tidelog.cli.amounts import format_size
from tidelog.cli.applying import Plan, change_log, is_to_be_applied
from tidelog.cli.caring import check_before_change
from tidelog.cli.on_spark import job, refuse_io_limit, shows_progress, spark_session
from tidelog.cli.output import FAILED, note, plain, print_json, print_line, progress
from tidelog.cli.repair import settings_at
from tidelog.cli.sources import reading_disk, tell_what_is_odd
from tidelog.cli.targets import Target, bytes_of, own_directories, target_of
from tidelog.errors import DamagedLogError, InvalidConfigError, TidelogError
from tidelog.plurals import counted

if TYPE_CHECKING:
    from tidelog.disk.disk import Disk
    from tidelog.inspection.reindex import ReindexReport

_BYTES_OF_INDEX = 128
"""An index has an entry of twenty bytes for some four kibibytes of a log: so many bytes of the log need one at most."""


class _Found(NamedTuple):
    reports: "list[ReindexReport]"
    failures: list[tuple[str, TidelogError]]


def command(
    directory: options.Directory,
    topic: options.AnyTopic = None,
    spark: options.Spark = None,
    apply: options.Apply = False,
    as_json: options.Json = False,
    io_limit: options.IoLimit = None,
) -> None:
    """Build indexes and producer snapshots anew from the batches, where they are not what they should be.

    As a recovery of the whole log would leave them. Batches are never touched. The plan is printed; --apply does it. A log with damage
    inside is left as it is, and the exit code is 3: repair and salvage are for that.
    """
    target = target_of(directory, topic)
    if spark is not None:
        refuse_io_limit(io_limit)
        if target.partition is not None:
            raise InvalidConfigError("--spark is about whole topics", hint="leave it out for one partition")
        with spark_session(spark) as session:
            found = _on_spark(session, target, dry_run=True)
            failed = _go_on(target, found, lambda: _on_spark(session, target, dry_run=False), apply=apply, as_json=as_json)
    else:
        paths = own_directories(target)
        total_bytes = (bytes_of(target) or 0) * (2 if apply else 1)  # once for the plan
        with reading_disk("reindex", io_limit, total_bytes=total_bytes) as disk:
            tell_what_is_odd(target.root, disk)
            found = _here(target, paths, disk, dry_run=True)
            failed = _go_on(target, found, lambda: _here(target, paths, disk, dry_run=False), apply=apply, as_json=as_json)
    if failed:
        raise typer.Exit(FAILED)


def _go_on(target: Target, found: _Found, work: Any, *, apply: bool, as_json: bool) -> bool:
    """Print the plan, and do it if that is wanted: whether something could not be done."""
    steps = [_step(report, name, why) for report in found.reports for name, why in report.changed]
    for report in found.reports:
        if report.note is not None:
            progress(f"{Path(report.directory).name}: {plain(report.note)}")
    _tell(found.failures)
    size_bytes = sum(report.size_bytes for report in found.reports)
    summary = f"{counted(len(steps), 'file')}, from {format_size(size_bytes)} of batches" if steps else ""
    if not is_to_be_applied(Plan("reindex", summary, tuple(steps)), apply=apply, as_json=as_json):
        return bool(found.failures)
    check_before_change(target, needed_bytes=size_bytes // _BYTES_OF_INDEX)
    with change_log():
        done: _Found = work()
        for report in done.reports:
            if as_json and report.changed:
                print_json(
                    {"type": "result", "command": "reindex", "directory": report.directory, "files": [name for name, _ in report.changed]}
                )
            elif report.changed:
                print_line(f"{plain(Path(report.directory).name)}: {counted(len(report.changed), 'file')} built anew")
    new = [failure for failure in done.failures if failure[0] not in {path for path, _ in found.failures}]
    _tell(new)
    return bool(done.failures)


def _step(report: "ReindexReport", name: str, why: str) -> dict[str, Any]:
    what = f"{Path(report.directory).name}: build {name} anew: {why}"
    return {"what": what, "directory": report.directory, "file": name, "why": why}


def _tell(failures: list[tuple[str, TidelogError]]) -> None:
    for path, error in failures:
        note(f"error: {Path(path).name}: left as it is: {plain(str(error))}")


def _here(target: Target, paths: list[str], disk: "Disk", *, dry_run: bool) -> _Found:
    from tidelog.inspection.reindex import reindex
    from tidelog.record.kernel.clock import wall_clock

    reports, failures = [], []
    for path in paths:
        try:
            reports.append(reindex(path, config=settings_at(target, path, disk), dry_run=dry_run, now_ms=wall_clock(), disk=disk))
        except DamagedLogError as error:
            failures.append((path, error))
    return _Found(reports, list(failures))


def _on_spark(session: Any, target: Target, *, dry_run: bool) -> _Found:
    result = job("reindex")(session, target.path, target.topic, dry_run=dry_run, progress=shows_progress())
    return _Found(list(result.reports), [(str(partition), error) for partition, error in result.failures])

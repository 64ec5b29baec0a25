"""`tidelog forget`: topics without some keys, with the proof that nothing of them is left."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli import options
from tidelog.cli.amounts import format_size
from tidelog.cli.applying import Plan, change_log, is_to_be_applied
from tidelog.cli.caring import check_before_change, place
from tidelog.cli.on_spark import job_module, tasks_for
from tidelog.cli.output import note, plain, print_json, print_line
from tidelog.cli.sources import tell_what_is_odd
from tidelog.cli.targets import bytes_of, changing_store, refuse_others, refuse_partition, target_of
from tidelog.disk.disk import OS
from tidelog.errors import InvalidConfigError, InvalidTopicError, LogNotFoundError
from tidelog.plurals import counted


def command(
    directory: options.StoreDirectory,
    topic: options.Topic,
    key: Annotated[list[str] | None, typer.Option("--key", "-k", help="A key; may be given several times.")] = None,
    key_file: Annotated[Path | None, typer.Option("--key-file", metavar="FILE", help="Keys, one a line.")] = None,
    remove_kept_aside: Annotated[
        bool, typer.Option("--remove-kept-aside", help="Also remove files that were kept aside and have a key in them.")
    ] = False,
    spark: options.Spark = None,
    apply: options.Apply = False,
    as_json: options.Json = False,
    io_limit: options.IoLimit = None,
) -> None:
    """Remove all records with some keys from a topic, and prove that nothing of them is left in its files.

    All versions of a key go, tombstones too; values of other records that quote it are counted, and stay. The plan is printed; --apply does
    it. What it removes cannot be had back.
    """
    keys = _keys(key, key_file)
    refuse_others(directory)
    target, job = target_of(directory, topic), job_module("forget")
    refuse_partition(target, "forget")
    tell_what_is_odd(target.root, OS)
    asked, title = job.ForgetOptions(remove_kept_aside), f"forget keys of {topic}"
    wanted = _wanted(topic, keys)
    with tasks_for(spark, title, io_limit=io_limit, total_bytes=bytes_of(target)) as tasks:
        planned = job.plan_forget(tasks, target.path, [topic], wanted, asked)
    for path in planned.kept_aside if not remove_kept_aside else ():
        note(f"{plain(path)}: kept aside, with a key in it; --remove-kept-aside removes it")
    rewritten = [one for one in planned.partitions if one.records]
    removed = planned.kept_aside if remove_kept_aside else ()
    steps = (*map(_step, rewritten), *map(_removal, removed))
    summary = f"{counted(planned.records, 'record')} of {counted(len(wanted), 'key')}"
    summary += f", {counted(len(removed), 'file')} kept aside" if removed else ""
    if not is_to_be_applied(Plan("forget", summary if steps else "", steps), apply=apply, as_json=as_json):
        return
    check_before_change(target, needed_bytes=sum(one.bytes_before for one in rewritten))  # all are written before the first is swapped in
    total_bytes = 2 * sum(one.bytes_before for one in planned.partitions) + sum(one.bytes_before for one in rewritten)  # search, prove
    with (
        change_log(),
        changing_store(directory) as store,
        tasks_for(spark, title, staged_beside=target.path, io_limit=io_limit, total_bytes=total_bytes) as tasks,
    ):
        done = job.run_forget(tasks, store, [topic], wanted, asked)
    _print(done, as_json=as_json)


def _keys(given: list[str] | None, file: Path | None) -> list[bytes]:
    keys = list(map(options.typed_bytes, given or ()))
    if file is not None:
        try:
            data = file.read_bytes()
        except FileNotFoundError as error:
            raise LogNotFoundError("no such file", path=str(file), hint="--key-file names one with a key a line") from error
        lines = (line.removesuffix(b"\r") for line in data.split(b"\n"))  # any other \r is part of a key
        keys += [line for line in lines if line]
    if not keys:
        raise InvalidConfigError("forget what?", hint="--key KEY, or --key-file FILE with one a line")
    return keys


def _wanted(topic: str, keys: list[bytes]) -> frozenset[bytes]:
    from tidelog.store.topic_names import INTERNAL_TOPICS

    if topic in INTERNAL_TOPICS:
        raise InvalidTopicError(
            "a topic that Kafka keeps for itself", found=topic, expected="a topic of records", hint="its keys are not yours"
        )
    return frozenset(keys)


def _step(one: Any) -> dict[str, Any]:
    what = f"{one.partition}: remove {counted(one.records, 'record')}, rewrite {counted(one.segments, 'segment')}"
    return {"what": f"{what} ({format_size(one.bytes_before)})"} | place(one.partition) | _facts(one)


def _removal(path: str) -> dict[str, Any]:
    """A file that was kept aside goes as a whole: it is of no log any more."""
    return {"what": f"remove {path}, which was kept aside and has a key in it", "path": path}


def _facts(one: Any) -> dict[str, Any]:
    facts = {"records": one.records, "segments": one.segments, "bytes_before": one.bytes_before, "bytes_after": one.bytes_after}
    return facts | {"quoted_in_values": one.quoted_in_values, "quoted_elsewhere": one.quoted_elsewhere}


def _print(done: Any, *, as_json: bool) -> None:
    if not as_json:
        for line in str(done).splitlines():
            print_line(plain(line))
        return
    for one in done.partitions:
        print_json({"type": "partition"} | place(one.partition) | _facts(one))
    proof = {name: getattr(done.proof, name) for name in type(done.proof).__dataclass_fields__}
    result = {"type": "result", "command": "forget", "records": done.records, "removed": list(done.kept_aside)}
    print_json(result | {"proof": proof})

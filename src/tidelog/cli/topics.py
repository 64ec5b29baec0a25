"""`tidelog topics`: list, create, delete and describe the topics of a store."""

from typing import Annotated, Any

import typer

from tidelog.cli import describe, ls, options
from tidelog.cli.amounts import format_size
from tidelog.cli.applying import Plan, change_log, is_to_be_applied
from tidelog.cli.caring import check_before_change
from tidelog.cli.output import print_json, print_line, progress
from tidelog.cli.registry import new_app
from tidelog.cli.sources import open_store, reading_disk
from tidelog.cli.targets import STORE_FILE, changing_store, refuse_others, target_of
from tidelog.errors import TidelogError
from tidelog.plurals import counted

app = new_app(help="List, create, delete or describe topics.", no_args_is_help=True)


@app.command("list")
def list_topics(
    directory: options.Directory,
    internal: Annotated[bool, typer.Option("--internal/--no-internal", help="Also the topics that Kafka keeps for itself.")] = True,
    as_json: options.Json = False,
) -> None:
    """List topics, with sizes, offsets and times; the same as `ls`."""
    ls.command(directory, None, segments=False, internal=internal, as_json=as_json)


@app.command("describe")
def describe_topic(
    directory: options.Directory,
    topic: options.Topic,
    config: options.Config = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="Also the settings that have their default.")] = False,
    as_json: options.Json = False,
) -> None:
    """Show a topic: ids, partitions, offsets, settings; the same as `describe`."""
    describe.command(directory, topic, config, every=every, as_json=as_json)


@app.command("create")
def create_topic(
    directory: options.StoreDirectory,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Its name.")],
    partitions: Annotated[int | None, typer.Option("--partitions", "-p", min=1, help="How many; 1 unless it is given.")] = None,
    config: options.Config = None,
    exist_ok: Annotated[bool, typer.Option("--exist-ok", help="One that is there already is fine, however it is set.")] = False,
    as_json: options.Json = False,
) -> None:
    """Create a topic, and the store if there is none. At once.

    Without a word about retention.ms it keeps its records for ever.
    """
    is_new = not (directory / STORE_FILE).exists()
    if is_new and directory.is_dir() and any(directory.iterdir()):
        refuse_others(directory)
    with changing_store(directory, create=True) as store:
        there = topic in {found.name for found in store.topics()}
        made = store.create_topic(topic, partitions, options.settings(config), exist_ok=exist_ok)
        described = made.describe()
    if is_new:
        progress(f"{directory}: a new store")
    if as_json:
        print_json(describe.topic_object(described) | {"is_new": not there})
    else:
        word = "is there already" if there else "created"
        print_line(f"{topic} {word}: {counted(described.partitions, 'partition')}")


@app.command("delete")
def delete_topic(
    directory: options.StoreDirectory,
    topic: options.Topic,
    apply: options.Apply = False,
    as_json: options.Json = False,
) -> None:
    """Delete a topic, and the positions of all groups in it.

    Its directories are renamed at once, and removed when file.delete.delay.ms has passed: by whoever has the store open then, or by retain.
    """
    refuse_others(directory)
    target = target_of(directory, topic)
    with reading_disk("topics delete", None) as disk, open_store(directory, disk) as store:
        steps = [_step(topic, number, store.topic(topic).log) for number in store.topic(topic).partition_ids()]
    size_bytes = sum(step["size_bytes"] for step in steps)
    summary = f"{topic}: {counted(len(steps), 'partition')}, {format_size(size_bytes)}"
    if not is_to_be_applied(Plan("topics delete", summary, tuple(steps)), apply=apply, as_json=as_json):
        return
    check_before_change(target)
    with change_log() as logger, changing_store(directory) as store_:
        store_.delete_topic(topic)
        logger.info("deleted topic %s", topic)
    if as_json:
        print_json({"type": "result", "command": "topics delete", "topic": topic, "partitions": len(steps), "size_bytes": size_bytes})
    else:
        print_line(f"{topic} deleted")


def _step(topic: str, partition: int, open_log: Any) -> dict[str, Any]:
    step: dict[str, Any] = {"topic": topic, "partition": partition}
    try:
        log = open_log(partition)
        offsets, size_bytes = log.log_end_offset - log.log_start_offset, log.size_bytes
    except TidelogError as error:
        return {"what": f"delete {topic}-{partition}, which cannot be read: {error}"} | step | {"size_bytes": 0, "offsets": None}
    what = f"delete {topic}-{partition}: {counted(offsets, 'offset')}, {format_size(size_bytes)}"
    return {"what": what} | step | {"size_bytes": size_bytes, "offsets": offsets}

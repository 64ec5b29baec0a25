"""`tidelog dump`: what lies in the files of a log."""

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli import options
from tidelog.cli.dump_files import dump_files
from tidelog.cli.plain_arguments import DumpOptions


def command(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Files of a log, directories of partitions, or whole data directories.")
    ],
    records: Annotated[bool, typer.Option("--records", help="Also the records of each batch, with key and value.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Also the records of each batch; as text only the sizes of key and value.")] = False,
    skip_damage: Annotated[bool, typer.Option("--skip-damage", help="Go on behind bytes that are no batches.")] = False,
    as_json: options.Json = False,
    raw: options.Raw = False,
    io_limit: options.IoLimit = None,
) -> None:
    """Print what lies in files: batches, records, index entries, checkpoints, damage.

    In the form of Kafka's dump tool, or as JSON. A file in which no batch follows is shown up to there, and stderr says where.
    """
    dump_files(paths, DumpOptions(records, deep, skip_damage, as_json, raw, io_limit))

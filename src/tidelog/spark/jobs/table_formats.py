"""What makes a table of Delta Lake or of Apache Iceberg out of the Parquet files of an export: its notes, by that format's own package.

delta      the first commit of a table, with relative paths: written before the whole is renamed to the target
iceberg    paths are absolute, so it is written when the files are in their places; `_SUCCESS` says that it is there
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tidelog.errors import InvalidConfigError, JobFailedError, TidelogError
from tidelog.spark.jobs.export_plan import NO_DATE, ExportOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark.jobs.export_job import ExportedFile

NAMESPACE, NAME = "tidelog", "export"


def check_path(target: str, format: str) -> None:  # noqa: A002 - the word for it
    """Raise for a path that the package of a format would take for another one: it is given a URI, and may write its notes elsewhere."""
    taken = target
    if format == "iceberg":
        taken = urlsplit(f"file://{target}").path
    elif format == "delta":
        taken = unquote(target).replace("\\", "/").replace("\n", "")
    if taken != target:
        raise InvalidConfigError(
            "target", expected=f"for {format}, a path without signs that mean something in a URI", found=repr(target), hint="name another"
        )


def note_delta(tree: str, options: ExportOptions, files: "Sequence[ExportedFile]") -> None:
    """The first commit of a new table."""
    import pyarrow as pa

    from tidelog.record.kernel.clock import wall_clock

    delta = import_module("deltalake.transaction")
    kinds = {"topic": pa.string(), "partition": pa.int32(), "date": pa.date32()}
    columns = [*_schema(options), *(pa.field(name, kinds[name]) for name in options.partition_by)]
    now_ms = wall_clock()
    actions = []
    for file in files:
        values: dict[str, str | None] = {}
        for part in file.path.split("/")[:-1]:
            name, _, value = part.partition("=")
            values[name] = None if value == NO_DATE else value
        actions.append(delta.AddAction(file.path, file.size_bytes, values, now_ms, True, f'{{"numRecords": {file.records}}}'))
    with _refusals("delta"):
        schema = import_module("deltalake").Schema.from_arrow(pa.schema(columns))
        delta.create_table_with_add_actions(tree, schema, actions, "error", list(options.partition_by))


def note_iceberg(target: str, options: ExportOptions, files: "Sequence[ExportedFile]") -> None:
    """The metadata of a new table, in `metadata/` of the target. A catalogue can take it over by the name of its `.metadata.json`.

    It has no partitions of its own: what the names of folders say is in the files, and statistics prune by it.
    """
    with _refusals("iceberg"):
        catalog = import_module("pyiceberg.catalog.memory").InMemoryCatalog("tidelog", warehouse=f"file://{target}")
        catalog.create_namespace(NAMESPACE)
        table = catalog.create_table(f"{NAMESPACE}.{NAME}", schema=_schema(options), location=f"file://{target}")
        if files:
            table.add_files([f"file://{target}/{file.path}" for file in files])


@contextmanager
def _refusals(format: str) -> Iterator[None]:  # noqa: A002 - the word for it
    """What a package does not take, such as a date behind the year 9999, as an error of ours: each has others."""
    try:
        yield
    except (OSError, TidelogError):
        raise
    except Exception as error:
        what = f"making a table of {format} failed: {type(error).__name__}: {error}"
        raise JobFailedError(what, hint="there is no target; format parquet needs no table") from error


def _schema(options: ExportOptions) -> "pa.Schema":
    from tidelog.spark.schema import arrow_schema

    return arrow_schema(options.written)

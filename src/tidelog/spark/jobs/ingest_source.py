"""What `ingest` reads: a DataFrame, or files in a format that Spark reads.

Left to themselves, Spark's readers make null of a line that they do not understand, drop what a row of CSV has too much, end a field in
quotes with its line, take the columns of a second file of CSV by their place, and of Parquet those of one file only. Here files are read
whole or refused, as without Spark; `options` can say otherwise.
"""

import re
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import PurePath
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

from tidelog.errors import InvalidConfigError, InvalidRecordTypeError, TidelogError
from tidelog.spark.jobs.task_errors import typed_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Source = str | PathLike[str] | Sequence[str | PathLike[str]] | DataFrame

FORMATS = ("parquet", "json", "csv", "text", "orc")
_BY_SUFFIX = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".txt": "text", ".orc": "orc"}
_NO_COLUMN = "_tidelog_corrupt_record"
"""By its usual name Spark would leave out a column of the file: `_corrupt_record`."""
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    # As RFC 4180 has it, and as `export` writes it. Each file's header is compared with the columns, and each row is looked at whole, also
    # where few of its columns are asked for.
    "csv": {
        "header": "true",
        "escape": '"',
        "multiline": "true",
        "unescapedquotehandling": "RAISE_ERROR",
        "mode": "FAILFAST",
        "enforceschema": "false",
        "columnpruning": "false",
        "columnnameofcorruptrecord": _NO_COLUMN,
    },
    "json": {"mode": "FAILFAST", "columnnameofcorruptrecord": _NO_COLUMN},
    "parquet": {"mergeschema": "true"},
    "orc": {"mergeschema": "true"},
}

_NOT_THAT = re.compile(
    r"(Malformed CSV record: .*)|(Unescaped quote character .*? of CSV field)"
    r"|(CSV header does not conform.*(?:\n .*|\nExpected.*)*)|(Detected an invalid type of a JSON record.*)"
    r"|(?:JsonParseException|JsonEOFException|CharConversionException): (.*)|(Malformed records are detected in record parsing: .*)"
    r"|(\S+ is not a Parquet file.*)|(Could not read footer.*)|(Malformed ORC file.*)|(Failed merging schemas:(?:.*\n){4}.*)"
)
"""What Spark says of files that are not what they should be; what is named first here says more."""
_FILE = re.compile(r"(?:reading file |CSV file: |Malformed ORC file )(\S+?)\.?(?=\s|$)")


def read_source(spark: "SparkSession", source: "Source", format: str | None, options: Mapping[str, object]) -> "DataFrame":  # noqa: A002
    """The rows to write."""
    if hasattr(source, "schema"):
        if format is not None or options:
            raise InvalidConfigError("format and options", expected="paths", found="a DataFrame, which is read already")
        return cast("DataFrame", source)
    paths = [fspath(source)] if isinstance(source, (str, PathLike)) else [fspath(one) for one in source]
    chosen = format_of(paths, format)
    given = {**_DEFAULTS.get(chosen, {}), **{name.lower(): str(value) for name, value in options.items()}}
    try:
        return spark.read.format(chosen).options(**given).load(paths)
    except Exception as error:
        raise source_error(error, "tidelog ingest: reading the source") from error


def format_of(paths: Sequence[str], given: str | None) -> str:
    """The format of files: the one that is given, or that their names tell."""
    chosen = given or next((_BY_SUFFIX[PurePath(one).suffix] for one in paths if PurePath(one).suffix in _BY_SUFFIX), None)
    if chosen not in FORMATS:
        raise InvalidConfigError("format", expected=f"one of {', '.join(FORMATS)}", found=repr(chosen), hint="paths did not tell it")
    return chosen


def source_error(error: Exception, where: str) -> TidelogError:
    """The error that stopped the reading: about what is in the files, and then nothing was appended, or else what it is for any job."""
    if isinstance(error, TidelogError):
        return error
    text = str(error)
    found = [match.groups() for match in _NOT_THAT.finditer(text)]
    if not found:
        return typed_error(error, where)
    kind = min(next(place for place, own in enumerate(groups) if own) for groups in found)
    said = next(groups[kind] for groups in found if groups[kind])
    file = _FILE.search(text)
    return InvalidRecordTypeError(
        f"{where}: {' '.join(said.partition('SQLSTATE')[0].split())}",
        path=None if file is None else _path_of(file[1]),
        hint="nothing was appended; mend the file, or say with options of Spark's reader what is to become of such rows",
    )


def _path_of(uri: str) -> str:
    """A file of this machine as it is called here, any other by its URI."""
    return "/" + unquote(uri.removeprefix("file:")).lstrip("/") if uri.startswith(("file:", "/")) else uri

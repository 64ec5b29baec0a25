"""What an export is asked for, checked on the driver before anything is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tidelog.errors import InvalidConfigError, MissingPackageError
from tidelog.spark.jobs.record_lines import BytesAs
from tidelog.spark.schema import COLUMNS

if TYPE_CHECKING:
    from tidelog.log.log_reading import Isolation

FORMATS = ("parquet", "json", "csv", "delta", "iceberg")
FOLDERS = ("topic", "partition", "date")
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""What Hive, and Spark, take for null in the name of a folder: of records without a timestamp."""
_PACKAGES = {"delta": "deltalake", "iceberg": "pyiceberg"}
_CODECS = {"json": ("none", "gzip"), "csv": ("none", "gzip")}
_PARQUET_CODECS = ("snappy", "zstd", "gzip", "lz4", "none")


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """An export as it was asked for. Small: it travels with every task."""

    format: str
    columns: tuple[str, ...]
    """Of the data source. JSON lines have all they always have."""
    partition_by: tuple[str, ...]
    compression: str
    bytes_as: BytesAs
    """What CSV makes of keys and values."""
    isolation: "Isolation"

    @property
    def suffix(self) -> str:
        """What its files end with."""
        if self.format in _CODECS:
            return f".{self.format}{'.gz' if self.compression == 'gzip' else ''}"
        return ".parquet"

    @property
    def written(self) -> tuple[str, ...]:
        """The columns that files have: what the names of folders say is not in them, but for Iceberg, to which folders say nothing."""
        if self.format == "iceberg":
            return self.columns
        return tuple(name for name in self.columns if name not in self.partition_by)

    @classmethod
    def of(
        cls,
        format: str,  # noqa: A002 - the word for it
        columns: Sequence[str] | None,
        partition_by: Sequence[str] | str | None,
        compression: str | None,
        bytes_as: BytesAs,
        isolation: "Isolation",
    ) -> "ExportOptions":
        """Check what was given."""
        if format not in FORMATS:
            raise InvalidConfigError("format", expected=f"one of {', '.join(FORMATS)}", found=repr(format))
        package = _PACKAGES.get(format)
        if package is not None and find_spec(package) is None:
            raise MissingPackageError(
                f"an export to {format} needs the package {package}", expected=package, found="nothing", hint=f"pip install {package}"
            )
        known = _CODECS.get(format, _PARQUET_CODECS)
        if compression is not None and compression not in known:
            raise InvalidConfigError("compression", expected=f"one of {', '.join(known)}", found=repr(compression))
        if bytes_as not in ("base64", "utf8"):
            raise InvalidConfigError("bytes_as", expected="base64 or utf8", found=repr(bytes_as))
        if columns is not None and format == "json":
            raise InvalidConfigError("columns", expected="nothing: lines of JSON are those of cat --json", found=repr(columns))
        folders = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by or ())
        wanted = COLUMNS if columns is None else _names("columns", columns, COLUMNS)
        found = cls(format, wanted, _names("partition_by", folders, FOLDERS), compression or known[0], bytes_as, isolation)
        if not found.written:
            raise InvalidConfigError("columns", expected="one that is not in the names of folders", found=", ".join(wanted) or "none")
        return found


def _names(what: str, given: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    unknown = [name for name in given if name not in known]
    if unknown or len(set(given)) < len(given) or isinstance(given, str):
        raise InvalidConfigError(what, expected=f"some of {', '.join(known)}, each once", found=repr(unknown[0] if unknown else given))
    return tuple(given)

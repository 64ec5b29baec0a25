"""Hand Arrow tables to pandas, Polars and DuckDB. None of them is needed otherwise; each is imported when it is asked for."""

import importlib
from typing import TYPE_CHECKING, Any

from tidelog.errors import MissingPackageError

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa


def to_pandas(table: "pa.Table") -> "pd.DataFrame":
    """A pandas frame."""
    need("pandas")
    frame: pd.DataFrame = table.to_pandas()
    return frame


def to_polars(table: "pa.Table") -> "pl.DataFrame":
    """A Polars frame."""
    frame: pl.DataFrame = need("polars").from_arrow(table)
    return frame


def to_duckdb(table: "pa.Table", connection: "duckdb.DuckDBPyConnection | None") -> "duckdb.DuckDBPyRelation":
    """A relation of that connection, or of DuckDB's default one; it reads the table, which stays in memory, and copies nothing."""
    home: Any = need("duckdb") if connection is None else connection
    relation: duckdb.DuckDBPyRelation = home.from_arrow(table)
    return relation


def need(package: str) -> Any:
    """The module, or an error that says what to install."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingPackageError(f"this needs the package {package}, which is not installed", hint=f"pip install {package}") from error

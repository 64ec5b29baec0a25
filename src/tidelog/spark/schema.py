"""The columns of a read: those of Spark's Kafka source, with its names and its types, in Spark's words and in Arrow's.

Spark takes Arrow batches only in exactly the types that its own stand for; and it never leaves a column away by itself, so a read of fewer
columns is one of a smaller schema.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.errors import InvalidConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SPARK_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
COLUMNS = tuple(SPARK_TYPES)


def default_columns(*, include_headers: bool) -> tuple[str, ...]:
    """What a read has unless it is told otherwise."""
    return COLUMNS if include_headers else COLUMNS[:-1]


def check_columns(names: Sequence[str]) -> tuple[str, ...]:
    """The columns as they are spelled, in the order that was asked for."""
    spelled = {name.lower(): name for name in COLUMNS}
    unknown = [name for name in names if name.lower() not in spelled]
    if unknown:
        raise InvalidConfigError("option columns", expected=f"some of {', '.join(COLUMNS)}", found=repr(unknown[0]))
    found = tuple(spelled[name.lower()] for name in names)
    if len(set(found)) < len(found):
        raise InvalidConfigError("option columns", expected="each column once", found=repr(",".join(names)))
    return found


def schema_text(columns: Sequence[str]) -> str:
    """The schema as Spark reads it."""
    return ", ".join(f"{name} {SPARK_TYPES[name]}" for name in columns)


def columns_of(schema: "StructType") -> tuple[str, ...]:
    """The columns of a schema, which may be the user's own: a part of ours is as good as the option `columns`."""
    found = []
    if not schema.fields:
        # Batches without columns do not say how many rows they have: none would be counted.
        raise InvalidConfigError(
            "a schema without columns", expected=f"some of {schema_text(COLUMNS)}", hint="offset alone is enough to count"
        )
    for field in schema.fields:
        expected = SPARK_TYPES.get(field.name)
        if expected is None or field.dataType.simpleString() != expected:
            raise InvalidConfigError(
                f"column {field.name} of the schema",
                expected=f"some of {schema_text(COLUMNS)}",
                found=f"{field.name} {field.dataType.simpleString()}",
                hint="without a schema of yours the right one is taken; cast afterwards",
            )
        found.append(field.name)
    return check_columns(found)


def arrow_schema(columns: Sequence[str]) -> "pa.Schema":
    """The same schema in the Arrow types that Spark takes."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.field("element", header)),
    }
    return pa.schema([pa.field(name, types[name]) for name in columns])

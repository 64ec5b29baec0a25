"""The columns of a DataFrame that become records: which there have to be, and of which types. Told on the driver, before anything is read.

    value       binary or string, which is written in UTF-8; has to be there
    key         the same
    headers     array<struct<key: string, value: binary>>
    timestamp   timestamp; where it is null, the time of writing
    partition   int; where it is null, the key decides
    topic       string; has to be there unless the option topic is given, which goes first

Other columns are left out, as by Spark's own Kafka sink. So what `read.format("tidelog")` gives can be written as it is.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.errors import InvalidRecordTypeError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

COLUMNS = ("topic", "partition", "key", "value", "headers", "timestamp")


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Where each is found in what Spark sends: names as the DataFrame has them, None of those that are not there."""

    value: int
    key: int | None = None
    headers: int | None = None
    timestamp: int | None = None
    partition: int | None = None
    topic: int | None = None


def find_columns(schema: "StructType", *, has_topic: bool) -> SinkColumns:
    """The columns to write; one that is missing or of another type raises."""
    places: dict[str, int] = {}
    for place, column in enumerate(schema.fields):
        name = column.name.lower()
        if name not in COLUMNS or (name == "topic" and has_topic):
            continue
        if name in places:
            raise InvalidRecordTypeError(f"two columns are named {name}", hint="drop or rename one of them")
        expected = _expected(name, column.dataType)
        if expected is not None:
            raise InvalidRecordTypeError(
                f"column {column.name} has a type that cannot be written", expected=expected, found=column.dataType.simpleString()
            )
        places[name] = place
    if "value" not in places:
        raise InvalidRecordTypeError(
            "no column value", expected="a column value, binary or string", found=", ".join(schema.names) or "no columns"
        )
    if "topic" not in places and not has_topic:
        raise InvalidRecordTypeError("which topic to write to is not said", hint="option topic names it, or a column topic")
    return SinkColumns(**places)


def _expected(name: str, kind: "DataType") -> str | None:
    """What a column has to be, if it is not."""
    from pyspark.sql.types import BinaryType, ByteType, IntegerType, LongType, NullType, ShortType, StringType, TimestampType

    if name in ("key", "value"):
        return None if isinstance(kind, (BinaryType, StringType, NullType)) else "binary or string"
    if name == "timestamp":
        return None if isinstance(kind, TimestampType) else "timestamp"
    if name == "partition":
        return None if isinstance(kind, (IntegerType, ShortType, ByteType, LongType)) else "int"
    if name == "topic":
        return None if isinstance(kind, StringType) else "string"
    return None if _is_headers(kind) else "array<struct<key:string,value:binary>>"


def _is_headers(kind: "DataType") -> bool:
    from pyspark.sql.types import ArrayType, BinaryType, StringType, StructType

    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name: field.dataType for field in kind.elementType.fields}
    return set(fields) == {"key", "value"} and isinstance(fields["key"], StringType) and isinstance(fields["value"], BinaryType)

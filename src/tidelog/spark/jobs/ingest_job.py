"""`ingest`: files, or any DataFrame, as the records of topics: keyed, and spread over partitions as Kafka's producers do.

The rows go through the sink of the data source (`df.write.format("tidelog")`): executors encode batches into staged files, the driver
appends them in one transaction. With a `transactional_id` a run that is made again, since nobody knows whether it came through, appends
nothing twice.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from tidelog.disk.disk import OS
from tidelog.errors import InvalidConfigError
from tidelog.spark.catalog import resolve_directories
from tidelog.spark.commit_report import read_report
from tidelog.spark.jobs.details import details_frame
from tidelog.spark.jobs.ingest_outcome import AppendedRange, Ingested, may_be_there, no_report
from tidelog.spark.jobs.ingest_source import read_source, source_error
from tidelog.spark.jobs.progress import progress_of
from tidelog.spark.jobs.running import context_of, named, staged
from tidelog.spark.jobs.task_errors import typed_error
from tidelog.store.staging import check_place

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidelog.spark.jobs.ingest_source import Source

    Expression = str | Column

_RUNS_EARLY = ("Exchange", "AdaptiveSparkPlan", "Subquery")
"""In how Spark prints a plan: what it runs before it can say how many tasks come behind it."""
WHOLE_ROW = "*"
"""As a value: all columns of the row, as JSON."""
_AS_JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
"""Left to itself Spark writes times with milliseconds, and cuts off what it knows beyond."""
_FOREVER_MS = 1 << 53
"""Who waits without an end waits that long: options are whole numbers."""
_NESTED = ("struct", "array", "map", "variant")
_SCHEMA = "topic string, partition int, start_offset long, end_offset long"


@dataclass(frozen=True, slots=True)
class IngestResult(Ingested):
    """The same, with its details."""

    details: "DataFrame" = field(repr=False, compare=False)
    """A row for each partition that has grown."""

    __str__ = Ingested.__str__


def ingest(
    spark: "SparkSession",
    source: "Source",
    directory: str | PathLike[str],
    topic: str | None = None,
    *,
    topic_column: "Expression | None" = None,
    key: "Expression | None" = None,
    value: "Expression | None" = None,
    headers: "Expression | None" = None,
    timestamp: "Expression | None" = None,
    partition: "Expression | None" = None,
    format: str | None = None,  # noqa: A002 - the word for it
    options: Mapping[str, object] | None = None,
    create: bool = True,
    partitions: int = 1,
    config: Mapping[str, object] | None = None,
    transactional_id: str | None = None,
    batch_id: int = 0,
    compression: str | None = None,
    lock_timeout_s: float = 30,
    dry_run: bool = False,
    progress: bool | None = None,
) -> IngestResult:
    """Append rows to a topic, or to the topics that `topic_column` names; those that are missing are made, unless not `create`.

    `source` is a DataFrame, or paths of files in a `format` that Spark reads, with its `options`; files that cannot be read whole are
    refused, unless the options say otherwise. `key`, `value`, `headers`, `timestamp`, `partition` are columns or expressions of SQL;
    without them, columns of these names are taken if there are any. A value of `"*"`, and where there is no column value, is the whole row
    as JSON. What is neither text nor bytes becomes text, or JSON if it is nested.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation has it

    if (topic is None) == (topic_column is None):
        raise InvalidConfigError("where rows go", expected="a topic, or a topic_column", found="neither" if topic is None else "both")
    path = fspath(directory)
    frame = read_source(spark, source, format, options or {})
    if frame.isStreaming:
        hint = 'writeStream.format("tidelog") writes it, and foreachBatch may call this'
        raise InvalidConfigError("source", expected="rows that are there", found="a stream", hint=hint)
    given = {"key": key, "headers": headers, "timestamp": timestamp, "partition": partition, "topic": topic_column}
    rows = records_of(frame, value, given, has_topic=topic is not None)
    columns = tuple((one.name, one.dataType.simpleString()) for one in rows.schema.fields)
    try:
        tasks = _tasks_of(rows)
    except Exception as error:
        raise source_error(error, "tidelog ingest: planning the rows") from error
    stages = (("write", tasks),)
    if dry_run:
        return IngestResult(path, topic, True, columns, 0, (), stages, False, details_frame(spark, [], _SCHEMA))
    new_topics = (partitions, config or {}) if create else None
    chosen = sink_options(topic, new_topics, transactional_id, batch_id, compression, lock_timeout_s)
    # Spark finds a source in Python by the session that is active in its thread: in another than the session's own there is none, until it
    # makes a DataFrame.
    details_frame(rows.sparkSession, [], _SCHEMA)
    counted = Observation("tidelog ingest")
    described = f"tidelog ingest into {topic or path}"
    home = resolve_directories(path)[0]  # the sink takes several, and URIs
    check_place(home, None)
    with staged(home) as made:
        chosen["commitReport"] = made.file("committed.json")
        try:
            with named(spark, described) as watched, progress_of(described, watched, tasks, asked=progress):
                observed = rows.observe(counted, F.count(F.lit(1)).alias("records"))
                observed.write.format("tidelog").mode("append").options(**chosen).save(path)
        except Exception as error:
            raise may_be_there(source_error(error, described), transactional_id) from error
        report = read_report(OS, chosen["commitReport"])
    if report is None:
        raise no_report(described, transactional_id)
    was_there, ranges = report[0], tuple(AppendedRange(*one) for one in report[1])
    details = details_frame(spark, [(*one.partition, one.start_offset, one.end_offset) for one in ranges], _SCHEMA)
    return IngestResult(path, topic, False, columns, int(counted.get["records"]), ranges, stages, was_there, details)


def sink_options(
    topic: str | None,
    new_topics: tuple[int, Mapping[str, object]] | None,
    transactional_id: str | None,
    batch_id: int,
    compression: str | None,
    lock_timeout_s: float,
) -> dict[str, str]:
    """What the sink is told. `new_topics`: how many partitions a topic gets that is made, and its settings; None: none is made."""
    chosen: dict[str, object] = {"lockTimeout": f"{int(min(lock_timeout_s * 1000, _FOREVER_MS))}ms"}
    chosen |= {} if topic is None else {"topic": topic}
    if new_topics is not None:
        chosen |= {"createTopics": "true", "partitions": new_topics[0], "topicConfig": json.dumps(dict(new_topics[1]))}
    chosen |= {} if transactional_id is None else {"transactionalId": transactional_id}
    chosen |= {"batchId": batch_id} if batch_id or transactional_id is not None else {}  # without an id the sink refuses it
    chosen |= {} if compression is None else {"compression": compression}
    return {name: str(own) for name, own in chosen.items()}


def records_of(frame: "DataFrame", value: "Expression | None", given: "Mapping[str, Expression | None]", *, has_topic: bool) -> "DataFrame":
    """The columns that the sink takes, in types that it takes."""
    from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation has it

    there = {name.lower(): name for name in frame.columns}
    chosen: dict[str, Any] = {}
    for name, expression in given.items():
        if expression is not None:
            chosen[name] = _column(expression)
        elif name in there and not (name == "topic" and has_topic):
            chosen[name] = F.col(_quoted(there[name]))
    is_whole = (isinstance(value, str) and value == WHOLE_ROW) or (value is None and "value" not in there)
    if is_whole:
        chosen["value"] = F.to_json(F.struct(*(F.col(_quoted(name)) for name in frame.columns)), _AS_JSON)
    else:
        chosen["value"] = F.col(_quoted(there["value"])) if value is None else _column(value)
    named = [column.alias(name) for name, column in chosen.items()]
    try:
        kinds = {one.name: one.dataType.simpleString() for one in frame.select(*named).schema.fields}
        return frame.select(*(_as_written(column, kinds[name], name).alias(name) for name, column in chosen.items()))
    except Exception as error:
        raise typed_error(error, "tidelog ingest: columns of the source") from error


def _as_written(column: Any, kind: str, name: str) -> Any:
    """Keys and values as text or bytes, times as times; other columns have to be what the sink takes, which says so."""
    from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation has it

    if name in ("key", "value"):
        if kind in ("binary", "string", "void") or kind.startswith(("char", "varchar")):
            return column
        return F.to_json(column, _AS_JSON) if kind.startswith(_NESTED) else column.cast("string")
    if name == "timestamp":
        return column if kind == "timestamp" else F.timestamp_millis(column) if kind in ("bigint", "int") else column.cast("timestamp")
    return column.cast({"partition": "int", "topic": "string"}[name]) if name in ("partition", "topic") else column


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def _column(expression: "Expression") -> Any:
    from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation has it

    return F.expr(expression) if isinstance(expression, str) else expression


def _tasks_of(rows: "DataFrame") -> int:
    """How many tasks it takes; -1 where Spark does not say, or would run a part of it to find out."""
    if context_of(rows.sparkSession) is None:
        return -1
    plan = rows._jdf.queryExecution().executedPlan().toString()
    return -1 if any(sign in plan for sign in _RUNS_EARLY) else int(rows.rdd.getNumPartitions())

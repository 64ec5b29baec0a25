"""A driver of its own, to be killed: lines of text files into topic `t`, a file a micro-batch; a batch that takes its time; or an ingest.

python -m tests.spark.sink_driver stream DATA INPUT CHECKPOINT
python -m tests.spark.sink_driver batch DATA ROWS
python -m tests.spark.sink_driver ingest DATA ROWS
"""

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidelog.spark import jobs, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INGEST_ID = "load"


def stream(spark: "SparkSession", data: str, source: str, checkpoint: str) -> None:
    """Until every file is written."""
    files = spark.readStream.format("text").option("maxFilesPerTrigger", 1).option("pathGlobFilter", "*.txt").load(source)
    writer = files.selectExpr("value as key", "value").writeStream.format("tidelog").trigger(availableNow=True)
    query = writer.option("topic", "t").option("lockTimeout", "60s").option("checkpointLocation", checkpoint).start(data)
    query.awaitTermination()


def batch(spark: "SparkSession", data: str, rows: str) -> None:
    """With tasks that write for some seconds: somebody has to have the time to kill one."""

    def slowly(batches: Iterator[Any]) -> Iterator[Any]:
        for number, found in enumerate(batches):
            if number > 0:
                time.sleep(0.1)
            yield found

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 1000)
    frame = spark.range(0, int(rows), 1, 2).selectExpr("cast(id as string) as key", "repeat(cast(id as string), 900) as value")
    frame.mapInArrow(slowly, frame.schema).write.format("tidelog").mode("append").option("topic", "t").save(data)


def ingest(spark: "SparkSession", data: str, rows: str) -> jobs.IngestResult:
    """Numbered rows, under an id by which a run that is made again is known."""
    frame = spark.range(0, int(rows), 1, 6).selectExpr("cast(id as string) as key", "lpad(cast(id as string), 100, '.') as value")
    return jobs.ingest(spark, frame, data, "t", transactional_id=INGEST_ID)


def main() -> None:
    """What the arguments say."""
    spark = session("tidelog sink driver", "local[2,4]", {"spark.sql.shuffle.partitions": 2}, memory="1g")
    print("ready", flush=True)  # noqa: T201 - for who waits
    if sys.argv[1] == "stream":
        stream(spark, *sys.argv[2:])
    elif sys.argv[1] == "ingest":
        ingest(spark, *sys.argv[2:])
    else:
        batch(spark, *sys.argv[2:])
    print("done", flush=True)  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main()

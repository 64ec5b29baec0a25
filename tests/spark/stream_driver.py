"""A program with a stream in it, to be killed: every micro-batch goes into a folder of its own number, which a repeated one replaces.

    python -m tests.spark.stream_driver DIRECTORY FOLDER

Tasks are tried up to four times. Says "batch N" when one is written, and at the end how many tasks have failed.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_OFFSETS = 60_000


def main(home: str, folder: str) -> None:
    """Read what is there."""
    spark = session("stream driver", "local[2,4]", memory="1g")

    def write(batch: "DataFrame", number: int) -> None:
        batch.write.mode("overwrite").parquet(str(Path(folder) / "rows" / f"batch={number}"))
        print("batch", number, flush=True)  # noqa: T201

    options = {"subscribe": "tide", "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(MAX_OFFSETS)}
    frame = spark.readStream.format("tidelog").options(**options).load(home).select("partition", "offset", "value")
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(Path(folder) / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    tracker = spark.sparkContext.statusTracker()
    stages = [found for number in range(200) if (found := tracker.getStageInfo(number)) is not None]
    print("failed", sum(stage.numFailedTasks for stage in stages), flush=True)  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A driver of its own that compacts a store. Somebody else kills it; or it dies by itself at its first rename of a file with an ending,
since the commit of a small store is over before anybody who only looks on has seen it.

Arguments: directory, time, size of pieces, and the ending if any.
"""

import os
import signal
import sys

from tidelog.disk.disk import Disk
from tidelog.spark import jobs, session


def die_at_the_rename_of(ending: str) -> None:
    """Everything in this process group goes by kill -9, Spark's JVM and its workers too."""
    rename = Disk.rename

    def rename_or_die(disk: Disk, source: str, target: str) -> None:
        if source.endswith(ending):
            os.killpg(0, signal.SIGKILL)
        rename(disk, source, target)

    Disk.rename = rename_or_die  # type: ignore[method-assign,assignment]


def main() -> None:
    directory, now_ms, piece_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if len(sys.argv) > 4:
        die_at_the_rename_of(sys.argv[4])
    spark = session("tidelog kill", "local[2]", {"spark.sql.shuffle.partitions": 2}, memory="1g")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    result = jobs.compact(spark, directory, roll=True, now_ms=now_ms, piece_bytes=piece_bytes, progress=True)
    sys.stdout.write(f"done {len(result.failures)}\n")
    sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()

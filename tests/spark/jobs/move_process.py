"""A process of its own that moves or forgets records, or builds indexes anew, and dies by kill -9 at its n-th rename of a file with an
ending, with all that it has started.

Arguments: forget, copy, into_broker, restore or reindex; the directories; the ending, n, and "spark" or "local"; of `reindex` only "spark".
"""

import os
import signal
import sys
from pathlib import Path

from tests.spark.jobs.moving import PIECE_BYTES, copy_here, forget_here, restore_here
from tests.support.logs import TIME
from tidelog.disk.disk import Disk

KEYS = (b"key-7", b"key-33")


def die_at_rename(ending: str, count: int) -> None:
    rename = Disk.rename
    seen = 0

    def rename_or_die(disk: Disk, source: str, target: str) -> None:
        nonlocal seen
        seen += source.endswith(ending)
        if seen == count:
            os.killpg(0, signal.SIGKILL)
        rename(disk, source, target)

    Disk.rename = rename_or_die  # type: ignore[method-assign,assignment]


def main() -> None:
    what, *places, ending, count, how = sys.argv[1:]
    directory, *targets = map(Path, places)
    if how == "spark":
        from tidelog.spark import jobs, session

        spark = session("tidelog kill", "local[2]", {"spark.sql.shuffle.partitions": 2}, memory="1g")
        die_at_rename(ending, int(count))
        if what == "forget":
            jobs.forget(spark, directory, "tide", KEYS, piece_bytes=PIECE_BYTES)
        elif what == "reindex":
            jobs.reindex(spark, directory, now_ms=TIME, piece_bytes=PIECE_BYTES)
        elif what == "restore":
            jobs.restore(spark, directory, targets[0], piece_bytes=PIECE_BYTES)
        else:
            jobs.copy(spark, directory, targets[0], into_broker=what == "into_broker", piece_bytes=PIECE_BYTES)
        return
    die_at_rename(ending, int(count))
    if what == "forget":
        forget_here(directory, KEYS)
    elif what == "restore":
        restore_here(directory, targets[0])
    else:
        copy_here(directory, targets[0], into_broker=what == "into_broker")


if __name__ == "__main__":
    main()

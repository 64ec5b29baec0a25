"""A process that does to a topic what owners do: appends, rolls, compacts and trims, as fast as it can, until a file tells it to stop.

    python -m tests.spark.busy_writer DIRECTORY STOP-FILE

Says "started" when the topic is there, and at the end in JSON how often it did what.
"""

import json
import random
import sys
import time
from pathlib import Path

from tests.support.topics import open_store

PARTITIONS = 2
SETTINGS = {
    "cleanup.policy": "compact,delete",
    "segment.index.bytes": 1 << 16,
    "internal.segment.bytes": 1 << 15,
    "index.interval.bytes": 512,
    "file.delete.delay.ms": 0,
    "min.compaction.lag.ms": 0,
}


def main(home: str, stop: str) -> None:
    """Write until told to stop."""
    random.seed(5)
    done = {"appended": 0, "rolled": 0, "compacted": 0, "trimmed": 0}
    with open_store(Path(home), clock=lambda: time.time_ns() // 1_000_000) as store:
        topic = store.create_topic("tide", PARTITIONS, SETTINGS)
        print("started", flush=True)  # noqa: T201
        while not Path(stop).exists():
            for partition in range(PARTITIONS):
                log = topic.log(partition)
                for _ in range(50):
                    number = log.log_end_offset
                    topic.append(f"{partition} {number}".encode(), key=f"key {random.randrange(200)}".encode(), partition=partition)
                    done["appended"] += 1
            act = random.choice(("rolled", "compacted", "trimmed"))
            log = topic.log(random.randrange(PARTITIONS))
            if act == "rolled":
                log.roll()
            elif act == "compacted":
                store.compact("tide", roll=True)
            else:
                log.delete_records_before(max(log.log_start_offset, log.high_watermark - 5000))
            done[act] += 1
            time.sleep(0.01)
    print(json.dumps(done), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])

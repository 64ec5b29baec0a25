"""A process that appends to a compacted topic and compacts it all the time, until it is killed, and says what was acknowledged.

    python -m tests.crash.compactor     a fork server: for each line "DIRECTORY THREADS FIRST" on its input a child

Lines on its output: "started PID", "ack OFFSET NUMBER" for each acknowledged record, "passes COUNT" after each compaction that did
something, "ended PID". The number of a record says its key, and whether it is a tombstone; a thread has numbers of its own.
"""

import os
import sys
import threading
import time
import warnings
from random import Random
from typing import Any

from tests.crash.writer import PER_THREAD, numbers_of, say
from tests.support.logs import SMALL_INDEX_BYTES
from tidelog.store.store import Store

TOPIC = "tide"
KEYS = 12
SETTINGS: dict[str, Any] = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": 1000,
    "index.interval.bytes": 0,
    "file.delete.delay.ms": 0,
    "min.cleanable.dirty.ratio": 0.0,
}
STORE_SETTINGS: dict[str, Any] = {"log.index.size.max.bytes": SMALL_INDEX_BYTES, "log.cleaner.dedupe.buffer.size": 1 << 12}


def record_of(number: int) -> tuple[bytes, bytes | None]:
    """Key and value. Two threads never write the same key, so the last of a key is the last that its thread has written."""
    thread, place = divmod(number, PER_THREAD)
    draw = Random(number)
    key = b"%d of %d" % (draw.randrange(KEYS), thread % 10)
    return key, None if place % 7 == 6 else b"%d " % number + b"x" * draw.randrange(60)


def open_store(directory: str) -> Store:
    """The store, with nothing done in the background but what is done here."""
    return Store.open(directory, config=STORE_SETTINGS, background=False)


def append(store: Store, thread: int) -> None:
    """One record after the other."""
    topic = store.topic(TOPIC)
    for number in numbers_of(thread):
        key, value = record_of(number)
        say(f"ack {topic.append(value, key=key).offset} {number}")
        time.sleep(0.0005)


def compact(store: Store) -> None:
    """Without end."""
    while True:
        result = store.compact(TOPIC)
        if result.failures:
            say(f"failed {result.failures}")
        if result.compacted:
            say(f"passes {len(result.compacted[0].passes)}")


def serve() -> None:
    """Fork a child for each line, wait for its end."""
    for line in sys.stdin:
        directory, threads, first = line.split()
        child = os.fork()
        if child == 0:
            store = open_store(directory)
            store.create_topic(TOPIC, config=SETTINGS, exist_ok=True)
            threading.Thread(target=compact, args=(store,), daemon=True).start()
            workers = [threading.Thread(target=append, args=(store, int(first) + number), daemon=True) for number in range(int(threads))]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            os._exit(3)  # nobody killed it
        say(f"started {child}")
        os.waitpid(child, 0)
        say(f"ended {child}")


if __name__ == "__main__":
    warnings.simplefilter("error")
    serve()

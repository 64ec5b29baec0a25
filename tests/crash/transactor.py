"""A process that does transactions until it is killed, and says which ones were answered.

    python -m tests.crash.transactor     a fork server: for each line "DIRECTORY THREADS FIRST" on its input a child

With threads, each has a transactional id and a group of its own, and writes a record to each of four partitions and its position, again
and again; some transactions it aborts. Without threads the child consumes, transforms and produces: what it reads from one topic it
writes to another one, with its position in the same transaction.

Lines on its output: "started PID", "ack PLACE NUMBER" for each commit that was answered, "aborted", "consumed" when there is no more to
consume, "ended PID".
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

INPUT, OUTPUT = "in", "out"
PARTITIONS = 4
GROUP, TRANSFORMER = "transformers", "transformer"
ABORTED_EVERY = 7
SETTINGS: dict[str, Any] = {"internal.segment.bytes": 4000, "index.interval.bytes": 0}
STORE_SETTINGS: dict[str, Any] = {"log.index.size.max.bytes": SMALL_INDEX_BYTES}


def open_store(directory: str) -> Store:
    """The store with its topics."""
    store = Store.open(directory, config=STORE_SETTINGS)
    for name in (INPUT, OUTPUT):
        store.create_topic(name, PARTITIONS, config=SETTINGS, exist_ok=True)
    return store


def id_of(thread: int) -> str:
    """The transactional id of a thread, and its group. A thread that comes later with the same last digit goes on with it."""
    return f"thread-{thread % 10}"


def is_aborted(number: int) -> bool:
    """Whether a transaction is aborted once all of it is written."""
    return number % ABORTED_EVERY == ABORTED_EVERY - 1


def transact(store: Store, thread: int) -> None:
    """One transaction after the other: a record in each partition, and where the group is then."""
    with store.consumer(id_of(thread), INPUT) as consumer:
        for number in numbers_of(thread):
            with store.transaction(id_of(thread)) as transaction:
                for partition in range(PARTITIONS):
                    transaction.append(OUTPUT, b"%d" % number, partition=partition)
                for partition in range(PARTITIONS):
                    consumer.seek((INPUT, partition), number)
                transaction.commit_positions(consumer)
                if is_aborted(number):
                    transaction.abort()
            if is_aborted(number):
                say("aborted")
            else:
                say(f"ack {number} {number}")


def transform(store: Store, first: int) -> None:
    """Read some, write as many, until there are no more. Now and then it fails on the way, and goes back to where it was."""
    draw = Random(first)
    number = first * PER_THREAD
    with store.consumer(GROUP, INPUT) as consumer:
        while records := consumer.poll(max_records=draw.randrange(1, 30)):
            try:
                with store.transaction(TRANSFORMER) as transaction:
                    for record in records:
                        transaction.append(OUTPUT, b"of " + (record.value or b""), partition=record.partition)
                    transaction.commit_positions(consumer)
                    if draw.randrange(ABORTED_EVERY) == 0:
                        raise InterruptedError
            except InterruptedError:
                say("aborted")
                consumer.rewind()  # the position in memory is ahead of the one that counts
                continue
            number += 1
            say(f"ack {number} {number}")
    say("consumed")


def work(directory: str, threads: int, first: int) -> None:
    """What a child does."""
    store = open_store(directory)
    if threads == 0:
        transform(store, first)
        time.sleep(60)
    workers = [threading.Thread(target=transact, args=(store, first + number), daemon=True) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def serve() -> None:
    """Fork a child for each line, wait for its end."""
    for line in sys.stdin:
        directory, threads, first = line.split()
        child = os.fork()
        if child == 0:
            try:
                work(directory, int(threads), int(first))
            except BaseException as error:  # said, and then it is over
                say(f"failed {type(error).__name__}: {error}".replace("\n", " "))
            os._exit(3)  # nobody killed it
        say(f"started {child}")
        os.waitpid(child, 0)
        say(f"ended {child}")


if __name__ == "__main__":
    warnings.simplefilter("error")
    serve()

"""A process that appends to logs until it is killed, and says what was acknowledged. `test_kill` and `long_run` kill it.

    python -m tests.crash.writer                    a fork server: for each line "DIRECTORY THREADS FIRST" on its input a child that appends
    python -m tests.crash.writer DIRECTORY COUNT    one thread that appends so many batches and ends, to be looked at from outside

Lines on its output: "started PID", "ack OFFSET NUMBER" for each acknowledged batch, "ended PID".
"""

import os
import sys
import threading
import warnings
from typing import Any

from tests.support.batches import TIME
from tests.support.crash_session import make_batch
from tidelog.log.log import Log

SETTINGS: dict[str, Any] = {"internal.segment.bytes": 1000, "segment.index.bytes": 240, "index.interval.bytes": 0}
PER_THREAD = 1000
RUN = 3
"""Every so many appends one is a run of so many batches."""


def numbers_of(thread: int) -> range:
    """The batches of a thread."""
    return range(thread * PER_THREAD, (thread + 1) * PER_THREAD)


def batch_of(number: int) -> bytes:
    """A batch of a thread. Half of the threads send with a producer id, so that what they send again is recognised."""
    thread, place = divmod(number, PER_THREAD)
    if (thread + thread // 10) % 2:
        return make_batch(number)
    return make_batch(number, producer_id=thread, producer_epoch=0, base_sequence=place)


def say(line: str) -> None:
    """One write, so that lines of several processes do not mix."""
    os.write(1, line.encode() + b"\n")


def append(log: Log, thread: int, count: int = PER_THREAD) -> None:
    """One batch after the other, and now and then several."""
    numbers = list(numbers_of(thread)[:count])
    turn = 0
    while numbers:
        turn += 1
        taken = numbers[: RUN if turn % RUN == 0 else 1]
        del numbers[: len(taken)]
        epoch = thread // 10  # those who come later
        if len(taken) > 1:
            infos = log.append_run([batch_of(number) for number in taken], leader_epoch=epoch)
        else:
            infos = [log.append(batch_of(taken[0]), leader_epoch=epoch)]
        for info, number in zip(infos, taken, strict=True):
            say(f"ack {info.first_offset} {number}")


def serve() -> None:
    """Fork a child for each line, wait for its end."""
    for line in sys.stdin:
        directory, threads, first = line.split()
        child = os.fork()
        if child == 0:
            log = Log.open(directory, config=SETTINGS, clock=lambda: TIME)  # by the wall clock, producers would have expired
            workers = [threading.Thread(target=append, args=(log, int(first) + number), daemon=True) for number in range(int(threads))]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            os._exit(3)  # nobody killed it
        say(f"started {child}")
        os.waitpid(child, 0)
        say(f"ended {child}")


def main() -> None:
    """As the arguments say."""
    warnings.simplefilter("error")
    if len(sys.argv) > 1:
        with Log.open(sys.argv[1], config=SETTINGS) as log:
            append(log, 0, int(sys.argv[2]))
    else:
        serve()


if __name__ == "__main__":
    main()

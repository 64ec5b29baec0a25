"""Samples of passes that keep their own clock, ours and the peer's in turn.

A pass over a log has things to do that nobody wants to time: to make an empty directory, to close, to remove half a gibibyte. So it says
itself how much it did and how long that took. Kafka's passes come from a process that stays alive, hence in turn too.

Reproduce: `.venv/bin/python -m bench --only 2-`
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

from bench.log_jvm import LogJvm
from bench.timing import Measurement, Pace


class Timed(NamedTuple):
    """What one pass did: batches or bytes, and the time it took."""

    done: int
    seconds: float


class Latencies(NamedTuple):
    """Of one pass over many questions."""

    median_ns: float
    p99_ns: float


TimedPass = Callable[[], Timed]


def rates(ours: TimedPass, jvm: LogJvm, pace: Pace) -> Measurement:
    """Work per second, against Kafka."""

    def peer() -> Timed:
        answer = jvm.go()
        return Timed(answer["count"], answer["seconds"])

    jvm.warm_up(pace.jvm_warmup_seconds)
    return rates_in_turn(ours, peer, pace, jvm.version)


def rates_in_turn(ours: TimedPass, peer: TimedPass, pace: Pace, peer_version: str) -> Measurement:
    """Work per second; one pass of each beforehand is not counted."""
    ours()
    peer()
    ours_samples: list[float] = []
    peer_samples: list[float] = []
    for _ in range(pace.samples):
        ours_samples.append(_rate(ours, pace.sample_seconds))
        peer_samples.append(_rate(peer, pace.sample_seconds))
    return Measurement(ours_samples, peer_samples, peer_version)


def times(ours: TimedPass, jvm: LogJvm, pace: Pace) -> Measurement:
    """Milliseconds of a pass, against Kafka."""
    jvm.warm_up(pace.jvm_warmup_seconds)
    ours()
    ours_samples: list[float] = []
    peer_samples: list[float] = []
    for _ in range(pace.samples):
        ours_samples.append(1000 * ours().seconds)
        peer_samples.append(1000 * float(jvm.go()["seconds"]))
    return Measurement(ours_samples, peer_samples, jvm.version)


def latencies(ours: Callable[[], Latencies], jvm: LogJvm, pace: Pace) -> Measurement:
    """Median nanoseconds of a question, against Kafka; the slowest of a hundred beside it."""
    jvm.warm_up(pace.jvm_warmup_seconds)
    ours()
    ours_found: list[Latencies] = []
    peer_found: list[Latencies] = []
    for _ in range(pace.samples):
        with no_collection():
            ours_found.append(ours())
        answer = jvm.go()
        peer_found.append(Latencies(answer["median_ns"], answer["p99_ns"]))
    extra = {
        "ours_p99": median(found.p99_ns for found in ours_found),
        "peer_p99": median(found.p99_ns for found in peer_found),
    }
    return Measurement([found.median_ns for found in ours_found], [found.median_ns for found in peer_found], jvm.version, extra)


def each(questions: list[int], ask: Callable[[int], object]) -> Latencies:
    """The latency of each question."""
    clock = time.perf_counter_ns
    nanos = []
    for question in questions:
        start = clock()
        ask(question)
        nanos.append(clock() - start)
    nanos.sort()
    return Latencies(nanos[len(nanos) // 2], nanos[len(nanos) * 99 // 100])


@contextmanager
def no_collection() -> Iterator[None]:
    """The garbage collector sleeps meanwhile."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _rate(run: TimedPass, at_least_seconds: float) -> float:
    count, seconds = 0, 0.0
    while seconds < at_least_seconds:
        timed = run()
        count += timed.done
        seconds += timed.seconds
    return count / seconds

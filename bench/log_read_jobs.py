"""Promises about single questions to a log: a fetch at a random offset, the offset of a random time. Latencies in nanoseconds, medians.

One segment of half a gibibyte, written by Kafka, all of it in the page cache. Kafka answers a fetch with a place in a file; to have the
bytes in hand, as we do, it reads them into a buffer that it uses again. Before anything is timed the checksum over all answers has to be
equal.

Reproduce: `.venv/bin/python -m bench --only 2-fetch`
"""

import random
import struct
from collections.abc import Callable
from pathlib import Path

import crc32c

from bench import log_data
from bench.data import Inputs
from bench.jobs import Job, require_equal
from bench.log_jvm import LogJvm, temporary_file
from bench.log_timing import each, latencies
from bench.timing import Measurement, Pace
from tidelog.log.log import Log

QUESTIONS = 20_000
FETCH_BYTES = 16384
_UNIT = "ns"


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("2-fetch-random", "<= 1.2", _UNIT, _fetch, needs_jvm=True),
        Job("2-offset-for-time", "<= 1.2", _UNIT, _offset_for_time, needs_jvm=True),
    ]


def _fetch(inputs: Inputs, pace: Pace) -> Measurement:
    with log_data.two_logs("log-1", inputs, batches=log_data.BATCHES, settings={}) as (ours, peer), _opened(ours) as log:
        source = random.Random(3)
        offsets = [source.randrange(log.log_end_offset) for _ in range(QUESTIONS)]

        def ask(offset: int) -> bytes:
            return log.fetch(offset, FETCH_BYTES, isolation="log_end").data

        questions = temporary_file(ours.parent, "questions", struct.pack(f">{QUESTIONS}q", *offsets))
        with LogJvm("fetch", folder=peer, questions=questions, max_bytes=FETCH_BYTES) as jvm:
            return _measure(offsets, ask, ask, jvm, pace)


def _offset_for_time(inputs: Inputs, pace: Pace) -> Measurement:
    with log_data.two_logs("log-1", inputs, batches=log_data.BATCHES, settings={}) as (ours, peer), _opened(ours) as log:
        source = random.Random(3)
        newest = log.max_timestamp
        assert newest is not None
        oldest_ms = next(log.read(0, 1)).timestamp_ms
        times = [source.randrange(oldest_ms, newest.timestamp_ms) for _ in range(QUESTIONS)]

        def ask(timestamp_ms: int) -> object:
            return log.offset_for_time(timestamp_ms, isolation="log_end")

        def answer(timestamp_ms: int) -> bytes:
            found = log.offset_for_time(timestamp_ms, isolation="log_end")
            assert found is not None
            return struct.pack(">qq", *found)

        questions = temporary_file(ours.parent, "questions", struct.pack(f">{QUESTIONS}q", *times))
        with LogJvm("time", folder=peer, questions=questions) as jvm:
            return _measure(times, ask, answer, jvm, pace)


def _opened(folder: Path) -> Log:
    return Log.open(folder, last_shutdown_clean=True)


def _measure(questions: list[int], ask: Callable[[int], object], answer: Callable[[int], bytes], jvm: LogJvm, pace: Pace) -> Measurement:
    checksum = 0
    for question in questions:
        checksum = crc32c.crc32c(answer(question), checksum)
    require_equal("checksum of all answers", checksum, jvm.check()["checksum"])
    return latencies(lambda: each(questions, ask), jvm, pace)

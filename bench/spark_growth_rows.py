"""Promises about the jobs on Spark when there is more to do: twice the bytes take twice the time and no more memory.

    growth           compaction of 4 GiB against 256 MiB, in bytes a second
    memory           the largest Python worker of the one that compacts 4 GiB, against that of 256 MiB
    many segments    compaction of ten thousand segments of 50 kB, as a topic has them that rolls by time, against the same bytes in a few
                     segments and five seconds more. Old files wait for their delay, Kafka's minute: to unlink 40 thousand is no part of it

Keys are drawn from 100 thousand; files are fresh copies each time, in the page cache. Each side is a process of its own with a session of
its own, `local[2]`, that has compacted something before: a worker remembers the most it ever took, so sides that share one tell nothing
about memory. It is how `bench.growth` measures, and growth and memory are two looks at the same runs.

Reproduce: `.venv/bin/python -m bench --only 9-compact-growth`
"""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.compaction_data import NO_FLUSH, SETTINGS, keyed_batches
from bench.data import Inputs
from bench.growth import KEYS, in_its_process, measured
from bench.jobs import Job, require_equal
from bench.spark_data import made_once
from bench.timing import Measurement, Pace
from tidelog import __version__
from tidelog.record import walk_headers
from tidelog.store.store import Store

JOB = "compact-spark"
SMALL_BYTES, LARGE_BYTES = 256 << 20, 4 << 30
SEGMENTS, SEGMENT_BYTES = 10_000, 50_000
MORE_MS = 5000.0
SAMPLES = 3
_TOPIC = "topic0"


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("9-compact-growth", ">= 0.8", "bytes/s", _growth, needs_jvm=True),
        Job("9-compact-memory", "<= 1.2", "bytes", _memory, needs_jvm=True),
        Job("9-compact-10000-segments", "<= 1", "ms", _segments, needs_jvm=True),
    ]


def _growth(inputs: Inputs, pace: Pace) -> Measurement:
    samples = min(SAMPLES, pace.samples)
    large, small = ([found["bytes"] / s for s in found["seconds"]] for found in _both(samples))
    return Measurement(large, small, f"tidelog {__version__}, 256 MiB")


def _memory(inputs: Inputs, pace: Pace) -> Measurement:
    large, small = ([float(found["worker_bytes"])] for found in _both(min(SAMPLES, pace.samples)))
    return Measurement(large, small, f"tidelog {__version__}, 256 MiB")


def _both(samples: int) -> tuple[dict[str, Any], ...]:
    """The large one and the small one, which are measured once."""
    return tuple(measured(JOB, size, samples) for size in (LARGE_BYTES, SMALL_BYTES))


def _segments(inputs: Inputs, pace: Pace) -> Measurement:
    return many_segments(SEGMENTS, min(SAMPLES, pace.samples))


def many_segments(segments: int, samples: int) -> Measurement:
    """So many segments, and the same bytes in four."""
    many = made_once(f"spark-jobs-{segments}-segments", partial(_make, segments, SEGMENT_BYTES))
    few = made_once(f"spark-jobs-{segments}-in-few", partial(_make, segments, segments * SEGMENT_BYTES // 4))
    require_equal("many segments", len(list(many.glob("*/*.log"))) > segments * 0.9, True)
    both = [in_its_process(JOB, few, [side] * samples) for side in (many, few)]
    require_equal("about the same bytes", abs(both[0]["bytes"] / both[1]["bytes"] - 1) < 0.05, True)
    ours, peer = ([1000 * seconds for seconds in found["seconds"]] for found in both)
    return Measurement(ours, [one + MORE_MS for one in peer], f"tidelog {__version__}, a few segments and {MORE_MS:.0f} ms")


def _make(segments: int, segment_bytes: int, directory: Path) -> None:
    """Segments of that size, in a topic whose setting allows for larger ones: so the cleaner may put them together."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with Store.open(directory, background=False) as store:
        topic = store.create_topic(_TOPIC, 1, {**SETTINGS, **NO_FLUSH, "internal.segment.bytes": segment_bytes})
        log = store.log(_TOPIC, 0)
        for batch in _one_by_one(keyed_batches(KEYS, 100, seed=1)):
            if log.size_bytes >= segments * SEGMENT_BYTES:
                break
            log.append_as_follower(batch)
        log.roll()
        topic.alter(reset=["internal.segment.bytes", "file.delete.delay.ms"])  # old files go after a minute, as a broker's do
    os.sync()


def _one_by_one(runs: Iterator[memoryview]) -> Iterator[memoryview]:
    """A call is never cut, so one that has many batches is too large for a small segment."""
    for run in runs:
        headers = walk_headers(run)
        for position, size in zip(headers.position.tolist(), headers.size_bytes.tolist(), strict=True):
            yield run[position : position + size]

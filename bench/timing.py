"""Samples of work per second, ours and the peer's in turn so that noise hits both.

A pass does its whole job once and says how many records, batches or bytes that were; a sample repeats passes until its time is up.
The garbage collector sleeps while the clock runs, for both sides.

Reproduce: `.venv/bin/python -m bench`
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

Pass = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Pace:
    """How many samples, how long; a JVM warms up by itself and runs twice, before us and after us."""

    samples: int = 9
    sample_seconds: float = 0.4
    jvm_warmup_seconds: float = 4.0
    jvm_samples: int = 5


FULL = Pace()
QUICK = Pace(samples=3, sample_seconds=0.15, jvm_warmup_seconds=2.0, jvm_samples=2)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Samples of both sides, and who the peer was."""

    ours_samples: list[float]
    peer_samples: list[float]
    peer_version: str
    extra: dict[str, float] = field(default_factory=dict)
    """What is worth knowing beside the samples, by name."""

    @property
    def ours(self) -> float:
        """Our median."""
        return median(self.ours_samples)

    @property
    def peer(self) -> float:
        """The peer's median."""
        return median(self.peer_samples)


def in_turn(ours: Pass, peer: Pass, pace: Pace, peer_version: str) -> Measurement:
    """Sample A B A B …; one pass of each beforehand is not counted."""
    ours()
    peer()
    ours_samples: list[float] = []
    peer_samples: list[float] = []
    for _ in range(pace.samples):
        ours_samples.append(sample(ours, pace.sample_seconds))
        peer_samples.append(sample(peer, pace.sample_seconds))
    return Measurement(ours_samples, peer_samples, peer_version)


def alone(ours: Pass, pace: Pace) -> list[float]:
    """Our samples where the peer lives in another process."""
    ours()
    return [sample(ours, pace.sample_seconds) for _ in range(pace.samples)]


def sample(run: Pass, seconds: float) -> float:
    """Units per second over whole passes of at least this long in all."""
    gc.collect()
    gc.disable()
    try:
        done = 0
        start = time.perf_counter()
        while True:
            done += run()
            elapsed = time.perf_counter() - start
            if elapsed >= seconds:
                return done / elapsed
    finally:
        gc.enable()

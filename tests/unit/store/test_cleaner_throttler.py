"""One throttle for all cleaner threads: Kafka's rule, on a clock that goes on when told to."""

import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.compaction.throttler import Throttler

MIB = 1 << 20


class Time:
    """A clock that goes on by sleeping, and by work."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert 0 < seconds <= 0.1, "who sleeps looks up now and then"
        self.now_s += seconds
        self.slept_s += seconds


def throttler(bytes_per_s: float) -> tuple[Throttler, Time]:
    clock = Time()
    return Throttler(bytes_per_s, clock=clock, sleep=clock.sleep), clock


def test_nothing_is_held_up_within_the_first_interval() -> None:
    throttle, clock = throttler(1000)
    throttle.throttle(10**9)
    clock.now_s += 0.3
    throttle.throttle(0)
    assert clock.slept_s == 0


def test_what_was_too_much_is_waited_out() -> None:
    throttle, clock = throttler(1000)
    throttle.throttle(600)
    clock.now_s += 0.5
    throttle.throttle(400)  # 1000 bytes in half a second: another half
    assert clock.slept_s == pytest.approx(0.5)
    assert throttle.waited_s == pytest.approx(0.5)
    clock.now_s += 0.4
    throttle.throttle(400)  # the next period has begun when the wait was over
    assert clock.slept_s == pytest.approx(0.5)
    assert throttle.total_bytes == 1400


def test_without_a_limit_nothing_is_held_up() -> None:
    throttle, clock = throttler(sys.float_info.max)
    for _ in range(10):
        throttle.throttle(1 << 40)
        clock.now_s += 1
    assert clock.slept_s == 0


def test_who_waits_can_be_stopped() -> None:
    throttle, clock = throttler(1)
    throttle.throttle(1000)
    clock.now_s += 1
    asked = []

    def stop() -> None:
        asked.append(clock.slept_s)
        if len(asked) == 4:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        throttle.throttle(0, stop)
    assert clock.slept_s == pytest.approx(0.3)


@given(st.lists(st.tuples(st.integers(0, 4 * MIB), st.floats(0.301, 1.0)), max_size=40), st.integers(MIB // 2, 8 * MIB))
def test_at_every_look_the_limit_holds(work: list[tuple[int, float]], bytes_per_s: int) -> None:
    throttle, clock = throttler(bytes_per_s)
    began_s = clock.now_s
    for size_bytes, seconds in work:
        clock.now_s += seconds
        throttle.throttle(size_bytes)
        assert throttle.total_bytes <= bytes_per_s * (clock.now_s - began_s) + 1
    worked_s = sum(seconds for _, seconds in work)
    most_s = max([worked_s, *(size / bytes_per_s * len(work) + worked_s for size, _ in work)])
    assert clock.now_s - began_s <= most_s + 1e-6, "nobody waits longer than for what has passed"


def test_all_threads_share_it() -> None:
    throttle = Throttler(20 * MIB, check_interval_s=0.02)

    def work() -> None:
        for _ in range(16):
            time.sleep(0.005)
            throttle.throttle(MIB // 4)

    threads = [threading.Thread(target=work) for _ in range(3)]
    began_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert throttle.total_bytes == 12 * MIB
    assert time.perf_counter() - began_s > 0.35, "12 MiB at 20 MiB a second, but for the last interval"

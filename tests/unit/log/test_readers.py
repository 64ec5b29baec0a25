"""Readers that go on while the writer appends, rolls, deletes and swaps segments under them."""

import gc
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import TIME, QuietDisk, check_log, cleaned_copy, number_of, numbered, open_log, pool_of, state_of
from tidelog.compaction.cleaned_segment import CleanedSegment
from tidelog.compaction.stats import Counts
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import LOG
from tidelog.errors import OffsetOutOfRangeError
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.record import walk_headers

TINY = {"internal.segment.bytes": 600, "index.interval.bytes": 100, "file.delete.delay.ms": 0}
SECONDS = 0.6


class Readers:
    """Threads that do one thing again and again, until they are told to stop or something is wrong."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.counts: dict[str, int] = {}
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, name: str, work: Callable[[random.Random], int]) -> None:
        def run() -> None:
            choose = random.Random(name)
            try:
                while not self._stop.is_set():
                    self.counts[name] = self.counts.get(name, 0) + work(choose)
            except BaseException as error:
                self.failures.append(error)

        self._threads.append(threading.Thread(target=run, name=name))
        self._threads[-1].start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), thread.name


def iterates(log: Log) -> Callable[[random.Random], int]:
    """From the beginning to the end, values right, offsets without a gap; overtaken only below the start."""

    def work(_: random.Random) -> int:
        expected = log.log_start_offset
        count = 0
        try:
            for record in log.read(expected):
                assert record.offset == expected == number_of(record)
                expected += 1
                count += 1
        except OffsetOutOfRangeError as error:
            if not expected <= error.log_start_offset > error.offset:
                raise
        return count

    return work


def skips(log: Log) -> Callable[[random.Random], int]:
    """Overtaken, it goes on at the new start; offsets only go up."""

    def work(_: random.Random) -> int:
        last = -1
        count = 0
        for record in log.read(0, when_overtaken="skip"):
            assert record.offset > last
            assert number_of(record) == record.offset
            last = record.offset
            count += 1
        return count

    return work


def fetches(log: Log) -> Callable[[random.Random], int]:
    def work(choose: random.Random) -> int:
        offset = choose.randint(log.log_start_offset, log.high_watermark)
        try:
            fetched = log.fetch(offset, choose.choice((1, 100, 1000, 100_000)))
        except OffsetOutOfRangeError as error:
            if error.offset >= error.log_start_offset:
                raise
            return 0
        expected = offset
        for record in fetched.records():
            assert record.offset == expected == number_of(record)
            expected += 1
        assert expected > offset or offset >= fetched.high_watermark
        return 1

    return work


def asks_for_times(log: Log) -> Callable[[random.Random], int]:
    def work(choose: random.Random) -> int:
        start = log.log_start_offset
        wanted = choose.randint(start, log.high_watermark)
        found = log.offset_for_time(TIME + wanted)
        if found is not None:
            assert found.offset >= wanted
            assert found.timestamp_ms == TIME + found.offset
        newest = log.max_timestamp
        assert newest is None or newest.timestamp_ms == TIME + newest.offset
        return 1

    return work


@pytest.mark.parametrize("max_open", [4, 400])
def test_hammered_while_segments_come_and_go(max_open: int, tmp_path: Path) -> None:
    choose = random.Random(7)
    with open_log(tmp_path, TINY, pool=FilePool(QuietDisk(), max_open)) as log:
        readers = Readers()
        readers.start("iterates", iterates(log))
        readers.start("skips", skips(log))
        readers.start("fetches", fetches(log))
        readers.start("times", asks_for_times(log))
        end = time.monotonic() + SECONDS
        swaps = deletions = 0
        # On a busy machine it takes longer until enough has happened.
        while (time.monotonic() < end or min(swaps, deletions) <= 10) and time.monotonic() < end + 60 and not readers.failures:
            number = log.log_end_offset
            if choose.random() < 0.5:
                log.append(numbered(number, timestamp_ms=TIME + number))
            else:
                log.append_run([numbered(number + at, timestamp_ms=TIME + number + at) for at in range(4)])
            action = choose.random()
            if action < 0.03:
                log.roll()
            if len(log.segments) > 12:
                deletions += log.delete_segments(choose.randint(1, 4), "a test")
            if action > 0.85 and len(log.segments) > 3:
                old = choose.choice(log.segments[:-1])
                log.replace_segments([cleaned_copy(log, old)], [old])
                swaps += 1
        readers.stop()
        assert readers.failures == []
        assert all(readers.counts[name] > 0 for name in ("iterates", "skips", "fetches", "times")), readers.counts
        assert swaps > 10
        assert deletions > 10
        check_log(log)


def test_a_segment_is_read_at_each_step_of_a_swap(tmp_path: Path) -> None:
    """A fetch and a look-up by time before and behind each rename, when no file of the segment is open."""
    disk = FaultyDisk()
    with open_log(tmp_path, {"internal.segment.bytes": 250, "index.interval.bytes": 0}, disk=disk) as log:
        for number in range(8):
            log.append(numbered(number, timestamp_ms=TIME + number))
        problems: list[str] = []
        threads: list[threading.Thread] = []

        def read(step: str) -> None:
            try:
                pool_of(log).drop_all()
                assert number_of(next(log.fetch(1, 10_000).records())) == 1
                pool_of(log).drop_all()
                assert log.offset_for_time(TIME + 1) == (1, TIME + 1)
                pool_of(log).drop_all()
                assert [number_of(record) for record in log.read()] == list(range(8))
            except BaseException as error:
                problems.append(f"{step}: {error!r}")

        def look() -> None:
            """Read while the writer stands at this step; a reader that has to wait for the writer is given the time afterwards."""
            threads.append(threading.Thread(target=read, args=(step_of(disk),)))
            threads[-1].start()
            threads[-1].join(0.1)

        for nth in range(1, 10):
            disk.run(nth, look, kind="rename")
            disk.run(nth, look, kind="rename", moment="after")
        old = log.segments[0]
        log.replace_segments([cleaned_copy(log, old)], [old])
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
        assert len(threads) == 18
        assert problems == []
        disk.heal()
        check_log(log)


def step_of(disk: FaultyDisk) -> str:
    return f"at the rename to {Path(disk.calls[-1].path).name}"


@pytest.mark.parametrize("delay_ms", [0, 60_000])
@pytest.mark.parametrize("kind", [".log", ".index", ".timeindex"])
def test_a_name_that_another_file_has_taken_before_it_is_opened(kind: str, delay_ms: int, tmp_path: Path) -> None:
    """A reader knew the name of a file and opened it when another one had taken it, and looked there by what it knew of the old one.

    It has the old segment as long as its deleted files are there, then the new one.
    """
    disk = FaultyDisk()
    config = {"internal.segment.bytes": 400, "index.interval.bytes": 0, "file.delete.delay.ms": delay_ms}
    with open_log(tmp_path, config, disk=disk) as log:
        for number in range(12):
            log.append(numbered(number, timestamp_ms=TIME + number))
        old = log.segments[0]
        left = range(log.segments[1].base_offset - 1, 12)
        assert left.start > 2
        pool_of(log).drop_all()
        disk.run(1, lambda: log.replace_segments([thinned_copy(log, old)], [old]), kind="open", on=f"{0:020}{kind}")
        expected = range(1, 12) if delay_ms else left
        if kind == ".timeindex":
            assert log.offset_for_time(TIME + 1) == (expected[0], TIME + expected[0])
        else:
            assert [number_of(record) for record in log.read(1)] == list(expected)
        assert [call.path.endswith(kind) for call in disk.fired] == [True]
        disk.heal()
        assert [number_of(record) for record in log.read()] == list(left)
        check_log(log)


def test_a_deleted_file_that_another_one_has_replaced_is_not_opened(tmp_path: Path) -> None:
    """Two swaps within `file.delete.delay.ms` leave one `.deleted` file of a name: the second."""
    with open_log(tmp_path, {"internal.segment.bytes": 400, "index.interval.bytes": 0, "file.delete.delay.ms": 60_000}) as log:
        for number in range(12):
            log.append(numbered(number))
        first = log.segments[0]
        second = cleaned_copy(log, first)
        log.replace_segments([second], [first])
        assert first.size_bytes == pool_of(log).disk.size(first.file.open().fd)  # its own, while nothing has taken its place
        log.replace_segments([cleaned_copy(log, second)], [second])
        pool_of(log).drop_all()
        for opened in (first.file.open, lambda: first.index.locate(2), lambda: first.time_index.lookup(TIME)):
            with pytest.raises(FileNotFoundError):
                opened()
        assert second.size_bytes == pool_of(log).disk.size(second.file.open().fd)
        assert [segment for _, segment in state_of(log).to_remove] == [second]
        check_log(log)


def test_a_deleted_file_that_is_removed_leaves_its_name_to_others(tmp_path: Path) -> None:
    """The second swap comes when the first's files are gone: a reader that still has the first opened those of the second."""
    with open_log(tmp_path, {"internal.segment.bytes": 400, "index.interval.bytes": 0, "file.delete.delay.ms": 60_000}) as log:
        for number in range(12):
            log.append(numbered(number))
        first = log.segments[0]
        second = cleaned_copy(log, first)
        log.replace_segments([second], [first])
        state_of(log).remove_deleted(at_once=True)
        log.replace_segments([cleaned_copy(log, second)], [second])
        pool_of(log).drop_all()
        for opened in (first.file.open, lambda: first.index.locate(2), lambda: first.time_index.lookup(TIME)):
            with pytest.raises(FileNotFoundError):
                opened()
        assert second.size_bytes == pool_of(log).disk.size(second.file.open().fd)
        check_log(log)


def test_an_index_is_not_that_of_an_earlier_deleted_segment_while_it_is_renamed(tmp_path: Path) -> None:
    """The second segment of a name was said to be `.deleted` as a whole when its `.log` was: its indexes had the names of the first's."""
    disk = FaultyDisk()
    config = {"internal.segment.bytes": 250, "index.interval.bytes": 0, "file.delete.delay.ms": 60_000}
    with open_log(tmp_path, config, disk=disk) as log:
        for number in range(20):
            log.append(numbered(number, timestamp_ms=TIME + number))
        group = log.segments[:3]
        merged = merged_copy(log, group)
        log.replace_segments([merged], group)
        assert merged.index.entries > group[0].index.entries > 0
        found: list[object] = []

        def look() -> None:
            for index in (merged.index, merged.time_index):
                pool_of(log).drop_all()
                try:
                    found.append(index.entry_bytes() == expected[index])
                except FileNotFoundError:
                    found.append("looks again")
                except OSError as error:  # not raised in the writer, whose thread this is
                    found.append(error)

        expected = {index: index.entry_bytes() for index in (merged.index, merged.time_index)}
        for nth in range(1, 10):
            disk.run(nth, look, kind="rename")
            disk.run(nth, look, kind="rename", moment="after")
        log.replace_segments([cleaned_copy(log, merged)], [merged])
        assert len(found) == 36
        assert set(found) == {True, "looks again"}
        disk.heal()
        assert [number_of(record) for record in log.read()] == list(range(20))


def merged_copy(log: Log, group: Sequence[Segment]) -> Segment:
    """A complete `.cleaned` segment with what several rolled segments hold."""
    cleaned = CleanedSegment(group[0], log.config, Counts())
    for segment in group:
        cleaned.append(memoryview(Path(segment.path_of(LOG)).read_bytes()))
    return cleaned.finish(0)


def test_a_deleted_segment_whose_name_another_one_takes_is_let_go(tmp_path: Path) -> None:
    """Nobody removes its files any more. As long as they were open, the system kept what was in them."""
    with open_log(tmp_path, {"internal.segment.bytes": 400, "index.interval.bytes": 0, "file.delete.delay.ms": 60_000}) as log:
        for number in range(12):
            log.append(numbered(number))
        for _ in range(5):
            assert [number_of(record) for record in log.read()] == list(range(12))
            assert log.offset_for_time(TIME) == (0, TIME)
            replaced = log.segments[0]
            log.replace_segments([cleaned_copy(log, replaced)], [replaced])
        state_of(log).remove_deleted(at_once=True)
        gc.collect()
        opened = [os.path.realpath(fd) for fd in Path("/proc/self/fd").iterdir()]
        assert [path for path in opened if path.startswith(log.directory) and path.endswith("(deleted)")] == []


def thinned_copy(log: Log, segment: Segment) -> Segment:
    """A complete `.cleaned` segment with nothing but the last batch of another: it has no index entries."""
    data = Path(segment.path_of(LOG)).read_bytes()
    cleaned = CleanedSegment(segment, log.config, Counts())
    cleaned.append(memoryview(data)[int(walk_headers(data).position[-1]) :])
    return cleaned.finish(0)


def test_overtaken_by_retention(tmp_path: Path) -> None:
    with open_log(tmp_path, {"internal.segment.bytes": 250}) as log:
        for number in range(10):
            log.append(numbered(number))
        raising, skipping = log.read(), log.read(when_overtaken="skip")
        assert number_of(next(raising)) == number_of(next(skipping)) == 0
        log.delete_segments(3, "a test")
        start = log.log_start_offset
        # What was fetched before is still given out: it was read, and nothing is skipped in silence.
        before: list[int] = []
        with pytest.raises(OffsetOutOfRangeError, match=f"expected {start} to 10") as raised:
            before.extend(number_of(record) for record in raising)
        assert before == list(range(1, raised.value.offset))
        assert [number_of(record) for record in skipping] == [*before, *range(start, 10)]


def test_segments_are_a_tuple_that_is_replaced(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(numbered(0))
        before = log.segments
        log.roll()
        assert isinstance(before, tuple)
        assert (len(before), len(log.segments)) == (1, 2)

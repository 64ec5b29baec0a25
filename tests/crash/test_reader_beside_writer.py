"""A reader in another process while the owner stands still behind every disk call of an append, a roll, a deletion, a swap, a cut, a close.

Whenever it looks it sees the log as it was before or as it is after, never a hole, never a mix, never an error.
"""

import json
import random
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import KINDS, TIME, QuietDisk, cleaned_copy, number_of, numbered, open_log, pool_of
from tests.support.producers import in_txn
from tests.support.readers import checkpoint_watermark, open_reader
from tidelog.disk.published_end import PUBLISHED_END, FlushedEnd, format_flushed_end
from tidelog.errors import TidelogError
from tidelog.log.log import Log
from tidelog.log.segment import Segment

TINY = {"internal.segment.bytes": 250, "index.interval.bytes": 0, "file.delete.delay.ms": 0}
COUNT = 11
MAX_CALLS = 400


class Reader:
    """The other process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.reader"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, directory: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{directory}\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    found = Reader()
    yield found
    found.process.communicate(timeout=20)
    assert found.process.returncode == 0


class Step(NamedTuple):
    """What the owner does, and which offsets may be seen meanwhile: those before, those after."""

    work: Callable[[Log], object]
    after: Callable[[Log], range]
    prepare: Callable[[Log], object] = lambda log: None
    records_after: tuple[int, ...] | None = None
    """Where compaction leaves gaps."""


def swap(log: Log, count: int) -> None:
    """Replace the first segments by one that is the same but for the records with odd offsets."""
    old = log.segments[:count]
    target = cleaned_copy(log, old[0])
    data = b"".join(
        numbered(offset, base_offset=offset, timestamp_ms=TIME + offset, partition_leader_epoch=0)
        for offset in range(log.segments[count].base_offset)
        if offset % 2 == 0
    )
    for kind, content in zip(KINDS, (data, b"", struct.pack(">qi", TIME + 4, 4)), strict=True):
        Path(target.path_of(kind)).write_bytes(content)
    new = Segment(pool_of(log), log.directory, 0, size_bytes=len(data), index_bytes=0, time_index_bytes=12)
    new.restaged(".cleaned")
    log.replace_segments([new], old)


STEPS = {
    "append": Step(lambda log: log.append(numbered(COUNT, timestamp_ms=TIME + COUNT)), lambda log: range(COUNT + 1)),
    "append that rolls": Step(lambda log: log.append(numbered(COUNT, size=150, timestamp_ms=TIME + COUNT)), lambda log: range(COUNT + 1)),
    "roll": Step(lambda log: log.roll(), lambda log: range(COUNT)),
    "delete segments": Step(lambda log: log.delete_segments(2, "a test"), lambda log: range(6, COUNT)),
    "delete all": Step(lambda log: log.delete_segments(9, "a test"), lambda log: range(COUNT, COUNT)),
    "delete records": Step(lambda log: log.delete_records_before(4), lambda log: range(4, COUNT)),
    "swap": Step(lambda log: swap(log, 2), lambda log: range(COUNT), records_after=tuple(n for n in range(COUNT) if n >= 6 or n % 2 == 0)),
    "truncate": Step(lambda log: log.truncate_to(10), lambda log: range(10)),
    "truncate to an earlier segment": Step(lambda log: log.truncate_to(4), lambda log: range(4)),
    "truncate fully": Step(lambda log: log.truncate_fully_and_start_at(20), lambda log: range(20, 20)),
    "truncate fully in place": Step(lambda log: log.truncate_fully_and_start_at(0), lambda log: range(0)),
    "flush and checkpoint": Step(lambda log: log.checkpoint(), lambda log: range(COUNT)),
    "close": Step(lambda log: log.close(), lambda log: range(COUNT)),
}


@pytest.mark.parametrize("name", STEPS)
def test_the_owner_stands_still_behind_every_call(name: str, reader: Reader, tmp_path: Path) -> None:
    step = STEPS[name]
    disk = FaultyDisk(QuietDisk())
    log = open_log(tmp_path, TINY, disk=disk)
    wrong: list[str] = []
    try:
        for number in range(COUNT):
            log.append(numbered(number, timestamp_ms=TIME + number))
        step.prepare(log)
        before, after = tuple(range(COUNT)), tuple(step.after(log)) if step.records_after is None else step.records_after
        looks = 0

        def look() -> None:
            nonlocal looks
            looks += 1
            call = disk.calls[-1]
            answer = reader.ask(log.directory)
            wrong.extend(f"{call.kind} {Path(call.path).name}: {problem}" for problem in problems(answer, before, after, step.after(log)))

        first = reader.ask(log.directory)
        assert tuple(first["new"]["all"]) == tuple(first["old"]["visible"]) == before
        for nth in range(1, MAX_CALLS):
            disk.run(nth, look, moment="after")
        step.work(log)
        disk.heal()
        assert looks < MAX_CALLS - 1
        assert looks > 0
        last = reader.ask(log.directory)
        assert tuple(last["new"]["all"]) == tuple(last["old"]["all"]) == tuple(last["new"]["visible"]) == after
    finally:
        disk.heal()
        log.close()
    assert wrong == []


def problems(answer: dict[str, Any], before: tuple[int, ...], after: tuple[int, ...], span: range) -> Iterator[str]:
    """What a reader must not have seen between two states of a log."""
    if "error" in answer:
        yield answer["error"]
        return
    for kind in ("old", "new"):
        seen = answer[kind]
        everything, visible = tuple(seen["all"]), tuple(seen["visible"])
        # While segments go one by one, any suffix or prefix may be there; what is there has no hole but those of compaction.
        whole = [source for source in (before, after) if everything == tuple(n for n in source if seen["start"] <= n < seen["end"])]
        if not whole:
            yield f"{kind}: {everything}"
        if not set(visible) <= set(everything):
            yield f"{kind}: visible {visible} of {everything}"
        low, high = max(before[0], span.start), min(before[-1] + 1, span.stop)
        if not set(range(low, high)) & set(after) <= set(visible):
            yield f"{kind}: {visible} lacks what was there before and after"
        if everything and seen["last_by_time"][0] != seen["last_by_time"][1]:
            yield f"{kind}: by time {seen['last_by_time']}"
        if seen["committed"] < (visible[-1] + 1 if visible else 0):
            yield f"{kind}: committed up to {seen['committed']}, visible {visible}"


def test_hammered_while_the_owner_goes_on(tmp_path: Path) -> None:
    """Nobody stands still: a reader in this process, with files of its own, against a writer that appends, rolls, deletes and swaps."""
    choose = random.Random(11)
    failures: list[BaseException] = []
    counts = {"follow": 0, "read": 0}
    with open_log(tmp_path, TINY, disk=QuietDisk()) as log:
        log.append(numbered(0, timestamp_ms=TIME))
        stop = threading.Event()

        def follow() -> None:
            try:
                with open_reader(Path(log.directory), max_open=3) as reader:
                    last = -1
                    for record in reader.read(follow=True, poll_s=0.001, when_overtaken="skip"):
                        assert record.offset > last
                        assert number_of(record) == record.offset
                        last = record.offset
                        counts["follow"] += 1
                        if stop.is_set() and last >= log.log_end_offset - 1:
                            return
            except BaseException as error:
                failures.append(error)

        def read() -> None:
            try:
                while not stop.is_set():
                    with open_reader(Path(log.directory)) as reader:
                        end = reader.high_watermark
                        offsets = [record.offset for record in reader.read(end=end, when_overtaken="skip")]
                        assert offsets == sorted(set(offsets))
                        # Below the start as it is now, it may have been overtaken.
                        start = reader.log_start_offset
                        assert [offset for offset in offsets if offset >= start] == list(range(start, end))
                        counts["read"] += 1
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=follow), threading.Thread(target=read)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 3
        while time.monotonic() < end and not failures:
            number = log.log_end_offset
            log.append(numbered(number, timestamp_ms=TIME + number))
            if len(log.segments) > 8:
                log.delete_segments(choose.randint(1, 3), "a test")
            if choose.random() < 0.2 and len(log.segments) > 2:
                old = choose.choice(log.segments[:-1])
                log.replace_segments([cleaned_copy(log, old)], [old])
        stop.set()
        number = log.log_end_offset
        log.append(numbered(number, timestamp_ms=TIME + number))
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
    assert failures == []
    assert counts["follow"] > 50
    assert counts["read"] > 5


def test_the_owner_is_killed_and_its_log_is_read(tmp_path: Path) -> None:
    """What was acknowledged is visible, without anybody opening the log for writing."""
    directory = tmp_path / "home" / "tide-0"
    done = subprocess.run([sys.executable, "-c", _KILLED, str(directory)], capture_output=True, text=True, timeout=60, check=False)
    acknowledged = int(done.stdout.split()[-1])
    assert done.returncode == -9
    assert acknowledged == 29
    with open_reader(directory) as reader:
        assert [number_of(record) for record in reader.read()] == list(range(acknowledged + 1))
    shutil.rmtree(directory)


_KILLED = """
import os, signal, sys
from tests.support.logs import numbered
from tidelog.log.log import Log
log = Log.open(sys.argv[1], config={"internal.segment.bytes": 700, "index.interval.bytes": 100})
for number in range(30):
    log.append(numbered(number))
    print(number, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_errors_of_a_reader_have_a_name(reader: Reader, tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(numbered(0, timestamp_ms=TIME))
        assert reader.ask(log.directory)["new"]["all"] == [0]
        (Path(log.directory) / "x.log").touch()
        assert reader.ask(log.directory)["error"].startswith("DamagedLogError")
        (Path(log.directory) / "x.log").unlink()
        with pytest.raises(TidelogError):
            open_reader(tmp_path / "none-0")
        assert reader.ask(log.directory)["old"]["all"] == [0]


def test_a_torn_batch_behind_what_was_flushed_is_not_shown(tmp_path: Path) -> None:
    """A segment that was rolled but not flushed when the power went, with another behind it."""
    directory = tmp_path / "tide-0"
    directory.mkdir()
    sound = numbered(0, base_offset=0) + numbered(1, base_offset=1)
    (directory / f"{0:020d}.log").write_bytes(sound + numbered(2, base_offset=2)[:40])
    (directory / f"{3:020d}.log").touch()
    (directory / PUBLISHED_END).write_bytes(format_flushed_end(FlushedEnd(2, 0, len(sound), 0)))
    with open_reader(directory) as reader:
        assert reader.high_watermark == 2
        assert reader.fetch(0, 1000).data == sound
        assert [record.offset for record in reader.read()] == [0, 1]


def test_a_high_watermark_above_the_end_is_taken_back_before_anything_is_appended(tmp_path: Path) -> None:
    """A crash in a truncation leaves one: readers would be shown what is appended next before it is durable."""
    with open_log(tmp_path, TINY) as log:
        log.append(numbered(0, timestamp_ms=TIME))
    checkpoint_watermark(tmp_path / "tide-0", 4)
    with open_log(tmp_path, TINY | {"flush.messages": 10}) as log:
        log.append(numbered(1, timestamp_ms=TIME + 1))
        with open_reader(tmp_path / "tide-0") as other:
            assert (other.high_watermark, other.log_end_offset) == (1, 2)


def test_what_a_crash_left_of_a_segment_that_was_never_flushed_is_not_looked_at(tmp_path: Path) -> None:
    """The later of two writes has arrived, and so has its index entry; of the earlier one there are zeros."""
    directory = tmp_path / "tide-0"
    directory.mkdir()
    sound, later = numbered(0, base_offset=0) + numbered(1, base_offset=1), numbered(3, base_offset=3)
    (directory / f"{0:020d}.log").write_bytes(sound)
    (directory / f"{2:020d}.log").write_bytes(bytes(len(later)) + later)
    (directory / f"{2:020d}.index").write_bytes(struct.pack(">ii", 1, len(later)))
    (directory / PUBLISHED_END).write_bytes(format_flushed_end(FlushedEnd(2, 0, len(sound), 0)))
    with open_reader(directory) as reader:
        assert [record.offset for record in reader.read()] == [0, 1]


def test_a_transaction_that_was_cut_off_is_forgotten_though_the_log_has_rolled_since(tmp_path: Path) -> None:
    with open_log(tmp_path) as log, open_reader(tmp_path / "tide-0") as reader:
        log.append(in_txn(1, 0))
        reader.refresh()
        assert reader.last_stable_offset == 0
        log.truncate_to(0)
        log.append(numbered(0, 3))
        log.roll()
        reader.refresh()
        assert (reader.last_stable_offset, reader.log_end_offset) == (3, 3)
        assert [number_of(record) for record in reader.read(isolation="committed")] == [0, 1, 2]


def test_a_transaction_below_an_end_that_was_only_told_is_seen(tmp_path: Path) -> None:
    """Cut inside of its first batch the log goes on at offset 2, for nobody; cut again it goes on at 0."""
    with open_log(tmp_path) as log, open_reader(tmp_path / "tide-0") as reader:
        log.append(numbered(0, 3))
        log.truncate_to(2)
        assert reader.last_stable_offset == 0
        reader.refresh()
        assert reader.last_stable_offset == 2
        log.truncate_to(0)
        log.append(in_txn(1, 0))
        log.append(numbered(1, 3))
        reader.refresh()
        assert reader.last_stable_offset == 0

"""What an owner has published and cannot take back, since it was killed: who comes after it may cut the log and go on differently.

A broker does not know `flushed-end.tidelog`. So a reader asks whether its owner lives, and if not, whether somebody has taken over since:
then the checkpoint of the high watermark has been written, and so has the segment.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.logs import numbered, open_log
from tests.support.readers import checkpoint_watermark, open_reader
from tidelog.disk.disk import OS
from tidelog.disk.published_end import PUBLISHED_END, FlushedEnd, PublishedEnd, format_flushed_end, look_at_published_end
from tidelog.log.log import Log

LOG = "00000000000000000000.log"

pytestmark = pytest.mark.leaves("flushed-end-beyond", "zero-tail", "torn-tail")
SECOND_NS = 1_000_000_000


def killed_owner(tmp_path: Path, count: int = 10) -> Path:
    """A log as an owner leaves it that was killed a minute ago, after everything was flushed and published."""
    with open_log(tmp_path) as log:
        for number in range(count):
            log.append(numbered(number))
        published = (Path(log.directory) / PUBLISHED_END).read_bytes()
    directory = Path(log.directory)
    (directory / PUBLISHED_END).write_bytes(published)
    (tmp_path / "replication-offset-checkpoint").unlink()
    age(directory, 60)
    return directory


def age(directory: Path, seconds: int) -> None:
    """All files were written so long ago, each in its turn."""
    start_ns = time.time_ns() - seconds * SECOND_NS
    for number, name in enumerate((LOG, PUBLISHED_END)):
        os.utime(directory / name, ns=(start_ns, start_ns + number))


def taken_over(directory: Path, cut_at: int, appended: int) -> None:
    """What a broker does to a log: it cuts it, goes on differently, and does not look at our file."""
    published = (directory / PUBLISHED_END).read_bytes()
    written_ns = (directory / PUBLISHED_END).stat().st_mtime_ns
    with Log.open(directory, last_shutdown_clean=True) as log:
        log.truncate_to(cut_at)
        for _ in range(appended):
            log.append(numbered(1000))
    (directory / PUBLISHED_END).write_bytes(published)
    os.utime(directory / PUBLISHED_END, ns=(written_ns, written_ns))


def test_what_a_killed_owner_flushed_stays_flushed(tmp_path: Path) -> None:
    with open_reader(killed_owner(tmp_path)) as log:
        assert log.high_watermark == 10
        assert [record.offset for record in log.read()] == [*range(10)]


@pytest.mark.parametrize(("cut_at", "appended", "watermark"), [(5, 2, 6), (5, 5, 8), (5, 9, 7), (9, 4, 9), (0, 3, 1)])
def test_a_broker_that_took_over_says_how_far(cut_at: int, appended: int, watermark: int, tmp_path: Path) -> None:
    """Also where the new batches end at the very byte at which the old ones did: 5 cut off and 5 appended, of the same size."""
    directory = killed_owner(tmp_path)
    taken_over(directory, cut_at, appended)
    checkpoint_watermark(directory, watermark)
    with open_reader(directory) as log:
        assert log.log_end_offset == cut_at + appended
        assert log.high_watermark == watermark
        assert [record.offset for record in log.read()] == [*range(watermark)]
        assert log.fetch(log.log_end_offset, 100, isolation="log_end").data == b""


def test_a_stale_start_hides_nothing(tmp_path: Path) -> None:
    directory = killed_owner(tmp_path)
    (directory / PUBLISHED_END).write_bytes(format_flushed_end(FlushedEnd(10, 0, (directory / LOG).stat().st_size, 8)))
    age(directory, 60)
    taken_over(directory, 0, 7)
    checkpoint_watermark(directory, 6)
    with open_reader(directory) as log:
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 6, 7)


def test_a_stale_end_behind_a_shorter_log_is_no_damage(tmp_path: Path) -> None:
    """A broker that is writing: behind its last whole batch lie bytes up to where the old log ended."""
    directory = killed_owner(tmp_path)
    size = (directory / LOG).stat().st_size
    taken_over(directory, 5, 2)
    content = (directory / LOG).read_bytes()
    (directory / LOG).write_bytes(content + bytes(size - len(content) + 3))
    checkpoint_watermark(directory, 7)
    with open_reader(directory) as log:
        assert log.high_watermark == 7


def test_a_checkpoint_for_the_sake_of_others_takes_nothing_away(tmp_path: Path) -> None:
    """The checkpoint is one file for all partitions: another one was closed, and this one's entry is an old one."""
    directory = killed_owner(tmp_path)
    checkpoint_watermark(directory, 3)
    with open_reader(directory) as log:
        assert log.high_watermark == 10


def test_a_write_that_was_not_published_any_more_takes_nothing_away(tmp_path: Path) -> None:
    directory = killed_owner(tmp_path)
    with (directory / LOG).open("ab") as file:
        file.write(b"\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00")
    with open_reader(directory) as log:
        assert log.high_watermark == 10


def test_of_a_living_owner_nothing_is_doubted(tmp_path: Path) -> None:
    """Its log is younger than what it has published, since it flushes seldom, and another partition has just been closed."""
    with open_log(tmp_path, {"flush.messages": 1 << 40}) as owner:
        owner.append(numbered(0))
        owner.flush()
        directory = Path(owner.directory)
        os.utime(directory / PUBLISHED_END, ns=(0, time.time_ns() - SECOND_NS))
        owner.append(numbered(1))
        checkpoint_watermark(directory, 0)
        with open_reader(directory) as log:
            assert (log.high_watermark, log.log_end_offset) == (1, 2)


def test_the_owner_is_seen_as_long_as_it_lives(tmp_path: Path) -> None:
    """By another process, and by another part of the same; several readers do not take each other for it."""
    published = PublishedEnd.open_for_writing(OS, str(tmp_path))
    published.publish(1, 0, 70, 0)
    ask = (
        "from tidelog.disk.disk import OS; from tidelog.disk.published_end import look_at_published_end as look; "
        f"print(look(OS, {str(tmp_path)!r}).is_owned, look(OS, {str(tmp_path)!r}).is_owned)"
    )
    for is_owned in (True, False):
        found = look_at_published_end(OS, str(tmp_path))
        assert found is not None
        assert found.is_owned == is_owned
        answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
        assert answer.stdout.split() == [str(is_owned)] * 2
        if is_owned:
            del published


def test_an_owner_that_is_killed_is_not_there_any_more(tmp_path: Path) -> None:
    own = (
        "import sys; from tidelog.disk.disk import OS; from tidelog.disk.published_end import PublishedEnd; "
        f"published = PublishedEnd.open_for_writing(OS, {str(tmp_path)!r}); published.publish(1, 0, 70, 0); "
        "print('published', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", own], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "published\n"
        found = look_at_published_end(OS, str(tmp_path))
        assert found is not None
        assert found.is_owned
        owner.kill()
        owner.wait()
    found = look_at_published_end(OS, str(tmp_path))
    assert found is not None
    assert not found.is_owned
    assert found.end == (1, 0, 70, 0)

"""What lies in the directory in which the commands of a page are typed: a broker's disk on a bad day, a backup, a store.

The broker's directory is one that Kafka 4.2 wrote (`tests/golden/broker`), with other records in its topics: a store has adopted it,
appended them and given it back. Times are fixed, so that pages can print them.
"""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from tidelog import Log
from tidelog.record import NewBatch, encode_batches
from tidelog.store.store import Store
from tidelog.store.store_file import STORE_FILE

GOLDEN = Path(__file__).parents[1] / "golden" / "broker" / "data"
METADATA_LOG = "__cluster_metadata-0"
PARTITIONS = ("again-0", "emails-0", "emails-1", "emails-2", "plain-0", "profiles-0", "profiles-1")
HOUR_MS = 3_600_000
NOON_MS = 1_772_971_200_000
"""2026-03-08T12:00:00Z, which the pages call now."""
USERS = 40


def scene_of(page: Path) -> Callable[[Path], None]:
    """What makes the scene of a page; nothing where it needs none."""
    return SCENES.get(page.stem, lambda home: None)


def broker(home: Path, fill: Callable[[Store], None] | None = None) -> None:
    """A stopped broker's directory `data`, its topics empty or filled."""
    data = home / "data"
    shutil.copytree(GOLDEN / METADATA_LOG, data / METADATA_LOG)
    for name in ("bootstrap.checkpoint", "meta.properties"):
        shutil.copy(GOLDEN / name, data)
    for name in PARTITIONS:
        (data / name).mkdir()
        shutil.copy(GOLDEN / name / "partition.metadata", data / name)
    with Store.open(data, adopt="cluster-metadata", background=False, clock=lambda: NOON_MS) as store:
        if fill is not None:
            fill(store)
    (data / STORE_FILE).unlink()


def append(log: Log, times_ms: Iterable[int], *, records: int = USERS) -> None:
    """A segment for each time, with a record of each user; the last one is the active segment."""
    for number, time_ms in enumerate(times_ms):
        if number:
            log.roll()
        for first in range(0, records, 10):
            rows = [(b"user-%02d" % user, b"%d@example.org" % (time_ms % 7919 + user), (), time_ms) for user in range(first, first + 10)]
            log.append(NewBatch(rows).encode())


def every_six_hours(count: int) -> list[int]:
    """The last of them an hour ago."""
    return [NOON_MS - HOUR_MS - 6 * HOUR_MS * ago for ago in reversed(range(count))]


def disk_full(home: Path) -> None:
    """Two days of e-mails in one of three partitions; the other two have less."""

    def fill(store: Store) -> None:
        for partition, segments in enumerate((8, 3, 2)):
            append(store.log("emails", partition), every_six_hours(segments))

    broker(home, fill)


def cannot_be_cleaned(home: Path) -> None:
    """Of a compacted topic one partition is damaged, the other has a transaction without an end."""

    def fill(store: Store) -> None:
        append(store.log("profiles", 0), every_six_hours(4))
        log = store.log("profiles", 1)
        hangs = {"producer_id": 4001, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        log.append(encode_batches([(b"user-00", b"never decided")], timestamp_ms=NOON_MS - 20 * HOUR_MS, **hangs))
        append(log, every_six_hours(4))

    broker(home, fill)
    rot(home / "data" / "profiles-0" / "00000000000000000040.log")


def corrupt_segment(home: Path) -> None:
    """A bit has rotted in the middle of one log; the end of another is torn."""

    def fill(store: Store) -> None:
        for partition in range(3):
            append(store.log("emails", partition), every_six_hours(3))

    broker(home, fill)
    rot(home / "data" / "emails-0" / "00000000000000000040.log")
    torn = home / "data" / "emails-1" / "00000000000000000080.log"
    torn.write_bytes(torn.read_bytes()[:-50])
    (home / "data" / "emails-2" / "00000000000000000000.timeindex").write_bytes(b"no such entries")


def rot(path: Path) -> None:
    """Flip a bit of a record in the third batch of a segment."""
    content = bytearray(path.read_bytes())
    content[-500] ^= 1
    path.write_bytes(content)


def restore(home: Path) -> None:
    """A backup that was taken while a store was open: no mark of a clean stop, and the end of a log is torn. The store lives on."""
    with Store.open(home / "data", background=False, clock=lambda: NOON_MS) as store:
        store.create_topic("orders", partitions=2)
        for partition in range(2):
            append(store.log("orders", partition), every_six_hours(3))
        shutil.copytree(home / "data", home / "backup")
    torn = home / "backup" / "orders-1" / "00000000000000000080.log"
    torn.write_bytes(torn.read_bytes()[:-50])


def still_here(home: Path) -> None:
    """Topics whose data stays, each for a reason of its own."""
    with Store.open(home / "data", background=False, clock=lambda: NOON_MS) as store:
        append(store.create_topic("kept-for-ever").log(0), every_six_hours(2))
        append(store.create_topic("quiet", config={"retention.ms": 7 * 24 * HOUR_MS}).log(0), [NOON_MS - 76 * HOUR_MS])
        append(store.create_topic("table", config={"cleanup.policy": "compact"}).log(0), every_six_hours(2))
        ahead = {"retention.ms": 6 * HOUR_MS, "message.timestamp.after.max.ms": 1000 * 24 * HOUR_MS}
        append(store.create_topic("ahead", config=ahead).log(0), [NOON_MS + 30 * 24 * HOUR_MS, *every_six_hours(3)])


def hand_over(home: Path) -> None:
    """A store with a topic, and a stopped broker in whose `plain` there was never a record."""
    broker(home)
    with Store.open(home / "store", background=False, clock=lambda: NOON_MS) as store:
        append(store.create_topic("plain").log(0), every_six_hours(3))


def take_over(home: Path) -> None:
    """A broker's directory with records."""

    def fill(store: Store) -> None:
        for partition in range(3):
            append(store.log("emails", partition), every_six_hours(2))

    broker(home, fill)


SCENES: dict[str, Callable[[Path], None]] = {
    "disk-full": disk_full,
    "cannot-be-cleaned": cannot_be_cleaned,
    "corrupt-segment": corrupt_segment,
    "restore": restore,
    "still-here": still_here,
    "hand-over": hand_over,
    "take-over": take_over,
    "operators": disk_full,
}
"""By the name of the page."""

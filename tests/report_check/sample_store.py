"""A store that looks like a real one: a shop's topics over a month, each with another way for its data to go."""

import math
import random
from collections.abc import Iterator
from pathlib import Path

from tests.support.logs import FakeClock
from tests.support.small_stores import open_store
from tidelog.record import NewBatch
from tidelog.store import Topic

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
KEYS = {"orders": "order", "customers": "customer", "clicks": "session", "audit": "user", "mails.sent": "mail"}
NOW_MS = 1_795_003_920_000
"""2026-11-18T12:12Z."""


def build_sample(path: Path, *, days: int = 30, scale: float = 1.0, damage: bool = False) -> None:
    """Build it. `scale` is about how many records there are."""
    chance = random.Random(7)
    limits = {
        "message.timestamp.before.max.ms": 2**62,
        "message.timestamp.after.max.ms": 2**62,
        "flush.messages": 10_000,
        "file.delete.delay.ms": 0,
    }
    with open_store(path, clock=FakeClock(NOW_MS), config={"log.cleaner.threads": 0}) as store:

        def create(name: str, partitions: int, **config: object) -> Topic:
            settings = {key.replace("_", "."): value for key, value in config.items()}
            return store.create_topic(name, partitions, {**limits, **settings})

        orders = create("orders", 6, retention_ms=27 * DAY_MS)
        customers = create("customers", 3, cleanup_policy="compact", delete_retention_ms=2 * DAY_MS)
        clicks = create("clicks", 4, retention_ms=-1, retention_bytes=int(1_050_000 * scale))
        audit = create("audit", 1, retention_ms=-1)
        mails = create("mails.sent", 2, cleanup_policy="compact,delete", retention_ms=45 * DAY_MS)
        for day in range(days):
            start_ms = NOW_MS - (days - day) * DAY_MS
            for topic, rate in ((orders, 60), (customers, 40), (clicks, 90), (audit, 25), (mails, 30)):
                _one_day(topic, start_ms, int(rate * scale * (1 + day / days)), chance)
            if day == days - 8:
                store.compact("customers", roll=True)
    if damage:
        _damage(path)


def _one_day(topic: Topic, start_ms: int, rate: int, chance: random.Random) -> None:
    """A day of a topic: busy by day, quiet by night; a segment for every day or two."""
    for partition in range(topic.partitions):
        log = topic.log(partition)
        for hour in range(0, 24, 2):
            busy = 0.25 + max(0.0, math.sin((hour - 6) / 18 * math.pi)) * (1 + partition % 3 / 3)
            count = max(1, int(rate * busy / 6 * chance.uniform(0.7, 1.3)))
            records = list(_records(topic.name, count, start_ms + hour * HOUR_MS, chance))
            log.append(NewBatch(records).encode())
        if chance.random() < 0.6:
            log.roll()


def _records(topic: str, count: int, start_ms: int, chance: random.Random) -> Iterator[tuple[bytes, bytes | None, tuple[()], int]]:
    for number in range(count):
        user = min(int(chance.paretovariate(0.7)), 5000)
        key = f"{KEYS[topic]}-{user:04d}".encode()
        size = int(min(4000, chance.lognormvariate(4.4, 0.9)))
        value = None if topic in ("customers", "mails.sent") and chance.random() < 0.08 else bytes(chance.choices(b"abcdefghij ", k=size))
        yield key, value, (), start_ms + number * (2 * HOUR_MS // count)


def _damage(path: Path) -> None:
    """Flip a bit in the middle of a segment, and lose an index."""
    segments = sorted((path / "orders-2").glob("*.log"))
    content = bytearray(segments[len(segments) // 2].read_bytes())
    content[len(content) // 2] ^= 1
    segments[len(segments) // 2].write_bytes(content)
    sorted((path / "orders-3").glob("*.timeindex"))[0].unlink()


HOSTILE = (
    "<script>document.title=1<",
    "<img src=x onerror=document.title=1>",
    '"><svg onload=document.title=1>',
    "&lt;b&gt;'\u202egnp",
    "\udcff",
)
"""Names that would do something if they were taken for markup, and one that is no text; a slash no name on disk can have."""


def build_hostile(path: Path) -> None:
    """A directory whose names, keys, values and headers are made to do harm."""
    for number, name in enumerate(HOSTILE):
        directory = path / f"{name}-{number}"
        directory.mkdir(parents=True)
        records = [
            (
                key.encode("utf-8", "surrogateescape"),
                b"</script><script>document.title=1</script>",
                (("</script><b>", b"<b>"),),
                NOW_MS - DAY_MS + place,
            )
            for place, key in enumerate(["</script><script>document.title=1</script>", *HOSTILE, "<!--", "\x00\x1b[31m", "]]>"] * 3)
        ]
        (directory / f"{0:020d}.log").write_bytes(NewBatch(records).encode())
    (path / "</style><script>document.title=1<".replace("/", "\u2215")).write_bytes(b"")

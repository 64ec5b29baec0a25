"""Random logs for the log cleaner: few keys, tombstones, transactions, small segments, and rounds of cleaning in between.

Written down like the other random calls (`random_steps.py`). The author only says when to clean: where a log stands, what its producers may
send and where its transactions are does not depend on it. So a fault of our cleaner does not change the sequence.

A case is plain or compressed. Compressed bytes differ between libraries, and with them sizes: so in compressed cases nothing depends on
sizes, neither where a segment ends nor which ones are merged.
"""

import base64
import json
from pathlib import Path
from random import Random

from interop.tests.random_steps import Author, Call, Rows, Step
from tests.support.batches import message
from tests.support.logs import TIME
from tidelog.record import Compression
from tidelog.record.compression import compress

WEIGHTS = {
    "append": 30,
    "produce": 25,
    "end_transaction": 10,
    "append_as_follower": 10,
    "roll": 8,
    "update_high_watermark": 4,
    "increment_log_start_offset": 1,
    "reopen": 2,
    "clean": 7,
    "choose": 4,
    "touch": 2,
}
DAY_MS = 86_400_000
PLENTY_BYTES = 1 << 20
OLD_CODECS = {
    0: ((Compression.GZIP, 1), (Compression.SNAPPY, 2)),
    1: ((Compression.GZIP, 1), (Compression.SNAPPY, 2), (Compression.LZ4, 3)),
}
"""With their bits, by format; lz4 in v0 has a header checksum that only Kafka of old computes."""


def write_case(seed: int, folder: Path, work: Path) -> None:
    """A case without answers, made from a seed."""
    random = Random(f"to be cleaned {seed}")
    is_plain = random.random() < 0.75
    config = random_config(random, is_plain=is_plain)
    steps = CleaningAuthor(random, config, work, is_plain=is_plain).write(random.randrange(20, 140))
    folder.mkdir(parents=True)
    document = {"name": f"clean-seed-{seed}", "about": "a random log to clean", "config": config, "steps": steps}
    (folder / "case.json").write_text(json.dumps(document))


def random_config(random: Random, *, is_plain: bool) -> dict[str, str]:
    config: dict[str, object] = {
        "cleanup.policy": random.choice(("compact", "compact", "compact,delete")),
        "internal.segment.bytes": random.choice((400, 600, 1000, 2000, 5000, 20000)) if is_plain else PLENTY_BYTES,
        "index.interval.bytes": random.choice((0, 1, 60, 150, 500, 4096)) if is_plain else 0,
        "segment.index.bytes": random.choice((36, 48, 100, 200, 4000, 4000, 4000)) if is_plain else 4000,
        "segment.ms": random.choice((50, 1000, 604800000, 604800000, 604800000)),
        "delete.retention.ms": random.choice((0, 1, 300, 1000, DAY_MS)),
        "min.cleanable.dirty.ratio": random.choice((0.0, 0.1, 0.5, 0.5, 0.9)),
        "file.delete.delay.ms": random.choice((0, 60000)),
    }
    if random.random() < 0.25:
        config["min.compaction.lag.ms"] = random.choice((1, 300, 5000))
    if random.random() < 0.25:
        config["max.compaction.lag.ms"] = random.choice((5000, 20000))
    if random.random() < 0.1:
        config["message.timestamp.type"] = "LogAppendTime"
    return {name: str(value) for name, value in sorted(config.items())}


class CleaningAuthor(Author):
    """Writes few keys again and again."""

    def __init__(self, random: Random, config: dict[str, str], work: Path, *, is_plain: bool) -> None:
        self.is_plain = is_plain
        self.has_legacy = random.random() < 0.15
        self.keys = [b"key-%d" % number for number in range(random.choice((1, 2, 5, 12, 40)))]
        if random.random() < 0.2:
            self.keys += [b"", b"k" * 300]
        self.share_of_tombstones = random.choice((0.0, 0.1, 0.3, 0.8))
        self.horizons_ms: list[int] = []
        """What rounds stamp on tombstones."""
        super().__init__(random, config, work)

    def operations(self, count: int) -> list[str]:
        """Most rounds come when all is committed, many behind a roll. Old formats go by the times of files, so these are set before."""
        operations: list[str] = []
        for op in self.random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=count):
            if op == "clean":
                operations += ["roll"] if self.chance(0.5) else []
                operations += ["update_high_watermark"] if self.chance(0.8) else []
                operations += ["touch"] if self.has_legacy else []
            if op != "increment_log_start_offset" or "delete" in self.config["cleanup.policy"]:
                operations.append(op)
        return operations

    # What is written

    def rows(self) -> Rows:
        self.data_ms = max(self.data_ms, self.now_ms - 3000) + self.random.choice((0, 0, 1, 5, 30, 400))
        count = self.random.choice((1, 1, 2, 3, 8))
        rows = [(self.key(), self.value(), self.headers(), self.timestamp()) for _ in range(count)]
        return rows, Compression.NONE if self.is_plain else self.random.choice((Compression.NONE, *Compression))

    def key(self) -> bytes | None:
        return self.random.choice(self.keys)

    def value(self) -> bytes | None:
        if self.chance(self.share_of_tombstones):
            return None
        return self.random.choice((b"", b"v", self.random.randbytes(self.random.randrange(60)), b"tide " * self.random.randrange(30)))

    # Steps

    def append_as_follower(self, step: Step) -> Call:
        """Now and then records without a key, which a leader of a compacted topic does not take, and formats of old."""
        if self.has_legacy and (self.log.log_end_offset == 0 or self.chance(0.5)):
            return self._append_old_messages(step)
        if not self.chance(0.3):
            return super().append_as_follower(step)
        keys = self.keys
        self.keys = [None, *keys]  # type: ignore[list-item]
        call = super().append_as_follower(step)
        self.keys = keys
        return call

    def _append_old_messages(self, step: Step) -> Call:
        offset = self.log.log_end_offset + self.random.choice((0, 0, 0, 5))
        data = b""
        for _ in range(self.random.choice((1, 2, 5)) if self.has_room else 1):
            self.data_ms += self.random.choice((0, 1, 20))
            magic = self.random.choice((0, 1))
            if self.is_plain or self.chance(0.5):
                data += message(offset, self.key(), self.value(), magic=magic, timestamp=self.timestamp())
            else:
                count = self.random.choice((1, 2, 4))
                data += self._wrapper(offset, count, magic)
                offset += count - 1
            offset += self.random.choice((1, 1, 1, 3))
        step |= {"op": "append_as_follower", "leader_epoch": self.latest_epoch, "batches": base64.b64encode(data).decode()}
        epoch = self.latest_epoch
        return lambda: self.log.append_as_follower(data, leader_epoch=epoch)

    def _wrapper(self, offset: int, count: int, magic: int) -> bytes:
        """Messages inside a compressed one: with offsets of their own in v0, counted from 0 in v1."""
        codec, bits = self.random.choice(OLD_CODECS[magic])
        first = offset if magic == 0 else 0
        times = [self.timestamp() for _ in range(count)]
        inner = b"".join(message(first + number, self.key(), self.value(), magic=magic, timestamp=times[number]) for number in range(count))
        return message(offset + count - 1, None, bytes(compress(codec, inner)), magic=magic, attributes=bits, timestamp=max(times))

    def reopen(self, step: Step) -> Call:
        """In order where there are formats of old: when Kafka recovers these, it takes its snapshots of producers elsewhere."""
        has_room = self.has_room
        self.has_room = has_room and not self.has_legacy
        call = super().reopen(step)
        self.has_room = has_room
        return call

    def update_high_watermark(self, step: Step) -> Call:
        """It only rises: what was cleaned was below it."""
        step["offset"] = self.log.log_end_offset if self.chance(0.8) else max(self.log.high_watermark, self.offset())
        return lambda: setattr(self.log, "high_watermark", step["offset"])

    def increment_log_start_offset(self, step: Step) -> Call:
        """Not above the beginning of an open transaction: from there on Kafka counts the last stable offset in another way."""
        step["offset"] = min(self.offset(below=0), self.log.last_stable_offset)
        return lambda: self.log.delete_records_before(step["offset"])

    def clean(self, step: Step) -> Call:
        self.now_ms += self.random.choice((0, 0, 1, 299, 300, 1000, 30_000))
        ahead = [horizon_ms for horizon_ms in self.horizons_ms if horizon_ms >= self.now_ms]
        if ahead and self.chance(0.4):
            self.now_ms = max(self.now_ms, self.random.choice(ahead) + self.random.choice((-1, 0, 0, 1)))
        self.horizons_ms.append(self.now_ms + int(self.config["delete.retention.ms"]))
        step["now_ms"] = self.now_ms
        slots = self.random.choice((3, 4, 6, 10, 20, 60, 1000))
        step |= {
            "memory_bytes": 24 * slots + self.random.choice((0, 7)),
            "load_factor": self.random.choice((0.5, 0.9, 0.9, 1.0)),
            "io_buffer_bytes": self.random.choice((100, 300, 1000, 65536)),
            "max_io_buffer_bytes": PLENTY_BYTES,
        }
        if self.chance(0.1):
            step["checkpoint"] = self.random.choice((None, self.offset()))
        return lambda: None

    def choose(self, step: Step) -> Call:
        if self.chance(0.5):
            step["checkpoint"] = self.random.choice((None, self.offset(), self.offset(below=3, above=3)))
        return lambda: None

    def touch(self, step: Step) -> Call:
        retention_ms = int(self.config["delete.retention.ms"])
        step["mtime_ms"] = TIME - 10 * DAY_MS
        step["step_ms"] = self.random.choice((0, 1, 400, -retention_ms, 1 - retention_ms, -1 - retention_ms, -retention_ms * 3 // 4))
        return lambda: None

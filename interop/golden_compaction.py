"""Golden rounds of Kafka's log cleaner, each of one idea: `python -m interop.golden_compaction tests/golden/compaction`.

A case is a folder with a case.json: what was appended, and when the cleaner came. Kafka plays it (`PlayStepsJob.java`, `CleanSteps.java`)
and adds its answers, the files after every round (clean-0, clean-1, …), and those at the end, open and closed. A second run gives the same.
"""

import base64
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from interop.broker.scenarios import NEWER
from interop.judge import Judge
from tests.support.batches import message
from tests.support.logs import TIME
from tidelog.record import BatchSettings, Compression, ControlType, NewBatch, transaction_marker
from tidelog.record.compression import compress

RETENTION_MS = 1000
CONFIG = {
    "cleanup.policy": "compact",
    "delete.retention.ms": str(RETENTION_MS),
    "file.delete.delay.ms": "0",
    "index.interval.bytes": "0",
    "internal.segment.bytes": "600",
    "segment.index.bytes": "240",
}
_LAZY = {"min_cleanable_dirty_ratio": "1.0", "max_compaction_lag_ms": "100"}
OLD_FILES_MS = TIME - 1_000_000

Row = tuple[bytes | None, bytes | None]


class Script:
    """The steps of a case, one after the other."""

    def __init__(self, name: str, about: str, **config: str) -> None:
        self.name = name
        self.about = about
        self.config = dict(sorted((CONFIG | {key.replace("_", "."): value for key, value in config.items()}).items()))
        self.steps: list[dict[str, Any]] = []
        self.now_ms = TIME
        self.sequences: dict[int, int] = {}

    def append(
        self,
        *rows: Row,
        producer: int | None = None,
        txn: bool = False,
        codec: Compression = Compression.NONE,
        headers: Any = (),
        timestamp_ms: int | None = None,
    ) -> "Script":
        """A batch, by a producer with an id if there is one."""
        settings: dict[str, Any] = {"compression": codec}
        if producer is not None:
            sequence = self.sequences.get(producer, 0)
            settings |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": txn}
            self.sequences[producer] = sequence + len(rows)
        times = [self._later() if timestamp_ms is None else timestamp_ms for _ in rows]
        records = [(key, value, headers, time_ms) for (key, value), time_ms in zip(rows, times, strict=True)]
        data = NewBatch(records, settings=BatchSettings(**settings)).encode()
        return self._step("append", leader_epoch=0, origin="client", batches=data)

    def values(self, text: str, **settings: Any) -> "Script":
        """A batch for each word: `a=1` is a value, `a` a tombstone; a comma joins records of one batch."""
        for word in text.split():
            pairs = [record.partition("=") for record in word.split(",")]
            self.append(*((key.encode(), value.encode() if equals else None) for key, equals, value in pairs), **settings)
        return self

    def follow(self, offset: int, *rows: Row) -> "Script":
        """A batch with an offset, which may have records without a key."""
        settings = BatchSettings(partition_leader_epoch=0)
        data = NewBatch([(key, value, (), self._later()) for key, value in rows], base_offset=offset, settings=settings).encode()
        return self._step("append_as_follower", leader_epoch=0, batches=data)

    def follow_bytes(self, data: bytes) -> "Script":
        return self._step("append_as_follower", leader_epoch=0, batches=data)

    def end(self, kind: ControlType, producer: int) -> "Script":
        """The marker of a transaction."""
        marker = transaction_marker(kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp_ms=self._later())
        return self._step("append", leader_epoch=0, origin="coordinator", batches=marker)

    def roll(self) -> "Script":
        return self._step("roll")

    def commit(self, offset: int = 1 << 40) -> "Script":
        """Everything is below the high watermark, or what is below an offset."""
        return self._step("update_high_watermark", offset=offset)

    def start(self, offset: int) -> "Script":
        """The log begins there now."""
        return self._step("increment_log_start_offset", offset=offset)

    def touch(self, step_ms: int) -> "Script":
        return self._step("touch", mtime_ms=OLD_FILES_MS, step_ms=step_ms)

    def clean(self, after_ms: int = 0, *, slots: int = 100, load_factor: float = 0.9, **fields: Any) -> "Script":
        """A round, so much later."""
        self.now_ms += after_ms
        sizes: dict[str, Any] = {
            "memory_bytes": 24 * slots,
            "load_factor": load_factor,
            "io_buffer_bytes": 4096,
            "max_io_buffer_bytes": 1 << 20,
        }
        return self._step("clean", **sizes, **fields)

    def choose(self, **fields: Any) -> "Script":
        return self._step("choose", **fields)

    def closed(self) -> "Script":
        """What was written so far is cleanable: it is committed, and behind it there is an active segment."""
        return self.roll().commit()

    def later(self, ms: int) -> "Script":
        self.now_ms += ms
        return self

    def _later(self) -> int:
        self.now_ms += 1
        return self.now_ms

    def _step(self, op: str, *, batches: bytes | None = None, **fields: Any) -> "Script":
        if batches is not None:
            fields["batches"] = base64.b64encode(batches).decode()
        self.steps.append({"op": op, "now_ms": self.now_ms, **fields})
        return self


def scripts() -> Iterator[Script]:
    """All cases."""
    yield (
        Script("superseded", "Batches that keep all, some and none of their records")
        .values("a=1,b=1 c=1 a=2,d=1 =empty,b=2 e=1")
        .append((b"h", b"1"), (b"a", b"3"), headers=[("x", b"1"), ("y", None)])
        .closed()
        .values("a=4 b=3,f=1 c=")
        .closed()
        .clean()
        .values("a=5,g=1")
        .closed()
        .clean()
    )
    yield (
        Script("tombstones", "A round stamps the horizon, one just before it keeps the tombstones, one at it drops them")
        .values("a=1 b=1,c=1 a b,d=1 c")
        .closed()
        .clean()
        .values("e=1")
        .closed()
        .clean(RETENTION_MS - 2)
        .values("f=1")
        .closed()
        .clean()
    )
    yield _transactions()
    yield (
        Script("committed-behind-aborted", "The search for keys begins behind the marker of an abort that the index still names")
        .values("a=1", producer=7, txn=True)
        .end(ControlType.ABORT, 7)
        .values("b=1 c=1 d=1")
        .values("a=2,b=2 c=2", producer=7, txn=True)
        .end(ControlType.COMMIT, 7)
        .values("d=2")
        .closed()
        .clean(checkpoint=3)
        .values("e=1")
        .closed()
        .clean(RETENTION_MS)
    )
    yield (
        Script("transaction-open", "Nothing is cleaned from the segment on in which an open transaction begins")
        .values("a=1 a=2")
        .closed()
        .values("b=1 b=2")
        .values("a=3", producer=7, txn=True)
        .values("b=3 a=4")
        .closed()
        .clean()
        .end(ControlType.COMMIT, 7)
        .closed()
        .clean()
    )
    yield (
        Script("producers", "The last batch of a producer stays, be it empty, until the producer writes another")
        .values("a=1 b=1", producer=7)
        .values("a=2 b=2,c=1", producer=8)
        .values("a=3 b=3 c=2")
        .closed()
        .clean()
        .values("c=3", producer=7)
        .values("c=4")
        .closed()
        .clean()
    )
    yield (
        Script("full-map", "The map is full in the middle of a batch; the rounds go on from there")
        .values("a=1,b=1,c=1 d=1,e=1,f=1 a=2,b=2 g=1,h=1 d=2")
        .closed()
        .values("a=3 b=3")
        .closed()
        .clean(slots=5)
        .clean(slots=5)
        .clean(slots=5)
        .clean(slots=5)
    )
    yield (
        Script("merged", "Small segments become one, some of which nothing is left", internal_segment_bytes="200")
        .values(" ".join(f"a={number} b={number},c{number}=1" for number in range(12)))
        .closed()
        .clean()
        .values("a=last b=last")
        .closed()
        .clean()
    )
    yield (
        Script("index-limit", "Segments are not merged beyond what an index takes", segment_index_bytes="64", internal_segment_bytes="300")
        .values(" ".join(f"k{number}=1" for number in range(24)))
        .closed()
        .clean()
    )
    yield _codecs()
    yield _old_formats()
    yield (
        Script("no-key", "Records without a key, which only a follower takes, are dropped")
        .follow(0, (b"a", b"1"), (None, b"lost"), (b"b", b"1"))
        .follow(3, (None, b"lost"))
        .follow(4, (b"a", b"2"), (None, None))
        .closed()
        .follow(9, (b"c", b"1"))
        .commit()
        .clean()
    )
    yield (
        Script("append-time", "Batches that are stamped by the log", message_timestamp_type="LogAppendTime")
        .values("a=1,b=1 a=2,c=1 b c")
        .closed()
        .clean(300)
        .values("a=3")
        .closed()
        .clean(RETENTION_MS)
    )
    yield (
        Script("young", "What is younger than min.compaction.lag.ms waits", min_compaction_lag_ms="5", max_compaction_lag_ms="20000")
        .values("a=1 a=2")
        .closed()
        .values("a=3 a=4")
        .closed()
        .clean(1)
        .choose()
        .clean(5)
        .choose()
        .values("a=5")
        .closed()
        .choose()
        .choose(checkpoint=None)
        .choose(checkpoint=1000)
    )
    yield (
        Script("log-start", "The log begins in the middle of a segment", cleanup_policy="compact,delete")
        .values("a=1 b=1 a=2 b=2 c=1 a=3")
        .closed()
        .start(3)
        .clean()
        .values("b=3")
        .closed()
        .clean(checkpoint=None)
    )
    yield (
        Script("overdue", "What is older than max.compaction.lag.ms is cleaned whatever the ratio", **_LAZY)
        .append((b"a", b"1"), timestamp_ms=0)
        .values("a=2")
        .closed()
        .clean(checkpoint=None)
        .append((b"a", b"3"), timestamp_ms=0)
        .closed()
        .choose()
        .values("a=4 b=1")
        .closed()
        .choose()
        .later(98)
        .choose()
        .later(1)
        .choose()
        .later(1)
        .choose()
    )
    yield (
        Script("far-apart", "Segments whose offsets are just near enough for one, and those that are not", internal_segment_bytes="5000")
        .follow(0, (b"a", b"1"), (b"b", b"1"))
        .closed()
        .follow((1 << 31) - 1, (b"a", b"2"))
        .closed()
        .follow(1 << 31, (b"c", b"1"))
        .closed()
        .follow((1 << 32) + 7, (b"b", b"2"))
        .closed()
        .clean()
    )


def _transactions() -> Script:
    script = Script("transactions", "Aborted data goes at once, a marker when its data is gone and its time has come").values("a=1 b=1")
    for kind, producer in ((ControlType.COMMIT, 7), (ControlType.ABORT, 8), (ControlType.ABORT, 7), (ControlType.COMMIT, 8)):
        script.values(f"a={producer},x={kind} b={producer}", producer=producer, txn=True).end(kind, producer)
    script.values("c=1", producer=7, txn=True).values("c=2", producer=8, txn=True)
    script.end(ControlType.ABORT, 7).end(ControlType.COMMIT, 8).closed().clean()
    for number in range(3):
        script.values(f"a=after-{number} b=after,x=after c=after").closed().clean(0 if number == 0 else RETENTION_MS)
    return script


def _codecs() -> Script:
    script = Script("codecs", "Every codec, rewritten and as it was", internal_segment_bytes="5000")
    for number, codec in enumerate(Compression):
        script.values(f"a={number},b{number}=kept,c={number} d{number}=kept,e{number}=kept", codec=codec)
    for codec in Compression:
        script.values("a,z=tombstone", codec=codec)
    return script.closed().values("c=last").closed().clean().values("y=1").closed().clean(RETENTION_MS - 1)


def _old_formats() -> Script:
    """v0 and v1, alone and in wrappers. Their tombstones go by the times of files, those of v2 by the horizon."""
    script = Script("formats-of-old", "Messages of v0 and v1 become v2 batches", internal_segment_bytes="300")
    offset = 0

    def old(magic: int, *rows: Row, codec: Compression = Compression.NONE) -> None:
        nonlocal offset
        first = 0 if codec and magic else offset
        times = [script._later() for _ in rows]
        data = b"".join(message(first + at, key, value, magic=magic, timestamp=times[at]) for at, (key, value) in enumerate(rows))
        offset += len(rows)
        if codec:
            packed = bytes(compress(codec, data))
            data = message(offset - 1, None, packed, magic=magic, attributes=int(codec), timestamp=max(times))
        script.follow_bytes(data)

    old(0, (b"a", b"1"), (b"b", b"1"))
    old(1, (b"a", b"2"), (b"c", None))
    old(1, (b"d", b"1"), (b"a", b"3"), (b"e", b"1"), codec=Compression.GZIP)
    script.closed()
    old(0, (b"f", b"1"), (b"d", None), (b"a", b"4"), codec=Compression.SNAPPY)
    old(1, (b"g", None))
    script.closed().touch(-RETENTION_MS // 2).clean()
    old(1, (b"h", None), (b"f", b"2"))
    script.closed().touch(-RETENTION_MS * 3 // 4).clean(RETENTION_MS)
    old(1, (b"i", None), (b"a", b"5"))
    script.closed().touch(-RETENTION_MS).clean()
    return script


def write(folder: Path, judge: Judge, cases: Sequence[Script] | None = None) -> None:
    """Let Kafka play all of them."""
    for script in cases or list(scripts()):
        target = folder / script.name
        target.mkdir(parents=True)
        document = {"name": script.name, "about": script.about, "config": script.config, "steps": script.steps}
        (target / "case.json").write_text(json.dumps(document))
    judge.play(folder)


def main(into: Path) -> None:
    """Write the folder anew."""
    shutil.rmtree(into, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch, Judge(version=NEWER, messages=Path(scratch) / "judge.txt") as judge:
        write(into, judge)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

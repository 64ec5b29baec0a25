"""A compacted topic of one partition beside a plain list of everything that was ever appended to it, for tests of what compaction keeps."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.support.logs import FakeClock
from tests.support.producers import end_of_txn
from tests.support.small_stores import open_store
from tests.support.verified import assert_verified
from tidelog.disk.disk import Disk
from tidelog.log.log import Log
from tidelog.record import BatchSettings, Compression, NewBatch
from tidelog.record.kernel.record import Record
from tidelog.store.store import Store
from tidelog.store.topic import Topic

NAME = "tide"
DELETE_RETENTION_MS = 1000
SEGMENT_BYTES = 800
"""A few batches."""
TINY_MAP, SMALL_MAP, LARGE_MAP = 100, 400, 1 << 16
"""Memory for 3 keys, for 14, and for all."""

Rows = Sequence[tuple[bytes, bytes | None]]


class Told(NamedTuple):
    """A record as it was appended."""

    offset: int
    key: bytes
    value: bytes | None
    timestamp_ms: int


class CompactedTopic:
    """Each call does something to the store, and to the list."""

    def __init__(self, store: Store, clock: FakeClock, **config: object) -> None:
        settings: dict[str, object] = {
            "cleanup.policy": "compact",
            "internal.segment.bytes": SEGMENT_BYTES,
            "delete.retention.ms": DELETE_RETENTION_MS,
            "min.cleanable.dirty.ratio": 0.0,
            "file.delete.delay.ms": 0,
        }
        self.store = store
        self.clock = clock
        self.topic: Topic = store.create_topic(NAME, config=settings | {name.replace("_", "."): value for name, value in config.items()})
        self.told: list[Told] = []
        """What readers of committed records may be told, in order."""
        self._open: dict[int, list[Told]] = {}
        """Records of transactions that are not decided."""
        self._sequences: dict[int, int] = {}

    @property
    def log(self) -> Log:
        return self.topic.log(0)

    # What is done

    def append(self, rows: Rows, codec: str = "none") -> None:
        self.told += self._append(rows, BatchSettings(compression=Compression[codec.upper()]))

    def begin(self, producer_id: int, rows: Rows) -> None:
        """A batch of a transaction, which is open from then on."""
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + len(rows)
        settings = BatchSettings(producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)
        self._open.setdefault(producer_id, []).extend(self._append(rows, settings))

    def end(self, producer_id: int, kind: str) -> None:
        """Decide it, if there is one."""
        if producer_id not in self._open:
            return
        self.log.append(end_of_txn(producer_id, kind, timestamp_ms=self.clock()), origin="coordinator")
        decided = self._open.pop(producer_id)
        if kind == "commit":
            self.told = sorted(self.told + decided)

    def end_all(self) -> None:
        for producer_id in list(self._open):
            self.end(producer_id, "commit")

    def roll(self) -> None:
        self.log.roll()

    def advance(self, ms: int) -> None:
        self.clock.advance(ms)

    def compact(self, *, roll: bool = False) -> None:
        result = self.store.compact(NAME, roll=roll)
        assert (result.failures, result.left_alone) == ((), ())

    def roll_and_compact(self) -> None:
        self.compact(roll=True)

    def clean_once(self) -> None:
        """One turn of the cleaner: one pass, which may not come to the end."""
        self.store.clean_once()
        assert self.store.metrics().cleaner.uncleanable == ()

    def _append(self, rows: Rows, settings: BatchSettings) -> list[Told]:
        now_ms = self.clock()
        batch = NewBatch([(key, value, (), now_ms) for key, value in rows], settings=settings).encode()
        first = self.log.append(batch).first_offset
        return [Told(first + place, key, value, now_ms) for place, (key, value) in enumerate(rows)]

    # What is asked

    def read(self, start: int = 0, **options: Any) -> list[Told]:
        return list(map(told, self.topic.read(start, partition=0, **options)))

    def latest(self) -> dict[bytes, Told]:
        """The last record of each key."""
        return {one.key: one for one in self.told}

    def table(self) -> dict[bytes, bytes]:
        """The final state."""
        return table_of(self.told)


def told(record: Record) -> Told:
    """A record as it was read."""
    assert record.key is not None
    return Told(record.offset, bytes(record.key), record.value, record.timestamp_ms)


def table_of(records: Sequence[Told]) -> dict[bytes, bytes]:
    """What somebody knows who was told these, one after the other."""
    table: dict[bytes, bytes] = {}
    for one in records:
        if one.value is None:
            table.pop(one.key, None)
        else:
            table[one.key] = one.value
    return table


@contextmanager
def compacted_topic(*, memory: int = LARGE_MAP, disk: Disk | None = None, **config: object) -> Iterator[CompactedTopic]:
    """A topic in a store of its own; in order when it is closed."""
    clock = FakeClock()
    options: dict[str, Any] = {} if disk is None else {"disk": disk}
    with tempfile.TemporaryDirectory() as folder:
        settings = {"log.cleaner.dedupe.buffer.size": memory}
        with open_store(Path(folder) / "store", config=settings, clock=clock, **options) as store:
            yield CompactedTopic(store, clock, **config)
        assert_verified(Path(folder) / "store" / f"{NAME}-0")


keys = st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"", b"long" * 20])
values = st.one_of(st.none(), st.binary(max_size=40))
rows = st.lists(st.tuples(keys, values), min_size=1, max_size=6)
producers = st.integers(1, 2)
appends = st.tuples(st.just("append"), rows, st.sampled_from(["none", "none", "lz4"]))
transactions = st.one_of(
    st.tuples(st.just("begin"), producers, rows), st.tuples(st.just("end"), producers, st.sampled_from(["commit", "abort"]))
)
pauses = st.tuples(st.just("advance"), st.integers(1, 900))
passes = st.sampled_from([("roll_and_compact",), ("compact",), ("clean_once",), ("roll",)])
memories = st.sampled_from([TINY_MAP, SMALL_MAP, LARGE_MAP])


def do(topic: CompactedTopic, step: tuple[Any, ...]) -> None:
    """One step of a script."""
    name, *arguments = step
    getattr(topic, name)(*arguments)

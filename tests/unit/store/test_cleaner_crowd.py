"""Everything at once on a few compacted topics: nobody hangs, nothing fails that should not, and the logs are in order afterwards."""

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import tidelog
from tests.support.compacted_stores import compacted, pairs, put
from tidelog.errors import LogClosedError, OffsetOutOfRangeError, RefusedBatchError, TopicExistsError, UnknownTopicError
from tidelog.log.log import Log
from tidelog.store import Store

SECONDS = 1.5
CONFIG = {"log.cleaner.threads": 2, "log.cleaner.backoff.ms": 0, "log.retention.check.interval.ms": 50, "log.initial.task.delay.ms": 0}
TOPIC = compacted(cleanup_policy="compact,delete", internal_segment_bytes=1000, min_cleanable_dirty_ratio=0, flush_messages=10**9)
EXPECTED = (LogClosedError, OffsetOutOfRangeError, RefusedBatchError, TopicExistsError, UnknownTopicError)
"""A topic is deleted under those who use it; one that is only compacted keeps its start; what is to be read may be cut off."""


class Crowd:
    """Threads that do things to a store until the time is over."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.is_over = threading.Event()

    def any_log(self, chance: random.Random) -> Log:
        return self.store.log(chance.choice(("steady", "fleeting")), chance.randrange(2))

    def append(self, chance: random.Random) -> None:
        put(self.any_log(chance), *pairs("".join(chance.choices("abcdefgh", k=5))))

    def read(self, chance: random.Random) -> None:
        offsets = [record.offset for record in self.any_log(chance).read()]
        assert offsets == sorted(set(offsets))

    def truncate(self, chance: random.Random) -> None:
        log = self.any_log(chance)
        log.truncate_to(max(log.log_start_offset, log.log_end_offset - chance.randrange(30)))

    def move_start(self, chance: random.Random) -> None:
        log = self.any_log(chance)
        log.delete_records_before(max(log.log_start_offset, log.high_watermark - chance.randrange(100)))

    def compact(self, chance: random.Random) -> None:
        result = self.store.compact(chance.choice(("steady", "fleeting")), roll=chance.random() < 0.3, dry_run=chance.random() < 0.3)
        assert result.failures == ()

    def retain(self, _: random.Random) -> None:
        assert self.store.retain().failures == ()

    def alter(self, chance: random.Random) -> None:
        self.store.topic("steady").alter({"cleanup.policy": chance.choice(("compact", "compact,delete", "delete"))})

    def recreate(self, _: random.Random) -> None:
        self.store.delete_topic("fleeting")
        self.store.create_topic("fleeting", 2, config=TOPIC)

    def look(self, _: random.Random) -> None:
        self.store.metrics().to_prometheus()
        str(self.store.explain())

    def run(self, act: Callable[[random.Random], None], pause_s: float) -> None:
        chance = random.Random(act.__name__)
        while not self.is_over.wait(chance.random() * pause_s):
            try:
                act(chance)
                self.done[act.__name__] += 1
            except EXPECTED:
                continue
            except BaseException:
                self.wrong.append(traceback.format_exc())
                self.is_over.set()


# A cut into what compaction has emptied leaves an end that no batch reaches, and closing a snapshot for it: see test_compact.
@pytest.mark.leaves("snapshot-beyond-end")
def test_everything_at_once(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "store", config=CONFIG) as store:
        for name in ("steady", "fleeting"):
            store.create_topic(name, 2, config=TOPIC)
        crowd = Crowd(store)
        acts = {
            crowd.append: 0.001,
            crowd.read: 0.01,
            crowd.truncate: 0.05,
            crowd.move_start: 0.05,
            crowd.compact: 0.02,
            crowd.retain: 0.05,
            crowd.alter: 0.05,
            crowd.recreate: 0.3,
            crowd.look: 0.05,
        }
        threads = [threading.Thread(target=crowd.run, args=act) for act in acts.items()]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS)
        crowd.is_over.set()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert crowd.wrong == []
        assert set(crowd.done) == {act.__name__ for act in acts}
        metrics = store.metrics()
        assert metrics.cleaner.totals.passes > 0
        assert (metrics.cleaner.totals.failures, metrics.cleaner.uncleanable, metrics.dead_threads) == (0, (), 0)
        assert metrics.failing_tasks == ()
        store.topic("steady").alter({"cleanup.policy": "compact"})
        for topic in store.topics():
            table = dict(topic.table())
            store.compact(topic.name, roll=True)
            assert dict(topic.table()) == table, "compaction does not change what the table is"
            assert sum(1 for _ in topic.read()) <= 2 * len("abcdefgh")

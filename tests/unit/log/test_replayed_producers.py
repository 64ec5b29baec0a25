"""What a recovery keeps of the batches of producers: few of them, and a replay comes to the same."""

from pathlib import Path
from random import Random

import pytest

from tests.support.logs import numbered, open_log
from tests.support.producers import end_of_txn, placed
from tidelog.disk.disk import OS
from tidelog.log.producer_replay import producer_batches, replay
from tidelog.log.producer_state import ProducerState
from tidelog.log.recovery import scan_segment
from tidelog.record import walk_headers


def some_batches(seed: int, count: int) -> bytes:
    """Of six producers, with epochs that rise, and, in some, transactions."""
    random = Random(seed)
    parts = []
    for offset in range(count):
        producer_id = random.randrange(6)
        if seed % 2 and random.random() < 0.1:
            parts.append(placed(offset, end_of_txn(producer_id, random.choice(["abort", "commit"]))))
            continue
        settings = {"producer_id": producer_id, "producer_epoch": offset // random.choice([7, 100]), "base_sequence": offset}
        parts.append(numbered(offset, base_offset=offset, is_transactional=bool(seed % 4 == 1 and producer_id < 2), **settings))
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(12))
def test_a_replay_comes_to_the_same(seed: int) -> None:
    states = []
    data = memoryview(some_batches(seed, 300))
    for is_replayed in (False, True):
        state = ProducerState(OS, "nowhere", (), expiration_ms=1 << 40)
        aborted = []
        for start, end in ((0, 40), (40, 44), (44, 300)):
            headers = walk_headers(data)[start:end]
            aborted += replay(state, producer_batches(data, headers, is_replayed=is_replayed))
        states.append((state.entries, state.unstable, aborted))
    assert states[0] == states[1]
    assert states[0][0]


def test_few_of_many_are_kept(tmp_path: Path) -> None:
    with open_log(tmp_path, {"internal.segment.bytes": 10_000_000}) as log:
        batches = [numbered(number, producer_id=number % 3, producer_epoch=0, base_sequence=number // 3) for number in range(6000)]
        log.append_run(batches)
        scanned = scan_segment(log.segments[0], index_interval_bytes=4096)
        assert scanned.batch_count == 6000
        assert len(scanned.producers) <= 2 * 3 * 5

"""Several partitions in one call: an answer or an error for each, and Kafka's limits in bytes."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import QuietDisk, number_of, numbered, open_log
from tests.support.readers import open_reader
from tidelog.errors import BatchTooLargeError, LogClosedError, OffsetOutOfRangeError, TidelogError
from tidelog.log.fetched import Fetched
from tidelog.log.log import Log
from tidelog.log.multi_fetch import FetchRequest, multi_fetch

BATCH = len(numbered(0))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Log]]:
    """Four partitions with none, one, five and twenty batches of one size."""
    home = tmp_path_factory.mktemp("home")
    with ExitStack() as stack:
        found: list[Log] = []
        for partition, count in enumerate((0, 1, 5, 20)):
            log = stack.enter_context(
                open_log(home, disk=QuietDisk() if partition == 0 else found[0]._state.pool.disk, name=f"tide-{partition}")
            )
            for number in range(count):
                log.append(numbered(number))
            found.append(log)
        yield found


def sizes(answers: list[Fetched | TidelogError]) -> list[int | str]:
    return [len(answer.data) // BATCH if isinstance(answer, Fetched) else type(answer).__name__ for answer in answers]


def test_each_has_its_own_answer_or_error(logs: list[Log]) -> None:
    requests = [FetchRequest(logs[0], 0), FetchRequest(logs[1], 7), FetchRequest(logs[2], 3), FetchRequest(logs[3], 18)]
    answers = multi_fetch(requests)
    assert sizes(answers) == [0, "OffsetOutOfRangeError", 2, 2]
    assert isinstance(answers[1], OffsetOutOfRangeError)
    assert (answers[1].offset, answers[1].log_end_offset) == (7, 1)
    assert isinstance(answers[3], Fetched)
    assert [number_of(record) for record in answers[3].records()] == [18, 19]


def test_a_closed_log_is_an_answer_too(logs: list[Log], tmp_path: Path) -> None:
    closed = open_log(tmp_path)
    closed.close()
    answers = multi_fetch([FetchRequest(closed, 0), FetchRequest(logs[2], 0)])
    assert isinstance(answers[0], LogClosedError)
    assert sizes(answers)[1] == 5


@pytest.mark.parametrize(
    ("total", "limits", "expected"),
    [
        (100 * BATCH, (2 * BATCH, 2 * BATCH, 3 * BATCH), [1, 2, 3]),
        (4 * BATCH, (9 * BATCH, 9 * BATCH, 9 * BATCH), [1, 3, 0]),
        (BATCH, (9 * BATCH, 9 * BATCH, 9 * BATCH), [1, 0, 0]),
        (1, (9 * BATCH, 9 * BATCH, 9 * BATCH), [1, 0, 0]),  # the first batch comes whole
        (0, (1, 1, 1), [1, 0, 0]),
        (100 * BATCH, (1, 1, 1), [1, 0, 0]),  # and only the first of all
        (100 * BATCH, (1, BATCH, 1), [1, 1, 0]),
    ],
)
def test_limits(total: int, limits: tuple[int, int, int], expected: list[int], logs: list[Log]) -> None:
    requests = [FetchRequest(log, 0, limit) for log, limit in zip(logs[1:], limits, strict=True)]
    assert sizes(multi_fetch(requests, max_bytes=total)) == expected


def test_an_empty_partition_leaves_the_first_batch_to_the_next(logs: list[Log]) -> None:
    requests = [FetchRequest(logs[0], 0, 1), FetchRequest(logs[1], 5, 1), FetchRequest(logs[2], 0, 1), FetchRequest(logs[3], 0, 1)]
    assert sizes(multi_fetch(requests)) == [0, "OffsetOutOfRangeError", 1, 0]


def test_a_part_of_a_batch_is_left_out(logs: list[Log]) -> None:
    answer = multi_fetch([FetchRequest(logs[3], 4, BATCH - 1)], min_one=False)[0]
    assert isinstance(answer, Fetched)
    assert (answer.data, answer.is_first_incomplete, answer.next_offset, answer.high_watermark) == (b"", True, 4, 20)


def expected_sizes(counts: list[int], requests: list[tuple[int, int, int]], total: int, min_one: bool) -> list[int | str]:
    """Kafka's rule, over partitions that are lists of batches of one size."""
    found: list[int | str] = []
    for place, offset, limit in requests:
        if offset > counts[place]:
            found.append("OffsetOutOfRangeError")
            continue
        there = (counts[place] - offset) * BATCH
        allowed = min(limit, total)
        size = min(there, max(allowed, BATCH) if min_one else allowed)
        if size < BATCH:
            size = 0
        if size:
            min_one, total = False, max(0, total - size)
        found.append(size // BATCH)
    return found


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 22), st.integers(0, 8 * BATCH)), max_size=6),
    st.integers(0, 12 * BATCH),
    st.booleans(),
)
def test_against_the_rule(logs: list[Log], requests: list[tuple[int, int, int]], total: int, min_one: bool) -> None:
    answers = multi_fetch([FetchRequest(logs[place], offset, limit) for place, offset, limit in requests], max_bytes=total, min_one=min_one)
    assert sizes(answers) == expected_sizes([0, 1, 5, 20], requests, total, min_one)
    spent = sum(len(answer.data) for answer in answers if isinstance(answer, Fetched))
    assert spent <= max(total, BATCH)


def test_of_logs_that_others_own(logs: list[Log]) -> None:
    with ExitStack() as stack:
        readers = [stack.enter_context(open_reader(Path(log.directory))) for log in logs]
        strict = stack.enter_context(open_reader(Path(logs[3].directory), max_batch_bytes=10))
        requests = [*(FetchRequest(reader, 0) for reader in readers), FetchRequest(strict, 0, 1), FetchRequest(logs[3], 0)]
        assert sizes(multi_fetch(requests)) == [0, 1, 5, 20, 0, 20]
        assert isinstance(multi_fetch([FetchRequest(strict, 0, 1)])[0], BatchTooLargeError)
        assert sizes(multi_fetch(requests, isolation="committed")) == [0, 1, 5, 20, 0, 20]

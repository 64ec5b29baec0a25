from collections.abc import Iterator
from pathlib import Path

import pytest

import tidelog
from tidelog.record import BatchEncoder, NewBatch, Record, encode_batches, read_batches

HEADERS = (("a", b"1"), ("b", None))


def test_headers_from_an_iterator_are_written_whatever_batch_they_are_in() -> None:
    """A row is looked at twice where a batch ends before it, and where the output was too small."""
    rows = [(b"k", b"v" * 1000) for _ in range(300)]
    data = encode_batches([(*row, iter(HEADERS)) for row in rows])
    assert data == encode_batches([(*row, HEADERS) for row in rows])
    whole = NewBatch([Record(value, key=key, headers=iter(HEADERS)) for key, value in rows]).encode()  # type: ignore[arg-type]
    assert {record.headers for batch in read_batches(whole) for record in batch} == {HEADERS}


def test_records_must_not_change_while_they_are_encoded() -> None:
    rows: list[object] = []

    class Clearing:
        def __iter__(self) -> Iterator[tuple[str, bytes]]:
            rows.clear()
            return iter([("a", b"b")])

    rows += [(b"k", b"v", Clearing()), *[(b"k", b"v")] * 1000]
    with pytest.raises(RuntimeError, match="more or fewer"):
        BatchEncoder().encode(rows)  # type: ignore[arg-type]


@pytest.mark.parametrize("partitions", [1, 3])
def test_append_many_takes_headers_from_iterators(tmp_path: Path, partitions: int) -> None:
    """Records are encoded twice, once to see whether all can be appended."""
    with tidelog.open(tmp_path / "s") as store:
        topic = store.create_topic("t", partitions=partitions)
        topic.append_many([(b"%d" % i, b"v" * 1000, zip("ab", (b"1", None), strict=True)) for i in range(300)])
        topic.append_many((b"%d" % i, b"v", iter(HEADERS), 1_700_000_000_000) for i in range(300))
        topic.append_many([Record(b"v", key=b"%d" % i, headers=iter(HEADERS), timestamp_ms=1_700_000_000_000) for i in range(300)])  # type: ignore[arg-type]
        assert [record.headers for record in topic.read()] == [HEADERS] * 900

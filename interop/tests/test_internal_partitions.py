"""A group, or a transactional id, belongs to the partition of its internal topic that Kafka gives it: its own classes are asked."""

from random import Random

import pytest

from interop.judge import Judge
from tidelog.store.internal_topics import java_hash, partition_of_id

COUNTS = [1, 2, 3, 7, 16, 49, 50, 51, 64, 100, 997, 1000]
SMALLEST = "polygenelubricants"
"""Its hash is the one number that has no positive counterpart."""
ALPHABETS = [(0x20, 0x7F), (0x20, 0x500), (0x4E00, 0xA000), (0x10000, 0x110000), (0x20, 0xD800), (0xD800, 0xE000)]


def ids(draw: Random) -> list[str]:
    """Of all lengths: names, other scripts, characters of two units, halves of such ones."""
    found = ["", SMALLEST, "group-1", "ключ", "😀", *(f"consumer-{number}" for number in range(500))]
    for first, end in ALPHABETS:
        found += ["".join(chr(draw.randrange(first, end)) for _ in range(draw.randrange(1, 40))) for _ in range(1000)]
    return found


def units(text: str) -> list[int]:
    """A string of Java."""
    data = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2)]


@pytest.mark.parametrize("seed", range(2))
def test_an_id_belongs_where_kafka_puts_it(judge: Judge, seed: int) -> None:
    wanted = ids(Random(seed))
    answer = judge.ask("hash", ids=[units(text) for text in wanted], counts=COUNTS)
    assert [java_hash(text) for text in wanted] == answer["hashes"]
    assert answer["hashes"][1] == -(1 << 31)
    assert min(answer["hashes"]) < 0 < max(answer["hashes"])
    for count, expected in zip(COUNTS, answer["partitions"], strict=True):
        assert [partition_of_id(text, count) for text in wanted] == expected, count

"""What a broker has written down about its topics: of a real one, with its own answers as the referee, and record by record."""

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from pathlib import Path
from uuid import UUID

import pytest
from kio.serial import writers
from kio.static.primitive import i8, i32, uvarint

from tests.support.small_stores import open_store, tree_of
from tidelog.disk.disk import OS
from tidelog.disk.partition_metadata import format_topic_id
from tidelog.errors import CorruptFileError, LogNotFoundError
from tidelog.record import encode_batches
from tidelog.store.cluster_metadata import DescribedTopic, TopicChanges, read_cluster_metadata

GOLDEN = Path(__file__).parents[2] / "golden" / "broker"
ONE, TWO = UUID(int=2**100 + 1), UUID(int=2**99 + 2)


def described(path: Path) -> dict[str, dict[str, object]]:
    found = read_cluster_metadata(OS, [str(path)])
    return {
        name: {"topic_id": format_topic_id(topic.topic_id), "partitions": topic.partitions, "config": topic.config}
        for name, topic in found.items()
    }


def topics_of(values: Iterable[bytes]) -> dict[str, DescribedTopic]:
    """What is left of all changes to topics, in their order."""
    changes = TopicChanges()
    for value in values:
        changes.take(value)
    return changes.topics()


def test_a_real_broker() -> None:
    expected = json.loads((GOLDEN / "expected.json").read_text())["topics"]
    assert described(GOLDEN / "data") == expected


@pytest.mark.parametrize("left_out", ["checkpoint", "log"])
def test_the_snapshot_and_the_log_say_the_same(left_out: str, tmp_path: Path) -> None:
    """The log of the golden directory still begins at 0, so it stands alone; the snapshot has all but the last changes."""
    directory = tmp_path / "__cluster_metadata-0"
    shutil.copytree(GOLDEN / "data" / "__cluster_metadata-0", directory)
    for path in directory.glob(f"*.{left_out}"):
        path.unlink()
    expected = json.loads((GOLDEN / "expected.json").read_text())["topics"]
    if left_out == "checkpoint":
        assert described(tmp_path) == expected
    else:
        found = described(tmp_path)
        assert found.keys() < expected.keys() or found == expected or found.keys() == expected.keys()
        assert found["emails"]["topic_id"] == expected["emails"]["topic_id"]


def test_what_the_snapshot_stands_for_is_not_read_twice(tmp_path: Path) -> None:
    """Records below it may be gone, or damaged in sense: here they remove a topic that they never made."""
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    snapshot = [TOPIC("a", ONE), PARTITION(0, ONE), CONFIG(2, "a", "flush.ms", "5")]
    write(directory / "00000000000000000003-0000000001.checkpoint", snapshot)
    write(directory / "00000000000000000001-0000000009.checkpoint", [TOPIC("old", TWO)])
    write(directory / "00000000000000000000.log", [REMOVE(TWO), REMOVE(TWO), REMOVE(TWO), CONFIG(2, "a", "flush.ms", "6")])
    write(directory / "00000000000000000004.log", [PARTITION(1, ONE)], base_offset=4)
    assert topics_at(tmp_path) == {"a": DescribedTopic(ONE, 2, {"flush.ms": "6"})}


def test_topics_come_and_go() -> None:
    values = [
        TOPIC("a", ONE),
        *(PARTITION(number, ONE) for number in (2, 0, 1)),
        CONFIG(2, "a", "retention.ms", "5"),
        CONFIG(2, "a", "flush.ms", "7"),
        CONFIG(2, "a", "flush.ms", None),
        CONFIG(2, "a", "never.set", None),
        CONFIG(4, "1", "log.retention.ms", "9"),
        CONFIG(4, "", "log.retention.ms", "9"),
        OTHER(27),
    ]
    assert topics_of(values) == {"a": DescribedTopic(ONE, 3, {"retention.ms": "5"})}
    assert topics_of([*values, REMOVE(ONE)]) == {}
    again = [*values, REMOVE(ONE), CONFIG(2, "a", "segment.ms", "1"), TOPIC("a", TWO), PARTITION(0, TWO)]
    assert topics_of(again) == {"a": DescribedTopic(TWO, 1, {"segment.ms": "1"})}


def test_to_which_brokers_partitions_are_assigned() -> None:
    """When they were made, and changed since; a change of the leader, or one that a later Kafka knows, is none of that."""
    made = [TOPIC("a", ONE), PARTITION(0, ONE, (1, 2)), PARTITION(1, ONE, (3,))]
    assert topics_of(made)["a"].replicas == {0: (1, 2), 1: (3,)}
    leader = CHANGE(0, ONE, t1=(5).to_bytes(4, "big"), t99=b"later")
    assert topics_of([*made, leader])["a"].replicas == {0: (1, 2), 1: (3,)}
    moved = CHANGE(1, ONE, t0=ids([4]), t2=ids([4, 1]), t3=ids([]))
    assert topics_of([*made, moved])["a"].replicas == {0: (1, 2), 1: (4, 1)}
    assert topics_of([*made, OTHER(23), moved, OTHER(25)])["a"].replicas == {0: (1, 2), 1: (3,)}
    with pytest.raises((ValueError, LookupError)):
        topics_of([CHANGE(0, TWO, t2=ids([1]))])


def test_a_real_broker_says_to_whom_partitions_are_assigned() -> None:
    found = read_cluster_metadata(OS, [str(GOLDEN / "data")])
    assert found["emails"].replicas == dict.fromkeys(range(3), (1,))
    assert all(topic.replicas.keys() == set(range(topic.partitions)) for topic in found.values())


def test_transactions() -> None:
    begin, end, abort = (OTHER(kind) for kind in (23, 24, 25))
    assert topics_of([begin, TOPIC("a", ONE), abort, TOPIC("b", TWO)]) == {"b": DescribedTopic(TWO)}
    assert topics_of([begin, TOPIC("a", ONE), end]) == {"a": DescribedTopic(ONE)}
    assert topics_of([TOPIC("b", TWO), begin, TOPIC("a", ONE)]) == {"b": DescribedTopic(TWO)}


def test_fields_that_are_not_known_yet_are_no_fault() -> None:
    value = TOPIC("é" * 200, ONE) + b"\x01\x05\x02xy"
    assert topics_of([value]) == {"é" * 200: DescribedTopic(ONE)}


BAD = {
    "empty": lambda: b"",
    "a later frame": lambda: b"\x02\x02\x00",
    "cut off in the kind": lambda: b"\x01\x82",
    "cut off in the name": lambda: TOPIC("abc", ONE)[:6],
    "cut off in the id": lambda: TOPIC("abc", ONE)[:-2],
    "a varint without end": lambda: b"\x01" + b"\xff" * 9,
    "no name": lambda: b"\x01\x02\x00\x00" + bytes(17),
    "not UTF-8": lambda: b"\x01\x02\x00\x02\xff" + bytes(17),
    "a partition of no topic": lambda: PARTITION(0, ONE),
    "removes what is not there": lambda: REMOVE(ONE),
}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
def test_what_is_wrong_is_told(value: Callable[[], bytes], tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    write(directory / "00000000000000000000.log", [value()])
    before = tree_of(tmp_path)
    with pytest.raises(CorruptFileError, match="adopt=True goes without it"):
        open_store(tmp_path, adopt="cluster-metadata")
    assert {name: content for name, content in tree_of(tmp_path).items() if name != ".lock"} == before


def test_a_batch_that_is_damaged(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    shutil.copytree(GOLDEN / "data" / "__cluster_metadata-0", directory)
    path = directory / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match="CRC"):
        read_cluster_metadata(OS, [str(tmp_path)])


def test_only_the_very_end_may_be_cut_off(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    write(directory / "00000000000000000000.log", [TOPIC("a", ONE)])
    write(directory / "00000000000000000001.log", [TOPIC("b", TWO)], base_offset=1)
    last = directory / "00000000000000000001.log"
    last.write_bytes(last.read_bytes()[:-1])
    assert topics_at(tmp_path) == {"a": DescribedTopic(ONE)}
    first = directory / "00000000000000000000.log"
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match="cut off"):
        topics_at(tmp_path)


def test_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError, match="no log of a broker in KRaft mode"):
        read_cluster_metadata(OS, [str(tmp_path)])


def topics_at(path: Path) -> dict[str, DescribedTopic]:
    return read_cluster_metadata(OS, [str(path)])


def write(path: Path, values: list[bytes], base_offset: int = 0) -> None:
    path.write_bytes(encode_batches([(None, value) for value in values], base_offset=base_offset, timestamp_ms=0))


# Records, written by kio's primitives.


def framed(kind: int, write_fields: Callable[[BytesIO], None]) -> bytes:
    buffer = BytesIO()
    for number in (1, kind, 0):
        writers.write_unsigned_varint(buffer, uvarint(number))
    write_fields(buffer)
    writers.write_unsigned_varint(buffer, uvarint(0))
    return buffer.getvalue()


def TOPIC(name: str, topic_id: UUID) -> bytes:  # noqa: N802 - as they are listed
    def fields(buffer: BytesIO) -> None:
        writers.write_compact_string(buffer, name)
        writers.write_uuid(buffer, topic_id)

    return framed(2, fields)


def PARTITION(number: int, topic_id: UUID, replicas: Sequence[int] = (1,)) -> bytes:  # noqa: N802
    def fields(buffer: BytesIO) -> None:
        writers.write_int32(buffer, i32(number))
        writers.write_uuid(buffer, topic_id)
        buffer.write(ids(replicas))
        buffer.write(b"rest")

    return framed(3, fields)


def CHANGE(number: int, topic_id: UUID, **tagged: bytes) -> bytes:  # noqa: N802
    """A change to a partition; `tagged` has tags as `t2`, with their bytes."""

    def fields(buffer: BytesIO) -> None:
        writers.write_int32(buffer, i32(number))
        writers.write_uuid(buffer, topic_id)
        writers.write_unsigned_varint(buffer, uvarint(len(tagged)))
        for tag, content in tagged.items():
            for part in (int(tag[1:]), len(content)):
                writers.write_unsigned_varint(buffer, uvarint(part))
            buffer.write(content)

    return framed(5, fields)[:-1]


def ids(numbers: Sequence[int]) -> bytes:
    """A compact array of int32."""
    buffer = BytesIO()
    writers.write_unsigned_varint(buffer, uvarint(len(numbers) + 1))
    for number in numbers:
        writers.write_int32(buffer, i32(number))
    return buffer.getvalue()


def CONFIG(kind: int, resource: str, name: str, value: str | None) -> bytes:  # noqa: N802
    def fields(buffer: BytesIO) -> None:
        writers.write_int8(buffer, i8(kind))
        writers.write_compact_string(buffer, resource)
        writers.write_compact_string(buffer, name)
        writers.write_nullable_compact_string(buffer, value)

    return framed(4, fields)


def REMOVE(topic_id: UUID) -> bytes:  # noqa: N802
    return framed(9, lambda buffer: writers.write_uuid(buffer, topic_id))


def OTHER(kind: int) -> bytes:  # noqa: N802
    return framed(kind, lambda buffer: None)

"""Names of files and directories: what is one, and what only looks like it."""

import pytest

from tidelog.disk.names import SegmentFile, TopicPartition, is_set_aside, parse_partition, parse_segment_file

SUFFIX = "0123456789abcdef" * 2


def test_plain_digits() -> None:
    assert parse_segment_file(f"{42:020d}.log.clean") == SegmentFile(42, ".log", ".cleaned")
    assert parse_partition("a-b-7") == TopicPartition("a-b", 7)
    assert is_set_aside(f"a-7.{SUFFIX}-delete")


@pytest.mark.parametrize("seven", ["\u0667", "\u096d", "\uff17"])
def test_digits_of_other_scripts_are_none(seven: str) -> None:
    """Python takes them for numbers; nobody writes such names, and two of them would be the same number."""
    assert int(seven) == 7
    assert parse_segment_file(f"{'0' * 19}{seven}.log") is None
    assert parse_partition(f"a-{seven}") is None
    assert not is_set_aside(f"a-{seven}.{SUFFIX}-delete")

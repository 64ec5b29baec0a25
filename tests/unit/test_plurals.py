"""How many of something."""

import pytest

from tidelog.plurals import counted


@pytest.mark.parametrize(("count", "said"), [(0, "0 segments"), (1, "1 segment"), (2, "2 segments")])
def test_one_and_several(count: int, said: str) -> None:
    assert counted(count, "segment") == said


def test_a_plural_of_its_own() -> None:
    assert [counted(count, "batch", "batches") for count in (0, 1, 2)] == ["0 batches", "1 batch", "2 batches"]

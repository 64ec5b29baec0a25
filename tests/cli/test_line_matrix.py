"""Lines that are made all at once are those that are made one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.line_matrix import interleave, join_lines, texts
from tidelog.cli.output import escaped_texts, json_text

INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 12_000) | st.sampled_from([9, 10, 99, 100, 9_999, 10_000, 10**8 - 1, 10**8])
TEXT = st.text(st.characters(exclude_characters="\0\x01\x03"), max_size=5)


@given(st.lists(st.tuples(INT64, st.integers(0, 2**31 - 1), st.booleans()), min_size=1, max_size=40), TEXT, TEXT)
def test_numbers_in_lines(rows: list[tuple[int, int, bool]], before: str, between: str) -> None:
    wide = np.array([row[0] for row in rows], np.int64)
    narrow = np.array([row[1] for row in rows], np.int32)
    marks = np.array([row[2] for row in rows], np.uint8)
    lines = [f"{before}{wide}{between}{narrow}!" for wide, narrow, _ in rows]
    assert join_lines([before, wide, between, narrow, "!"], len(rows)) == "".join(lines)
    marked = ["\x01" * is_marked + line for line, (_, _, is_marked) in zip(lines, rows, strict=True)]
    assert join_lines([marks, before, wide, between, narrow, "!"], len(rows)) == "".join(marked)
    found = texts([before, wide, between, narrow, "!"], len(rows))
    assert found == lines if isinstance(found, list) else {found} == set(lines)


def test_all_widths() -> None:
    for width in range(1, 19):
        numbers = np.array([10 ** (width - 1), 10**width - 1, 10**width, 0], np.int64)
        assert join_lines([numbers, "\n"], 4).split() == [str(number) for number in numbers.tolist()]


def test_one_text_where_all_lines_are_the_same() -> None:
    assert texts(["a", np.array([-1, -1])], 2) == "a-1"
    assert texts(["a", np.array([-1, 7])], 2) == ["a-1", "a7"]


@given(st.lists(TEXT, min_size=1), TEXT)
def test_columns_side_by_side(column: list[str], everywhere: str) -> None:
    assert interleave([everywhere, column, "\n"], len(column)) == "".join(f"{everywhere}{text}\n" for text in column)


@given(st.lists(st.none() | st.binary(max_size=6) | st.text(max_size=6).map(str.encode), min_size=1, max_size=12))
def test_texts_of_json(items: list[bytes | None]) -> None:
    found = escaped_texts(items)
    if found is not None:
        assert [f'"{text}"' for text in found] == [json_text(item) for item in items]
    has_odd = any(item is None or b"\x7f" in item or not _is_text(item) for item in items)
    assert (found is None) is has_odd


def _is_text(item: bytes) -> bool:
    try:
        item.decode()
    except UnicodeDecodeError:
        return False
    return True

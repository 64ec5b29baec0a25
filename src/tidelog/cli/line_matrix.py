"""Many lines of one form at once: a matrix of bytes with a row a line, instead of a string for each.

What all lines have in common is copied row by row; numbers are written four digits at a time, from a table. A number that is shorter than
the longest of its column is filled up with zero bytes, which are dropped in the end: so no text that is put in may have one. Texts that
differ from line to line are put between such parts by `interleave`.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Part = str | NDArray[Any]

_NOTHING = b"\0"
_APART = "\x03"


def join_lines(parts: "Sequence[Part]", count: int) -> str:
    """`count` lines with these parts: a text is in all of them; of an array of numbers each line has one, of bytes (uint8) one as it is."""
    import numpy as np

    row = bytearray()
    columns: list[tuple[int, NDArray[np.uint8]]] = []
    for part in parts:
        if isinstance(part, str):
            row += part.encode("utf-8", "surrogatepass")  # a path may have anything in it
            continue
        cells = part.reshape(-1, 1) if part.dtype == np.uint8 else digits(part)
        columns.append((len(row), cells))
        row += bytes(cells.shape[1])
    matrix = np.empty((count, len(row)), np.uint8)
    matrix[:] = np.frombuffer(row, np.uint8)
    for at, cells in columns:
        matrix[:, at : at + cells.shape[1]] = cells
    return matrix.tobytes().replace(_NOTHING, b"").decode("utf-8", "surrogatepass")


def texts(parts: "Sequence[Part]", count: int) -> str | list[str]:
    """The same, as a text for each line; one text if it is the same in all of them."""
    if all(isinstance(part, str) or (part.dtype != "u1" and part.min() == part.max()) for part in parts):
        return join_lines(parts, 1)
    return join_lines([*parts, _APART], count).split(_APART)[:-1]


def digits(numbers: "NDArray[Any]") -> "NDArray[np.uint8]":
    """A row for each number, as wide as the longest; a shorter one has zero bytes in it."""
    import numpy as np

    low, high = int(numbers.min()), int(numbers.max())
    if low == high:
        return np.frombuffer(str(low).encode(), np.uint8).reshape(1, -1)  # all lines get the same one
    if low < 0:
        return np.array([str(number) for number in numbers.tolist()], np.bytes_).view(np.uint8).reshape(len(numbers), -1)
    narrowest, width = len(str(low)), len(str(high))
    groups = np.empty((len(numbers), -(-width // 4)), np.uint32)
    table, rest = _four_digits(), numbers
    for group in reversed(range(groups.shape[1])):
        higher = rest // 10_000
        groups[:, group] = table[rest - higher * 10_000]
        rest = higher
    cells = groups.view(np.uint8)[:, -width:]
    for shorter in range(narrowest, width):
        cells[numbers < 10**shorter, width - shorter - 1] = 0
    return cells


def interleave(columns: Sequence[str | list[str]], count: int) -> str:
    """`count` lines, of which each has a text of each column; a column that is one text is in all of them."""
    parts = [""] * (len(columns) * count)
    for place, column in enumerate(columns):
        parts[place :: len(columns)] = [column] * count if isinstance(column, str) else column
    return "".join(parts)


@cache
def _four_digits() -> "NDArray[np.uint32]":
    """`0000` to `9999`, each as the four bytes of one number."""
    import numpy as np

    decimals = np.arange(10_000)[:, None] // np.array([1000, 100, 10, 1]) % 10
    table: NDArray[np.uint32] = (decimals + ord("0")).astype(np.uint8).view(np.uint32).reshape(-1)
    return table

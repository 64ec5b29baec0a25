"""What the readers of files for `ingest` have in common: lines with their numbers, and what to do about files that cannot be read."""

from collections.abc import Callable, Iterator, Sequence
from io import TextIOWrapper
from itertools import islice
from pathlib import Path

ON_SPARK = "--spark reads it"
MEND = "nothing was appended: mend the file, or leave it out"
ROWS = 8192
"""So many rows are one batch."""

OnRead = Callable[[float], None]
"""Told of each file how much more of its bytes was read."""


def line_chunks(files: Sequence[Path], tell: OnRead, encoding: str = "utf-8") -> Iterator[tuple[Path, list[tuple[int, str]]]]:
    """Some thousand lines at a time, with their numbers."""
    for file in files:
        with file.open("rb") as opened, TextIOWrapper(opened, encoding=encoding) as text:
            numbered = enumerate(text, 1)
            position = 0
            while lines := [(number, line.removesuffix("\n")) for number, line in islice(numbered, ROWS)]:
                last, position = position, opened.tell() if opened.seekable() else 0  # a pipe has no place
                tell(position - last)
                yield file, lines

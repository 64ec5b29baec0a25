"""A process that reads somebody else's log and tells what it sees. `test_reader_beside_writer` asks it while the owner stands still.

    python -m tests.crash.reader

For each directory on a line of its input, one JSON object on its output: what a reader sees that was just opened, and one that has been
open since the directory was first asked about.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from tests.support.logs import TIME, number_of
from tests.support.readers import open_reader
from tidelog.errors import TidelogError
from tidelog.log.read_only import ReadOnlyLog


def tell(log: ReadOnlyLog) -> dict[str, Any]:
    """What it sees. Values are their own offsets, times too."""
    log.refresh()
    visible = [record.offset for record in log.read(when_overtaken="skip")]
    records = list(log.read(isolation="log_end", when_overtaken="skip"))
    assert all(number_of(record) == record.offset for record in records)
    last = records[-1].offset if records else None
    found = None if last is None else log.offset_for_time(TIME + last, isolation="log_end")
    return {
        "start": log.log_start_offset,
        "end": log.log_end_offset,
        "visible": visible,
        "all": [record.offset for record in records],
        "committed": log.last_stable_offset,
        "last_by_time": [last, None if found is None else found.offset],
    }


def main() -> None:
    """Answer until there is no more input."""
    warnings.simplefilter("error")
    opened: dict[str, ReadOnlyLog] = {}
    for line in sys.stdin:
        name = line.strip()
        answer: dict[str, Any] = {}
        try:
            if name not in opened:
                opened[name] = open_reader(Path(name), max_open=4)
            answer["old"] = tell(opened[name])
            with open_reader(Path(name)) as new:
                answer["new"] = tell(new)
        except (TidelogError, AssertionError) as error:
            answer["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)  # noqa: T201
    for log in opened.values():
        log.close()


if __name__ == "__main__":
    main()

"""What an open log takes: memory while it is opened, descriptors and maps once it is, and again after a fetch from every segment.

Measured in a process of its own, which prints it as JSON. Memory is the high-water mark against what the process held before; maps are
those of files of the log; descriptors are all the process has.

Reproduce: `.venv/bin/python -m bench.log_footprint DIRECTORY '{"internal.segment.bytes": "33000"}'`
"""

import json
import sys
from pathlib import Path
from typing import TypedDict

from tidelog.log.log import Log


class Footprint(TypedDict):
    """Two numbers each: once it is open, and after the fetches."""

    memory_growth_bytes: int
    descriptors: list[int]
    maps: list[int]


def _measure(folder: Path, settings: dict[str, str]) -> Footprint:
    before = _status_bytes("VmRSS")
    with Log.open(folder, config=settings, last_shutdown_clean=True) as log:
        growth = _status_bytes("VmHWM") - before
        descriptors, maps = [_descriptors()], [_maps(folder)]
        for segment in log.segments:
            assert log.fetch(segment.base_offset + 1, 1, isolation="log_end").data
        descriptors.append(_descriptors())
        maps.append(_maps(folder))
    return Footprint(memory_growth_bytes=growth, descriptors=descriptors, maps=maps)


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"/proc/self/status has no {field}")


def _maps(folder: Path) -> int:
    return sum(str(folder) in line for line in Path("/proc/self/maps").read_text().splitlines())


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]).resolve(), json.loads(sys.argv[2]))))

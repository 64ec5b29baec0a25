"""Kill a process that appends and compacts, and look at what is left."""

import time
from functools import partial
from pathlib import Path
from random import Random

from tests.crash.compactor import TOPIC, open_store, record_of
from tests.crash.writer import PER_THREAD
from tests.support.crash_kill import Writers
from tidelog.inspection import verify
from tidelog.log.log import Log

Found = dict[int, tuple[bytes | None, bytes | None]]


class Compactors(Writers):
    """The fork server of `tests.crash.compactor`. A context manager."""

    program = "tests.crash.compactor"


def compaction_kill_round(compactors: Compactors, root: Path, draw: Random) -> list[str]:
    """Kill one, and perhaps the next one that goes on where it was: what is wrong then."""
    root.mkdir()
    acknowledged: dict[int, int] = {}
    threads_of: list[int] = []
    for turn in range(draw.choice([1, 2, 3])):
        threads, first = draw.choice([1, 2]), turn * 10
        pause_s = draw.random() * 0.02  # into the middle of a pass
        acknowledged |= compactors.kill_one(
            root / "data", threads=threads, first=first, after=draw.randrange(20, 150), then=partial(time.sleep, pause_s)
        )
        threads_of += range(first, first + threads)
    with open_store(str(root / "data")) as store:
        faults = [f"{partition}: {error}" for partition, error in store.failures.items()]
        log = store.log(TOPIC, 0)
        before = _found(log)
        faults += faults_of(before, acknowledged, threads_of)
        result = store.compact(TOPIC, roll=True)
        faults += [f"compacting again failed: {failure}" for failure in result.failures]
        after = _found(log)
        faults += [f"{fault}, after another pass" for fault in faults_of(after, acknowledged, threads_of)]
        if _latest(before) != _latest(after):
            faults.append("another pass has changed the final state")
        left = [path.name for path in Path(log.directory).iterdir() if path.suffix in (".cleaned", ".swap", ".deleted")]
        faults += [f"{name} is left" for name in left]
    findings = verify(root / "data" / f"{TOPIC}-0", level="records")
    return faults + [str(finding) for finding in findings if finding.severity != "note"]


def _found(log: Log) -> Found:
    return {record.offset: (record.key, record.value) for record in log.read()}


def _latest(found: Found) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {key: (offset, value) for offset, (key, value) in sorted(found.items())}


def faults_of(found: Found, acknowledged: dict[int, int], threads: list[int]) -> list[str]:
    """What was acknowledged is there, or a later record of its key is; what is there was acknowledged, or was about to be."""
    faults, latest = [], _latest(found)
    for offset, number in acknowledged.items():
        key, value = record_of(number)
        if offset in found:
            if found[offset] != (key, value):
                faults.append(f"offset {offset} has {found[offset]}, not {key!r}: {value!r}")
        elif latest.get(key, (-1, None))[0] < offset:
            faults.append(f"offset {offset} is gone, and nothing later of its key {key!r} is there")
    numbers = set(acknowledged.values())
    about_to_be = [max((one for one in numbers if one // PER_THREAD == thread), default=thread * PER_THREAD - 1) + 1 for thread in threads]
    allowed = {record_of(number) for number in about_to_be}
    for offset, record in found.items():
        if offset not in acknowledged and record not in allowed:
            faults.append(f"offset {offset} has {record}, which nobody has written there")
    return faults

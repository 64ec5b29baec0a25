"""How much memory a round of the cleaner takes, measured in a process of its own.

The libraries are loaded and the log is open before. Then the high-water mark of this process (`VmHWM`) is taken against what it held
(`VmRSS`); the offset map, which a cleaner thread keeps, is made meanwhile and counts.

Reproduce: `.venv/bin/python -m bench.compaction_memory DIRECTORY BYTES`; the directory is cleaned
"""

import subprocess
import sys
from pathlib import Path

from bench.compaction_data import SETTINGS
from bench.jvm import ROOT, CannotRunError
from bench.memory import status_bytes
from tidelog.compaction.cleaning import clean_log
from tidelog.compaction.offset_map import OffsetMap
from tidelog.compaction.plan import plan_cleaning
from tidelog.log.log import Log
from tidelog.record.kernel.clock import wall_clock


def peak_growth_bytes(folder: Path, map_bytes: int) -> int:
    """Start a process that cleans this directory; how far its memory grew while it did."""
    command = [sys.executable, "-m", "bench.compaction_memory", str(folder), str(map_bytes)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotRunError(f"the process that measures memory failed:\n{done.stderr.strip()}")
    return int(done.stdout)


def _measure(folder: Path, map_bytes: int) -> int:
    with Log.open(folder, config=SETTINGS, last_shutdown_clean=True) as log:
        before = status_bytes("VmRSS")
        now_ms = wall_clock()
        cleaned = clean_log(log, plan_cleaning(log, log.config, None, now_ms), OffsetMap(map_bytes), now_ms)
        peak = status_bytes("VmHWM")
    assert cleaned.stats.messages_written > 0
    return peak - before


if __name__ == "__main__":
    print(_measure(Path(sys.argv[1]), int(sys.argv[2])))

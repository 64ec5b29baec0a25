"""How much memory decoding takes beside its input, measured in a process of its own.

The file is read and pyarrow loaded first. Then the high-water mark of this process (`VmHWM`) is taken against what it held before:
`ru_maxrss` would not do, a child starts with its parent's. Columns are dropped as they come.

Reproduce: `.venv/bin/python -m bench.memory bench/data/s-none.log`
"""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from bench.jvm import ROOT, CannotRunError
from tidelog.record import iter_arrow


def peak_growth_bytes(path: Path) -> int:
    """Start a process that decodes this file; how far its memory grew while it did."""
    done = subprocess.run([sys.executable, "-m", "bench.memory", str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotRunError(f"the process that measures memory failed:\n{done.stderr.strip()}")
    return int(done.stdout)


def _measure(path: Path) -> int:
    pa.array([b"", None], pa.binary())  # where pandas is installed, Arrow loads it now: tens of megabytes that are not ours
    pa.Table.from_arrays([pa.array([1])], ["offset"]).to_batches()
    data = path.read_bytes()
    assert pa.total_allocated_bytes() == 0
    before = status_bytes("VmRSS")
    records = 0
    for batch in iter_arrow(data):
        records += batch.num_rows
        del batch
    assert records > 0
    return status_bytes("VmHWM") - before


def status_bytes(field: str) -> int:
    """A line of what the system tells about this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise CannotRunError(f"/proc/self/status has no {field}")


if __name__ == "__main__":
    print(_measure(Path(sys.argv[1])))

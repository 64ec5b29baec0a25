"""Facts of the machine a run was made on, without which its figures mean nothing; nothing that names it.

Whether two cores were really free is measured, not read: hashing, which neither shares memory nor holds the GIL, on one thread and on two.

Reproduce: `.venv/bin/python -m bench.machine`
"""

import hashlib
import json
import os
import platform
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from bench.jvm import ROOT
from bench.timing import FULL, Pace

PACKAGES = ("tidelog", "numpy", "pyarrow", "crc32c", "cramjam", "zstandard", "aiokafka", "pyspark", "duckdb", "lmdb", "Cython")
_HASHED = bytes(8 << 20)


def facts(pace: Pace) -> dict[str, Any]:
    """Processor, memory, versions, and how busy it was."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "two_threads_of_sha256": _two_threads_of_sha256(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "c_library": " ".join(platform.libc_ver()),
        "java": _java(),
        "file_system": _file_system(),
        "packages": {package: version(package) for package in PACKAGES},
        "commit": commit(),
        "samples": pace.samples,
        "sample_seconds": pace.sample_seconds,
    }


def _two_threads_of_sha256() -> float:
    """How many times as fast two threads are as one: 2 on two free cores."""

    def hash_once(_: int) -> None:
        hashlib.sha256(_HASHED).digest()

    ratios: list[float] = []
    with ThreadPoolExecutor(2) as threads:
        for _ in range(7):
            start = time.perf_counter()
            hash_once(0)
            hash_once(1)
            middle = time.perf_counter()
            list(threads.map(hash_once, range(2)))
            ratios.append((middle - start) / (time.perf_counter() - middle))
    return round(median(ratios), 2)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _java() -> str:
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr  # it talks there
    return told.partition("\n")[0].strip() or "unknown"


def _file_system() -> str:
    """Of the data of the benchmarks."""
    told = subprocess.run(["stat", "-f", "-c", "%T", str(ROOT)], capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"


def commit() -> str:
    """What is checked out."""
    described = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False)
    return described.stdout.strip() or "unknown"


if __name__ == "__main__":
    print(json.dumps(facts(FULL), indent=2))

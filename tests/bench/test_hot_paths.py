"""Samples are put together by the part they fell into, and what is timed besides is the disk's."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.hot_paths import TimedDisk, part_of, shares

KERNEL_LIBRARY = "columns.cpython-311-x86_64-linux-gnu.so"


@pytest.mark.parametrize(
    ("comm", "library", "symbol", "part"),
    [
        ("python3", KERNEL_LIBRARY, "[.] decode", "kernel: columns"),
        ("python3", "[kernel.kallsyms]", "[k] copy_user_generic_string", "system: copies between files and memory"),
        ("python3", "[kernel.kallsyms]", "[k] ext4_sync_file", "system: the rest of its calls"),
        ("python3", "_crc32c.cpython-311-x86_64-linux-gnu.so", "[.] crc", "CRC (crc32c)"),
        ("python3", "libc.so.6", "[.] __memmove_avx_unaligned_erms", "copies in memory"),
        ("python3", "python3.11", "[.] _PyEval_EvalFrameDefault", "interpreter"),
        ("Executor task l", "[JIT] tid 12", "[.] 0x00007f", "JVM: Spark's tasks and all else"),
        ("C2 CompilerThre", "libjvm.so", "[.] compile", "JVM: compiling"),
        ("GC Thread#0", "libjvm.so", "[.] mark", "JVM: collecting"),
        ("python", "lib.cpython-311-x86_64-linux-gnu.so", "[.] wrap", "Arrow"),
        ("Executor task l", "[kernel.kallsyms]", "[k] tcp_recvmsg", "JVM: system calls"),
        ("python3", "libzstd.so", "[.] x", "libzstd.so"),
    ],
)
def test_a_sample_belongs_to_a_part(comm: str, library: str, symbol: str, part: str) -> None:
    assert part_of(comm, library, symbol) == part


def test_shares_are_sums_with_the_largest_first() -> None:
    lines = [
        f" 10.00% ;python3 ;{KERNEL_LIBRARY} ;[.] a",
        " 50.00% ;python3 ;python3.11 ;[.] b",
        f" 5.50% ;python3 ;{KERNEL_LIBRARY} ;[.] c; d",
    ]
    assert list(shares(lines).items()) == [("interpreter", 50.0), ("kernel: columns", 15.5)]


def test_the_disk_is_timed_and_still_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = TimedDisk()
    monkeypatch.setattr(os, "pwritev", _slow(os.pwritev))
    fd = disk.create(str(tmp_path / "file"))
    disk.write(fd, [b"ab", b"c"], 0)
    disk.sync(fd)
    disk.close(fd)
    assert (tmp_path / "file").read_bytes() == b"abc"
    assert disk.seconds["write"] >= 0.01
    assert disk.seconds["sync"] > 0


def _slow(call: Callable[..., object]) -> Callable[..., object]:
    def slow(*given: object) -> object:
        time.sleep(0.01)
        return call(*given)

    return slow

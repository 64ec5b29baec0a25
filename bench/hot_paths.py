"""The command: `python -m bench.hot_paths PATH [--seconds 6]`: where the time of one of the five hottest paths goes.

    durable-append    `Log.append`, one batch of 16 KiB a call, each synced before it returns
    decode            a file to Arrow columns, every CRC checked
    recovery          every segment scanned as after an unclean stop
    compact           a round of the local cleaner over half a gibibyte with 100 thousand keys
    spark-read        keys and values of a gibibyte into Spark's noop sink, `local[2]`

The path runs for some seconds while `perf` samples this process, and for Spark those below it, by the processor's clock. Samples are put
together by the library or the part of it that they fell into. What waits for the disk uses no processor and is not in there: calls that the
log makes of the disk are timed besides. Rates suffer from whatever else the machine does; the time of the processor hardly does.

Reproduce: `.venv/bin/python -m bench.hot_paths decode`
"""

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench import log_data
from bench.data import Inputs
from bench.log_append_jobs import DURABLE_BATCHES
from bench.log_open_jobs import RECOVERED
from bench.passes import COLUMNS, FileReader
from bench.process_memory import descendants, processes
from tidelog.config import LogConfig
from tidelog.disk.disk import Buffer, Disk
from tidelog.disk.file_pool import FilePool
from tidelog.log.log import Log
from tidelog.log.recovery import scan_segment
from tidelog.log.segment_files import find_segments, list_files
from tidelog.record import ColumnDecoder, kernel

PARTS: Final = (
    (r"java C\d Compiler.*", "JVM: compiling"),
    (r"java (G1|GC|VM Thread).*", "JVM: collecting"),
    (r"java .*\[kernel.*", "JVM: system calls"),
    (r"java .*", "JVM: Spark's tasks and all else"),
    (
        r".*(copy_user|copyin|copyout|_copy_to_iter|rep_movs|copy_page|copy_from_user|copy_to_user).*",
        "system: copies between files and memory",
    ),
    (r".*\[kernel.*", "system: the rest of its calls"),
    (r".*crc32c.*", "CRC (crc32c)"),
    (r".*libarrow.*|python lib\.cpython.*", "Arrow"),
    (r".*numpy.*|.*_multiarray.*", "numpy"),
    (r".*(memmove|memcpy|memset).*", "copies in memory"),
    (r".*(python3|libpython).*", "interpreter"),
    (r".*libc\.so.*", "C library"),
)
"""From the process, library and symbol of a sample to what it is called; the first that fits."""
KERNEL = frozenset(path.name.partition(".")[0] for path in Path(kernel.__file__ or "").parent.glob("*.so"))
"""Modules of the compiled kernel: each is a library."""


class TimedDisk(Disk):
    """The real disk, with a clock for the calls that an append makes."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def sync(self, fd: int) -> None:
        """Timed."""
        start = time.perf_counter()
        super().sync(fd)
        self._took("sync", start)

    def write(self, fd: int, parts: Sequence[Buffer], position: int, size_bytes: int | None = None) -> None:
        """Timed."""
        start = time.perf_counter()
        super().write(fd, parts, position, size_bytes)
        self._took("write", start)

    def _took(self, call: str, start: float) -> None:
        self.seconds[call] += time.perf_counter() - start


@contextmanager
def durable_append() -> Iterator[Callable[[], str]]:
    """A log that grows; the phases of an append beside its rate."""
    batches = log_data.leader_batches(log_data.log_path(Inputs()), DURABLE_BATCHES[1])
    disk = TimedDisk()
    with (
        log_data.scratch("hot-append") as folder,
        Log.open(folder / log_data.PARTITION, config={"flush.messages": "1"}, pool=FilePool(disk)) as log,
    ):

        def run() -> str:
            disk.seconds.clear()
            start = time.perf_counter()
            for batch in batches:
                log.append(batch)
            seconds = time.perf_counter() - start
            each = {call: took / len(batches) * 1e6 for call, took in disk.seconds.items()}
            rest = seconds / len(batches) * 1e6 - sum(each.values())
            return f"{seconds / len(batches) * 1e6:.1f} us an append: " + ", ".join(
                f"{n} {t:.1f}" for n, t in {**each, "rest": rest}.items()
            )

        yield run


@contextmanager
def decode() -> Iterator[Callable[[], str]]:
    """The file of the log benchmarks, half a gibibyte."""
    path = log_data.log_path(Inputs())
    with FileReader(path, ColumnDecoder(COLUMNS, check_crcs=True)) as reader:
        yield lambda: _rate(reader.read, path.stat().st_size)


@contextmanager
def recovery() -> Iterator[Callable[[], str]]:
    """The directory of the recovery benchmarks."""
    with log_data.two_logs("log-64m", Inputs(), batches=log_data.BATCHES, settings=RECOVERED) as (folder, _):
        pool, interval = FilePool(), LogConfig().index_interval_bytes

        def scan() -> None:
            for segment in find_segments(pool, str(folder), list_files(pool.disk, str(folder)), []):
                scan_segment(segment, index_interval_bytes=interval)

        yield lambda: _rate(scan, sum(path.stat().st_size for path in folder.glob("*.log")))


@contextmanager
def compact() -> Iterator[Callable[[], str]]:
    """Rounds over fresh copies; making them is sampled too, and is little: the large file is a link."""
    from bench.compaction_jobs import S_100K, Cleaning

    with log_data.scratch("hot-compact") as folder:
        cleaning = Cleaning(S_100K(), folder / log_data.PARTITION / log_data.PARTITION)

        def run() -> str:
            with cleaning.opened() as log:
                start = time.perf_counter()
                stats = cleaning.clean(log).stats
                seconds = time.perf_counter() - start
            cleaning.remove()
            keys, rest = stats.map_ms, 1000 * seconds - stats.map_ms
            return f"{stats.bytes_read / seconds / 1e9:.2f} GB/s: keys {keys:.0f} ms, rewrite, sync and swap {rest:.0f} ms"

        yield run


@contextmanager
def spark_read() -> Iterator[Callable[[], str]]:
    """The topic of the slices."""
    from bench.spark_data import TOPIC, rows_of_topic, topic_of
    from tidelog.spark import session

    directory = topic_of(1)
    spark = session("tidelog hot path", "local[2]")

    def read() -> None:
        frame = spark.read.format("tidelog").options(subscribe=TOPIC, columns="key,value").load(str(directory))
        frame.write.format("noop").mode("overwrite").save()

    yield lambda: _rate(read, rows_of_topic(1), "M rows/s", 1e6)
    spark.stop()


PATHS: dict[str, Callable[[], Any]] = {
    "durable-append": durable_append,
    "decode": decode,
    "recovery": recovery,
    "compact": compact,
    "spark-read": spark_read,
}


def _rate(run: Callable[[], object], done: int, unit: str = "GB/s", scale: float = 1e9) -> str:
    start = time.perf_counter()
    run()
    return f"{done / (time.perf_counter() - start) / scale:.2f} {unit}"


def main() -> int:
    """Warm up, sample, print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.hot_paths", description="Where the time of a hot path goes.")
    parser.add_argument("path", choices=PATHS)
    parser.add_argument("--seconds", type=float, default=6.0, help="of sampling")
    parser.add_argument("--symbols", type=int, default=0, metavar="N", help="the N hottest symbols, too")
    options = parser.parse_args()
    with PATHS[options.path]() as run, tempfile.TemporaryDirectory() as folder:
        run()
        run()
        own = next(iter(processes([Path("/proc/self").resolve()])))
        samples = Path(folder) / "perf.data"
        with _sampled([own, *descendants(own, processes())], samples):
            until = time.perf_counter() + options.seconds
            while time.perf_counter() < until:
                before = time.process_time()
                said = run()
                print(f"{said}; {time.process_time() - before:.3f} s of the processor")
        report = ["perf", "report", "-i", str(samples), "--stdio", "--no-children", "-g", "none", "-F", "overhead,comm,dso,sym", "-t", ";"]
        found = subprocess.run(report, capture_output=True, text=True, check=True).stdout
    lines = [line for line in found.splitlines() if line.strip() and not line.startswith("#")]
    for part, share in shares(lines).items():
        if share >= 0.5:
            print(f"| {part} | {share:.0f} % |")
    print("\n".join(lines[: options.symbols]))
    return 0


def shares(lines: Sequence[str]) -> dict[str, float]:
    """Percent by part, from what perf reports: overhead; process; library; symbol."""
    found: defaultdict[str, float] = defaultdict(float)
    for line in lines:
        overhead, comm, library, symbol = (word.strip() for word in line.split(";", 3))
        found[part_of(comm, library, symbol)] += float(overhead.rstrip("%"))
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def part_of(comm: str, library: str, symbol: str) -> str:
    """What a sample belongs to; what has no name of its own keeps that of its library."""
    module = library.partition(".")[0]
    if module in KERNEL:
        return f"kernel: {module}"
    where = f"java {comm} {library}" if _is_java(comm, library) else f"python {library} {symbol}"
    return next((name for pattern, name in PARTS if re.fullmatch(pattern, where)), library)


def _is_java(comm: str, library: str) -> bool:
    return not comm.startswith("python") or "jvm" in library or "JIT" in library


@contextmanager
def _sampled(numbers: Sequence[int], into: Path) -> Iterator[None]:
    command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "999", "-o", str(into), "-p", ",".join(map(str, numbers))]
    perf = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    try:
        yield
    finally:
        perf.send_signal(signal.SIGINT)
        perf.wait()


if __name__ == "__main__":
    sys.exit(main())

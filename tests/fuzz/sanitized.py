"""Feed mutated batches to a kernel that is compiled with AddressSanitizer and UndefinedBehaviorSanitizer.

    python -m tests.fuzz.sanitized --batches 1000000 [--seed N] [--processes N] [--long]

The kernel is built in a copy of the tree, `build/sanitized/`, and built again only when its sources change. Each process works through its
share of the input numbers; an input follows from seed and number alone, so a crash is known by its number. Every input holds at least
one mutated batch and counts as one. What crashes, hangs, raises anything but a `TidelogError`, or reads differently in two ways is kept in
`build/fuzz-findings/`, and the exit code is 1.

With `--long` Python's own objects are made by its own allocator, which the sanitizer does not look into: half as fast again. What the
kernel is given are numpy's buffers and its own, and those are guarded all the same (the canary is one).
"""

import argparse
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "sanitized"
FINDINGS = ROOT / "build" / "fuzz-findings"
KERNEL = Path("src/tidelog/record/kernel")

MAX_KEPT_OF_A_KIND = 3
MAX_CRASHES = 20
HANG_SECONDS = 60.0
PROGRESS_SECONDS = 10.0
CANARY_TEXT = "AddressSanitizer: heap-buffer-overflow"

ASAN_OPTIONS = (
    "detect_leaks=0",
    "allocator_may_return_null=1",
    "max_allocation_size_mb=1024",
    "hard_rss_limit_mb=3000",
    "quarantine_size_mb=64",
    "malloc_context_size=1",  # longer stacks of every allocation cost half the speed, and are Python's own
)

# Number of the input at hand, inputs done, read, findings.
STATE = struct.Struct("=qqqq")


@dataclass
class Worker:
    """A process and its share of the inputs."""

    number: int
    start: int
    stop: int
    process: "subprocess.Popen[bytes] | None" = None
    finished_counts: tuple[int, int, int] = (0, 0, 0)
    """Of the processes before this one, which died."""
    last_index: int = -1
    moved_at: float = 0.0

    @property
    def state_path(self) -> Path:
        """Where the process tells how far it is."""
        return FINDINGS / f"worker-{self.number}.state"

    @property
    def stderr_path(self) -> Path:
        """What the process and the sanitizers say."""
        return FINDINGS / f"worker-{self.number}.stderr"

    def state(self) -> tuple[int, int, int, int]:
        """(Index at hand, done, read, findings) of the running process."""
        index, done, read, findings = STATE.unpack(self.state_path.read_bytes())
        return index, done, read, findings

    def counts(self) -> tuple[int, int, int]:
        """(Done, read, findings) of all processes of this worker."""
        _, *now = self.state()
        done, read, findings = (before + current for before, current in zip(self.finished_counts, now, strict=True))
        return done, read, findings


def main() -> int:
    """Build, check that the sanitizer bites, run."""
    parser = argparse.ArgumentParser(description="mutated batches against the kernel under AddressSanitizer")
    parser.add_argument("--batches", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--long", action="store_true", help="guard buffers alone, not Python's own objects: faster")
    parser.add_argument("--canary", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)  # first input, end, state file
    arguments = parser.parse_args()
    if arguments.canary:
        return _read_past_the_end()
    if arguments.worker:
        start, stop, state_file = arguments.worker
        return _work(arguments.seed, int(start), int(stop), Path(state_file))
    build()
    environment = sanitized_environment(guards_objects=not arguments.long)
    check_canary(environment)
    return run(arguments.seed, arguments.batches, arguments.processes, environment)


def build() -> None:
    """Copy the sources, and compile the kernel if it is not what was compiled last."""
    paths = sorted(path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".pxd", ".typed"))
    paths += [path for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE") if (path := ROOT / name).exists()]
    for path in paths:
        target = BUILD / path.relative_to(ROOT)
        if not target.exists() or target.read_bytes() != path.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    compiled = [BUILD / "setup.py", *sorted((BUILD / KERNEL).glob("*.py")), *sorted((BUILD / KERNEL).glob("*.pxd"))]
    digest = hashlib.sha256(sys.version.encode())
    for path in compiled:
        digest.update(path.name.encode() + path.read_bytes())
    stamp = BUILD / "compiled.sha256"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    sys.stderr.write("compiling the kernel with AddressSanitizer and UndefinedBehaviorSanitizer\n")
    stamp.unlink(missing_ok=True)
    shutil.rmtree(BUILD / "build", ignore_errors=True)
    for old in (BUILD / KERNEL).glob("*.so"):
        old.unlink()
    environment = os.environ | {"TIDELOG_SANITIZE": "1", "TIDELOG_REQUIRE_KERNEL": "1"}
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=BUILD,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"the sanitized kernel does not build:\n{done.stdout}{done.stderr}")
    stamp.write_text(digest.hexdigest())


def sanitized_environment(*, guards_objects: bool = True) -> dict[str, str]:
    """What a process needs to run the sanitized kernel."""
    libraries = [
        subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return os.environ | {
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONMALLOC": "malloc" if guards_objects else "pymalloc",
        "PYTHONPATH": f"{BUILD / 'src'}{os.pathsep}{ROOT}",
        "TIDELOG_KERNEL": "",
        # Arrow's own pools would hide its buffers from the sanitizer.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "ASAN_OPTIONS": ":".join(ASAN_OPTIONS),
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }


def check_canary(environment: dict[str, str]) -> None:
    """A deliberate read past the end must be reported, or the run would prove nothing."""
    command = [sys.executable, "-m", "tests.fuzz.sanitized", "--canary"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0 or CANARY_TEXT not in done.stderr:
        sys.exit(f"the sanitizer did not report a read past the end of a buffer:\n{done.stderr}")


def _read_past_the_end() -> int:
    import numpy as np

    from tidelog.record.kernel import legacy
    from tidelog.record.views import view

    _ensure_sanitized()
    zero = view(np.zeros(1, np.int64))
    short = view(np.zeros(21, np.uint8))  # the key's length is at 18 to 21: its last byte is missing
    legacy.scan_messages(short, zero, view(np.full(1, 26)), zero, view(np.zeros(4, np.int32)), view(np.zeros(5, np.int64)))
    return 0


def _ensure_sanitized() -> None:
    """This process runs the kernel of `build/sanitized`, compiled with and loaded under the sanitizer."""
    import ctypes

    from tidelog.record import kernel_mode
    from tidelog.record.kernel import records

    file = Path(records.__file__)
    assert kernel_mode() == "compiled"
    assert file.is_relative_to(BUILD), f"the kernel is {file}"
    assert b"__asan_report_load" in file.read_bytes(), "the kernel was not compiled with AddressSanitizer"
    assert hasattr(ctypes.CDLL(None), "__asan_init"), "AddressSanitizer is not loaded"
    assert hasattr(ctypes.CDLL(None), "__ubsan_handle_out_of_bounds"), "UndefinedBehaviorSanitizer is not loaded"


def run(seed: int, batches: int, processes: int, environment: dict[str, str]) -> int:
    """Share the inputs over processes and watch them."""
    FINDINGS.mkdir(parents=True, exist_ok=True)
    bounds = [batches * number // processes for number in range(processes + 1)]
    workers = [Worker(number, bounds[number], bounds[number + 1]) for number in range(processes)]
    started_at = told_at = time.monotonic()
    crashes = 0
    for worker in workers:
        _start(worker, seed, worker.start, environment)
    try:
        while any(worker.process for worker in workers):
            time.sleep(0.2)
            for worker in workers:
                crashes += _watch(worker, seed, environment)
            if time.monotonic() - told_at >= PROGRESS_SECONDS:
                told_at = time.monotonic()
                done, read, found = _totals(workers)
                rate = done / (told_at - started_at)
                sys.stderr.write(f"{done} of {batches} mutated batches, {found + crashes} findings, {read} read, {rate:.0f}/s\n")
            if crashes >= MAX_CRASHES:
                sys.stderr.write("that is enough\n")
                break
    finally:
        for worker in workers:
            if worker.process:
                worker.process.kill()
                worker.process.wait()
    done, read, found = _totals(workers)
    findings = found + crashes
    seconds = time.monotonic() - started_at
    sys.stdout.write(f"{done} mutated batches, {findings} findings, {done - read - findings} refused, {read} read\n")
    sys.stdout.write(f"seed {seed}, {processes} processes, {seconds:.0f} s, {done / seconds / processes:.0f} a second and process\n")
    for worker in workers:
        worker.state_path.unlink()
        worker.stderr_path.unlink()
    if findings:
        sys.stdout.write(f"see {FINDINGS.relative_to(ROOT)}; `python -m tests.fuzz.target FILE` feeds one again\n")
    return 1 if findings or done != batches else 0


def _totals(workers: list[Worker]) -> tuple[int, int, int]:
    done, read, findings = (sum(counts) for counts in zip(*(worker.counts() for worker in workers), strict=True))
    return done, read, findings


def _start(worker: Worker, seed: int, first: int, environment: dict[str, str]) -> None:
    worker.state_path.write_bytes(STATE.pack(first, 0, 0, 0))
    worker.last_index, worker.moved_at = -1, time.monotonic()
    command = [sys.executable, "-m", "tests.fuzz.sanitized", "--seed", str(seed)]
    command += ["--worker", str(first), str(worker.stop), str(worker.state_path)]
    with worker.stderr_path.open("wb") as stderr:
        worker.process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=stderr)


def _watch(worker: Worker, seed: int, environment: dict[str, str]) -> int:
    """Look after a process: 1 if it has died or hung on an input, which is kept; the next one goes on behind it."""
    process = worker.process
    if process is None:
        return 0
    index = worker.state()[0]
    if index != worker.last_index:
        worker.last_index, worker.moved_at = index, time.monotonic()
    code = process.poll()
    is_hung = code is None and time.monotonic() - worker.moved_at > HANG_SECONDS
    if code is None and not is_hung:
        return 0
    worker.process = None
    if code == 0:
        return 0
    if is_hung:
        process.kill()
        process.wait()
    text = worker.stderr_path.read_text(errors="replace")
    if "Error" in text and index == worker.start and worker.state()[1] == 0 and "ERROR: " not in text:
        sys.exit(f"the process does not start:\n{text}")
    _keep(seed, index, f"no answer for {HANG_SECONDS} s\n" if is_hung else f"exit code {code}\n" + text)
    done, read, findings = worker.counts()
    worker.finished_counts = (done + 1, read, findings)
    worker.state_path.write_bytes(STATE.pack(index, 0, 0, 0))
    if index + 1 < worker.stop:
        _start(worker, seed, index + 1, environment)
    return 1


def _work(seed: int, start: int, stop: int, state_file: Path) -> int:
    """What a process does."""
    import mmap

    from tests.fuzz.target import feed
    from tests.support.mutations import mutated_buffer

    _ensure_sanitized()
    read = findings = 0
    kept: Counter[str] = Counter()
    with state_file.open("r+b") as file, mmap.mmap(file.fileno(), STATE.size) as state:
        for index in range(start, stop):
            STATE.pack_into(state, 0, index, index - start, read, findings)
            data = mutated_buffer(seed, index)
            try:
                read += feed(data, every_stage=False)
            except Exception as error:
                findings += 1
                kind = (type(error), traceback.extract_tb(error.__traceback__)[-2:])
                kept[str(kind)] += 1
                if kept[str(kind)] <= MAX_KEPT_OF_A_KIND:
                    _keep(seed, index, traceback.format_exc())
        STATE.pack_into(state, 0, stop - 1, stop - start, read, findings)
    return 0


def _keep(seed: int, index: int, text: str) -> None:
    """Write an input down, and what it did."""
    from tests.support.mutations import mutated_buffer

    path = FINDINGS / f"seed-{seed}-index-{index}"
    path.with_suffix(".bin").write_bytes(mutated_buffer(seed, index))
    path.with_suffix(".txt").write_text(f"python -m tests.fuzz.target --seed {seed} --index {index}\n\n{text}")


if __name__ == "__main__":
    sys.exit(main())

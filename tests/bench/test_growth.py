"""The jobs that growth measures do their work on real logs, all of it, and a process of its own says what it took."""

import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from bench import growth, growth_jobs, spark_growth_rows
from bench.compaction_data import NO_FLUSH, SETTINGS, keyed_batches
from bench.growth_jobs import CHANGING, JOBS, ON_SPARK, measure
from bench.process_memory import MemoryWatch, Process, descendants, peaks_of, processes
from bench.spark_job_rows import fresh_copy
from tidelog.errors import ChecksumError
from tidelog.store.store import Store

LOCAL = [job for job in JOBS if job not in ON_SPARK]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topics with two closed segments each: 4 MB in all."""
    directory = tmp_path_factory.mktemp("growth") / "store"
    with Store.open(directory, background=False) as store:
        for number in range(2):
            store.create_topic(f"topic{number}", 1, {**SETTINGS, **NO_FLUSH})
            log = store.log(f"topic{number}", 0)
            for batches in islice(keyed_batches(500, 100, seed=number), 2):
                log.append_as_follower(batches)
                log.roll()
    return directory


@pytest.fixture(autouse=True)
def scratch_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(growth_jobs, "SCRATCH", tmp_path)
    monkeypatch.setattr(growth, "SCRATCH", tmp_path / "scratch")


@pytest.mark.parametrize("job", LOCAL)
def test_a_job_does_all_bytes_of_the_log_and_says_what_it_took(job: str, source: Path, tmp_path: Path) -> None:
    closed = sum(path.stat().st_size for path in source.glob("*/*.log"))
    directories = [fresh_copy(source, tmp_path / str(number)) if job in CHANGING else source for number in range(3)]
    found = measure(job, directories[0], directories[1:])
    assert found["bytes"] == closed
    assert len(found["seconds"]) == 2
    assert all(0 < seconds < 10 for seconds in found["seconds"])
    assert found["python_bytes"] > 20_000_000


@pytest.mark.parametrize("job", ["scan-crc", "append"])
def test_batches_that_the_end_of_the_buffer_cuts_come_with_the_next_read(job: str, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth_jobs, "READ_BYTES", 50_000)
    assert JOBS[job](source).done == sum(path.stat().st_size for path in source.glob("*/*.log"))


def test_compaction_really_happened(source: Path, tmp_path: Path) -> None:
    copy = fresh_copy(source, tmp_path / "copy")
    JOBS["compact-local"](copy)
    before, after = (sum(path.stat().st_size for path in directory.glob("*/*.log")) for directory in (source, copy))
    assert after < before / 5


@pytest.mark.leaves("*")
@pytest.mark.parametrize("job", ["scan-crc", "scan-arrow", "verify"])
def test_a_damaged_byte_is_noticed_so_the_crcs_are_checked(job: str, source: Path, tmp_path: Path) -> None:
    copy = fresh_copy(source, tmp_path / "damaged")
    path = next(iter(sorted(copy.glob("*/*.log"))))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises((ChecksumError, AssertionError)):
        JOBS[job](copy)


def test_small_segments_are_made_as_asked_and_may_be_put_together(tmp_path: Path) -> None:
    """A call is never cut: one with more bytes than a segment holds is refused, so batches are appended one by one."""
    spark_growth_rows._make(20, spark_growth_rows.SEGMENT_BYTES, tmp_path / "store")
    segments = [path.stat().st_size for path in (tmp_path / "store").glob("*/*.log") if path.stat().st_size]
    assert len(segments) in (20, 21)
    assert max(segments) <= spark_growth_rows.SEGMENT_BYTES
    JOBS["compact-local"](tmp_path / "store")
    assert len([path for path in (tmp_path / "store").glob("*/*.log") if path.stat().st_size]) == 1


def test_a_process_of_its_own_measures_and_leaves_the_source_as_it_was(source: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in source.rglob("*")}
    found = growth.in_its_process("compact-local", source, [source])
    assert len(found["seconds"]) == 1
    assert (found["worker_bytes"], found["jvm_bytes"]) == (0, 0)
    assert {path: path.stat().st_mtime_ns for path in source.rglob("*")} == before
    assert list(tmp_path.rglob("*.log")) == []


def test_what_is_kept_replaces_one_measurement_and_leaves_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(growth, "PATH", tmp_path / "growth.json")
    for job, size, seconds in (("verify", 64, 1.0), ("append", 256, 2.0), ("append", 64, 3.0), ("verify", 64, 4.0)):
        growth._keep({"job": job, "size_bytes": size, "seconds": [seconds]}, {"cores": 2, "commit": f"{seconds:.0f}abc"})
    found = json.loads((tmp_path / "growth.json").read_text())
    assert [(one["job"], one["size_bytes"], one["seconds"]) for one in found["measurements"]] == [
        ("append", 64, [3.0]),
        ("append", 256, [2.0]),
        ("verify", 64, [4.0]),
    ]
    assert found["machine"] == {"cores": 2, "commit": "4abc"}
    assert [one["commit"] for one in found["measurements"]] == ["3abc", "2abc", "4abc"]


def test_sizes_are_read_as_they_are_written() -> None:
    assert [growth.size_of(text) for text in ("64MiB", "4GiB")] == [64 << 20, 4 << 30]
    with pytest.raises(Exception, match="no size"):
        growth.size_of("4 GB")


def test_processes_below_one_are_found_at_any_depth() -> None:
    found = {1: Process(0, "init", 1, 1), 2: Process(1, "python", 10, 20), 3: Process(2, "java", 100, 200)}
    found |= {4: Process(3, "python3", 30, 50), 5: Process(4, "python3", 40, 45), 6: Process(1, "python3", 999, 999)}
    assert descendants(2, found) == [3, 4, 5]
    peaks = peaks_of(2, found)
    assert (peaks.python_bytes, peaks.worker_bytes, peaks.jvm_bytes) == (20 + 30 + 40, 50, 200)


def test_the_memory_of_a_child_is_seen_while_it_lives() -> None:
    script = "data = bytearray(60_000_000); print(len(data), flush=True); input()"
    with MemoryWatch(looks_again=True) as watch:
        child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        child.stdout.readline()
        assert child.pid in descendants(os.getpid(), processes())
        watch._look()
        child.communicate("\n")
    assert child.returncode == 0
    assert watch.peaks.worker_bytes > 60_000_000
    assert watch.peaks.python_bytes > watch.peaks.worker_bytes

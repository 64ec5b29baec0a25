"""The harness itself: it says what is missing, and leaves nobody behind."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from interop.broker.broker import Broker, free_ports
from interop.broker.scenarios import NEWER
from interop.java_program import RUN_JAVA, JavaError
from interop.judge import Judge
from tidelog.record import BatchSettings, NewBatch

INTEROP = RUN_JAVA.parent
TOOLS = ("sh", "sed", "find", "dirname", "mkdir", "rm", "mv", "touch", "cat", "java", "javac", "mvn")


def resolve_jars(home: Path, *, without: str = "", java: str = "") -> subprocess.CompletedProcess[str]:
    """`resolve-jars` in a place of its own without any jars, on a machine that lacks a program, or has another Java."""
    programs = home / "bin"
    programs.mkdir(parents=True)
    for name in TOOLS:
        found = shutil.which(name)
        if found is not None and name != without:
            (programs / name).symlink_to(found)
    if java:
        (programs / "java").unlink()
        (programs / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{java}\"' >&2\n")
        (programs / "java").chmod(0o755)
    for name in ("resolve-jars", "pom.xml"):
        shutil.copy(INTEROP / name, home)
    return subprocess.run([home / "resolve-jars"], env={"PATH": str(programs)}, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("missing", ["java", "javac", "mvn"])
def test_it_says_what_is_missing(missing: str, tmp_path: Path) -> None:
    done = resolve_jars(tmp_path, without=missing)
    assert done.returncode == 1
    assert f"{missing} is missing" in done.stderr


def test_it_says_that_java_is_too_old(tmp_path: Path) -> None:
    done = resolve_jars(tmp_path, java="11.0.22")
    assert done.returncode == 1
    assert "java is version 11: Kafka needs 17 or newer" in done.stderr


DRIVER = """
import sys, time
from pathlib import Path
from interop.broker.broker import Broker

broker = Broker(Path(sys.argv[1]), version=sys.argv[2])
broker.launch()
print(broker.pid, flush=True)
time.sleep(60)
"""


def test_a_broker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """That one is killed, so that nothing in Python can clean up."""
    command = [sys.executable, "-c", DRIVER, str(tmp_path), NEWER]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=INTEROP.parent, env=environment) as driver:
        assert driver.stdout is not None
        pid = int(driver.stdout.readline())
        assert is_running(pid)
        driver.kill()
    deadline = time.monotonic() + 20
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    is_left = is_running(pid)
    if is_left:
        os.kill(pid, signal.SIGKILL)
    assert not is_left


def test_a_broker_ends_with_its_block(tmp_path: Path) -> None:
    pids = []

    def fail() -> None:
        with Broker(tmp_path, version=NEWER) as broker:
            broker.launch()
            pids.append(broker.pid)
            assert is_running(broker.pid)
            raise RuntimeError("a test fails")

    with pytest.raises(RuntimeError, match="a test fails"):
        fail()
    assert not is_running(*pids)


def test_a_job_that_fails_says_why_and_the_program_goes_on(judge: Judge) -> None:
    with pytest.raises(JavaError, match="no such job: nothing"):
        judge.ask("nothing")
    with pytest.raises(JavaError, match=r"case\.json"):
        judge.ask("play_steps", folder="/nowhere")
    assert judge.ask("describe", file="/nowhere")["error"].startswith("java.nio.file.NoSuchFileException")


def test_a_program_that_is_gone_is_noticed(tmp_path: Path) -> None:
    with Judge(version=NEWER, messages=tmp_path / "judge.txt") as judge:
        judge.ask("describe", file="/nowhere")
        os.kill(judge.pid, signal.SIGKILL)
        judge.wait(20)
        with pytest.raises(JavaError, match="Judge said in"):
            judge.ask("describe", file="/nowhere")


def test_a_program_leaves_no_native_code_of_codecs_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Judge(version=NEWER, messages=tmp_path / "judge.txt") as judge:
        for codec in ("snappy", "zstd", "lz4"):
            (tmp_path / f"{codec}.log").write_bytes(NewBatch([(None, bytes(999))], settings=BatchSettings(compression=codec)).encode())
            assert "error" not in judge.ask("describe", file=str(tmp_path / f"{codec}.log"))
        assert len(list(tmp_path.rglob("*.so"))) >= 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["judge.txt", "lz4.log", "snappy.log", "zstd.log"]


def test_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is not only waiting to be collected."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"

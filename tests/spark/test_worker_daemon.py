"""Processes that fork workers: silent when Spark has enough, and not when a worker has a fault."""

import gc
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import pyspark.daemon
import pytest

from tests.support.small_stores import open_store
from tidelog.spark import worker_habits

ENOUGH = """
import sys
from tidelog.spark import session
rows = session("enough", "local[2]", memory="1g").read.format("tidelog").option("subscribe", "t").load(sys.argv[1])
assert (rows.limit(5).count(), len(rows.take(3))) == (5, 3)
try:
    rows.sparkSession.read.format("tidelog").option("subscribe", "other").load(sys.argv[1]).count()
except Exception as error:
    print(str(error).partition(chr(10))[0])
"""


@pytest.mark.parametrize(
    ("fault", "is_told"),
    [(BrokenPipeError(), False), (ConnectionResetError(), False), (ValueError("wrong"), True), (OSError("full"), True)],
)
def test_only_faults_are_told(fault: BaseException, is_told: bool, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise fault
    except BaseException:
        worker_habits.print_fault()
    assert (type(fault).__name__ in capsys.readouterr().err) is is_told


@pytest.mark.parametrize(("fault", "is_told"), [(BrokenPipeError(), False), (ConnectionResetError(), False), (OSError("full"), True)])
def test_what_a_worker_cannot_flush_is_told_only_of_a_fault(
    fault: BaseException, is_told: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark's own `worker` runs: it writes its last bytes to a socket that Spark has closed, and prints a traceback by itself."""
    for name, value in (("gc", gc), ("traceback", traceback), ("print", print)):
        monkeypatch.setattr(pyspark.daemon, name, value, raising=False)
    worker_habits.hush(pyspark.daemon)
    for name in ("signal", "os"):
        monkeypatch.setattr(pyspark.daemon, name, _Anything(fault))
    monkeypatch.setattr(sys, "argv", ["daemon", "pyspark_that_is_none"])
    monkeypatch.setitem(sys.modules, "pyspark_that_is_none", _Anything(fault))
    assert pyspark.daemon.worker(_Anything(fault), True) == 0  # type: ignore[arg-type]
    assert (type(fault).__name__ in capsys.readouterr().err) is is_told


class _Anything:
    """Whatever it is asked for; as a file it cannot be flushed, as a worker it has nothing to do."""

    environ: dict[str, str] = {}  # noqa: RUF012
    SIG_DFL = default_int_handler = dup = fileno = main = signal = lambda *_: 0

    def __init__(self, fault: BaseException) -> None:
        self._fault = fault

    def fdopen(self, *_: object) -> "_Anything":
        return self

    def flush(self) -> None:
        raise self._fault


def test_what_stays_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_habits, "_is_frozen", False)
    gc.unfreeze()
    try:
        ring: list[object] = []
        worker_habits.collect()
        frozen = gc.get_freeze_count()
        assert frozen > 1000
        ring.append(ring)
        kept: list[object] = [[] for _ in range(10_000)]
        later: list[object] = []
        later.append(later)
        del later
        assert worker_habits.collect() >= 1, "what came later is collected"
        assert gc.get_freeze_count() < frozen + len(kept), "and not frozen; what is frozen may go when nothing refers to it any more"
    finally:
        gc.unfreeze()


def test_pyspark_has_the_names_that_are_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later PySpark that imports them otherwise would go on as before, unnoticed."""
    assert (pyspark.daemon.gc, pyspark.daemon.traceback) == (gc, traceback)  # type: ignore[attr-defined]
    for name in ("gc", "traceback"):
        monkeypatch.setattr(pyspark.daemon, name, getattr(pyspark.daemon, name))
    worker_habits.hush(pyspark.daemon)
    worker_habits.collect_once(pyspark.daemon)
    assert pyspark.daemon.gc.collect is worker_habits.collect  # type: ignore[attr-defined]
    assert pyspark.daemon.traceback.print_exc is worker_habits.print_fault  # type: ignore[attr-defined]
    for module, changed in ((gc, pyspark.daemon.gc), (traceback, pyspark.daemon.traceback)):  # type: ignore[attr-defined]
        others = [name for name, value in vars(module).items() if getattr(changed, name, None) is not value]
        assert others == [{gc: "collect", traceback: "print_exc"}[module]], "what a later PySpark may call besides is there"


@pytest.mark.slow
def test_a_query_that_needs_few_rows_prints_no_traceback(tmp_path: Path) -> None:
    with open_store(tmp_path) as made:
        made.create_topic("t", 4).append_many([(b"k%d" % number, b"v" * 100) for number in range(200_000)])
    with tempfile.TemporaryDirectory(prefix="t") as scratch:  # a short name, as sockets need
        done = subprocess.run(
            [sys.executable, "-c", ENOUGH, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            timeout=240,
            env=os.environ | {"TMPDIR": scratch},
        )
        assert list(Path(scratch).iterdir()) == [], "sockets are left behind"
    assert "no topic" in done.stdout
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr

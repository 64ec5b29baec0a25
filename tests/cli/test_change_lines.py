"""Every applied change is a line as it happens: who is interrupted has read what was done until then. Only what is planned is touched."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import run
from tests.support.golden import GOLDEN
from tests.support.small_stores import open_store
from tidelog.disk.disk import Disk
from tidelog.store import compacting, forgetting, log_care

TIME = 1_700_000_000_000
pytestmark = pytest.mark.leaves


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two partitions, of each a segment that can be cleaned and one that is active."""
    path = tmp_path / "store"
    with open_store(path) as made:
        topic = made.create_topic("emails", 2, {"cleanup.policy": "compact", "index.interval.bytes": 100})
        for number in range(40):
            topic.append(b"%d" % number, key=b"anna", timestamp_ms=TIME + number, partition=number % 2)
            if number in (20, 21):
                topic.log(number % 2).roll()
    return path


@pytest.fixture
def broker(store: Path) -> Path:
    """The same as nobody's."""
    (store / "tidelog.json").unlink()
    return store


def lines(stderr: str) -> list[str]:
    return [line.split(" ", 2)[2] for line in stderr.splitlines() if re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ", line)]


def interrupted(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, after: int = 1) -> None:
    """Somebody presses Ctrl-C when it is called once more than `after` times."""
    real, calls = getattr(where, name), []

    def called(*arguments: Any, **options: Any) -> Any:
        calls.append(name)
        if len(calls) > after:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(where, name, called)


def check(begins: str, *arguments: str | Path) -> None:
    done = run(*arguments, "--apply")
    assert done.returncode == 130, done.stderr
    [line] = [line for line in lines(done.stderr) if line.startswith("tidelog: ")]
    assert line.startswith(begins)


COMPACTED = ("--config", "cleanup.policy=compact", "--config", "min.compaction.lag.ms=0", "--config", "delete.retention.ms=1d")
DELETED = ("--config", "cleanup.policy=delete", "--config", "retention.ms=1d", "--config", "retention.bytes=-1")


def test_compact(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, compacting, "begin")
    check("tidelog: compacted emails-0: ", "compact", store)


def test_compact_of_what_is_no_store(broker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, log_care, "_compact")
    check("tidelog: compacted emails-0: ", "compact", broker, *COMPACTED)


def test_retain_of_what_is_no_store(broker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, log_care, "delete_old_segments")
    check("tidelog: deleted from emails-0: ", "retain", broker, *DELETED)


def test_forget(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, forgetting, "swap_in", after=2)
    check("tidelog: forgot emails-0: 20 records in 2 segments, ", "forget", store, "emails", "--key", "anna")


def test_reindex(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("emails-0", "emails-1"):
        (store / name / f"{0:020}.index").unlink()
    interrupted(monkeypatch, Disk, "replace_file")
    check(f"tidelog: emails-0: built {0:020}.index anew: missing", "reindex", store)


def test_topics_that_were_deleted(store: Path) -> None:
    with open_store(store) as made:
        made.delete_topic("emails")  # by a clock of years ago
    done = run("retain", store, "--apply")
    [line] = lines(done.stderr)
    assert line.endswith(": removed the directories of topic emails, which was deleted")


def test_only_logs_of_the_plan_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening recovers a log, and cuts what is torn: nobody was told of that."""
    broker = Path(shutil.copytree(GOLDEN / "broker" / "data", tmp_path / "broker"))
    opened: list[str] = []
    real: Callable[..., Any] = log_care.opened

    def noted(known: Any, *more: Any) -> Any:
        opened.append(str(known.partition))
        return real(known, *more)

    monkeypatch.setattr(log_care, "opened", noted)
    done = run("compact", broker, "--roll", "--apply", "--config", "min.compaction.lag.ms=0", "--config", "delete.retention.ms=1d")
    assert done.returncode == 0, done.stderr
    planned = re.findall(r"^  (\S+): ", done.stdout, re.MULTILINE)
    assert opened == planned
    assert "profiles-0" in planned
    assert "profiles-1" not in planned

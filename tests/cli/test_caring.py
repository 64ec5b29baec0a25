"""`compact`, `retain`, `trim`: a plan that changes nothing, then the change; of a store, and of a broker's directory. What is refused."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import COMMAND, objects, run
from tests.support.golden import GOLDEN
from tests.support.logs import FakeClock
from tests.support.small_stores import open_store, tree_of
from tidelog.disk.disk import Disk
from tidelog.inspection import verify_log_directory
from tidelog.store.store import Store

TIME = 1_700_000_000_000
DAY = 86_400_000
COMPACTION = ["--config", "min.compaction.lag.ms=0", "--config", "delete.retention.ms=1d"]
RETENTION = ["--config", "cleanup.policy=delete", "--config", "retention.bytes=-1"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A topic of three segments a day apart, kept for two; a compacted one of two segments, the second of them active."""
    path = tmp_path / "store"
    with open_store(path, clock=FakeClock(TIME + 9 * DAY)) as made:
        topic = made.create_topic("emails", 1, {"retention.ms": 36_500 * DAY})
        for number in range(3):
            topic.append(b"x" * 10, key=b"k", timestamp_ms=TIME + number * DAY)
            if number < 2:
                topic.log(0).roll()
        profiles = made.create_topic("profiles", 1, {"cleanup.policy": "compact"})
        for number in range(10):
            profiles.append(b"%d" % number, key=b"k%d" % (number % 2), timestamp_ms=TIME)
            if number == 5:
                profiles.log(0).roll()
    return path


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """A copy of what a broker has left."""
    return Path(shutil.copytree(GOLDEN / "broker" / "data", tmp_path / "broker"))


def values(path: Path, topic: str) -> list[str]:
    return [record["value"] for record in objects("cat", path, topic, "--isolation", "log_end")]


def is_sound(path: Path) -> bool:
    return all(finding.severity == "note" for finding in verify_log_directory(path))


def log_lines(stderr: str) -> list[str]:
    """What was changed, without the time at which."""
    return [line.split(" ", 2)[2] for line in stderr.splitlines() if re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ", line)]


def set_topic(path: Path, topic: str, **config: object) -> None:
    with open_store(path) as made:
        made.topic(topic).alter({name.replace("_", "."): value for name, value in config.items()})


# A store


def test_retain(store: Path) -> None:
    assert run("retain", store).stdout == "retain: nothing to do\n"
    set_topic(store, "emails", retention_bytes=100)
    before = tree_of(store)
    done = run("retain", store)
    assert (done.returncode, done.stderr) == (0, "nothing was changed; --apply does it\n")
    assert done.stdout == (
        "emails: settings from tidelog.json: retention.bytes=100, retention.ms=3153600000000 (36500 d)\n"
        "emails: settings from default: cleanup.policy=delete\n"
        "  delete emails-0 segment 0 (79 B): the log is larger than retention.bytes, which is 100 B\n"
        "retain: 1 segment, 79 B\n"
    )
    assert tree_of(store) == before
    [*_, step] = objects_noted("retain", store)
    assert (step["type"], step["is_applied"], step["base_offset"], step["size_bytes"], step["rule"]) == ("step", False, 0, 79, "size")
    done = run("retain", store, "--apply")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "retain: 1 segment went, 79 B")
    [line] = log_lines(done.stderr)
    assert line.startswith("tidelog: deleted from emails-0: 1 segment, 79 bytes, 1 record by size: ")
    assert [row["base_offset"] for row in objects("ls", store, "emails", "--segments")] == [1, 2]
    assert not list(store.rglob("*.deleted"))  # nobody comes back for them
    assert run("retain", store, "--apply").stdout == "retain: nothing to do\n"


def objects_noted(*arguments: str | Path) -> list[dict[str, Any]]:
    """JSON of a command that also has something to say on stderr."""
    done = run("-q", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_retain_removes_topics_that_were_deleted(store: Path) -> None:
    with open_store(store) as made:
        made.delete_topic("emails")  # by a clock of three years ago
    assert list(store.glob("emails-0.*-delete"))
    done = run("retain", store)
    assert done.stdout.splitlines()[0] == "  remove the directories of topic emails, which was deleted"
    assert run("retain", store, "--apply").returncode == 0
    assert not list(store.glob("emails-0*"))


def test_compact(store: Path) -> None:
    before = tree_of(store)
    done = run("compact", store)
    assert (done.returncode, done.stderr) == (0, "nothing was changed; --apply does it\n")
    size = (store / "profiles-0" / f"{0:020}.log").stat().st_size
    assert done.stdout == (
        "profiles: settings from tidelog.json: cleanup.policy=compact\n"
        "profiles: settings from default: delete.retention.ms=86400000 (1 d), min.compaction.lag.ms=0\n"
        f"  profiles-0: clean offsets 0 to 5, {size} B never cleaned, 0 B cleaned before; 1 segment into 1\n"
        f"compact: 1 partition, {size} B to be read\n"
    )
    exact = run("compact", store, "profiles", "--exact").stdout
    assert "  profiles-0: 4 of 6 records would go, " in exact
    assert tree_of(store) == before
    done = run("compact", store, "--apply")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("profiles-0: 4 of 6 records went, ")
    assert [line for line in log_lines(done.stderr) if line.startswith("tidelog: compacted profiles-0: 4 of 6 records went")]
    assert values(store, "profiles") == ["4", "5", "6", "7", "8", "9"]
    assert not list(store.rglob("*.deleted"))
    assert is_sound(store)


def test_compact_with_what_is_being_written(store: Path) -> None:
    done = run("compact", store, "profiles", "--roll")
    assert "  profiles-0: end the active segment (" in done.stdout
    assert len(objects("ls", store, "profiles", "--segments")) == 2
    *_, result = objects_of_change("compact", store, "profiles", "--roll")
    assert (result["type"], result["command"], result["records_removed"], result["next_dirty_offset"]) == ("result", "compact", 8, 10)
    assert values(store, "profiles") == ["8", "9"]
    assert run("compact", store, "profiles").stdout == "compact: nothing to do\n"


def objects_of_change(*arguments: str | Path) -> list[dict[str, Any]]:
    done = run(*arguments, "--apply", "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_is_not_compacted_is_no_error(store: Path) -> None:
    done = run("compact", store, "emails", "--apply")
    assert (done.returncode, done.stdout) == (0, "compact: nothing to do\n")
    assert done.stderr == "emails-0: cleanup.policy=delete does not have compact\n"
    [row] = objects("compact", store, "emails")
    assert (row["type"], row["topic"], row["partition"]) == ("left_alone", "emails", 0)


def test_records_without_a_key(store: Path) -> None:
    with open_store(store, clock=FakeClock(TIME + 9 * DAY)) as made:
        topic = made.create_topic("odd")
        topic.append(b"x", timestamp_ms=TIME)
        topic.log(0).roll()
        topic.alter({"cleanup.policy": "compact"})
    done = run("compact", store, "odd", "--apply")
    assert done.returncode == 3
    assert "odd-0 has 1 record without key, at offset 0 (--drop-null-keys drops them, as Kafka does)" in done.stderr
    assert run("compact", store, "odd", "--apply", "--drop-null-keys").returncode == 0
    assert values(store, "odd") == []


def test_trim_to_an_offset_and_a_time(store: Path) -> None:
    before = tree_of(store)
    done = run("trim", store, "emails", "--before", "1")
    assert (done.returncode, done.stderr) == (0, "nothing was changed; --apply does it\n")
    assert done.stdout == (
        "emails: settings from default: cleanup.policy=delete\n"
        "  emails-0: start at 1, not at 0; delete 1 segment, 79 B\n"
        "trim: 1 offset, 79 B\n"
    )
    assert tree_of(store) == before
    done = run("trim", store, "emails", "--before", "1", "--apply")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "emails-0: starts at 1, not at 0; 1 segment went, 79 bytes")
    assert log_lines(done.stderr) == ["tidelog.cli: trimmed emails-0: starts at 1, not at 0; 1 segment went, 79 bytes"]
    [row] = objects("ls", store, "emails")
    assert (row["log_start_offset"], row["segments"]) == (1, 2)
    *_, result = objects_of_change("-q", "trim", store, "emails", "--before", f"@{TIME + 2 * DAY}")
    assert (result["type"], result["log_start_offset"], result["segments"], result["records"]) == ("result", 2, 1, 1)
    assert run("trim", store, "emails", "--before", "2", "--apply").stdout == "trim: nothing to do\n"
    assert run("trim", store, "emails", "--before", "latest", "--apply").returncode == 0
    assert values(store, "emails") == []
    assert is_sound(store)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["trim", "{store}", "emails"], "before what?"),
        (["trim", "{store}", "--before", "1"], "which topic?"),
        (["trim", "{store}", "emails", "--before", "99"], "out of range"),
        (["trim", "{store}", "profiles", "--before", "1"], "profiles is only compacted"),
        (["trim", "{store}", "emails", "--before", "whenever"], "not a place in a log"),
        (["retain", "{store}", "nope"], "no topic 'nope'"),
        (["retain", "{store}/emails-0"], "whole topics"),
        (["compact", "{store}", "--exact", "--roll"], "leave out one of them"),
        (["compact", "{store}", "--config", "x"], "not a setting"),
    ],
)
def test_wrong_use(arguments: list[str], what: str, store: Path) -> None:
    done = run(*(argument.format(store=store) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert what in done.stderr
    assert len(done.stderr.splitlines()) == 2


# A broker's directory


def test_what_is_assumed_changes_nothing(broker: Path) -> None:
    before = tree_of(broker)
    done = run("retain", broker, "emails", "--apply")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: nothing says what cleanup.policy, retention.bytes are here, and an assumption changes no data",
        "hint: --config cleanup.policy=… --config retention.bytes=…",
    ]
    assert run("compact", broker, "profiles", "--roll", "--apply").returncode == 2
    assert run("trim", broker, "emails", "--before", "5", "-p", "0", "--apply").returncode == 2
    assert tree_of(broker) == before


def test_retain_of_a_brokers_directory(broker: Path) -> None:
    done = run("retain", broker, "emails", "--apply", *RETENTION)
    assert done.returncode == 0, done.stderr
    assert "emails: settings from given: cleanup.policy=delete, retention.bytes=-1\n" in done.stdout
    assert "emails: settings from __cluster_metadata: retention.ms=172800000 (2 d)\n" in done.stdout
    assert done.stdout.splitlines()[-1] == "retain: 1 segment went, 231 B"
    [line] = log_lines(done.stderr)
    assert line.startswith("tidelog: deleted from emails-0: 1 segment, 231 bytes, 10 records by time: ")
    rows = objects("ls", broker, "emails")
    assert [(row["log_start_offset"], row["log_end_offset"]) for row in rows] == [(10, 10), (0, 0), (0, 0)]
    assert values(broker, "plain")[0] == "plain 0"
    check_left_as_a_brokers(broker)


def check_left_as_a_brokers(broker: Path) -> None:
    """Nothing of ours is left, and everything was closed in order."""
    assert is_sound(broker)
    assert not (broker / "tidelog.json").exists()
    assert (broker / ".kafka_cleanshutdown").exists()
    assert not [file for file in broker.rglob("*") if file.name.endswith((".tidelog", ".deleted", ".cleaned", ".swap", ".tmp"))]


def test_compact_of_a_brokers_directory(broker: Path) -> None:
    before = values(broker, "profiles")
    done = run("compact", broker, "profiles", "--roll", "--apply", *COMPACTION)
    assert done.returncode == 0, done.stderr
    assert [line for line in log_lines(done.stderr) if line.startswith("tidelog: compacted profiles-0: 7 of 10 records went")]
    assert values(broker, "profiles") == before[-3:]
    assert "profiles 0 10" in (broker / "cleaner-offset-checkpoint").read_text()
    check_left_as_a_brokers(broker)
    assert run("compact", broker, "profiles", "--apply", *COMPACTION).stdout == "compact: nothing to do\n"


def test_trim_of_a_brokers_directory(broker: Path) -> None:
    done = run("trim", broker / "plain-0", "--before", "4", "--apply", "--config", "cleanup.policy=delete")
    assert done.returncode == 0, done.stderr
    assert values(broker, "plain") == [f"plain {number}" for number in range(4, 10)]
    assert "plain 0 4" in (broker / "log-start-offset-checkpoint").read_text()
    check_left_as_a_brokers(broker)


def test_one_partition_of_a_brokers_directory(broker: Path) -> None:
    done = run("retain", broker / "emails-0", "--apply", *RETENTION)
    assert done.returncode == 0, done.stderr
    assert values(broker, "emails") == []


def test_nothing_is_done_through_a_link(broker: Path, tmp_path: Path) -> None:
    elsewhere = Path(shutil.copytree(broker, tmp_path / "elsewhere"))  # with the checkpoint that says what may go
    shutil.rmtree(broker / "emails-0")
    (broker / "emails-0").symlink_to(elsewhere / "emails-0")
    (elsewhere / "emails-0" / f"{0:020}.index").unlink()
    before = tree_of(elsewhere)
    done = run("retain", broker, "emails", "--apply", *RETENTION)
    assert done.returncode == 3
    assert "a link in place of a partition's directory" in done.stderr
    for command in ("repair", "reindex"):
        done = run(command, broker, "emails", "--apply")
        assert done.returncode == 0
        assert f"{broker}/emails-0: a link to {elsewhere}/emails-0; passed over" in done.stderr
    assert tree_of(elsewhere) == before


def test_the_directory_itself_may_be_a_link(broker: Path, store: Path, tmp_path: Path) -> None:
    for name, path in (("to-broker", broker), ("to-store", store)):
        (tmp_path / name).symlink_to(path)
    assert run("retain", tmp_path / "to-broker", "emails", "--apply", *RETENTION).returncode == 0
    assert run("compact", tmp_path / "to-store", "--apply").returncode == 0
    assert values(store, "profiles") == ["4", "5", "6", "7", "8", "9"]


# What is refused


@pytest.fixture
def owner(broker: Path) -> Iterator[int]:
    """Somebody holds the lock of the broker's directory, as Java does: a POSIX lock of another process."""
    program = (
        "import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); fcntl.lockf(fd, fcntl.LOCK_EX);"
        "print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", program, broker / ".lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"held\n"
    yield process.pid
    process.stdin.close()
    process.stdout.close()
    process.wait(timeout=30)


def test_while_a_broker_holds_the_lock(broker: Path, owner: int) -> None:
    (broker / "plain-0" / f"{0:020}.index").unlink()
    before = tree_of(broker)
    asked: list[list[str | Path]] = [
        ["retain", broker, "emails", *RETENTION],
        ["compact", broker, "profiles", "--roll", *COMPACTION],
        ["trim", broker, "plain", "--before", "4", "--config", "cleanup.policy=delete"],
        ["reindex", broker],
        ["repair", broker],
    ]
    for arguments in asked:
        plan = run(*arguments)
        assert plan.returncode == 0, (arguments, plan.stderr)  # to look is always allowed
        done = run(*arguments, "--apply")
        assert done.returncode == 3, arguments
        assert done.stderr.splitlines()[-2:] == [
            f"error: {broker}/.lock: locked by process {owner}",
            "hint: a broker or another program has it open",
        ]
    assert tree_of(broker) == before


def test_without_room(store: Path, broker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree_of(store)
    monkeypatch.setattr(Disk, "free_bytes", lambda *_: 17)
    done = run("compact", store, "--apply")
    assert done.returncode == 3
    assert "not enough space for what is to be written: expected " in done.stderr
    assert done.stderr.splitlines()[-1].endswith(" bytes are missing; nothing was changed")
    assert tree_of(store) == before
    assert run("compact", broker, "profiles", "--roll", "--apply", *COMPACTION).returncode == 3
    assert run("salvage", store, "-o", store.parent / "new").returncode == 3
    assert not (store.parent / "new").exists()


def test_an_interrupt_leaves_nothing_half_done(tmp_path: Path) -> None:
    """A compaction that is slowed down until it is interrupted: the log is as it was, or clean, and the next run does the rest."""
    path = tmp_path / "store"
    rows = [(b"key %d" % number, b"value" * 4) for number in range(50_000)]
    with Store.open(path, background=False) as made:
        topic = made.create_topic("t", 1, {"cleanup.policy": "compact", "segment.bytes": 2 << 20})
        for _ in range(5):
            topic.append_many(rows)
    command = [str(COMMAND), "compact", str(path), "--roll", "--apply", "--io-limit", "2MiB/s"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:  # the plan is printed, the work begins
            if line.startswith("compact:"):
                break
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1.5)
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert is_sound(path)
    assert not list(path.rglob("*.cleaned"))
    assert run("compact", path, "--apply").returncode == 0
    found = objects("stats", path, "t")[0]
    assert (found["records"], found["last_offset"]) == (50_000, 249_999)

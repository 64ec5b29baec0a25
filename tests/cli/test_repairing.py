"""`repair`, `reindex`, `salvage`: plans, what is mended, what is kept, and that nothing is overwritten."""

import json
import os
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import objects, run
from tests.support.golden import GOLDEN
from tests.support.small_stores import open_store, tree_of

TIME = 1_700_000_000_000
NOBODY = 65534
INDEX, TIME_INDEX, LOG = f"{0:020}.index", f"{0:020}.timeindex", f"{0:020}.log"
pytestmark = pytest.mark.leaves


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two partitions of two segments, with entries in their indexes."""
    path = tmp_path / "store"
    with open_store(path) as made:
        topic = made.create_topic("emails", 2, {"index.interval.bytes": 100})
        for number in range(200):
            topic.append(b"value %d" % number, key=b"k", timestamp_ms=TIME + number, partition=number % 2)
            if number in (100, 101):
                topic.log(number % 2).roll()
    return path


def changed(*arguments: str | Path) -> list[dict[str, Any]]:
    done = run(*arguments, "--apply", "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def values(path: Path, topic: str) -> list[str]:
    return [record["value"] for record in objects("cat", path, topic, "--isolation", "log_end")]


def test_repair(store: Path) -> None:
    assert run("repair", store).stdout == "repair: nothing to do\n"
    (store / "emails-0" / TIME_INDEX).write_bytes(b"no such entries")
    (store / "emails-1" / INDEX).unlink()
    before = tree_of(store)
    done = run("repair", store)
    assert (done.returncode, done.stderr) == (0, "nothing was changed; --apply does it\n")
    assert done.stdout == (
        f"  emails-0: rebuild {TIME_INDEX}: its 15 bytes are not a whole number of entries\n"
        f"  emails-1: rebuild {INDEX}: it is missing\n"
        "repair: 2 steps, 15 B are replaced or moved\n"
    )
    assert tree_of(store) == before
    assert [row["type"] for row in objects_quiet("repair", store, "emails")] == ["step", "step"]
    done = run("repair", store, "--apply")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == [
        "emails-0: 1 step done",
        f"  kept aside: timeindex-{0:020}.tidelog",
        "emails-1: 1 step done",
    ]
    lines = [line.split(" ", 2)[2] for line in done.stderr.splitlines()]
    assert lines == [
        f"tidelog.cli: emails-0: rebuild {TIME_INDEX}: its 15 bytes are not a whole number of entries",
        f"tidelog.cli: emails-1: rebuild {INDEX}: it is missing",
    ]
    assert (store / "emails-0" / f"timeindex-{0:020}.tidelog").read_bytes() == b"no such entries"
    assert run("verify", store).returncode == 0
    assert run("repair", store, "--apply").stdout == "repair: nothing to do\n"


def objects_quiet(*arguments: str | Path) -> list[dict[str, Any]]:
    done = run("-q", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_repair_leaves_and_a_cut(store: Path) -> None:
    """A damaged batch stays, unless somebody says where the log is to end."""
    file = store / "emails-0" / f"{51:020}.log"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    done = run("repair", store)
    assert (done.returncode, done.stdout) == (0, "repair: nothing to do\n")
    what = "the CRC of a batch does not match (--cut-at 51:78 cuts the log there; salvage copies what is sound into a new directory)"
    assert done.stderr == f"not repaired: {file} at byte 78: {what}\n"
    [row] = objects("repair", store)
    assert (row["type"], row["position"]) == ("unrepaired", 78)
    assert run("repair", store, "--cut-at", "51:78").returncode == 2  # of which partition?
    [*_, result] = changed("repair", store / "emails-0", "--cut-at", "51:78")
    assert (result["type"], result["command"]) == ("result", "repair")
    assert f"cut-{51:020}-at-78.log.tidelog" in result["kept_aside"]
    assert len(values(store / "emails-0", "emails")) == 52
    assert run("verify", store / "emails-0").returncode == 0


def test_reindex(store: Path) -> None:
    assert run("reindex", store).stdout == "reindex: nothing to do\n"
    before = {name: (store / "emails-0" / name).read_bytes() for name in (INDEX, TIME_INDEX)}
    (store / "emails-0" / INDEX).unlink()
    (store / "emails-0" / TIME_INDEX).write_bytes(b"\x01" * 24)
    tree = tree_of(store)
    done = run("reindex", store, "emails")
    assert (done.returncode, done.stderr) == (0, "nothing was changed; --apply does it\n")
    size = sum(file.stat().st_size for file in store.rglob("*.log"))
    assert done.stdout == (
        f"  emails-0: build {INDEX} anew: missing\n"
        f"  emails-0: build {TIME_INDEX} anew: other content: 24 bytes, now {len(before[TIME_INDEX])}\n"
        f"reindex: 2 files, from {size / 1024:.1f} KiB of batches\n"
    )
    assert tree_of(store) == tree
    [*_, result] = changed("reindex", store / "emails-0")
    assert (result["type"], result["files"]) == ("result", [INDEX, TIME_INDEX])
    assert {name: (store / "emails-0" / name).read_bytes() for name in before} == before
    assert run("verify", store).returncode == 0


def test_reindex_leaves_a_damaged_log(store: Path) -> None:
    file = store / "emails-0" / LOG
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    (store / "emails-0" / INDEX).unlink()
    (store / "emails-1" / INDEX).unlink()
    done = run("reindex", store, "--apply")
    assert done.returncode == 3
    assert "error: emails-0: left as it is: " in done.stderr
    assert not (store / "emails-0" / INDEX).exists()
    assert (store / "emails-1" / INDEX).exists()


def test_salvage(store: Path, tmp_path: Path) -> None:
    file = store / "emails-0" / LOG
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    before, new = tree_of(store), tmp_path / "new"
    done = run("salvage", store, "-o", new)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"salvaged {store}/emails-0 to {new}/emails-0: offsets 0 to 99, 99 batches, 99 records, " in done.stdout
    assert "lost: offsets 1 to 1: " in done.stdout
    assert done.stdout.splitlines()[-1] == "salvage: 2 partitions, 1 with losses"
    assert tree_of(store) == before
    assert run("verify", new).returncode == 0
    assert values(new, "emails") == [value for value in values(new, "emails") if value != "value 2"]
    assert len(values(new, "emails")) == 199


def test_salvage_of_one_partition(store: Path, tmp_path: Path) -> None:
    [report] = objects("salvage", store / "emails-1", "-o", tmp_path / "new")
    assert (report["type"], report["command"], report["is_complete"], report["record_count"]) == ("result", "salvage", True, 100)
    assert report["target"] == str(tmp_path / "new" / "emails-1")
    objects("salvage", store / "emails-1", "-o", tmp_path / "other" / "emails-1")
    assert tree_of(tmp_path / "other" / "emails-1") == tree_of(tmp_path / "new" / "emails-1")


def test_salvage_never_overwrites(store: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").write_bytes(b"x")
    assert run("salvage", store, "-o", store / "inside").returncode == 2
    for target in (tmp_path / "new", tmp_path / "new" / "mine"):
        before = tree_of(tmp_path)
        done = run("salvage", store, "-o", target)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.splitlines()[-1] == "hint: salvage never overwrites: name a new directory"
        assert tree_of(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["salvage", "{store}"], "salvage to where?"),
        (["salvage", "{store}", "nope", "-o", "{store}/../x"], "no topic 'nope'"),
        (["repair", "{store}/emails-0", "--cut-at", "12"], "not a place to cut at"),
        (["repair", "{store}/nope"], "no such directory"),
        (["reindex", "{store}", "--spark", "--io-limit", "1M"], "--io-limit is about what this process reads"),
    ],
)
def test_wrong_use(arguments: list[str], what: str, store: Path) -> None:
    done = run(*(argument.format(store=store) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert what in done.stderr


# Owner, group and mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can leave files that others cannot open")
def test_the_superuser_leaves_nothing_that_the_owner_cannot_open(tmp_path: Path) -> None:
    broker = Path(shutil.copytree(GOLDEN / "broker" / "data", tmp_path / "broker"))
    for found in [broker, *broker.rglob("*")]:
        os.chown(found, NOBODY, NOBODY)
        found.chmod(0o750 if found.is_dir() else 0o640)
    (broker / "plain-0" / INDEX).unlink()
    (broker / "plain-0" / TIME_INDEX).write_bytes(b"odd")
    os.chown(broker / "plain-0" / TIME_INDEX, NOBODY, NOBODY)
    given = ["--config", "cleanup.policy=delete", "--config", "retention.bytes=-1", "--config", "min.compaction.lag.ms=0"]
    for arguments in (
        ["repair", str(broker), "plain"],
        ["reindex", str(broker)],
        ["retain", str(broker), "emails", *given],
        ["compact", str(broker), "profiles", "--roll", *given, "--config", "delete.retention.ms=1"],
        ["trim", str(broker), "again", "--before", "3", *given],
    ):
        done = run(*arguments, "--apply")
        assert done.returncode == 0, (arguments, done.stderr)
    strange = {str(found): found.stat().st_uid for found in broker.rglob("*") if found.stat().st_uid != NOBODY}
    assert strange == {}
    replaced = [broker / "cleaner-offset-checkpoint", broker / "profiles-0" / LOG, broker / "plain-0" / TIME_INDEX]
    assert {found.name: oct(found.stat().st_mode & 0o777) for found in replaced} == {found.name: "0o640" for found in replaced}
    assert run("salvage", broker, "-o", tmp_path / "new").returncode == 0
    assert {found.stat().st_uid for found in (tmp_path / "new" / "plain-0").rglob("*")} == {NOBODY}


def test_a_mode_that_somebody_chose_stays(store: Path) -> None:
    for name in (TIME_INDEX, INDEX):
        (store / "emails-0" / name).chmod(0o600)
        (store / "emails-0" / name).write_bytes(b"odd")
    (store / "tidelog.json").chmod(0o660)
    assert run("reindex", store, "--apply").returncode == 0
    assert run("config", "set", store, "emails", "retention.ms=7d", "--apply").returncode == 0
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (store / "emails-0" / TIME_INDEX, store / "emails-0" / INDEX)}
    assert modes == {TIME_INDEX: "0o600", INDEX: "0o600"}
    assert (store / "tidelog.json").stat().st_mode & 0o777 == 0o660


@pytest.mark.parametrize("is_there", [False, True])
def test_an_interrupted_salvage_leaves_nothing_of_itself(
    is_there: bool, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of the partition that it was at, nor of those before it; and it can be made again."""
    module = import_module("tidelog.inspection.salvage")  # the package has the function under that name
    real, calls, new = module.build, [], tmp_path / "above" / "new"
    if is_there:
        new.mkdir(parents=True)

    def build(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, "build", build)
    done = run("salvage", store, "-o", new)
    assert done.returncode == 130
    assert done.stderr == "interrupted: 1 partition that had been salvaged is gone again\n"
    assert (tmp_path / "above").exists() == is_there
    assert not is_there or list(new.iterdir()) == []
    assert run("salvage", store, "-o", new).returncode == 0


def test_a_failed_salvage_keeps_the_partitions_that_are_whole(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("tidelog.inspection.salvage")  # the package has the function under that name
    real, calls, new = module.build, [], tmp_path / "new"

    def build(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(module, "build", build)
    assert run("salvage", store, "-o", new).returncode == 3
    assert [path.name for path in new.iterdir()] == ["emails-0"]
    assert run("verify", new / "emails-0").returncode == 0

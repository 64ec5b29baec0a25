"""Commands that are typed wrong say what is wrong in one line, and what to do in another, in the words of the command line."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import COMMAND, run
from tests.support.small_stores import open_store, tree_of

COMMANDS: dict[str, list[str]] = {
    "ls": [], "describe": ["t"], "cat": ["t"], "tail": ["t", "--no-follow"], "find": ["t", "--key", "k"], "stats": [], "explain": [],
    "what-if": ["t", "--config", "retention.ms=1"], "report": ["--json"], "produce": ["t"], "compact": [], "retain": [],
    "trim": ["t", "--before", "1"], "repair": [], "reindex": [], "salvage": ["-o", "{new}"], "export": ["-o", "{new}"],
    "ingest": ["t", "{rows}"], "table": ["t"], "history": ["t"], "copy": ["-o", "{new}"], "restore": ["-o", "{new}"],
    "forget": ["t", "--key", "k"], "topics list": [], "topics describe": ["t"], "topics delete": ["t"], "config get": ["t"],
    "config set": ["t", "retention.ms=1"], "groups list": [], "groups describe": ["g"], "groups reset": ["g", "--to", "earliest"],
}  # fmt: skip
OF_TOPICS = ("describe", "produce", "ingest", "forget", "config get", "config set", "groups list", "groups reset", "topics delete")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with open_store(tmp_path / "s") as made:
        topic = made.create_topic("t", 2)
        for number in range(6):
            topic.append(b"x", key=b"k%d" % number)
    (tmp_path / "rows.csv").write_text("key,value\n1,2\n")
    return tmp_path / "s"


def typed(command: str, directory: Path, tmp_path: Path) -> list[str]:
    given = {"new": tmp_path / "new", "rows": tmp_path / "rows.csv"}
    return [*command.split(), str(directory), *(one.format(**given) for one in COMMANDS[command])]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_is_no_directory(command: str, store: Path, tmp_path: Path) -> None:
    before = tree_of(tmp_path)
    done = run(*typed(command, tmp_path / "rows.csv", tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first == f"error: {tmp_path}/rows.csv: not a directory"
    assert second.startswith("hint: give the directory")
    assert tree_of(tmp_path) == before


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"ingest"}))
def test_no_directory(command: str, store: Path, tmp_path: Path) -> None:
    done = run(*typed(command, tmp_path / "nope", tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == f"error: {tmp_path}/nope: no such directory"
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize("command", OF_TOPICS)
def test_one_partition_is_no_directory_of_topics(command: str, store: Path, tmp_path: Path) -> None:
    done = run(*typed(command, store / "t-0", tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert "the directory of one partition, not" in first
    assert second.endswith(f"{store}")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        ("export {s} t -o {d}/x --format nope", "--format: expected one of parquet", None),
        ("export {s} t -o {d}/x --partition-by nope", "--partition-by: expected some of topic", None),
        ("export {s} t -o {d}/x --bytes-as nope", "--bytes-as: expected base64 or utf8", None),
        ("export {s} t -o {d}/x --from 5", "--from 5 is an offset, and there are 2 partitions", "a time means something in all of them"),
        ("history {s} t --as-of 5", "--as-of 5 is an offset, and there are 2 partitions", "a time means something in all of them"),
        ("ingest {s} t {d}/rows.csv --compression nope", "--compression: expected one of none", None),
        ("ingest {s} n {d}/rows.csv --config nope=1", "unknown setting 'nope'", "tidelog config get lists them all"),
        ("ingest {s} t {d}/rows.csv --key upper(key)", "no column 'upper(key)' to be the key", "an expression of SQL is for Spark"),
        ("produce {s} t --compression bzip", "no such codec: 'bzip'", "one of none, gzip"),
        ("find {s} t --offset 99 -p 0", "offset out of range", "earliest is the beginning, latest the end"),
        ("copy {s} t -o {s}/inside", "lies in the directory that is read", "name a place outside of it"),
        ("restore {s} t -o {s}", "lies in the directory that is read", "name a place outside of it"),
        ("copy {s} t -o {d}/x --until-offset nope-0=5", "--until-offset names nope-0, which is not copied", None),
        ("table {s} t --as-of 1h --isolation dirty", "no such isolation: 'dirty'", "one of committed"),
        ("dump", "Missing argument 'PATH…'", "tidelog dump --help"),
        ("verify", "Missing argument 'PATH…'", "tidelog verify --help"),
    ],
)  # fmt: skip
def test_in_the_words_of_the_command_line(arguments: str, error: str, hint: str | None, store: Path, tmp_path: Path) -> None:
    before = tree_of(tmp_path)
    done = run(*arguments.format(s=store, d=tmp_path).split())
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert error in lines[0]
    assert lines[1:] == [] if hint is None else lines[1].startswith(f"hint: {hint}")
    assert tree_of(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("rows.parquet", b"nonsense", "not the parquet that can be read here"),
        ("rows.orc", b"nonsense", "not the orc that can be read here"),
        ("rows.csv", b"a,b\n1,2,3\n", "not the csv that can be read here"),
        ("rows.csv", b"a,b\n\xff,3\n", "not the csv that can be read here"),
        ("rows.csv", b"a,A\n1,3\n", "two columns have one name"),
        ("rows.txt", b"\xff\n", "not the text that can be read here"),
        ("rows.json", b'{"a": 1}\nno\n', "line 2 is no JSON"),
        ("rows.json", b"[1]\n", "line 1 is no object"),
        ("rows.json", b'{"a": 1}\n{"a": {"b": 1}}\n', "a column that is nested in some lines, and in others not"),
    ],
)
def test_files_that_are_not_what_they_should_be(name: str, content: bytes, what: str, store: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    before = tree_of(store)
    done = run("ingest", store, "t", tmp_path / name)
    assert (done.returncode, done.stdout) == (3, "")
    assert what in done.stderr.splitlines()[0]
    assert "a fault of the program" not in done.stderr
    assert tree_of(store) == before


def test_errors_of_the_system_have_no_numbers(store: Path, tmp_path: Path) -> None:
    done = run("forget", store, "t", "--key-file", tmp_path)
    assert (done.returncode, done.stderr) == (3, f"error: {tmp_path}: is a directory\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
@pytest.mark.parametrize("arguments", [["dump", "{log}", "--deep"], ["cat", "{s}", "t"], ["history", "{s}", "t"]], ids=lambda one: one[0])
def test_no_room_for_what_is_printed(arguments: list[str], store: Path) -> None:
    texts = [one.format(s=store, log=store / "t-0" / f"{0:020}.log") for one in arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([COMMAND, *texts], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60, env=os.environ)
    assert (done.returncode, done.stderr) == (3, "error: no space left on device\n")

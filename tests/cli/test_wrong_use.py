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


@pytest.mark.parametrize("command", ["", "topics", "config", "groups"])
def test_who_asks_for_nothing_gets_the_help(command: str) -> None:
    """Which is no error, and is told as such."""
    done = run(*command.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Usage: {' '.join(['tidelog', *command.split()])} [OPTIONS] COMMAND [ARGS]...\n")
    assert "error:" not in done.stderr


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
    first, second = done.stderr.splitlines()
    assert first == f"error: {tmp_path}/nope: no such directory"
    assert second.startswith("hint: ")
    assert "--help" not in second


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
        ("export {s} t -o {d}/x --format nope", "--format: expected one of parquet", "tidelog export --help"),
        ("export {s} t -o {d}/x --partition-by nope", "--partition-by: expected some of topic", "tidelog export --help"),
        ("export {s} t -o {d}/x --bytes-as nope", "--bytes-as: expected base64 or utf8", "tidelog export --help"),
        ("export {s} t -o {d}/x --from 5", "--from 5 is an offset, and there are 2 partitions", "a time means something in all of them"),
        ("history {s} t --as-of 5", "--as-of 5 is an offset, and there are 2 partitions", "a time means something in all of them"),
        ("ingest {s} t {d}/rows.csv --compression nope", "--compression: expected one of none", "tidelog ingest --help"),
        ("ingest {s} n {d}/rows.csv --config nope=1", "unknown setting 'nope'", "tidelog config get lists them all"),
        ("explain {s} --config nope=1", "unknown setting 'nope'", "tidelog config get lists those of a topic"),
        ("ingest {s} t {d}/rows.csv --key upper(key)", "no column 'upper(key)' to be the key", "an expression of SQL is for Spark"),
        ("produce {s} t --compression bzip", "no such codec: 'bzip'", "one of none, gzip"),
        ("find {s} t --offset 99 -p 0", "offset out of range", "earliest is the beginning, latest the end"),
        ("copy {s} t -o {s}/inside", "lies in the directory that is read", "name a place outside of it"),
        ("restore {s} t -o {s}", "lies in the directory that is read", "name a place outside of it"),
        ("copy {s} t -o {d}/x --until-offset nope-0=5", "--until-offset names nope-0, which is not copied", "tidelog copy --help"),
        ("table {s} t --as-of 1h --isolation dirty", "no such isolation: 'dirty'", "one of committed"),
        ("cat {s} t --key-regex [", "not a regular expression: '['", "as Python's re has them"),
        ("copy {s} t -o {d}/x --key-regex [", "not a regular expression: '['", "as Python's re has them"),
        ("cat {s} t -p 7", "no partition 7 of topic 't': expected one of 0, 1", "partitions are counted from 0"),
        ("table {s} t --partition 7", "no partition 7 of topic 't'", ""),
        ("cat {s}/t-0 t -p 1", "the directory of one partition: expected t-0, found t-1", "leave topic and partition out"),
        ("trim {s}/t-0 u --before 1", "the directory of one partition: expected t-0, found u-0", "leave topic and partition out"),
        ("topics create {s} a/b", "a topic's name with a character that it cannot have", "letters without accents, digits"),
        ("topics create {s} ..", "a topic's name that cannot be", "letters without accents, digits"),
        ("topics create {s} u --partitions 9999999", "a number of partitions that cannot be", "a topic has one partition at least"),
        ("repair {s}/t-0 --cut-at 5:1", "no segment has this base offset", "tidelog verify names segments and bytes"),
        ("ingest {s} t {d}/no.csv", "no.csv: no such file", "the directory comes first"),
        ("verify {d}/no", "no: no such file or directory", "give the directory"),
        ("dump {d}/no", "no: no such file or directory", "give the directory"),
        ("forget {s} t --key-file {d}/no", "no: no such file", "--key-file names one with a key a line"),
        ("report {s} -o {d}/no/x.html", "no: no such directory", "make it"),
        ("dump", "Missing argument 'PATH'", "tidelog dump --help"),
        ("verify", "Missing argument 'PATH'", "tidelog verify --help"),
    ],
)  # fmt: skip
def test_in_the_words_of_the_command_line(arguments: str, error: str, hint: str, store: Path, tmp_path: Path) -> None:
    before = tree_of(tmp_path)
    done = run(*arguments.format(s=store, d=tmp_path).split())
    assert (done.returncode, done.stdout) == (3 if arguments.startswith("repair") else 2, "")
    first, second = done.stderr.splitlines()
    assert error in first
    assert second.startswith(f"hint: {hint}")
    assert tree_of(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("rows.parquet", b"nonsense", "not the parquet that can be read here"),
        ("rows.orc", b"nonsense", "not the orc that can be read here"),
        ("rows.csv", b"a,b\n1,2,3\n", "line 2 has other columns"),
        ("rows.csv", b'a,b\n"1"2,3\n', "line 2 is no CSV"),
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


@pytest.mark.leaves
def test_a_partition_that_is_missing(store: Path) -> None:
    (store / "t-1").rename(store.parent / "elsewhere")
    done = run("cat", store, "t", "-p", "1")
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first == f"error: {store}/t-1: the directory of a partition is missing"
    assert second.startswith("hint: restore it from a backup")


def test_errors_of_the_system_have_no_numbers(store: Path, tmp_path: Path) -> None:
    done = run("forget", store, "t", "--key-file", tmp_path)
    assert (done.returncode, done.stderr) == (3, f"error: {tmp_path}: is a directory\nhint: name a file, not a directory\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
@pytest.mark.parametrize("arguments", [["dump", "{log}", "--deep"], ["cat", "{s}", "t"], ["history", "{s}", "t"]], ids=lambda one: one[0])
def test_no_room_for_what_is_printed(arguments: list[str], store: Path) -> None:
    texts = [one.format(s=store, log=store / "t-0" / f"{0:020}.log") for one in arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([COMMAND, *texts], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60, env=os.environ)
    assert (done.returncode, done.stderr) == (3, "error: no space left on device\nhint: make room, and do it again\n")

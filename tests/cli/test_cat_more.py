"""`tidelog cat` and `tidelog tail`: ranges, the last ones, filters, kcat's formats, decoders, following."""

import json
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

import tidelog
from tests.cli.commands import COMMAND, objects, run
from tests.support.small_stores import open_store
from tidelog.record.kernel.clock import wall_clock

TIME = 1_700_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Times that interleave between two partitions, and one record of all shapes."""
    path = tmp_path / "store"
    with open_store(path) as made:
        topic = made.create_topic("emails", 2)
        for number in range(200):
            topic.append(b"value %d" % number, key=b"key %d" % (number % 10), timestamp_ms=TIME + number, partition=number % 2)
        odd = made.create_topic("odd")
        odd.append(b'{"a": 1}', key=b"\x00\x00\x00\x2a", headers=(("h", b"1"), ("n", None)), timestamp_ms=TIME)
        odd.append(None, key=b"k", timestamp_ms=TIME + 1)
        odd.append(b"\xff\x00", timestamp_ms=TIME + 2)
    return path


def values(*arguments: str | Path) -> list[str]:
    done = run("-q", "cat", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line)["value"] for line in done.stdout.splitlines()]


def test_from_and_to(store: Path) -> None:
    assert values(store, "emails", "-p", "0", "--from", "2", "--to", "4") == ["value 4", "value 6"]
    assert sorted(values(store, "emails", "--from", f"@{TIME + 5}", "--to", f"@{TIME + 8}")) == ["value 5", "value 6", "value 7"]
    assert values(store, "emails", "--to", "earliest") == []
    assert values(store, "emails", "-c", "3", "-p", "1") == ["value 1", "value 3", "value 5"]
    done = run("cat", store, "emails", "--from", "1h", "--to", "now")
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert (first[:5], second[:3]) == ("from ", "to ")
    between = int(second.rpartition("@")[2][:-1]) - int(first.rpartition("@")[2][:-1])
    assert between == 3_600_000
    assert abs(int(second.rpartition("@")[2][:-1]) - wall_clock()) < 60_000


def test_the_last_are_merged_by_time(store: Path) -> None:
    assert values(store, "emails", "--last", "5") == [f"value {number}" for number in range(195, 200)]
    assert values(store, "emails", "-n", "3", "-p", "0") == ["value 194", "value 196", "value 198"]
    assert values(store, "emails", "-n", "3", "--to", f"@{TIME + 100}") == ["value 97", "value 98", "value 99"]
    assert values(store, "emails", "-n", "1000") == [f"value {number}" for number in range(200)]
    assert values(store, "emails", "-n", "0") == []
    assert values(store, "odd", "-n", "9" * 20, "-c", "9" * 20) == ['{"a": 1}', None, {"base64": "/wA="}]


def test_the_last_that_a_filter_wants_may_lie_far_back(store: Path) -> None:
    assert values(store, "emails", "-n", "2", "--value-regex", r"value (3|150)$") == ["value 3", "value 150"]


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["--key", "key 7"], 20),
        (["--key", "key"], 0),
        (["--key-regex", "^key [12]$"], 40),
        (["--value", "value 19"], 11),
        (["--value-regex", r"\d{3}$"], 100),
        (["--key", "key 7", "--value-regex", "^value 1"], 11),
    ],
)
def test_filters(arguments: list[str], count: int, store: Path) -> None:
    assert len(values(store, "emails", *arguments)) == count


def test_filters_on_headers(store: Path) -> None:
    assert values(store, "odd", "--header", "h") == ['{"a": 1}']
    assert values(store, "odd", "--header", "h=1") == ['{"a": 1}']
    assert values(store, "odd", "--header", "h=2") == values(store, "odd", "--header", "x") == []
    assert values(store, "odd", "--key-regex", r"\x00") == ['{"a": 1}']


def test_formats_are_kcats(store: Path) -> None:
    done = run("cat", store, "odd", "-f", r"%t [%p] %o: %k/%K %s/%S %T %h 100%%\t\\\x41\n", "--key", "k")
    assert done.stdout == "odd [0] 1: k/1 /-1 1700000000001  100%\t\\A\n"
    assert run("cat", store, "odd", "-f", "%h", "-c", "1").stdout == "h=1,n=NULL"
    assert run("cat", store, "odd", "-Z", "-f", "%k:%s;", "--from", "1").stdout == "k:NULL;NULL:\\xff\x00;"


def test_formats_print_bytes_as_they_are(store: Path) -> None:
    done = subprocess.run([COMMAND, "cat", store, "odd", "--from", "2", "-f", r"%R%s\n"], capture_output=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"\x00\x00\x00\x02\xff\x00\n", b"")


@pytest.mark.parametrize(
    ("form", "what"),
    [("%q", "no such token in a format: %q"), ("%", "token"), (r"\x", r"no number behind \x"), (r"a\xg", r"no number behind \x")],
)
def test_a_format_that_is_none(form: str, what: str, store: Path) -> None:
    done = run("cat", store, "odd", "-f", form)
    assert (done.returncode, done.stdout) == (2, "")
    assert what in done.stderr


def test_decoders(store: Path) -> None:
    [first, second, third] = objects("cat", store, "odd", "--key-decoder", "int", "--value-decoder", "json")
    assert (first["key"], first["value"]) == (42, {"a": 1})
    assert (second["key"], second["value"]) == (107, None)
    assert (third["value"], third["notes"][0][:14]) == ({"base64": "/wA="}, "value: no JSON")
    assert [one["value"] for one in objects("cat", store, "odd", "--value-decoder", "hex")] == ["7b2261223a20317d", None, "ff00"]
    assert objects("cat", store, "odd", "--value-decoder", "utf8")[2]["notes"] == ["value: no UTF-8: invalid start byte at byte 0"]
    done = run("cat", store, "odd", "--value-decoder", "json", "-f", r"%s\n", "-c", "1")
    assert done.stdout == '{"a": 1}\n'
    assert run("cat", store, "odd", "--key-decoder", "int", "-c", "1").stdout.split("\t")[3] == "42"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--json", "-f", "%s"], "--json and --format are two ways to print a record"),
        (["--value-decoder", "xml"], "no such decoder: 'xml'"),
        (["--value-decoder", "avro"], "avro needs a schema file"),
        (["--value-schema", "x"], "nothing that says what it is of"),
        (["--value-decoder", "protobuf", "--value-schema", "x"], "no file and message"),
        (["--value-decoder", "protobuf", "--value-schema", "/nope:x"], "cannot be read"),
        (["--value-regex", "("], "not a regular expression"),
        (["--header", "=1"], "not a header"),
        (["--last", "3", "--follow", "--to", "5", "-p", "0"], "--follow goes on at the end"),
    ],
)
def test_wrong_use(arguments: list[str], what: str, store: Path) -> None:
    done = run("cat", store, "odd", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert what in done.stderr


def test_a_file_that_is_followed(tmp_path: Path) -> None:
    """With a process of its own, which is interrupted as a person would do it."""
    with tidelog.open(tmp_path / "store") as made:
        topic = made.create_topic("emails")
        for number in range(12):
            topic.append(b"%d" % number)
        process = subprocess.Popen(
            [COMMAND, "tail", tmp_path / "store", "emails", "-f", r"%s\n"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        try:
            assert [process.stdout.readline() for _ in range(10)] == [f"{number}\n" for number in range(2, 12)]
            topic.append(b"new")
            assert process.stdout.readline() == "new\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
            assert (process.returncode, out, err) == (130, "", "")
        finally:
            watchdog.cancel()
            if process.poll() is None:
                process.kill()
            process.wait()


def test_tail_that_does_not_follow(store: Path) -> None:
    assert [one["value"] for one in objects("tail", store, "emails", "--no-follow")] == [f"value {number}" for number in range(190, 200)]
    assert len(objects("tail", store, "emails", "--no-follow", "-n", "3", "--key", "key 1")) == 3


def test_follow_in_this_process_ends_with_its_count(store: Path) -> None:
    with tidelog.open(store) as made:
        timer = threading.Timer(0.3, lambda: made.topic("odd").append(b"late"))
        timer.start()
        begun = time.monotonic()
        done = run("cat", store, "odd", "--follow", "--from", "latest", "-c", "1", "-f", "%s")
        timer.join()
    assert (done.returncode, done.stdout) == (0, "late")
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        (r"\x4", "\x04"), (r"\x41B", "\x1b"), (r"\x0x41;", "A;"), (r"\x00000041;", "A;"), (r"\036", "\x1e"), (r"\30", "\x1e"),
        (r"\0", "\x00"), (r"\089", "\x0089"), (r"\0x41", "A"), (r"\321", "A"), (r"\q\"\\", 'q"\\'), ("a\\", "a\\"), (r"\%p", "\\0"),
        (r"\99999999999999999999999;", "\\xff;"),
    ],
)  # fmt: skip
def test_escapes_are_kcats(form: str, shown: str, store: Path) -> None:
    assert run("cat", store, "odd", "-c", "1", "-f", form).stdout == shown


def test_values_that_no_json_can_have(tmp_path: Path) -> None:
    values = [b"NaN", b"[Infinity]", b"1e999", b"[" * 900 + b"]" * 900, b"[" * 100_000, b'{"a": 1}']
    with open_store(tmp_path) as made:
        topic = made.create_topic("t")
        for value in values:
            topic.append(value, timestamp_ms=TIME)
    done = run("cat", tmp_path, "t", "--value-decoder", "json", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = [json.loads(line, parse_constant=pytest.fail) for line in done.stdout.splitlines()]
    assert [one["value"] for one in found] == ["NaN", "[Infinity]", "Infinity", *(value.decode() for value in values[3:5]), {"a": 1}]
    assert [one.get("notes") for one in found] == [
        ["value: no JSON: NaN is no number"],
        ["value: no JSON: Infinity is no number"],
        None,
        ["value: nested deeper than 200 levels"],
        ["value: nested deeper than 200 levels"],
        None,
    ]
    assert run("cat", tmp_path, "t", "--value-decoder", "json").returncode == 0
